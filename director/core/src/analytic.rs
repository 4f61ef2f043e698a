//! Analytic predictions for models without measurements, for a shared channel with independent
//! frame loss. They are rough, so the policy treats them as uncertain.

use crate::bound;
use crate::conditions::Conditions;
use crate::fec;
use crate::map::{Figures, Quantiles};
use crate::model::ModelId;
use crate::targets::Pattern;

/// Headers of Ethernet, IPv4 and UDP, in bytes.
const LINK_HEADERS: f64 = 42.0;
/// Headers of IPv4 and UDP, in bytes.
const HEADERS: f64 = 28.0;
/// Overhead of sealing and chunking per frame, in bytes.
const FRAME_OVERHEAD: f64 = 15.0;
/// Size of an acknowledgement datagram, in bytes.
const ACK: f64 = 30.0;
/// Overhead of a QUIC packet, in bytes: packet header, AEAD tag, frame header.
const QUIC: f64 = 30.0;
/// Initial congestion window of QUIC, in packets (RFC 9002, section 7.2).
const QUIC_FIRST: f64 = 10.0;
/// Headers of Ethernet, IPv4 and TCP with time stamps, and of the last two alone, in bytes.
const TCP_LINK_HEADERS: f64 = 66.0;
const TCP: f64 = 52.0;
/// Overhead per message of ZeroMQ, and of MQTT with its topic, in bytes.
const ZEROMQ: f64 = 10.0;
const MQTT: f64 = 50.0;
/// Minimum retransmission timeout of TCP in ms (Linux; RFC 6298 has 1 s), and the maximum.
const MIN_TIMEOUT: f64 = 200.0;
const MAX_TIMEOUT: f64 = 120_000.0;
/// NAK interval of PGM receivers in ms, approximate.
const NAK: f64 = 50.0;
/// Maximum loss for the formulas.
const MAX_LOSS: f64 = 0.95;

/// Transmission rounds until all of `chunks` have arrived with probability `chance`.
fn rounds(chunks: f64, loss: f64, chance: f64) -> f64 {
    if loss <= 1e-6 {
        return 1.0;
    }
    // (1 - p^r)^k = q.
    ((chunks / -chance.ln()).ln() / -loss.ln()).max(1.0)
}

/// A message over an established TCP connection.
struct Stream {
    /// Segments sent, with retransmissions; then acknowledgements.
    sent: f64,
    acks: f64,
    segment: f64,
    /// Delays by losses at the 50th, 90th and 99th percentile, in ms.
    waits: [f64; 3],
}

impl Stream {
    fn new(bytes: f64, loss: f64, here: &Conditions) -> Self {
        let room = (here.mtu - TCP).max(1.0);
        let segments = (bytes / room).ceil().max(1.0);
        let sent = segments / (1.0 - loss);
        let trip = here.rtt_ns as f64 / 1e6;
        let timeout = MIN_TIMEOUT.max(2.0 * trip);
        let window = (1.22 / loss.max(1e-6).sqrt()).max(2.0);
        let held = (segments / QUIC_FIRST).log2().max(segments / window - 1.0).max(0.0);
        let waits = [0.5, 0.9, 0.99].map(|chance| {
            // A loss costs a timeout, which doubles with each lost retransmission.
            let again = rounds(segments, loss, chance) - 1.0;
            let wait = timeout * (2_f64.powf(again.min(9.0)) - 1.0);
            let wait = wait + (again - 9.0).max(0.0) * MAX_TIMEOUT;
            // Head-of-line blocking: messages behind it wait as long.
            trip * held + wait * (1.0 + (here.messages_s * wait / 1e3).min(1.0))
        });
        Self { sent, acks: sent / 2.0 + 0.5, segment: bytes / segments, waits }
    }

    /// Channel time in ms, and bytes.
    fn cost(&self, here: &Conditions) -> (f64, f64) {
        let bytes = self.sent * (self.segment + TCP_LINK_HEADERS) + self.acks * TCP_LINK_HEADERS;
        (bytes * 8e3 / here.rate_bit_s.max(1.0), bytes)
    }
}

