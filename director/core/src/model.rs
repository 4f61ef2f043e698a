//! The available transport models and their features.

use crate::conditions::Conditions;
use crate::properties::TransportProperties;
use crate::targets::Pattern;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A transport model: a transport protocol with a message pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelId {
    /// UDP datagrams with answers, without retransmission.
    UdpRequestResponse,
    /// ZeroMQ ROUTER and DEALER over TCP.
    TcpRouterDealer,
    /// ZeroMQ PUB and SUB over TCP.
    TcpPublishSubscribe,
    /// ZeroMQ PUB and SUB over PGM (RFC 3208).
    PgmPublishSubscribe,
    /// CoAP with confirmable messages (RFC 7252).
    CoapConfirmable,
    /// CoAP with non-confirmable messages.
    CoapNonConfirmable,
    /// One QUIC stream per message (RFC 9000).
    QuicStreams,
    /// QUIC datagrams (RFC 9221).
    QuicDatagrams,
    /// MQTT through a broker.
    Mqtt,
    /// Messages over UDP with selective retransmission (ARQ), paced.
    UdpArq,
    /// Multicast with forward error correction (FEC), paced.
    MulticastFec,
}

/// The smallest packet that carries QUIC, in bytes: 1,200 of QUIC (RFC 9000, section 14), 2 of
/// our header, and 28 of IPv4 and UDP.
const MIN_QUIC: f64 = 1_230.0;
/// The largest packet, in bytes: QUIC makes no larger ones here.
const MAX_QUIC: f64 = 1_502.0;
/// Overhead of a QUIC datagram packet besides the message, its AEAD tag and its number, in
/// bytes.
const QUIC_DATAGRAM: f64 = 93.0;

/// Features of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// Retransmits until a message is delivered, or reports the loss.
    pub reliable: bool,
    /// Messages of a sender arrive in order.
    pub ordered: bool,
    /// Keeps message boundaries.
    pub boundaries: bool,
    /// The first message needs no prior round trip.
    pub zero_rtt: bool,
    /// One transmission reaches all members.
    pub multicast: bool,
    /// Supported patterns.
    pub patterns: &'static [Pattern],
}

use Pattern::{PublishCollect, PublishSubscribe, RequestResponse, RouterDealer};
const MANY: &[Pattern] = &[PublishSubscribe, PublishCollect];
const ALL: &[Pattern] = &[RequestResponse, RouterDealer, PublishSubscribe, PublishCollect];

impl ModelId {
    /// All models.
    pub const ALL: [Self; 11] = [
        Self::UdpRequestResponse,
        Self::TcpRouterDealer,
        Self::TcpPublishSubscribe,
        Self::PgmPublishSubscribe,
        Self::CoapConfirmable,
        Self::CoapNonConfirmable,
        Self::QuicStreams,
        Self::QuicDatagrams,
        Self::Mqtt,
        Self::UdpArq,
        Self::MulticastFec,
    ];

    /// The features. A model that supports one-to-many without multicast sends to each member.
    pub const fn features(self) -> Features {
        let (reliable, ordered, boundaries, zero_rtt, multicast, patterns) = match self {
            Self::UdpRequestResponse => (false, false, true, true, false, ALL),
            Self::TcpRouterDealer => (true, true, true, false, false, ALL),
            Self::TcpPublishSubscribe => (true, true, true, false, false, MANY),
            Self::PgmPublishSubscribe => (true, true, true, true, true, MANY),
            Self::CoapConfirmable => (true, false, true, true, false, ALL),
            Self::CoapNonConfirmable => (false, false, true, true, false, ALL),
            Self::QuicStreams => (true, false, true, false, false, ALL),
            Self::QuicDatagrams => (false, false, true, false, false, ALL),
            Self::Mqtt => (true, true, true, false, false, ALL),
            Self::UdpArq => (true, false, true, true, false, ALL),
            Self::MulticastFec => (true, false, true, true, true, MANY),
        };
        Features { reliable, ordered, boundaries, zero_rtt, multicast, patterns }
    }

    /// Whether the MTU has room for the model and for messages of this size.
    pub fn fits(self, here: &Conditions) -> bool {
        let most = here.mtu.min(MAX_QUIC) - QUIC_DATAGRAM;
        match self {
            Self::QuicStreams => here.mtu >= MIN_QUIC,
            Self::QuicDatagrams => here.mtu >= MIN_QUIC && here.payload <= most,
            _ => true,
        }
    }

    /// A similar model, to use its measurements where this one has none.
    pub(crate) const fn similar(self) -> Option<Self> {
        match self {
            Self::QuicStreams => Some(Self::UdpArq),
            Self::QuicDatagrams => Some(Self::UdpRequestResponse),
            Self::TcpRouterDealer | Self::TcpPublishSubscribe | Self::Mqtt => Some(Self::UdpArq),
            Self::PgmPublishSubscribe => Some(Self::MulticastFec),
            _ => None,
        }
    }

