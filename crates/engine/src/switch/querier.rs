//! Membership querier of a switch without a router (RFC 3376, section 8, RFC 3810, section
//! 9, and RFC 4541, 2.1.1): a host with a lost report misses multicast only until the next
//! query.

use units::{Instant, Span};

/// Consecutive losses that the protocol tolerates (RFC 3376, 8.1).
const ROBUSTNESS: u64 = 2;
/// Maximum response time (RFC 3376, 8.3).
const MOST_RESPONSE: Span = Span::from_s(10);
/// Delay of the first query after the first sign of multicast.
const FIRST: Span = Span::from_s(1);
/// The switch's address: locally administered, different from all nodes' addresses.
const MAC: [u8; 6] = [0x02, 0xff, 0xff, 0xff, 0xff, 0xfe];

/// Schedule of queries. Inactive until a host joins a group or sends to one.
#[derive(Debug, Clone)]
pub(super) struct Querier {
    /// Query interval; 0 disables queries.
    interval: Span,
    /// Time of the next query; `None` while inactive.
    next: Option<Instant>,
    /// Remaining startup queries, at a quarter of the interval.
    at_start: u64,
    /// Expiry of the other querier, a router.
    other_until: Instant,
}

impl Querier {
    pub fn new(interval: Span) -> Self {
        let (next, at_start) = (None, ROBUSTNESS);
        Self { interval, next, at_start, other_until: Instant::START }
    }

    /// Whether it waits for a sign of multicast.
    pub fn sleeps(&self) -> bool {
        self.interval > Span::ZERO && self.next.is_none()
    }

    /// Multicast was seen. Returns the time of the first query if this activates the
    /// querier.
    pub fn wake(&mut self, now: Instant) -> Option<Instant> {
        if !self.sleeps() {
            return None;
        }
        let first = FIRST.min(self.interval);
        self.next = Some(now + first);
        self.next
    }

    /// A router sent a query: this querier stops in its favour (RFC 3376, 6.6.2).
    pub fn router_asks(&mut self, now: Instant) {
        let present = ROBUSTNESS * self.interval + self.response() / 2;
        self.other_until = now + present;
    }

    /// Handles the query timer: returns whether to send a query, and the time of the next.
    pub fn turn(&mut self, now: Instant) -> (bool, Instant) {
        let quick = self.at_start > 0;
        self.at_start = self.at_start.saturating_sub(1);
        let interval =
            if quick { (self.interval / 4).max(Span::from_ns(1)) } else { self.interval };
        let next = now + interval;
        self.next = Some(next);
        (now >= self.other_until, next)
    }

    /// Expiry of a report received at `now` (RFC 3376, 8.4).
    pub fn holds_until(&self, now: Instant) -> Instant {
        match self.interval {
            // Without queries, hosts do not repeat their reports.
            Span::ZERO => Instant::NEVER,
            interval => now + ROBUSTNESS * interval + self.response(),
        }
    }

    fn response(&self) -> Span {
        MOST_RESPONSE.min(self.interval / 2)
    }

    /// A general IGMPv3 query, including the link header.
    pub fn igmp(&self) -> Vec<u8> {
        let tenths = (self.response().as_ns() / 100_000_000).clamp(1, 127) as u8;
        let mut message = vec![0x11, tenths, 0, 0, 0, 0, 0, 0, ROBUSTNESS as u8, self.code(), 0, 0];
        let sum = checksum(&[&message]);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        // From 0.0.0.0, as a switch without an address (RFC 4541, 2.1.1), with the router
        // alert option (RFC 2113).
        let mut header = vec![0x46, 0xc0, 0, 36, 0, 0, 0, 0, 1, 2, 0, 0];
        header.extend([0, 0, 0, 0, 224, 0, 0, 1, 0x94, 4, 0, 0]);
        let sum = checksum(&[&header]);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        [&[1, 0, 0x5e, 0, 0, 1], &MAC[..], &[8, 0], &header, &message].concat()
    }

