//! A frame on its way through a shared medium.

use crate::channel::Heard;
use crate::csma::{Attempt, Ending};
use crate::step::{Cause, TransitFrame};

/// A frame that contends, or waits for that.
#[derive(Debug, Clone)]
pub struct Outgoing {
    pub frame: TransitFrame,
    /// Link of its receiver; `None`: several, or unknown.
    pub to: Option<usize>,
    /// Bytes of its parts on the air, which contend one after the other.
    pub parts: Vec<usize>,
    /// The part that contends.
    pub part: usize,
    /// Whether the receiver acknowledges the parts.
    pub is_acknowledged: bool,
    /// Whether the signal of the last transmission was too weak at all receivers.
    pub was_weak: bool,
    /// Where the parts so far arrived, if not all stations hear each other.
    pub heard: Option<Heard>,
    /// Why a part arrived at no receiver; the others are useless then.
    pub missed: Option<Cause>,
    /// Whether the last part, and so all, arrived.
    pub has_left: bool,
}

impl Outgoing {
    /// A frame of which no part was sent.
    pub fn new(frame: TransitFrame, to: Option<usize>, parts: Vec<usize>) -> Self {
        Self {
            frame,
            to,
            parts,
            part: 0,
            is_acknowledged: false,
            was_weak: false,
            heard: None,
            missed: None,
            has_left: false,
        }
    }

    /// Bytes of the part that contends.
    pub fn len(&self) -> usize {
        self.parts.get(self.part).copied().unwrap_or_default()
    }

    /// Number of the transmission, which its random numbers belong to. The lowest bits have the
    /// attempt, at most 7, those above the part: a packet of 1,280 B has at most 14.
    pub fn place(&self, attempt: u32) -> u64 {
        self.frame.place << 8 | (self.part as u64 & 15) << 3 | u64::from(attempt)
    }

    /// The part arrived, at the stations of `heard` if not all hear each other. Returns whether the
    /// whole packet has arrived anywhere.
    pub fn arrived(&mut self, heard: Option<Heard>) -> bool {
        if let Some(now) = heard {
            match &mut self.heard {
                // A receiver needs all parts.
                Some(all) => {
                    all.received.retain(|station| now.received.contains(station));
                    all.collided.extend(now.collided);
                }
                None => self.heard = Some(now),
            }
            if let Some(all) = self.heard.as_ref().filter(|all| all.received.is_empty()) {
                let is_weak = all.collided.is_empty();
                let cause = if is_weak { Cause::WeakSignal } else { Cause::Denied };
                self.missed.get_or_insert(cause);
            }
        }
        let is_last = self.part + 1 == self.parts.len();
        self.has_left = is_last && self.missed.is_none();
        self.has_left
    }

    /// Goes on after the end of a part's contention. Returns whether another part contends now: not
    /// if the sender knows that one did not arrive.
    pub fn go_on(&mut self, ended: &Attempt) -> bool {
        let cause = match ended.outcome {
            Ending::Lost if self.was_weak => Cause::WeakSignal,
            Ending::Lost => Cause::Lost,
            Ending::NoAccess => Cause::NoAccess,
            Ending::Off => Cause::Outage,
            _ => Cause::Denied,
        };
        let failed = match ended.outcome {
            Ending::Sent => false,
            Ending::NoAccess | Ending::Off => true,
            Ending::Lost | Ending::Collided => self.is_acknowledged,
        };
        if failed || ended.delivered.is_none() {
            self.missed.get_or_insert(cause);
        }
        self.part += 1;
        !failed && self.part < self.parts.len()
    }
}
