//! TCP sequence analysis: whether a segment is new, a retransmission, out of order or a
//! duplicate acknowledgement, and the round-trip time that its acknowledgement ends.
//!
//! The rules are those of Wireshark's TCP analysis (User's Guide, section 7.5), version
//! 4.0; results are the same per segment. `docs/decisions/0022` says why, `docs/analyze.md`
//! lists differences. As in Wireshark, a number of 0 means "not seen yet".

use crate::dissect::{Tcp, WindowScale};
use crate::marks::{Mark, Marks};

/// The results for one segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub marks: Marks,
    /// From the acknowledged segment to this one, in ns. Negative if the capture's
    /// timestamps of the two are in the wrong order.
    pub rtt: Option<i64>,
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Side {
    /// The number before the first byte: that of the SYN, or an estimate without one.
    base: Option<u32>,
    /// The number after the highest byte seen, and the time of that byte.
    next: u32,
    next_at: u64,
    /// The end of the data seen without a gap. An acknowledgement beyond it means that a
    /// segment is missing from the capture.
    whole: u32,
    /// From its last segment: acknowledgement number, time, window, results.
    last_ack: u32,
    last_ack_at: u64,
    window: Option<u16>,
    last_marks: Marks,
    scale: Scale,
    /// Whether its last window was in a SYN, where it is never scaled (RFC 7323, section
    /// 2.2).
    window_of_syn: bool,
    duplicate_acks: u32,
    unacked: Vec<Unacked>,
}

/// The known window scale of a side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Scale {
    #[default]
    Unknown,
    /// One of the two SYNs has no window scale option.
    Unused,
    Shift(u8),
}

#[derive(Debug, Clone, Copy)]
struct Unacked {
    next: u32,
    at: u64,
}

/// The maximum number of stored unacknowledged segments per direction, as in Wireshark.
const MAX_UNACKED: usize = 10_000;
/// The maximum time between a duplicate acknowledgement and a fast retransmission, in ns;
/// Wireshark's limit.
const FAST_NS: u64 = 20_000_000;
/// The maximum time between an out-of-order segment and those that overtook it, in ns, if
/// the round-trip time is unknown; Wireshark's limit.
const REORDERED_NS: u64 = 3_000_000;
/// Replaces the number of duplicate acknowledgements after an acknowledgement of bytes that
/// are not in the capture. Wireshark sets -1 and compares it as unsigned, so that it counts
/// as many.
const AFTER_LOST_ACK: u32 = u32::MAX;

/// Both directions of a connection.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    sides: [Side; 2],
    /// Whether its ports had another connection; the first SYN gets this mark.
    reused: bool,
    syn_at: Option<u64>,
    /// From the last SYN to the first acknowledgement without SYN, in ns; 0 if unknown.
    first_rtt: u64,
}

/// Whether number `a` comes after `b` (RFC 9293, section 3.4).
fn after(a: u32, b: u32) -> bool {
    (b.wrapping_sub(a) as i32) < 0
}

impl Connection {
    /// A connection on ports that had another one.
    pub(crate) fn on_reused_ports() -> Self {
        Self { reused: true, ..Self::default() }
    }

    /// Whether `tcp` from side `from` opens another connection on the same ports.
    pub(crate) fn is_another(&self, from: usize, tcp: &Tcp) -> bool {
        let base = self.sides[from].base;
        tcp.syn && !tcp.ack && base.is_some_and(|base| base != tcp.sequence)
    }

    /// Analyses a segment with `length` bytes from side `from` (0 or 1) at `at`, in ns.
    /// With `spare`, it is stored until it is acknowledged.
    pub(crate) fn take(
        &mut self,
        from: usize,
        tcp: &Tcp,
        length: u32,
        at: u64,
        spare: bool,
    ) -> Verdict {
        let mut marks = Marks::default();
        marks.add_if(std::mem::take(&mut self.reused), Mark::ReusedPorts);
        let reordered = if self.first_rtt > 0 { self.first_rtt } else { REORDERED_NS };
        let [a, b] = &mut self.sides;
        let (own, other) = if from == 0 { (a, b) } else { (b, a) };
        own.begin(tcp, &mut marks);
        if tcp.ack {
            other.base.get_or_insert(tcp.acknowledgement.wrapping_sub(1));
        }
        let segment = Segment { tcp, length, at, flags: tcp.syn || tcp.fin };
        segment.classify(own, other, reordered, &mut marks);
        segment.remember(own, marks, spare);
        let rtt = segment.acknowledge(other);
        if tcp.syn {
            own.learn_scale(tcp, other);
        }
        self.time_handshake(tcp, at);
        Verdict { marks, rtt }
    }