    /// A general MLDv2 query, including the link header.
    pub fn mld(&self) -> Vec<u8> {
        let ms = ((self.response().as_ns() / 1_000_000).clamp(1, 32_767) as u16).to_be_bytes();
        let mut message = vec![130, 0, 0, 0, ms[0], ms[1], 0, 0];
        message.extend([0; 16]);
        message.extend([ROBUSTNESS as u8, self.code(), 0, 0]);
        // The switch's link-local address (RFC 4291, appendix A).
        let [a, b, c, d, e, f] = MAC;
        let source = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f];
        let mut target = [0; 16];
        (target[0], target[1], target[15]) = (0xff, 2, 1);
        let length = (message.len() as u32).to_be_bytes();
        let sum = checksum(&[&source, &target, &length, &[0, 0, 0, 58], &message]);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let length = (message.len() as u16 + 8).to_be_bytes();
        let header = [0x60, 0, 0, 0, length[0], length[1], 0, 1];
        // Router alert in a hop-by-hop header (RFC 2711).
        let options = [58, 0, 5, 2, 0, 0, 1, 0];
        let to = [0x33, 0x33, 0, 0, 0, 1];
        [&to, &MAC[..], &[0x86, 0xdd], &header, &source, &target, &options, &message].concat()
    }

    /// The interval in seconds, in the encoding of both protocols (RFC 3376, 4.1.7): above
    /// 127, a number of 4 bits times a power of two.
    fn code(&self) -> u8 {
        let seconds = (self.interval.as_ns() / 1_000_000_000).clamp(1, 31_744);
        if seconds < 128 {
            return seconds as u8;
        }
        let exponent = 63 - seconds.leading_zeros() as u64 - 7;
        let mantissa = (seconds >> (exponent + 3)) & 0xf;
        (0x80 | exponent << 4 | mantissa) as u8
    }
}

/// The Internet checksum (RFC 1071) over parts of even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let mut sum: u32 = words.map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::membership::{Message, read};
    use crate::test_times::instant;

    const S: u64 = 1_000_000_000;

    #[test]
    fn it_asks_quickly_at_first_and_then_at_its_interval() {
        let mut querier = Querier::new(Span::from_ns(125 * S));
        assert_eq!(querier.wake(instant(5 * S)), Some(instant(6 * S)));
        assert_eq!(querier.wake(instant(5 * S)), None, "it is awake");
        let mut at = 6 * S;
        let times: Vec<u64> = (0..4)
            .map(|_| {
                let (asks, next) = querier.turn(instant(at));
                assert!(asks);
                let wait = next.as_ns() - at;
                at = next.as_ns();
                wait / 250_000_000
            })
            .collect();
        // 31.25 s, 31.25 s, 125 s, 125 s.
        assert_eq!(times, [125, 125, 500, 500]);
        assert_eq!(querier.holds_until(instant(0)), instant(260 * S));
    }

    #[test]
    fn it_leaves_asking_to_a_router_as_long_as_that_asks() {
        let mut querier = Querier::new(Span::from_ns(10 * S));
        querier.wake(instant(0));
        querier.router_asks(instant(S));
        // 2 x 10 s + 5 s / 2.
        let asks = [2, 12, 22, 24].map(|at| querier.turn(instant(at * S)).0);
        assert_eq!(asks, [false, false, false, true]);
    }

    #[test]
    fn none_is_wanted() {
        let mut querier = Querier::new(Span::ZERO);
        assert_eq!(querier.wake(instant(0)), None);
        assert_eq!(querier.holds_until(instant(5)), Instant::NEVER);
    }

    #[test]
    fn queries_are_those_of_a_switch() {
        let querier = Querier::new(Span::from_ns(125 * S));
        let igmp = querier.igmp();
        assert_eq!(read(&igmp), Some(Message::Query { from_router: false }));
        // The checksum over data that includes its own checksum is 0.
        assert_eq!((checksum(&[&igmp[14..38]]), checksum(&[&igmp[38..]])), (0, 0));
        let mld = querier.mld();
        assert!(matches!(read(&mld), Some(Message::Query { .. })));
        assert_eq!(mld.len(), 14 + 40 + 8 + 28);
        let length = 28_u32.to_be_bytes();
        assert_eq!(checksum(&[&mld[22..54], &length, &[0, 0, 0, 58], &mld[62..]]), 0);
        assert_eq!(querier.code(), 125);
        // 31,744 s are 31 x 2^10, the maximum; 200 s are 25 x 2^3.
        assert_eq!(Querier::new(Span::from_ns(200 * S)).code(), 0x89);
        assert_eq!(Querier::new(Span::from_ns(u64::MAX)).code(), 0xff);
    }
}
