//! The transport of MQTT.

use super::interface::{ALL, Model, Transport};
use super::outside::{self, Sending};
use crate::analytic::{Case, FRAME_OVERHEAD, Prediction, Stream};
use crate::model::{Features, ModelId};

/// Overhead of MQTT per message, with its topic, in bytes.
const MQTT: f64 = 50.0;
/// One copy to the broker, and one per receiver.
const SENDING: Sending =
    Sending { copies: 2, group_copies: Some(|members| 1 + usize::from(members)) };

pub static MODEL: Model = Model {
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
    owns: |frame| outside::model_of(frame) == Some(ModelId::Mqtt),
    predict,
    transport: Transport::Stack(
        |params| outside::hub(ModelId::Mqtt, SENDING, params),
        |params, _| outside::member(ModelId::Mqtt, SENDING, params),
    ),
};

fn predict(case: &Case<'_>) -> Prediction {
    let (here, loss) = (case.here, case.loss);
    let way = Stream::new(here.payload + FRAME_OVERHEAD + MQTT, loss, here);
    let answer = Stream::new(case.answer() + FRAME_OVERHEAD + MQTT, loss, here);
    // Each direction has two hops; all members share the one between hub and broker.
    let ((there, down), (back, up)) = (way.cost(here), answer.cost(here));
    let shared = 1.0 + 1.0 / case.group;
    let of = |at: usize| 2.0 * (case.trip * case.ways + way.waits[at] + answer.waits[at]);
    Prediction {
        delay_ms: case.queued([of(0), of(1), of(2)], shared * there + 2.0 * back),
        delivery: 1.0,
        bytes: shared * down + 2.0 * up,
    }
}