    /// Any first acknowledgement counts as the third segment of the handshake, as in
    /// Wireshark.
    fn time_handshake(&mut self, tcp: &Tcp, at: u64) {
        match (tcp.syn, tcp.ack, self.syn_at) {
            (true, false, _) => self.syn_at = Some(at),
            (false, true, Some(syn)) if self.first_rtt == 0 => {
                self.first_rtt = at.wrapping_sub(syn)
            }
            _ => {}
        }
    }

    /// The number of stored segments.
    pub(crate) fn remembered(&self) -> usize {
        self.sides.iter().map(|side| side.unacked.len()).sum()
    }
}

impl Side {
    /// Records the initial sequence number.
    fn begin(&mut self, tcp: &Tcp, marks: &mut Marks) {
        match (tcp.syn, tcp.ack, self.base) {
            // A retransmitted SYN. An RST may have moved `next` (RFC 9293, section
            // 3.10.7.1).
            (true, false, Some(base)) if base == tcp.sequence => self.next = self.whole,
            (true, true, Some(base)) if base != tcp.sequence => {
                self.base = Some(tcp.sequence);
                marks.add(Mark::ReusedPorts);
            }
            (syn, _, None) => self.base = Some(tcp.sequence.wrapping_sub(u32::from(!syn))),
            _ => {}
        }
    }

    /// Records the window scale of a SYN. It is used only if both SYNs have one (RFC 7323,
    /// section 2.2).
    fn learn_scale(&mut self, tcp: &Tcp, other: &mut Self) {
        self.window_of_syn = true;
        match tcp.scale {
            WindowScale::Cut => return,
            WindowScale::Shift(shift) => self.scale = Scale::Shift(shift),
            WindowScale::Absent => {}
        }
        if self.scale == Scale::Unknown {
            (self.scale, other.scale) = (Scale::Unused, Scale::Unused);
        } else if tcp.ack && other.scale == Scale::Unused {
            self.scale = Scale::Unused;
        }
    }

    /// The number after the last byte that the other side may send, if known.
    fn window_end(&self) -> Option<u32> {
        let shift = match self.scale {
            Scale::Unknown => return None,
            Scale::Shift(shift) if !self.window_of_syn => shift,
            Scale::Shift(_) | Scale::Unused => 0,
        };
        Some(self.last_ack.wrapping_add(u32::from(self.window?) << shift))
    }
}

struct Segment<'a> {
    tcp: &'a Tcp,
    length: u32,
    at: u64,
    /// Whether SYN or FIN is set; each takes one sequence number.
    flags: bool,
}