/// Predicted performance of a model under these conditions; `None` if it does not fit them.
pub fn predict(model: ModelId, pattern: Pattern, here: &Conditions) -> Option<Figures> {
    if !model.fits(here) {
        return None;
    }
    let loss = here.loss.clamp(0.0, MAX_LOSS);
    let group = here.group.max(1.0);
    let room = (here.mtu - HEADERS - FRAME_OVERHEAD).max(1.0);
    let chunks = (here.payload / room).ceil().max(1.0);
    let airtime = |bytes: f64| (bytes + LINK_HEADERS) * 8e3 / here.rate_bit_s.max(1.0);
    let datagram = (here.payload / chunks + FRAME_OVERHEAD).min(here.mtu - HEADERS);
    let (frame, short) = (airtime(datagram), airtime(ACK));
    let trip = here.rtt_ns as f64 / 1e6;
    let back = if pattern.is_answered() { chunks } else { 0.0 };
    let ways = if back > 0.0 { 2.0 } else { 1.0 };
    let wire = |frames: f64, shorts: f64| {
        frames * (datagram + LINK_HEADERS) + shorts * (ACK + LINK_HEADERS)
    };
    // Queueing: half of the group's total time at the median, all of it at the 99th percentile.
    let spread = |fixed: [f64; 3], all: f64| Quantiles {
        p50: fixed[0] + all / 2.0,
        p90: fixed[1] + all * 0.9,
        p99: fixed[2] + all,
    };
    let (delay_ms, delivery, bytes) = match model {
        ModelId::UdpRequestResponse | ModelId::CoapNonConfirmable => {
            // Block sizes are powers of two, and blocks have more headers.
            let blocks = if model == ModelId::CoapNonConfirmable { 1.2 } else { 1.0 };
            let frames = (chunks + back) * blocks;
            let delivery = (1.0 - loss).powf(frames.max(chunks + 1.0 - loss));
            let each = frames * frame + if back > 0.0 { 0.0 } else { short };
            (spread([trip; 3], each * group), delivery, wire(frames, f64::from(back == 0.0)))
        }
        ModelId::UdpArq => {
            let sent = (chunks + back) / (1.0 - loss);
            let each = sent * frame + 2.0 * short / (1.0 - loss);
            // A lost acknowledgement costs two round trips.
            let waits = 2.0 * loss / (1.0 - loss);
            let of = |chance| trip * (ways * rounds(chunks, loss, chance) + waits);
            let fixed = [of(0.5), of(0.9), of(0.99)];
            (spread(fixed, each * group), 1.0, wire(sent, 2.0 / (1.0 - loss)))
        }
        ModelId::MulticastFec => {
            let symbols = fec::symbols(here.payload as usize, room as usize) as u64;
            let down = bound::multicast_frames(symbols, group as u64, loss);
            let each = match back > 0.0 {
                true => bound::unicast_frames(symbols, loss) * frame,
                false => short / (1.0 - loss),
            };
            let first = down * frame + trip;
            let lost = if loss > 0.0 { trip } else { 0.0 };
            let shorts = if back > 0.0 { 0.0 } else { 1.0 / (1.0 - loss) };
            let up = if back > 0.0 { bound::unicast_frames(symbols, loss) } else { 0.0 };
            let fixed = [first, first + lost, first + 2.0 * lost];
            (spread(fixed, 1.05 * each * group), 1.0, wire(down / group + up, shorts))
        }
        ModelId::CoapConfirmable => {
            // One round trip per block, and a timeout of 2 to 3 s, doubled each time, per lost
            // block or acknowledgement.
            let block = 2_f64.powf(room.log2().floor()).clamp(16.0, 1_024.0);
            let blocks = (here.payload / block).ceil().max(1.0);
            let missed = 1.0 - (1.0 - loss) * (1.0 - loss);
            let waits = 2_500.0 * (missed + 2.0 * missed.powi(2) + 4.0 * missed.powi(3));
            let of = |worse: f64| ways * blocks * (trip + worse * waits);
            let sent = ways * blocks / (1.0 - missed);
            let each = sent * (airtime(block + FRAME_OVERHEAD) + short);
            let delivery = (1.0 - missed.powi(5)).powf(ways * blocks);
            let bytes = sent * (block + FRAME_OVERHEAD + ACK + 2.0 * LINK_HEADERS);
            (spread([of(0.8), of(1.5), of(2.5)], each * group), delivery, bytes)
        }
        ModelId::QuicStreams => {
            let chunks = (here.payload / (room - QUIC)).ceil().max(1.0);
            let packet = here.payload / chunks + FRAME_OVERHEAD + QUIC;
            let sent = ways * chunks / (1.0 - loss);
            // An ACK for every second packet and for the last one; flow control updates.
            let shorts = (sent / 2.0).max(ways) + 1.0 / (1.0 - loss);
            let each = sent * airtime(packet) + shorts * short;
            // The window doubles from its initial size; under loss it settles (Mathis and
            // others, 1997).
            let window = (1.22 / loss.max(1e-6).sqrt()).max(2.0);
            let held = (chunks / QUIC_FIRST).log2().max(chunks / window - 1.0).max(0.0);
            // Retransmission after later packets arrive, or after 1.5 round trips.
            let again = |chance| 1.5 * (rounds(chunks, loss, chance) - 1.0);
            let waits = 2.0 * loss / (1.0 - loss);
            let of = |chance| trip * (ways * (1.0 + again(chance) + held) + waits);
            let bytes = sent * (packet + LINK_HEADERS) + shorts * (ACK + LINK_HEADERS);
            (spread([of(0.5), of(0.9), of(0.99)], each * group), 1.0, bytes)
        }
        ModelId::QuicDatagrams => {
            let packet = here.payload + FRAME_OVERHEAD + QUIC;
            let delivery = (1.0 - loss).powf(f64::max(ways, 2.0 - loss));
            // QUIC acknowledges although it does not retransmit; members acknowledge as well.
            let shorts = if back > 0.0 { 1.0 } else { 2.0 };
            let each = ways * airtime(packet) + shorts * short;
            let bytes = ways * (packet + LINK_HEADERS) + shorts * (ACK + LINK_HEADERS);
            (spread([trip; 3], each * group), delivery, bytes)
        }
        ModelId::TcpRouterDealer | ModelId::TcpPublishSubscribe => {
            let way = Stream::new(here.payload + FRAME_OVERHEAD + ZEROMQ, loss, here);
            // Members that do not answer acknowledge.
            let answer = if back > 0.0 { here.payload } else { 0.0 };
            let answer = Stream::new(answer + FRAME_OVERHEAD + ZEROMQ, loss, here);
            let (there, back) = (way.cost(here), answer.cost(here));
            let of = |at: usize| trip * ways + way.waits[at] + answer.waits[at];
            (spread([of(0), of(1), of(2)], (there.0 + back.0) * group), 1.0, there.1 + back.1)
        }
        ModelId::Mqtt => {
            let way = Stream::new(here.payload + FRAME_OVERHEAD + MQTT, loss, here);
            let answer = if back > 0.0 { here.payload } else { 0.0 };
            let answer = Stream::new(answer + FRAME_OVERHEAD + MQTT, loss, here);
            // Each direction has two hops; all members share the one between hub and broker.
            let ((there, down), (back, up)) = (way.cost(here), answer.cost(here));
            let shared = 1.0 + 1.0 / group;
            let of = |at: usize| 2.0 * (trip * ways + way.waits[at] + answer.waits[at]);
            let each = shared * there + 2.0 * back;
            (spread([of(0), of(1), of(2)], each * group), 1.0, shared * down + 2.0 * up)
        }
        ModelId::PgmPublishSubscribe => {
            let answer = if back > 0.0 { here.payload } else { 0.0 };
            let answer = Stream::new(answer + FRAME_OVERHEAD + ZEROMQ, loss, here);
            // Repairs go to all members: as many as the worst receiver needs.
            let down = chunks * rounds(group, loss, 0.5) / (1.0 - loss);
            let again = |chance| (rounds(chunks * group, loss, chance) - 1.0) * (2.0 * trip + NAK);
            let (back, up) = answer.cost(here);
            let of = |at: usize, chance| down * frame + trip + again(chance) + answer.waits[at];
            let fixed = [of(0, 0.5), of(1, 0.9), of(2, 0.99)];
            (spread(fixed, back * group), 1.0, wire(down / group, 0.0) + up)
        }
    };
    Some(Figures { delay_ms, delay_interval: None, delivery, bytes, energy: 0.0, messages: 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The constrained network of the papers, with a price update of 1,699 B.
    fn constrained(group: f64, loss: f64) -> Conditions {
        Conditions {
            loss,
            rtt_ns: 60_000_000,
            rate_bit_s: 250_000.0,
            mtu: 113.0,
            group,
            payload: 1_699.0,
            ..Conditions::default()
        }
    }

    #[test]
    fn a_group_is_for_multicast_and_loss_is_not_for_bare_datagrams() {
        let of = |model, here: &Conditions| predict(model, Pattern::PublishCollect, here).unwrap();
        let here = constrained(300.0, 0.3);
        let fec = of(ModelId::MulticastFec, &here);
        let arq = of(ModelId::UdpArq, &here);
        let udp = of(ModelId::UdpRequestResponse, &here);
        assert!(fec.delay_ms.p99 < 50_000.0 && fec.delay_ms.p99 < 0.6 * arq.delay_ms.p99);
        assert!(fec.bytes < 0.6 * arq.bytes, "{} {}", fec.bytes, arq.bytes);
        assert!(udp.delivery < 0.01 && fec.delivery == 1.0);
        // One peer without loss: nothing is faster than a datagram.
        let near = Conditions { payload: 60.0, mtu: 1_500.0, ..constrained(1.0, 0.0) };
        assert!(
            of(ModelId::UdpRequestResponse, &near).delay_ms.p50
                <= of(ModelId::UdpArq, &near).delay_ms.p50
        );
    }

    #[test]
    fn quic_is_for_large_packets_and_is_never_the_least() {
        let of = |model, here: &Conditions| predict(model, Pattern::PublishCollect, here);
        let quic = [ModelId::QuicStreams, ModelId::QuicDatagrams];
        for mtu in [127.0, 500.0, 1_229.0] {
            let small = Conditions { mtu, payload: 60.0, ..constrained(1.0, 0.1) };
            assert!(quic.iter().all(|model| of(*model, &small).is_none()), "{mtu}");
        }
        for loss in [0.0, 0.1, 0.3] {
            let here = Conditions { mtu: 1_500.0, payload: 600.0, ..constrained(4.0, loss) };
            let [streams, datagrams] = quic.map(|model| of(model, &here).unwrap());
            let arq = of(ModelId::UdpArq, &here).unwrap();
            let udp = of(ModelId::UdpRequestResponse, &here).unwrap();
            assert!(streams.bytes > arq.bytes && datagrams.bytes > udp.bytes);
            assert!(streams.delay_ms.p99 >= arq.delay_ms.p99);
            assert!(datagrams.delay_ms.p99 < 2.0 * udp.delay_ms.p99);
            assert!(streams.delivery == 1.0 && (loss == 0.0 || datagrams.delivery < 1.0));
            // A long message waits for the window.
            let long = Conditions { payload: 60_000.0, rate_bit_s: 100e6, ..here };
            let long = of(ModelId::QuicStreams, &long).unwrap();
            assert!(long.delay_ms.p50 > 3.0 * 60.0, "{long:?}");
        }
        let long = Conditions { mtu: 1_500.0, ..constrained(1.0, 0.0) };
        assert!(of(ModelId::QuicDatagrams, &long).is_none(), "it does not fit");
    }

    #[test]
    fn other_stacks_cost_what_their_ways_do() {
        let of = |model, here: &Conditions| predict(model, Pattern::PublishCollect, here).unwrap();
        let quiet = Conditions { mtu: 1_500.0, payload: 600.0, ..constrained(8.0, 0.0) };
        let lossy = Conditions { loss: 0.1, ..quiet };
        let tcp = |here| of(ModelId::TcpRouterDealer, here);
        let arq = of(ModelId::UdpArq, &quiet);
        assert!(tcp(&quiet).bytes > arq.bytes);
        // A loss costs a timeout, and a broker a second hop.
        assert!(tcp(&lossy).delay_ms.p99 > tcp(&quiet).delay_ms.p99 + MIN_TIMEOUT);
        assert!(of(ModelId::Mqtt, &quiet).bytes > 1.5 * tcp(&quiet).bytes);
        assert!(of(ModelId::Mqtt, &quiet).delay_ms.p50 > tcp(&quiet).delay_ms.p50);
        let pgm = of(ModelId::PgmPublishSubscribe, &quiet);
        assert!(pgm.bytes < 0.8 * of(ModelId::TcpPublishSubscribe, &quiet).bytes, "{pgm:?}");
        let coded = of(ModelId::MulticastFec, &lossy);
        assert!(of(ModelId::PgmPublishSubscribe, &lossy).delay_ms.p99 > coded.delay_ms.p99);
    }

    #[test]
    fn figures_are_numbers_everywhere() {
        for loss in [0.0, 0.01, 0.5, 1.0] {
            for (group, mtu) in [(1.0, 113.0), (300.0, 113.0), (1.0, 1_500.0), (300.0, 1_500.0)] {
                let here = Conditions { mtu, ..constrained(group, loss) };
                for pattern in [Pattern::PublishSubscribe, Pattern::PublishCollect] {
                    for model in ModelId::ALL {
                        let Some(figures) = predict(model, pattern, &here) else { continue };
                        let Quantiles { p50, p90, p99 } = figures.delay_ms;
                        assert!(p50 <= p90 && p90 <= p99 && p99.is_finite(), "{model} {figures:?}");
                        assert!((0.0..=1.0).contains(&figures.delivery));
                        assert!(figures.bytes.is_finite() && figures.bytes > 0.0);
                    }
                }
            }
        }
    }

    #[test]
    fn rounds_are_those_of_independent_losses() {
        assert_eq!(rounds(21.0, 0.0, 0.5), 1.0);
        // One chunk at 50 % loss: half of them after the first round.
        assert!((rounds(1.0, 0.5, 0.5) - 1.0).abs() < 0.6);
        assert!(rounds(21.0, 0.3, 0.99) > rounds(21.0, 0.3, 0.5));
    }
}