    /// Whether an external stack carries the model, not the session's own datagrams. A session
    /// has such a model only if it is configured with that stack.
    pub const fn is_outside(self) -> bool {
        matches!(
            self,
            Self::TcpRouterDealer
                | Self::TcpPublishSubscribe
                | Self::PgmPublishSubscribe
                | Self::Mqtt
        )
    }

    /// Checks whether the model supports the pattern and all required or prohibited properties.
    ///
    /// # Errors
    /// The reason why not.
    pub fn suits(
        self,
        pattern: Pattern,
        properties: &TransportProperties,
    ) -> Result<(), &'static str> {
        let features = self.features();
        if !features.patterns.contains(&pattern) {
            return Err("it does not serve the pattern");
        }
        let checks = [
            (properties.reliability.allows(features.reliable), "reliability"),
            (properties.preserve_order.allows(features.ordered), "preserveOrder"),
            (
                properties.preserve_msg_boundaries.allows(features.boundaries),
                "preserveMsgBoundaries",
            ),
            (properties.zero_rtt_msg.allows(features.zero_rtt), "zeroRttMsg"),
            (properties.multicast.allows(features.multicast), "multicast"),
        ];
        checks.into_iter().find(|(allowed, _)| !allowed).map_or(Ok(()), |(_, name)| Err(name))
    }

    /// Number of satisfied preferences minus the violated ones.
    pub fn score(self, properties: &TransportProperties) -> i32 {
        let features = self.features();
        properties.reliability.score(features.reliable)
            + properties.preserve_order.score(features.ordered)
            + properties.preserve_msg_boundaries.score(features.boundaries)
            + properties.zero_rtt_msg.score(features.zero_rtt)
            + properties.multicast.score(features.multicast)
    }

    /// The name, as used in maps.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UdpRequestResponse => "udp-request-response",
            Self::TcpRouterDealer => "tcp-router-dealer",
            Self::TcpPublishSubscribe => "tcp-publish-subscribe",
            Self::PgmPublishSubscribe => "pgm-publish-subscribe",
            Self::CoapConfirmable => "coap-confirmable",
            Self::CoapNonConfirmable => "coap-non-confirmable",
            Self::QuicStreams => "quic-streams",
            Self::QuicDatagrams => "quic-datagrams",
            Self::Mqtt => "mqtt",
            Self::UdpArq => "udp-arq",
            Self::MulticastFec => "multicast-fec",
        }
    }
}

/// A set of models as sent on the wire: one bit per model, by its index in [`ModelId::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Models(u16);

impl Models {
    /// All models, including those of later versions.
    pub const ALL: Self = Self(u16::MAX);

    /// The set with these bits.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// The bits.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Whether the set contains a model.
    pub fn has(self, model: ModelId) -> bool {
        self.0 & Self::bit(model) != 0
    }

    /// Intersection.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Union.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn bit(model: ModelId) -> u16 {
        1 << ModelId::ALL.iter().position(|known| *known == model).unwrap_or(15)
    }
}

impl FromIterator<ModelId> for Models {
    fn from_iter<I: IntoIterator<Item = ModelId>>(models: I) -> Self {
        Self(models.into_iter().fold(0, |bits, model| bits | Self::bit(model)))
    }
}

impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties::Preference;

    #[test]
    fn names_are_those_of_the_files() {
        for model in ModelId::ALL {
            assert_eq!(serde_json::to_value(model).unwrap(), model.name());
        }
    }

    #[test]
    fn sets_hold_what_was_put_in() {
        let some: Models = [ModelId::UdpArq, ModelId::Mqtt].into_iter().collect();
        let has = |model: &&ModelId| some.has(**model);
        let found: Vec<_> = ModelId::ALL.iter().filter(has).collect();
        assert_eq!(found, [&ModelId::Mqtt, &ModelId::UdpArq]);
        assert_eq!(Models::from_bits(some.bits()), some.and(Models::ALL));
    }

    #[test]
    fn what_is_required_leaves_some() {
        let properties = TransportProperties {
            reliability: Preference::Require,
            multicast: Preference::Require,
            ..Default::default()
        };
        let suits = |pattern| -> Vec<ModelId> {
            ModelId::ALL
                .into_iter()
                .filter(|model| model.suits(pattern, &properties).is_ok())
                .collect()
        };
        assert_eq!(
            suits(Pattern::PublishCollect),
            [ModelId::PgmPublishSubscribe, ModelId::MulticastFec]
        );
        assert!(suits(Pattern::RequestResponse).is_empty());
        let why = ModelId::Mqtt.suits(Pattern::PublishSubscribe, &properties);
        assert_eq!(why, Err("multicast"));
    }
}
