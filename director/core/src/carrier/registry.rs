//! The models, and what each can do. A new one has a file or folder next to this one, a line in
//! [`entry`], and a line in [`crate::ModelId`].

use super::interface::{HubCarrier, MemberCarrier, Model, Params, Transport};
use super::{arq, coap, fec, mqtt, pgm, quic, tcp, udp};
use crate::analytic::Case;
use crate::conditions::Conditions;
use crate::map::Figures;
use crate::model::{Features, ModelId};
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::properties::TransportProperties;
use crate::targets::Pattern;

fn entry(model: ModelId) -> &'static Model {
    match model {
        ModelId::UdpRequestResponse => &udp::MODEL,
        ModelId::UdpArq => &arq::MODEL,
        ModelId::MulticastFec => &fec::MODEL,
        ModelId::CoapConfirmable => &coap::CONFIRMABLE,
        ModelId::CoapNonConfirmable => &coap::NON_CONFIRMABLE,
        ModelId::QuicStreams => &quic::STREAMS,
        ModelId::QuicDatagrams => &quic::DATAGRAMS,
        ModelId::TcpRouterDealer => &tcp::ROUTER_DEALER,
        ModelId::TcpPublishSubscribe => &tcp::PUBLISH_SUBSCRIBE,
        ModelId::PgmPublishSubscribe => &pgm::MODEL,
        ModelId::Mqtt => &mqtt::MODEL,
    }
}

impl ModelId {
    /// The features. A model that supports one-to-many without multicast sends to each member.
    pub fn features(self) -> Features {
        entry(self).features
    }

    /// Whether the MTU has room for the model and for messages of this size.
    pub fn fits(self, here: &Conditions) -> bool {
        (entry(self).fits)(here)
    }

    /// A similar model, to use its measurements where this one has none.
    pub(crate) fn similar(self) -> Option<Self> {
        entry(self).similar
    }

    /// Whether it sends repairs before they are requested.
    pub(crate) fn repairs_ahead(self) -> bool {
        entry(self).repairs_ahead
    }

    /// Whether an external stack carries the model, not the session's own datagrams. A session
    /// has such a model only if it is configured with that stack.
    pub fn is_outside(self) -> bool {
        matches!(entry(self).transport, Transport::Stack(..))
    }

    /// Predicted performance under these conditions, roughly: for a shared channel with
    /// independent frame loss. `None` if the model does not fit them.
    pub(crate) fn predict(self, pattern: Pattern, here: &Conditions) -> Option<Figures> {
        let predict = || (entry(self).predict)(&Case::new(pattern, here)).into();
        self.fits(here).then(predict)
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
}

/// The hub's transport of a model; `None` if it is not compiled in.
pub fn hub(model: ModelId, params: &Params) -> Option<Box<dyn HubCarrier>> {
    match entry(model).transport {
        Transport::Datagrams(hub, _) | Transport::Stack(hub, _) => Some(hub(params)),
        Transport::Absent => None,
    }
}

/// The transport of a model for the member with this number; `None` if it is not compiled in.
pub fn member(model: ModelId, params: &Params, number: u16) -> Option<Box<dyn MemberCarrier>> {
    match entry(model).transport {
        Transport::Datagrams(_, member) | Transport::Stack(_, member) => {
            Some(member(params, number))
        }
        Transport::Absent => None,
    }
}

/// The compiled-in models, without those of external stacks.
pub fn available() -> Vec<ModelId> {
    let own = |model: &ModelId| matches!(entry(*model).transport, Transport::Datagrams(..));
    ModelId::ALL.into_iter().filter(own).collect()
}

/// Whether a datagram belongs to a model, by its first bytes.
pub fn is_of(model: ModelId, datagram: &[u8]) -> bool {
    (entry(model).owns)(datagram)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties::Preference;

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
            [ModelId::MulticastFec, ModelId::PgmPublishSubscribe]
        );
        assert!(suits(Pattern::RequestResponse).is_empty());
        let why = ModelId::Mqtt.suits(Pattern::PublishSubscribe, &properties);
        assert_eq!(why, Err("multicast"));
    }
}
