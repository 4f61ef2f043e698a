//! The transport of ZeroMQ over PGM (RFC 3208).

use super::interface::{MANY, Model, Transport};
use super::outside::{self, Sending};
use super::tcp::ZEROMQ;
use crate::analytic::{Case, FRAME_OVERHEAD, Prediction, Stream, rounds};
use crate::model::{Features, ModelId};

/// NAK interval of PGM receivers in ms, approximate.
const NAK: f64 = 50.0;
/// Multicast: one copy for all.
const SENDING: Sending = Sending { copies: 1, group_copies: Some(|_| 1) };

pub static MODEL: Model = Model {
    features: Features {
        reliable: true,
        ordered: true,
        boundaries: true,
        zero_rtt: true,
        multicast: true,
        by_unicast: false,
        measures: true,
        patterns: MANY,
    },
    similar: Some(ModelId::MulticastFec),
    repairs_ahead: false,
    fits: |_| true,
    owns: |frame| outside::model_of(frame) == Some(ModelId::PgmPublishSubscribe),
    predict,
    transport: Transport::Stack(
        |params| outside::hub(ModelId::PgmPublishSubscribe, SENDING, params),
        |params, _| outside::member(ModelId::PgmPublishSubscribe, SENDING, params),
    ),
};

/// Answers go over TCP.
fn predict(case: &Case<'_>) -> Prediction {
    let (here, loss, group) = (case.here, case.loss, case.group);
    let answer = Stream::new(case.answer() + FRAME_OVERHEAD + ZEROMQ, loss, here);
    // Repairs go to all members: as many as the worst receiver needs.
    let down = case.chunks * rounds(group, loss, 0.5) / (1.0 - loss);
    let again =
        |chance| (rounds(case.chunks * group, loss, chance) - 1.0) * (2.0 * case.trip + NAK);
    let (back, up) = answer.cost(here);
    let of = |at: usize, chance| down * case.frame + case.trip + again(chance) + answer.waits[at];
    Prediction {
        delay_ms: case.queued([of(0, 0.5), of(1, 0.9), of(2, 0.99)], back),
        delivery: 1.0,
        bytes: case.wire(down / group, 0.0) + up,
    }
}
