//! The transports of QUIC: one stream or one datagram per message.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
#[cfg(feature = "quic")]
mod count;
#[cfg(feature = "quic")]
mod exchange;
#[cfg(feature = "quic")]
mod link;
#[cfg(feature = "quic")]
mod pinned;
#[cfg(feature = "quic")]
mod settings;

use super::interface::{ALL, MAX_STREAM, Model, SEALED, Transport};
use crate::analytic::{ACK, Case, FRAME_OVERHEAD, LINK_HEADERS, Prediction, rounds};
use crate::model::{Features, ModelId};

/// The smallest packet that carries QUIC, in bytes: 1,200 of QUIC (RFC 9000, section 14), 2 of
/// our header, and 28 of IPv4 and UDP.
const MIN_QUIC: f64 = 1_230.0;
/// The largest packet, in bytes: QUIC makes no larger ones here.
const MAX_QUIC: f64 = 1_502.0;
/// Overhead of a QUIC datagram packet besides the message, its AEAD tag and its number, in
/// bytes.
const QUIC_DATAGRAM: f64 = 93.0;
/// Overhead of a QUIC packet, in bytes: packet header, AEAD tag, frame header.
const QUIC: f64 = 30.0;
/// Initial congestion window of QUIC, in packets (RFC 9002, section 7.2).
const FIRST_WINDOW: f64 = 10.0;

pub static STREAMS: Model = Model {
    features: Features {
        reliable: true,
        ordered: false,
        boundaries: true,
        zero_rtt: false,
        multicast: false,
        by_unicast: true,
        measures: true,
        patterns: ALL,
    },
    similar: Some(ModelId::UdpArq),
    repairs_ahead: false,
    fits: |here| here.mtu >= MIN_QUIC && here.payload + SEALED <= MAX_STREAM as f64,
    owns: |datagram| datagram.first() == Some(&0x19),
    predict: streams,
    #[cfg(not(feature = "quic"))]
    transport: Transport::Absent,
    #[cfg(feature = "quic")]
    transport: Transport::Datagrams(
        |params| exchange::hub(params, settings::Kind::Streams),
        |params, number| exchange::member(params, settings::Kind::Streams, number),
    ),
};

pub static DATAGRAMS: Model = Model {
    features: Features {
        reliable: false,
        ordered: false,
        boundaries: true,
        zero_rtt: false,
        multicast: false,
        by_unicast: true,
        measures: true,
        patterns: ALL,
    },
    similar: Some(ModelId::UdpRequestResponse),
    repairs_ahead: false,
    fits: |here| here.mtu >= MIN_QUIC && here.payload <= here.mtu.min(MAX_QUIC) - QUIC_DATAGRAM,
    owns: |datagram| datagram.first() == Some(&0x1a),
    predict: datagrams,
    #[cfg(not(feature = "quic"))]
    transport: Transport::Absent,
    #[cfg(feature = "quic")]
    transport: Transport::Datagrams(
        |params| exchange::hub(params, settings::Kind::Datagrams),
        |params, number| exchange::member(params, settings::Kind::Datagrams, number),
    ),
};

fn streams(case: &Case<'_>) -> Prediction {
    let loss = case.loss;
    let chunks = (case.here.payload / (case.room - QUIC)).ceil().max(1.0);
    let packet = case.here.payload / chunks + FRAME_OVERHEAD + QUIC;
    let sent = case.ways * chunks / (1.0 - loss);
    // An ACK for every second packet and for the last one; flow control updates.
    let shorts = (sent / 2.0).max(case.ways) + 1.0 / (1.0 - loss);
    let each = sent * case.airtime(packet) + shorts * case.short;
    // The window doubles from its initial size; under loss it settles (Mathis and others, 1997).
    let window = (1.22 / loss.max(1e-6).sqrt()).max(2.0);
    let held = (chunks / FIRST_WINDOW).log2().max(chunks / window - 1.0).max(0.0);
    // Retransmission after later packets arrive, or after 1.5 round trips.
    let again = |chance| 1.5 * (rounds(chunks, loss, chance) - 1.0);
    let waits = 2.0 * loss / (1.0 - loss);
    let of = |chance| case.trip * (case.ways * (1.0 + again(chance) + held) + waits);
    Prediction {
        delay_ms: case.queued([of(0.5), of(0.9), of(0.99)], each),
        delivery: 1.0,
        bytes: sent * (packet + LINK_HEADERS) + shorts * (ACK + LINK_HEADERS),
    }
}

fn datagrams(case: &Case<'_>) -> Prediction {
    let packet = case.here.payload + FRAME_OVERHEAD + QUIC;
    // QUIC acknowledges although it does not retransmit; members acknowledge as well.
    let shorts = if case.is_answered() { 1.0 } else { 2.0 };
    let each = case.ways * case.airtime(packet) + shorts * case.short;
    Prediction {
        delay_ms: case.queued([case.trip; 3], each),
        delivery: (1.0 - case.loss).powf(f64::max(case.ways, 2.0 - case.loss)),
        bytes: case.ways * (packet + LINK_HEADERS) + shorts * (ACK + LINK_HEADERS),
    }
}