impl Segment<'_> {
    fn classify(&self, own: &mut Side, other: &mut Side, reordered: u64, marks: &mut Marks) {
        let tcp = self.tcp;
        if self.length == 1 && tcp.sequence == own.next && other.window == Some(0) {
            marks.add(Mark::ZeroWindowProbe);
        } else {
            self.windows(own, other, marks);
            self.acknowledgements(own, other, marks);
        }
        if tcp.acknowledgement != own.last_ack {
            own.duplicate_acks = 0;
        }
        self.lost_acknowledged(other, marks);
        if (self.length > 0 || self.flags) && !marks.has(Mark::KeepAlive) {
            self.repeated(own, other, reordered, marks);
        }
    }

    /// Whether neither SYN, FIN nor RST is set.
    fn is_plain(&self) -> bool {
        !(self.flags || self.tcp.rst)
    }

    /// Checks for a missing segment before it, and for window events.
    fn windows(&self, own: &Side, other: &Side, marks: &mut Marks) {
        let &Tcp { sequence, acknowledgement, window, rst, .. } = self.tcp;
        let plain = self.is_plain();
        marks.add_if(plain && window == 0, Mark::ZeroWindow);
        marks.add_if(!rst && own.next != 0 && after(sequence, own.next), Mark::LostSegment);
        let before = sequence == own.next.wrapping_sub(1);
        marks.add_if(plain && self.length <= 1 && before, Mark::KeepAlive);
        let same = self.length == 0 && sequence == own.next && acknowledgement == own.last_ack;
        let changed = window != 0 && own.window != Some(window);
        marks.add_if(plain && same && changed, Mark::WindowUpdate);
        let end = Some(sequence.wrapping_add(self.length));
        marks.add_if(plain && self.length > 0 && other.window_end() == end, Mark::WindowFull);
    }

    /// Checks whether it repeats the last segment of its side.
    fn acknowledgements(&self, own: &mut Side, other: &Side, marks: &mut Marks) {
        let &Tcp { sequence, acknowledgement, window, .. } = self.tcp;
        let same = self.length == 0 && sequence == own.next && acknowledgement == own.last_ack;
        if !same || !self.is_plain() || own.window != Some(window) {
            return;
        }
        if window == 0 {
            let answer = other.last_marks.has(Mark::ZeroWindowProbe);
            marks.add_if(answer, Mark::ZeroWindowProbeAck);
        } else if other.last_marks.has(Mark::KeepAlive) {
            marks.add(Mark::KeepAliveAck);
        } else {
            own.duplicate_acks = match own.duplicate_acks {
                AFTER_LOST_ACK => 1,
                count => count + 1,
            };
            marks.add(Mark::DuplicateAck);
        }
    }

    /// Checks whether it acknowledges bytes that are not in the capture. The same missing
    /// bytes are marked once, unless the other side's acknowledgements advance.
    fn lost_acknowledged(&self, other: &mut Side, marks: &mut Marks) {
        if !self.tcp.ack || other.whole == 0 || !after(self.tcp.acknowledgement, other.whole) {
            return;
        }
        if after(other.next, other.whole) {
            other.whole = other.next;
            marks.add(Mark::AckLostSegment);
        } else {
            marks.add_if(other.duplicate_acks == 0, Mark::AckLostSegment);
            other.duplicate_acks = AFTER_LOST_ACK;
        }
    }

    /// Checks whether its data was sent before, and classifies the repetition.
    fn repeated(&self, own: &Side, other: &Side, reordered: u64, marks: &mut Marks) {
        let sequence = self.tcp.sequence;
        let end = sequence.wrapping_add(self.length);
        if self.length > 0 && other.last_ack != 0 && !after(end, other.last_ack) {
            marks.add(Mark::Retransmission);
            return marks.add(Mark::SpuriousRetransmission);
        }
        // A segment after a one-byte probe repeats that byte and still counts as new.
        let probed = self.length > 1 && own.next.wrapping_sub(1) == sequence;
        if own.next == 0 || !after(own.next, sequence) || probed {
            return;
        }
        // With wrong timestamps in the capture it may precede the acknowledgement: then it
        // is not soon after it.
        let since_ack = self.at.wrapping_sub(other.last_ack_at);
        let asked_for = other.duplicate_acks >= 2 && other.last_ack == sequence;
        if asked_for && since_ack < FAST_NS {
            marks.add(Mark::Retransmission);
            return marks.add(Mark::FastRetransmission);
        }
        let since_next = self.at.wrapping_sub(own.next_at);
        let last = own.next == end.wrapping_add(u32::from(self.flags));
        let overtaken = since_next < reordered && !last;
        marks.add(if overtaken { Mark::OutOfOrder } else { Mark::Retransmission });
    }

    fn remember(&self, own: &mut Side, marks: Marks, spare: bool) {
        let &Tcp { sequence, acknowledgement, window, syn, ack, .. } = self.tcp;
        let mut next = sequence.wrapping_add(self.length);
        if (self.length > 0 || self.flags) && own.unacked.len() < MAX_UNACKED {
            next = next.wrapping_add(u32::from(self.flags));
            if spare {
                own.unacked.push(Unacked { next, at: self.at });
            }
        }
        if !marks.has(Mark::ZeroWindowProbe) {
            if own.next == 0 || after(next, own.next) {
                (own.next, own.next_at) = (next, self.at);
            }
            if own.whole == 0 || sequence == own.whole {
                own.whole = own.next;
            }
        }
        (own.last_ack, own.last_ack_at) = (acknowledgement, self.at);
        (own.window, own.last_marks) = (Some(window), marks);
        own.window_of_syn &= syn || !ack;
    }

    /// Drops the segments that this one acknowledges. Returns the time since the segment
    /// that ends at the acknowledged number was first sent. The field is used even without
    /// the ACK flag: Wireshark treats a repeated SYN as an acknowledgement.
    fn acknowledge(&self, other: &mut Side) -> Option<i64> {
        let ack = self.tcp.acknowledgement;
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
            scale: WindowScale::Shift(0),
        }
    }

    /// Names of the results.
    fn names(verdict: Verdict) -> Vec<&'static str> {
        Mark::ALL
            .into_iter()
            .filter(|(mark, _)| verdict.marks.has(*mark))
            .map(|(_, name)| name)
            .collect()
    }

    /// A connection with a handshake of 10 ms, and 100 bytes sent at 20 ms.
    fn open() -> Connection {
        let mut connection = Connection::default();
        connection.take(0, &segment(99, 0, "S"), 0, 0, true);
        let verdict = connection.take(1, &segment(499, 100, "SA"), 0, 9 * MS, true);
        assert_eq!(verdict.rtt, Some(9 * MS as i64));
        connection.take(0, &segment(100, 500, "A"), 0, 10 * MS, true);
        let verdict = connection.take(0, &segment(100, 500, "A"), 100, 20 * MS, true);
        assert_eq!(verdict, Verdict::default());
        connection
    }

    #[test]
    fn acknowledged_from_the_first_time_it_was_sent() {
        let mut connection = open();
        let again = connection.take(0, &segment(100, 500, "A"), 100, 250 * MS, true);
        assert_eq!(names(again), ["retransmission"]);
        let verdict = connection.take(1, &segment(500, 200, "A"), 0, 260 * MS, true);
        assert_eq!(verdict.rtt, Some(240 * MS as i64));
        assert_eq!(connection.remembered(), 0);
        let spurious = connection.take(0, &segment(100, 500, "A"), 100, 270 * MS, true);
        assert_eq!(names(spurious), ["retransmission", "spurious_retransmission"]);
    }

    #[test]
    fn duplicate_acknowledgements_make_a_retransmission_fast() {
        let mut connection = open();
        let gap = connection.take(0, &segment(300, 500, "A"), 100, 21 * MS, true);
        assert_eq!(names(gap), ["lost_segment"]);
        let first = connection.take(1, &segment(500, 200, "A"), 0, 30 * MS, true);
        assert_eq!(names(first), [""; 0]);
        for at in [31, 32] {
            let again = connection.take(1, &segment(500, 200, "A"), 0, at * MS, true);
            assert_eq!(names(again), ["duplicate_ack"]);
        }
        let fast = connection.take(0, &segment(200, 500, "A"), 100, 33 * MS, true);
        assert_eq!(names(fast), ["retransmission", "fast_retransmission"]);
    }

    #[test]
    fn what_comes_soon_after_those_that_overtook_it_is_out_of_order() {
        let mut connection = open();
        connection.take(0, &segment(300, 500, "A"), 100, 21 * MS, true);
        let late = connection.take(0, &segment(200, 500, "A"), 100, 25 * MS, true);
        assert_eq!(names(late), ["out_of_order"]);
        let keep_alive = connection.take(0, &segment(399, 500, "A"), 0, 90 * MS, true);
        assert_eq!(names(keep_alive), ["keep_alive"]);
    }

    #[test]
    fn bytes_that_were_not_captured_are_acknowledged_once() {
        let mut connection = open();
        let unseen = connection.take(1, &segment(500, 400, "A"), 0, 30 * MS, true);
        assert_eq!(names(unseen), ["ack_lost_segment"]);
        // More of the same, while the side with the missing bytes sends nothing.
        let more = connection.take(1, &segment(500, 600, "A"), 0, 31 * MS, true);
        assert_eq!(names(more), [""; 0]);
        // A segment that then fills a gap counts as a fast retransmission, as in Wireshark
        // 4.0.
        connection.take(1, &segment(500, 600, "A"), 100, 40 * MS, true);
        connection.take(0, &segment(200, 500, "A"), 0, 45 * MS, true);
        let fast = connection.take(1, &segment(500, 600, "A"), 50, 46 * MS, true);
        assert_eq!(names(fast), ["retransmission", "fast_retransmission"]);
    }

    #[test]
    fn windows_that_close_fill_and_open() {
        let mut connection = open();
        let with = |window: u16| Tcp { window, ..segment(500, 200, "A") };
        connection.take(1, &with(600), 0, 21 * MS, true);
        let full = connection.take(0, &segment(200, 500, "A"), 600, 22 * MS, true);
        assert_eq!(names(full), ["window_full"]);
        let zero = Tcp { acknowledgement: 800, ..with(0) };
        assert_eq!(names(connection.take(1, &zero, 0, 23 * MS, true)), ["zero_window"]);
        let probe = connection.take(0, &segment(800, 500, "A"), 1, 300 * MS, true);
        assert_eq!(names(probe), ["zero_window_probe"]);
        let answer = connection.take(1, &zero, 0, 301 * MS, true);
        assert_eq!(names(answer), ["zero_window", "zero_window_probe_ack"]);
        let open = Tcp { window: 900, ..zero };
        assert_eq!(names(connection.take(1, &open, 0, 400 * MS, true)), ["window_update"]);
    }

    #[test]
    fn a_syn_with_another_number_begins_another_connection() {
        let connection = open();
        assert!(!connection.is_another(0, &segment(99, 0, "S")));
        assert!(connection.is_another(0, &segment(9_999, 0, "S")));
        let mut another = Connection::on_reused_ports();
        let verdict = another.take(0, &segment(9_999, 0, "S"), 0, 500 * MS, true);
        assert_eq!(names(verdict), ["reused_ports"]);
        let verdict = another.take(0, &segment(10_000, 1, "A"), 0, 501 * MS, true);
        assert_eq!(names(verdict), [""; 0]);
    }
}
