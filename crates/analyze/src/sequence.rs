//! What a segment of TCP is in its connection: new, sent again, out of order, a
//! repeated acknowledgement; and how long the acknowledgement took.
//!
//! The rules are those of Wireshark's analysis of sequence numbers (its user's
//! guide, section 7.5) as its version 4.0 keeps them, so that both say the same of
//! a segment: numbers are relative to the first, and 0 stands for "not seen yet".

use crate::dissect::Tcp;

/// What is said of one segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Sent again, for whatever reason.
    pub again: bool,
    /// Sent again at once, because acknowledgements repeated themselves.
    pub fast: bool,
    /// Sent again though it had been acknowledged.
    pub spurious: bool,
    pub out_of_order: bool,
    pub duplicate_ack: bool,
    /// Something before it is not in the capture.
    pub gap_before: bool,
    /// It acknowledges what is not in the capture.
    pub acks_unseen: bool,
    pub keep_alive: bool,
    pub zero_window: bool,
    /// From the segment that it acknowledges to it, in ns. Below 0 where the
    /// capture has stamped the two in the wrong order.
    pub rtt: Option<i64>,
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(crate) struct Side {
    base: Option<u32>,
    next: u32,
    next_at: u64,
    to_be_acked: u32,
    last_ack: u32,
    last_ack_at: u64,
    window: u16,
    duplicate_acks: u32,
    kept_alive: bool,
    probed: bool,
    unacked: Vec<Unacked>,
    syn_at: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Unacked {
    next: u32,
    at: u64,
}

/// Segments of one direction that may wait to be acknowledged; more are not kept.
const UNACKED: usize = 10_000;
/// How soon after a repeated acknowledgement a segment is sent again because of it.
const FAST_NS: u64 = 20_000_000;
/// How close a segment follows those that overtook it, where the round trip is not known.
const REORDERED_NS: u64 = 3_000_000;

/// Both directions of a connection.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    sides: [Side; 2],
    /// From the SYN to the end of the handshake, in ns.
    first_rtt: Option<u64>,
}

fn after(a: u32, b: u32) -> bool {
    (b.wrapping_sub(a) as i32) < 0
}

impl Connection {
    /// Whether `tcp` from side `from` begins another connection on the same ports.
    pub(crate) fn is_another(&self, from: usize, tcp: &Tcp) -> bool {
        let base = self.sides[from].base;
        tcp.syn && !tcp.ack && base.is_some_and(|base| base != tcp.sequence)
    }

    /// Takes a segment with `length` bytes from side `from` (0 or 1) at `at`, in ns.
    /// With `spare` it is remembered until it is acknowledged.
    pub(crate) fn take(
        &mut self,
        from: usize,
        tcp: &Tcp,
        length: u32,
        at: u64,
        spare: bool,
    ) -> Verdict {
        let first_rtt = self.first_rtt;
        let [a, b] = &mut self.sides;
        let (own, other) = if from == 0 { (a, b) } else { (b, a) };
        let sequence = own.relative(tcp);
        let field = other.acknowledged(tcp);
        let ack = if tcp.ack { field } else { 0 };
        if tcp.syn {
            own.syn_at = Some(at);
        }
        let segment = Segment { sequence, ack, length, at };
        let mut said = segment.judge(own, other, tcp, first_rtt);
        segment.remember(own, tcp, spare);
        // Of a segment without ACK, too: Wireshark takes a SYN that comes again for an
        // acknowledgement of whatever its field says.
        said.rtt = segment.acknowledge(field, other);
        // The handshake's third segment.
        let third = tcp.ack && !tcp.syn && sequence == 1 && ack == 1;
        if first_rtt.is_none()
            && third
            && let (Some(syn), Some(_)) = (own.syn_at, other.syn_at)
        {
            self.first_rtt = Some(at.saturating_sub(syn));
        }
        said
    }

    /// Segments that are remembered.
    pub(crate) fn remembered(&self) -> usize {
        self.sides.iter().map(|side| side.unacked.len()).sum()
    }
}

