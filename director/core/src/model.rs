//! The transport models: their names and numbers. What each can do is in [`crate::carrier`].

use crate::targets::Pattern;
use core::fmt;
use serde::{Deserialize, Serialize};

/// Declares the models: their documentation, number on the wire, and name in files.
macro_rules! models {
    ($($(#[doc = $doc:literal])+ $model:ident = $wire:literal, $name:literal;)+) => {
        /// A transport model: a transport protocol with a message pattern.
        ///
        /// Its number on the wire never changes, and is never given to another model: it is a byte in
        /// invitations and frames, and a bit in sets of models ([`Models`]).
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
        )]
        #[serde(rename_all = "kebab-case")]
        pub enum ModelId {
            $($(#[doc = $doc])+ $model = $wire,)+
        }

        const _: () = {
            $(assert!($wire < MAX_WIRE);)+
        };

        impl ModelId {
            /// All models, the preferred ones first where nothing else decides.
            pub const ALL: [Self; [$($wire),+].len()] = [$(Self::$model),+];

            /// The name, as used in maps.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$model => $name,)+
                }
            }
        }
    };
}

models! {
    /// UDP datagrams with answers, without retransmission.
    UdpRequestResponse = 0, "udp-request-response";
    /// Messages over UDP with selective retransmission (ARQ), paced.
    UdpArq = 9, "udp-arq";
    /// Multicast with forward error correction (FEC), paced.
    MulticastFec = 10, "multicast-fec";
    /// CoAP with confirmable messages (RFC 7252).
    CoapConfirmable = 4, "coap-confirmable";
    /// CoAP with non-confirmable messages.
    CoapNonConfirmable = 5, "coap-non-confirmable";
    /// One QUIC stream per message (RFC 9000).
    QuicStreams = 6, "quic-streams";
    /// QUIC datagrams (RFC 9221).
    QuicDatagrams = 7, "quic-datagrams";
    /// ZeroMQ ROUTER and DEALER over TCP.
    TcpRouterDealer = 1, "tcp-router-dealer";
    /// ZeroMQ PUB and SUB over TCP.
    TcpPublishSubscribe = 2, "tcp-publish-subscribe";
    /// ZeroMQ PUB and SUB over PGM (RFC 3208).
    PgmPublishSubscribe = 3, "pgm-publish-subscribe";
    /// MQTT through a broker.
    Mqtt = 8, "mqtt";
}

/// Numbers on the wire are below this: a set of models has 16 bits, and the last is of no model.
const MAX_WIRE: u8 = 15;

impl ModelId {
    /// The number on the wire.
    pub const fn wire(self) -> u8 {
        self as u8
    }

    /// The model with this number on the wire; `None` if this version knows none.
    pub fn from_wire(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|model| model.wire() == number)
    }
}

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
    /// It sends to each member where multicast does not work, or always.
    pub by_unicast: bool,
    /// Its traffic measures the path's rate, or it has congestion control.
    pub measures: bool,
    /// Supported patterns.
    pub patterns: &'static [Pattern],
}

/// A set of models as sent on the wire: one bit per model, by its number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Models(u16);

impl Models {
    /// All models, including those of later versions.
    pub const ALL: Self = Self(u16::MAX >> 1);
    /// The bit of no model: whether the member reads bundles of `udp-arq` (decision 116).
    const BUNDLES: u16 = 1 << MAX_WIRE;

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

    /// The same, of a member that reads bundles.
    #[must_use]
    pub fn with_bundles(self) -> Self {
        Self(self.0 | Self::BUNDLES)
    }

    /// Whether the member reads bundles.
    pub fn reads_bundles(self) -> bool {
        self.0 & Self::BUNDLES != 0
    }

    const fn bit(model: ModelId) -> u16 {
        1 << model.wire()
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
        assert_eq!(found, [&ModelId::UdpArq, &ModelId::Mqtt]);
        assert_eq!(Models::from_bits(some.bits()), some.and(Models::ALL));
    }

    /// Peers of other versions know the models by these numbers.
    #[test]
    fn numbers_on_the_wire_never_change() {
        let numbers = [
            (0, "udp-request-response"),
            (1, "tcp-router-dealer"),
            (2, "tcp-publish-subscribe"),
            (3, "pgm-publish-subscribe"),
            (4, "coap-confirmable"),
            (5, "coap-non-confirmable"),
            (6, "quic-streams"),
            (7, "quic-datagrams"),
            (8, "mqtt"),
            (9, "udp-arq"),
            (10, "multicast-fec"),
        ];
        for (number, name) in numbers {
            let model = ModelId::from_wire(number).unwrap();
            assert_eq!((model.name(), model.wire()), (name, number));
            assert_eq!(std::iter::once(model).collect::<Models>().bits(), 1 << number);
        }
        assert_eq!(ModelId::from_wire(u8::MAX), None);
        // A new model gets the next number, and a line above.
        assert_eq!(numbers.len(), ModelId::ALL.len());
    }
}
