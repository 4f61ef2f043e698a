//! Interaction patterns, and the models of the director.

use crate::word::words;

/// A transport protocol with a messaging pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InteractionPattern {
    /// UDP unicast: a datagram down, its answer up.
    UdpRequestResponse,
    /// ZeroMQ ROUTER to DEALER, down only.
    TcpRouterDealer,
    /// ZeroMQ PUB to SUB, one connection per peer, down only.
    TcpPublishSubscribe,
    /// ZeroMQ PUB to SUB over multicast, down only.
    PgmPublishSubscribe,
    /// ZeroMQ REQ to REP, up only.
    TcpRequestReply,
    /// The director, both directions; fixed to a model, or `None` if it selects during the run.
    Director(Option<DirectorModel>),
}

/// The director's models: the type, and the words of both types from one list.
macro_rules! models {
    ($($(#[$doc:meta])* $model:ident = $word:literal),+ $(,)?) => {
        /// A model of the director, under its name in the crate `director`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum DirectorModel {
            $($(#[$doc])* $model),+
        }

        words!(DirectorModel, "a model of the director": $($word => Self::$model),+);

        words!(
            InteractionPattern, "an interaction pattern":
            "udp/request-response" => Self::UdpRequestResponse,
            "tcp/router-dealer" => Self::TcpRouterDealer,
            "tcp/publish-subscribe" => Self::TcpPublishSubscribe,
            "pgm/publish-subscribe" => Self::PgmPublishSubscribe,
            "tcp/request-reply" => Self::TcpRequestReply,
            "director" => Self::Director(None),
            $(concat!("director/", $word) => Self::Director(Some(DirectorModel::$model))),+
        );
    };
}

models! {
    /// Plain datagrams.
    UdpRequestResponse = "udp-request-response",
    /// Datagrams with retransmission (ARQ).
    UdpArq = "udp-arq",
    /// Multicast with erasure coding (FEC).
    MulticastFec = "multicast-fec",
    /// CoAP with confirmable messages.
    CoapConfirmable = "coap-confirmable",
    /// CoAP with non-confirmable messages.
    CoapNonConfirmable = "coap-non-confirmable",
    /// QUIC streams.
    QuicStreams = "quic-streams",
    /// QUIC datagrams.
    QuicDatagrams = "quic-datagrams",
    /// ZeroMQ ROUTER and DEALER.
    TcpRouterDealer = "tcp-router-dealer",
    /// ZeroMQ PUB and SUB over TCP.
    TcpPublishSubscribe = "tcp-publish-subscribe",
    /// ZeroMQ PUB and SUB over multicast.
    PgmPublishSubscribe = "pgm-publish-subscribe",
    /// MQTT through a broker.
    Mqtt = "mqtt",
}

impl DirectorModel {
    /// Models of other protocol stacks, which the director uses only if the experiment lists them.
    pub const OUTSIDE: [Self; 4] =
        [Self::TcpRouterDealer, Self::TcpPublishSubscribe, Self::PgmPublishSubscribe, Self::Mqtt];
}

impl InteractionPattern {
    /// Whether it can carry messages from the source to the sinks.
    pub fn supports_down(self) -> bool {
        self != Self::TcpRequestReply
    }

    /// Whether it can carry answers from the sinks to the source.
    pub fn supports_up(self) -> bool {
        matches!(self, Self::TcpRequestReply) || self.is_bidirectional()
    }

    /// Whether the director carries both directions.
    pub fn is_director(self) -> bool {
        matches!(self, Self::Director(_))
    }

    /// The other stack's model that the director is fixed to, if any.
    pub fn outside(self) -> Option<DirectorModel> {
        match self {
            Self::Director(fixed) => fixed.filter(|model| DirectorModel::OUTSIDE.contains(model)),
            _ => None,
        }
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
