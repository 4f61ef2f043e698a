//! The results of TCP analysis per segment, as Wireshark's `tcp.analysis.*`.

/// A result for a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Retransmitted, for any reason.
    Retransmission,
    /// Retransmitted soon after duplicate acknowledgements.
    FastRetransmission,
    /// Retransmitted after its acknowledgement.
    SpuriousRetransmission,
    /// It arrived after later segments.
    OutOfOrder,
    DuplicateAck,
    /// The segment before it is not in the capture.
    LostSegment,
    /// It acknowledges bytes that are not in the capture.
    AckLostSegment,
    KeepAlive,
    KeepAliveAck,
    /// It announces a receive window of 0.
    ZeroWindow,
    /// A probe of a zero window, with one byte.
    ZeroWindowProbe,
    ZeroWindowProbeAck,
    /// It changes the window and nothing else.
    WindowUpdate,
    /// It fills the window of the other side to its end.
    WindowFull,
    /// Its SYN opens a new connection on ports in use before.
    ReusedPorts,
}

/// The number of results.
const COUNT: usize = 15;

impl Mark {
    #[cfg(test)]
    pub(crate) const ALL: [(Self, &'static str); COUNT] = [
        (Self::Retransmission, "retransmission"),
        (Self::FastRetransmission, "fast_retransmission"),
        (Self::SpuriousRetransmission, "spurious_retransmission"),
        (Self::OutOfOrder, "out_of_order"),
        (Self::DuplicateAck, "duplicate_ack"),
        (Self::LostSegment, "lost_segment"),
        (Self::AckLostSegment, "ack_lost_segment"),
        (Self::KeepAlive, "keep_alive"),
        (Self::KeepAliveAck, "keep_alive_ack"),
        (Self::ZeroWindow, "zero_window"),
        (Self::ZeroWindowProbe, "zero_window_probe"),
        (Self::ZeroWindowProbeAck, "zero_window_probe_ack"),
        (Self::WindowUpdate, "window_update"),
        (Self::WindowFull, "window_full"),
        (Self::ReusedPorts, "reused_ports"),
    ];
}

/// The results for one segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Marks(u16);

impl Marks {
    pub(crate) fn add(&mut self, mark: Mark) {
        self.0 |= 1 << mark as u16;
    }

    /// Adds `mark` if it applies.
    pub(crate) fn add_if(&mut self, applies: bool, mark: Mark) {
        self.0 |= u16::from(applies) << mark as u16;
    }

    pub(crate) fn has(self, mark: Mark) -> bool {
        self.0 & (1 << mark as u16) != 0
    }
}

/// The number of segments with each result.
#[derive(Debug, Clone, Default)]
pub(crate) struct MarkCounts([u64; COUNT]);

impl MarkCounts {
    pub(crate) fn note(&mut self, marks: Marks) {
        for (place, count) in self.0.iter_mut().enumerate() {
            *count += u64::from(marks.0 >> place & 1);
        }
    }

    pub(crate) fn of(&self, mark: Mark) -> u64 {
        self.0[mark as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_judgement_is_counted_for_itself() {
        for (place, (mark, name)) in Mark::ALL.into_iter().enumerate() {
            assert_eq!(mark as usize, place, "{name}");
            let (mut marks, mut counts) = (Marks::default(), MarkCounts::default());
            marks.add(mark);
            marks.add_if(false, Mark::ALL[(place + 1) % COUNT].0);
            counts.note(marks);
            for (other, _) in Mark::ALL {
                assert_eq!(
                    (marks.has(other), counts.of(other)),
                    (other == mark, u64::from(other == mark))
                );
            }
        }
    }
}
