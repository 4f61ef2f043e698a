//! Interaction patterns: a transport protocol with a messaging pattern.

use crate::read::{Read, Sink};
use crate::scalar::{Word, word};
use crate::tree::Node;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A transport protocol with a messaging pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum InteractionPattern {
    /// UDP unicast: a datagram down, its answer up.
    #[serde(rename = "udp/request-response")]
    UdpRequestResponse,
    /// ZeroMQ ROUTER to DEALER, down only.
    #[serde(rename = "tcp/router-dealer")]
    TcpRouterDealer,
    /// ZeroMQ PUB to SUB, one connection per peer, down only.
    #[serde(rename = "tcp/publish-subscribe")]
    TcpPublishSubscribe,
    /// ZeroMQ PUB to SUB over multicast, down only.
    #[serde(rename = "pgm/publish-subscribe")]
    PgmPublishSubscribe,
    /// ZeroMQ REQ to REP, up only.
    #[serde(rename = "tcp/request-reply")]
    TcpRequestReply,
    /// The director, which selects its model during the run; both directions.
    #[serde(rename = "director")]
    Director,
    /// The director, fixed to plain datagrams; both directions.
    #[serde(rename = "director/udp-request-response")]
    DirectorUdp,
    /// The director, fixed to datagrams with retransmission (ARQ); both directions.
    #[serde(rename = "director/udp-arq")]
    DirectorArq,
    /// The director, fixed to multicast with erasure coding (FEC); both directions.
    #[serde(rename = "director/multicast-fec")]
    DirectorFec,
    /// The director, fixed to CoAP with confirmable messages; both directions.
    #[serde(rename = "director/coap-confirmable")]
    DirectorCoap,
    /// The director, fixed to CoAP with non-confirmable messages; both directions.
    #[serde(rename = "director/coap-non-confirmable")]
    DirectorCoapNon,
    /// The director, fixed to QUIC streams; both directions.
    #[serde(rename = "director/quic-streams")]
    DirectorQuic,
    /// The director, fixed to QUIC datagrams; both directions.
    #[serde(rename = "director/quic-datagrams")]
    DirectorQuicDatagrams,
    /// The director, fixed to ZeroMQ ROUTER and DEALER; both directions.
    #[serde(rename = "director/tcp-router-dealer")]
    DirectorRouterDealer,
    /// The director, fixed to ZeroMQ PUB and SUB over TCP; both directions.
    #[serde(rename = "director/tcp-publish-subscribe")]
    DirectorPublishTcp,
    /// The director, fixed to ZeroMQ PUB and SUB over multicast; both directions.
    #[serde(rename = "director/pgm-publish-subscribe")]
    DirectorPublishPgm,
    /// The director, fixed to MQTT through a broker; both directions.
    #[serde(rename = "director/mqtt")]
    DirectorMqtt,
}

/// A model of another protocol stack, which the director uses only if the file lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutsideModel {
    /// ZeroMQ ROUTER and DEALER.
    TcpRouterDealer,
    /// ZeroMQ PUB and SUB over TCP.
    TcpPublishSubscribe,
    /// ZeroMQ PUB and SUB over multicast.
    PgmPublishSubscribe,
    /// MQTT through a broker.
    Mqtt,
}

impl Word for OutsideModel {
    const WHAT: &'static str = "an external protocol stack";
    const WORDS: &'static [(&'static str, Self)] = &[
        ("tcp-router-dealer", Self::TcpRouterDealer),
        ("tcp-publish-subscribe", Self::TcpPublishSubscribe),
        ("pgm-publish-subscribe", Self::PgmPublishSubscribe),
        ("mqtt", Self::Mqtt),
    ];
}

impl Read for OutsideModel {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}

impl InteractionPattern {
    /// Text form in files and programs' arguments.
    pub fn text(self) -> &'static str {
        let found = Self::WORDS.iter().find(|(_, pattern)| *pattern == self);
        found.map_or("", |(text, _)| text)
    }

    /// Whether it can carry messages from the source to the sinks.
    pub fn supports_down(self) -> bool {
        self != Self::TcpRequestReply
    }

    /// Whether it can carry answers from the sinks to the source.
    pub fn supports_up(self) -> bool {
        matches!(self, Self::UdpRequestResponse | Self::TcpRequestReply) || self.is_director()
    }

    /// Whether the director carries both directions.
    pub fn is_director(self) -> bool {
        matches!(
            self,
            Self::Director
                | Self::DirectorUdp
                | Self::DirectorArq
                | Self::DirectorFec
                | Self::DirectorCoap
                | Self::DirectorCoapNon
                | Self::DirectorQuic
                | Self::DirectorQuicDatagrams
        ) || self.outside().is_some()
    }

    /// The other stack's model that the director is fixed to, if any.
    pub fn outside(self) -> Option<OutsideModel> {
        Some(match self {
            Self::DirectorRouterDealer => OutsideModel::TcpRouterDealer,
            Self::DirectorPublishTcp => OutsideModel::TcpPublishSubscribe,
            Self::DirectorPublishPgm => OutsideModel::PgmPublishSubscribe,
            Self::DirectorMqtt => OutsideModel::Mqtt,
            _ => return None,
        })
    }

    /// Whether messages and answers use the same carrier.
    pub fn is_bidirectional(self) -> bool {
        self == Self::UdpRequestResponse || self.is_director()
    }

    /// Whether each message goes to all sinks instead of one after another.
    pub fn is_to_all(self) -> bool {
        matches!(self, Self::TcpPublishSubscribe | Self::PgmPublishSubscribe) || self.is_director()
    }
}

impl fmt::Display for InteractionPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl Word for InteractionPattern {
    const WHAT: &'static str = "an interaction pattern";
    const WORDS: &'static [(&'static str, Self)] = &[
        ("udp/request-response", Self::UdpRequestResponse),
        ("tcp/router-dealer", Self::TcpRouterDealer),
        ("tcp/publish-subscribe", Self::TcpPublishSubscribe),
        ("pgm/publish-subscribe", Self::PgmPublishSubscribe),
        ("tcp/request-reply", Self::TcpRequestReply),
        ("director", Self::Director),
        ("director/udp-request-response", Self::DirectorUdp),
        ("director/udp-arq", Self::DirectorArq),
        ("director/multicast-fec", Self::DirectorFec),
        ("director/coap-confirmable", Self::DirectorCoap),
        ("director/coap-non-confirmable", Self::DirectorCoapNon),
        ("director/quic-streams", Self::DirectorQuic),
        ("director/quic-datagrams", Self::DirectorQuicDatagrams),
        ("director/tcp-router-dealer", Self::DirectorRouterDealer),
        ("director/tcp-publish-subscribe", Self::DirectorPublishTcp),
        ("director/pgm-publish-subscribe", Self::DirectorPublishPgm),
        ("director/mqtt", Self::DirectorMqtt),
    ];
}

impl Read for InteractionPattern {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_json_use_the_same_texts() {
        for (text, pattern) in InteractionPattern::WORDS {
            assert_eq!(pattern.text(), *text);
            assert_eq!(serde_json::to_value(pattern).unwrap(), *text);
            if let Some(model) = pattern.outside() {
                let fixed = text.strip_prefix("director/").unwrap();
                assert_eq!(serde_json::to_value(model).unwrap(), fixed);
            }
        }
        for (text, model) in OutsideModel::WORDS {
            assert_eq!(serde_json::to_value(model).unwrap(), *text);
        }
    }
}
