//! Counting of frames that end outside of the pipe.

use super::LinkPipe;
use crate::step::Cause;
use units::Span;

impl LinkPipe {
    /// Counts a delivered frame and its lateness.
    pub fn released(&mut self, late: Span) {
        self.record.totals.released += 1;
        self.record.totals.late_sum += late;
    }

    /// Counts a received frame that does not belong to this link.
    pub fn rejected(&mut self) {
        self.record.totals.rejected += 1;
    }

    /// Counts a frame dropped on the channel behind this direction.
    pub fn stopped(&mut self, cause: Cause) {
        match cause {
            Cause::Lost => self.record.totals.lost += 1,
            Cause::Overflow => self.record.totals.overflow += 1,
            Cause::Outage => self.record.totals.outage += 1,
            Cause::WeakSignal => self.record.totals.weak_signal += 1,
            Cause::NoAccess => {
                self.record.totals.denied += 1;
                self.record.totals.no_access += 1;
            }
            Cause::NoDemodulator => {
                self.record.totals.denied += 1;
                self.record.totals.no_demodulator += 1;
            }
            Cause::HalfDuplex => {
                self.record.totals.denied += 1;
                self.record.totals.half_duplex += 1;
            }
            _ => self.record.totals.denied += 1,
        }
    }

    /// Counts a frame of `len` bytes for several nodes that did not reach this one.
    pub fn missed(&mut self, len: usize, cause: Cause) {
        self.record.totals.frames += 1;
        self.record.totals.bytes += len as u64;
        self.stopped(cause);
    }
}
