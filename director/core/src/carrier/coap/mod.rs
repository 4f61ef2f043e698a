//! The transports of CoAP, confirmable or not.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
#[cfg(feature = "coap")]
mod exchange;

use super::interface::{ALL, Model, SEALED, Transport};
use super::udp;
use crate::analytic::{ACK, Case, FRAME_OVERHEAD, LINK_HEADERS, Prediction};
use crate::model::Features;

/// Bytes of a packet around a block: headers of IPv4, UDP and CoAP, and options.
const AROUND: f64 = 60.0;
/// Maximum number of blocks of a message.
const MAX_BLOCKS: f64 = 4_096.0;

pub static CONFIRMABLE: Model = Model {
    features: Features {
        reliable: true,
        ordered: false,
        boundaries: true,
        zero_rtt: true,
        multicast: false,
        by_unicast: true,
        measures: false,
        patterns: ALL,
    },
    predict: confirmable,
    #[cfg(feature = "coap")]
    transport: Transport::Datagrams(
        |params| exchange::hub(params, true),
        |params, number| exchange::member(params, true, number),
    ),
    ..NON_CONFIRMABLE
};

pub static NON_CONFIRMABLE: Model = Model {
    features: udp::FEATURES,
    similar: None,
    repairs_ahead: false,
    fits: |here| here.payload + SEALED <= MAX_BLOCKS * block(here.mtu - AROUND),
    // CoAP version 1, in the two highest bits.
    owns: |datagram| datagram.first().is_some_and(|first| first >> 6 == 1),
    // Block sizes are powers of two, and blocks have more headers.
    predict: |case| udp::predict(case, 1.2),
    #[cfg(not(feature = "coap"))]
    transport: Transport::Absent,
    #[cfg(feature = "coap")]
    transport: Transport::Datagrams(
        |params| exchange::hub(params, false),
        |params, number| exchange::member(params, false, number),
    ),
};

/// The largest block for which packets have `room`, in bytes (RFC 7959, section 2.2).
fn block(room: f64) -> f64 {
    2_f64.powf(room.max(1.0).log2().floor()).clamp(16.0, 1_024.0)
}

/// One round trip per block, and a timeout of 2 to 3 s, doubled each time, per lost block or
/// acknowledgement.
fn confirmable(case: &Case<'_>) -> Prediction {
    let block = block(case.room);
    let blocks = (case.here.payload / block).ceil().max(1.0);
    let missed = 1.0 - (1.0 - case.loss) * (1.0 - case.loss);
    let waits = 2_500.0 * (missed + 2.0 * missed.powi(2) + 4.0 * missed.powi(3));
    let of = |worse: f64| case.ways * blocks * (case.trip + worse * waits);
    let sent = case.ways * blocks / (1.0 - missed);
    let each = sent * (case.airtime(block + FRAME_OVERHEAD) + case.short);
    Prediction {
        delay_ms: case.queued([of(0.8), of(1.5), of(2.5)], each),
        // With MAX_RETRANSMIT = 4 a message is sent five times (RFC 7252, 4.8).
        delivery: (1.0 - missed.powi(5)).powf(case.ways * blocks),
        bytes: sent * (block + FRAME_OVERHEAD + ACK + 2.0 * LINK_HEADERS),
    }
}
