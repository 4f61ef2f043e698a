//! The transports of ZeroMQ over TCP.

use super::interface::{ALL, MANY, Model, Transport};
use super::outside::{self, Sending};
use crate::analytic::{Case, FRAME_OVERHEAD, Prediction, Stream};
use crate::model::{Features, ModelId};

/// Overhead of ZeroMQ per message, in bytes.
pub const ZEROMQ: f64 = 10.0;
const DIRECT: Sending = Sending { copies: 1, group_copies: None };
const PUBLISHED: Sending = Sending { copies: 1, group_copies: Some(usize::from) };

pub static ROUTER_DEALER: Model = Model {
    features: Features {
        reliable: true,
        ordered: true,
        boundaries: true,
        zero_rtt: false,
        multicast: false,
        by_unicast: true,
        measures: true,
        patterns: ALL,
    },
    similar: Some(ModelId::UdpArq),
    repairs_ahead: false,
    fits: |_| true,
    owns: |frame| outside::model_of(frame) == Some(ModelId::TcpRouterDealer),
    predict,
    transport: Transport::Stack(
        |params| outside::hub(ModelId::TcpRouterDealer, DIRECT, params),
        |params, _| outside::member(ModelId::TcpRouterDealer, DIRECT, params),
    ),
};

pub static PUBLISH_SUBSCRIBE: Model = Model {
    features: Features {
        reliable: true,
        ordered: true,
        boundaries: true,
        zero_rtt: false,
        multicast: false,
        by_unicast: true,
        measures: true,
        patterns: MANY,
    },
    similar: Some(ModelId::UdpArq),
    repairs_ahead: false,
    fits: |_| true,
    owns: |frame| outside::model_of(frame) == Some(ModelId::TcpPublishSubscribe),
    predict,
    transport: Transport::Stack(
        |params| outside::hub(ModelId::TcpPublishSubscribe, PUBLISHED, params),
        |params, _| outside::member(ModelId::TcpPublishSubscribe, PUBLISHED, params),
    ),
};

fn predict(case: &Case<'_>) -> Prediction {
    let (here, loss) = (case.here, case.loss);
    let way = Stream::new(here.payload + FRAME_OVERHEAD + ZEROMQ, loss, here);
    // Members that do not answer acknowledge.
    let answer = Stream::new(case.answer() + FRAME_OVERHEAD + ZEROMQ, loss, here);
    let (there, back) = (way.cost(here), answer.cost(here));
    let of = |at: usize| case.trip * case.ways + way.waits[at] + answer.waits[at];
    Prediction {
        delay_ms: case.queued([of(0), of(1), of(2)], there.0 + back.0),
        delivery: 1.0,
        bytes: there.1 + back.1,
    }
}