impl Side {
    /// The segment's number from the connection's first, which is 0 for a SYN and
    /// 1 where the SYN was not seen.
    fn relative(&mut self, tcp: &Tcp) -> u32 {
        let guess = if tcp.syn { tcp.sequence } else { tcp.sequence.wrapping_sub(1) };
        tcp.sequence.wrapping_sub(*self.base.get_or_insert(guess))
    }

    /// The same of what the other side acknowledges of this one.
    fn acknowledged(&mut self, tcp: &Tcp) -> u32 {
        if tcp.ack {
            self.base.get_or_insert(tcp.acknowledgement.wrapping_sub(1));
        }
        tcp.acknowledgement.wrapping_sub(self.base.unwrap_or(0))
    }
}

/// A segment in numbers relative to its connection's first.
struct Segment {
    sequence: u32,
    ack: u32,
    length: u32,
    at: u64,
}

impl Segment {
    fn judge(&self, own: &mut Side, other: &mut Side, tcp: &Tcp, rtt: Option<u64>) -> Verdict {
        let mut said = Verdict::default();
        let &Self { sequence, ack, length, .. } = self;
        let plain = !(tcp.syn || tcp.fin || tcp.rst);
        let probe = length == 1 && sequence == own.next && other.window == 0;
        if probe {
            own.probed = true;
        } else {
            said.zero_window = tcp.window == 0 && plain;
            said.gap_before = own.next != 0 && after(sequence, own.next) && !tcp.rst;
            said.keep_alive = length <= 1 && sequence == own.next.wrapping_sub(1) && plain;
            self.acknowledgements(own, other, tcp, plain, &mut said);
        }
        if ack != own.last_ack {
            own.duplicate_acks = 0;
        }
        if tcp.ack && other.to_be_acked != 0 && after(ack, other.to_be_acked) {
            said.acks_unseen = true;
            other.to_be_acked = other.next;
        }
        if (length > 0 || tcp.syn || tcp.fin) && !said.keep_alive {
            self.repeated(own, other, tcp, rtt, &mut said);
        }
        own.kept_alive = said.keep_alive;
        if !probe {
            own.probed = false;
        }
        said
    }

    /// Whether it says again what was said, and whether it was made to.
    fn acknowledgements(
        &self,
        own: &mut Side,
        other: &mut Side,
        tcp: &Tcp,
        plain: bool,
        said: &mut Verdict,
    ) {
        let same = self.length == 0 && tcp.window == own.window && self.sequence == own.next;
        let known = self.ack == own.last_ack;
        if !same || !plain {
            return;
        }
        if tcp.window == 0 {
            if other.probed && self.ack == own.last_ack.wrapping_add(1) {
                other.next = self.ack;
                other.to_be_acked = self.ack;
            }
        } else if known && !other.kept_alive {
            own.duplicate_acks += 1;
            said.duplicate_ack = true;
        }
    }

    /// Whether what it carries was sent before, and why it comes again.
    fn repeated(&self, own: &Side, other: &Side, tcp: &Tcp, rtt: Option<u64>, said: &mut Verdict) {
        let end = self.sequence.wrapping_add(self.length);
        if self.length > 0 && other.last_ack != 0 && !after(end, other.last_ack) {
            (said.again, said.spurious) = (true, true);
            return;
        }
        let behind = own.next != 0 && after(own.next, self.sequence);
        // What follows a probe of one byte repeats that byte and is new all the same.
        if !behind || (self.length > 1 && own.next.wrapping_sub(1) == self.sequence) {
            return;
        }
        // Before it, by a capture's wrong stamps, is not shortly after it.
        let since_ack = self.at.wrapping_sub(other.last_ack_at);
        let asked_for = other.duplicate_acks >= 2 && other.last_ack == self.sequence;
        if asked_for && since_ack < FAST_NS {
            (said.again, said.fast) = (true, true);
            return;
        }
        let length = self.length + u32::from(tcp.syn || tcp.fin);
        let since_next = self.at.wrapping_sub(own.next_at);
        let close = since_next < rtt.filter(|rtt| *rtt > 0).unwrap_or(REORDERED_NS);
        if close && own.next != self.sequence.wrapping_add(length) {
            said.out_of_order = true;
        } else {
            said.again = true;
        }
    }

