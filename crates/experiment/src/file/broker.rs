//! File format: the MQTT broker of a network.

use crate::plan::BrokerKind;
use crate::read::{At, Fields, Read, Sink};
use crate::scalar::{Word, word};
use crate::source::Place;
use crate::tree::Node;
use schemars::JsonSchema;

/// The MQTT broker of a network, which Thingbed starts before all programs of nodes. Programs reach
/// it by the name `mqtt-broker`, at port 1883.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Broker {
    /// Position in the file, for errors.
    #[schemars(skip)]
    pub place: Place,
    /// `mosquitto`: Mosquitto on the node `on`, to which clients connect by TCP. `gateway`: the
    /// director's gateways, one on each node of the network and the hub's on `on`; clients connect
    /// to the gateway of their node.
    #[schemars(required)]
    pub broker: Option<At<BrokerKind>>,
    /// The broker's node. Values: a group of one, or a node.
    #[schemars(required)]
    pub on: Option<At<String>>,
}

impl Read for Broker {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "an MQTT broker", sink)?;
        let broker = Self {
            place: node.place,
            broker: fields.required("broker"),
            on: fields.required("on"),
        };
        fields.finish();
        Some(broker)
    }
}

impl Word for BrokerKind {
    const WHAT: &'static str = "a broker";
    const WORDS: &'static [(&'static str, Self)] =
        &[("mosquitto", Self::Mosquitto), ("gateway", Self::Gateway)];
}

impl Read for BrokerKind {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}