    fn remember(&self, own: &mut Side, tcp: &Tcp, spare: bool) {
        let flags = u32::from(tcp.syn || tcp.fin);
        let next = self.sequence.wrapping_add(self.length).wrapping_add(flags);
        if self.length + flags > 0 && spare && own.unacked.len() < UNACKED {
            own.unacked.push(Unacked { next, at: self.at });
        }
        if !own.probed {
            if own.next == 0 || after(next, own.next) {
                own.next = next;
                own.next_at = self.at;
            }
            if own.to_be_acked == 0 || self.sequence == own.to_be_acked {
                own.to_be_acked = own.next;
            }
        }
        own.window = tcp.window;
        own.last_ack = self.ack;
        own.last_ack_at = self.at;
    }

    /// Forgets what this acknowledges; how long ago the segment that it ends with
    /// was sent, the first time if it was sent more than once.
    fn acknowledge(&self, ack: u32, other: &mut Side) -> Option<i64> {
        let mut rtt = None;
        other.unacked.retain(|old| {
            if ack == old.next {
                rtt = rtt.or(Some(self.at.wrapping_sub(old.at) as i64));
            }
            after(old.next, ack)
        });
        rtt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn segment(sequence: u32, acknowledgement: u32, flags: &str) -> Tcp {
        Tcp {
            ports: [1, 2],
            sequence,
            acknowledgement,
            window: 500,
            syn: flags.contains('S'),
            ack: flags.contains('A'),
            fin: flags.contains('F'),
            rst: flags.contains('R'),
        }
    }

    /// A connection of which the handshake took 10 ms, and 100 bytes were sent at 20 ms.
    fn open() -> Connection {
        let mut connection = Connection::default();
        connection.take(0, &segment(99, 0, "S"), 0, 0, true);
        let said = connection.take(1, &segment(499, 100, "SA"), 0, 9 * MS, true);
        assert_eq!(said.rtt, Some(9 * MS as i64));
        connection.take(0, &segment(100, 500, "A"), 0, 10 * MS, true);
        let said = connection.take(0, &segment(100, 500, "A"), 100, 20 * MS, true);
        assert_eq!(said, Verdict::default());
        connection
    }

    #[test]
    fn acknowledged_from_the_first_time_it_was_sent() {
        let mut connection = open();
        let again = connection.take(0, &segment(100, 500, "A"), 100, 250 * MS, true);
        assert!(again.again && !again.fast && !again.out_of_order);
        let said = connection.take(1, &segment(500, 200, "A"), 0, 260 * MS, true);
        assert_eq!(said.rtt, Some(240 * MS as i64));
        assert_eq!(connection.remembered(), 0);
        let spurious = connection.take(0, &segment(100, 500, "A"), 100, 270 * MS, true);
        assert!(spurious.again && spurious.spurious);
    }

    #[test]
    fn repeated_acknowledgements_have_it_sent_again_at_once() {
        let mut connection = open();
        let gap = connection.take(0, &segment(300, 500, "A"), 100, 21 * MS, true);
        assert!(gap.gap_before);
        let first = connection.take(1, &segment(500, 200, "A"), 0, 30 * MS, true);
        assert!(!first.duplicate_ack);
        for at in [31, 32] {
            let again = connection.take(1, &segment(500, 200, "A"), 0, at * MS, true);
            assert!(again.duplicate_ack);
        }
        let fast = connection.take(0, &segment(200, 500, "A"), 100, 33 * MS, true);
        assert!(fast.again && fast.fast);
    }

    #[test]
    fn what_comes_soon_after_those_that_overtook_it_is_out_of_order() {
        let mut connection = open();
        connection.take(0, &segment(300, 500, "A"), 100, 21 * MS, true);
        let late = connection.take(0, &segment(200, 500, "A"), 100, 25 * MS, true);
        assert!(late.out_of_order && !late.again);
        let keep_alive = connection.take(0, &segment(399, 500, "A"), 0, 90 * MS, true);
        assert!(keep_alive.keep_alive);
    }

    #[test]
    fn a_syn_with_another_number_begins_another_connection() {
        let connection = open();
        assert!(!connection.is_another(0, &segment(99, 0, "S")));
        assert!(connection.is_another(0, &segment(9_999, 0, "S")));
    }
}
