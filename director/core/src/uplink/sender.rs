//! The member's end: queue by priority, deadlines, outcomes.

use super::lane::{Path, reply};
use super::{Failure, Lane, MAX_BYTES, MAX_OPEN, MessageProperties, Outcome};
use super::{LEAVE, UplinkError};
use crate::keys::{Party, Root};
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::{Instant, Span};
use alloc::collections::{BTreeMap, VecDeque};

/// Maximum number of messages that the lane has at a time: the others wait by priority.
const WINDOW: usize = 32;

/// Time without progress after which the hub may not know the keys of the lane, in addition to four
/// round trips; doubled each time.
const STALLED: Span = Span::from_s(1);
/// Maximum number of times that it is doubled.
const MAX_DOUBLED: u32 = 5;

/// Bytes of a datagram with a whole message beyond it, about: the lane's, the seal's and the frame's.
const OVERHEAD: usize = 40;

/// A message that the lane does not have yet.
struct Queued {
    kind: u8,
    bytes: Vec<u8>,
    until: Instant,
}

/// A message without an outcome that the lane has.
struct Sent {
    bytes: usize,
    until: Instant,
    /// Whether the hub has it, so that it does not count in the window.
    delivered: bool,
}

/// Messages of a member to the hub.
#[derive(Default)]
pub struct Uplink {
    last: u32,
    queue: BTreeMap<(u32, u32), Queued>,
    sent: BTreeMap<u32, Sent>,
    /// Bytes of all of them.
    bytes: usize,
    lane: Option<Lane>,
    /// Maximum size of its datagrams, in bytes.
    datagram: usize,
    outcomes: VecDeque<(u32, Outcome)>,
    /// Round-trip time of the path at the begin of the lane.
    round_trip: Span,
    /// Time at which the lane counts as stalled, while the hub has not received a message, and how
    /// often it was so without progress since.
    stalled_at: Option<Instant>,
    stalls: u32,
}

impl Uplink {
    /// Queues the message that the member leaves.
    pub fn leave(&mut self, lifetime: Span, now: Instant) -> Result<u32, UplinkError> {
        // After all others.
        self.push(
            LEAVE,
            &[],
            MessageProperties { lifetime, priority: u32::MAX, stored: false },
            now,
        )
    }

    /// Queues a message of this kind; returns its number. It is sent when the member has joined.
    pub fn push(
        &mut self,
        kind: u8,
        bytes: &[u8],
        properties: MessageProperties,
        now: Instant,
    ) -> Result<u32, UplinkError> {
        // There is one that leaves, however much is open.
        let full = self.open() >= MAX_OPEN || self.bytes + bytes.len() > MAX_BYTES;
        let full = full && kind != LEAVE;
        // Numbers are nonces: none is used twice.
        let next =
            self.last.checked_add(1).filter(|_| !full).ok_or(UplinkError::of(bytes.len()))?;
        self.last = next;
        self.bytes += bytes.len();
        let until = now + properties.lifetime;
        let queued = Queued { kind, bytes: bytes.to_vec(), until };
        self.queue.insert((properties.priority, next), queued);
        Ok(next)
    }

    /// Takes a message back that the lane does not have yet; returns whether it was there.
    pub fn unqueue(&mut self, number: u32) -> bool {
        let key = self.queue.keys().find(|(_, own)| *own == number).copied();
        let queued = key.and_then(|key| self.queue.remove(&key));
        queued.iter().for_each(|queued| self.bytes -= queued.bytes.len());
        queued.is_some()
    }

    /// Number of messages without an outcome.
    pub fn open(&self) -> usize {
        self.queue.len() + self.sent.len()
    }

    /// The member has joined with new keys. What was sent under earlier ones is with a hub that is
    /// gone, or not: it is not sent again, since it would arrive twice.
    pub fn connect(&mut self, root: &Root, member: u16, path: Path) {
        let lane = Lane::new(root, Party::Member(member), member, path);
        (self.round_trip, self.stalled_at, self.stalls) = (path.round_trip, None, 0);
        self.datagram = path.datagram;
        let mut before = self.lane.replace(lane);
        for (number, sent) in core::mem::take(&mut self.sent) {
            let begun = before.as_mut().is_none_or(|before| before.withdraw(number));
            let failed = Outcome::Failed(Failure::Unsent);
            self.bytes -= sent.bytes;
            self.outcomes.push_back((number, if begun { Outcome::Unknown } else { failed }));
        }
    }

    /// Sets the maximum size of datagrams, in bytes, for messages that the lane does not have yet.
    pub fn set_datagram(&mut self, datagram: usize) {
        self.datagram = datagram;
        self.lane.iter_mut().for_each(|lane| lane.set_datagram(datagram));
    }

    /// The longest datagram in bytes of messages that the hub has not received although it had the time; 0
    /// without any.
    pub fn stalled_datagram(&self) -> u16 {
        let waits = self.sent.values().filter(|sent| self.stalls > 0 && !sent.delivered);
        let longest = waits.map(|sent| sent.bytes + OVERHEAD).max().unwrap_or_default();
        u16::try_from(longest.min(self.datagram)).unwrap_or(u16::MAX)
    }

    /// Handles a datagram of the hub, or of someone else; returns whether it is the hub's.
    pub fn receive(&mut self, frame: &[u8], now: Instant) -> bool {
        let Some(lane) = &mut self.lane else { return false };
        let (genuine, replies) = lane.receive(frame, now);
        for (number, sent) in &mut self.sent {
            // It no longer holds up others, however long the hub's application takes.
            let delivered = !lane.has(*number);
            if delivered && !core::mem::replace(&mut sent.delivered, delivered) {
                (self.stalled_at, self.stalls) = (None, 0);
            }
        }
        for (number, plain) in replies {
            let Some((kind, body)) = plain.split_first() else { continue };
            let outcome = match *kind {
                reply::TAKEN => Outcome::Acknowledged(None),
                reply::ANSWER => Outcome::Acknowledged(Some(body.to_vec())),
                reply::REFUSED => Outcome::Failed(Failure::Refused),
                // Of a later version.
                _ => Outcome::Unknown,
            };
            self.finish(number, outcome);
        }
        genuine
    }

    fn finish(&mut self, number: u32, outcome: Outcome) {
        if let Some(sent) = self.sent.remove(&number) {
            self.bytes -= sent.bytes;
            self.outcomes.push_back((number, outcome));
        }
    }

    /// Whether the hub has not received what the lane sends, although it had the time. Once; the next
    /// time is later.
    pub fn is_stalled(&mut self, now: Instant) -> bool {
        let waits = self.sent.values().any(|sent| !sent.delivered);
        let stalled = waits && self.stalled_at.is_some_and(|at| at <= now);
        if stalled || !waits {
            self.stalled_at = None;
            self.stalls += u32::from(stalled);
        }
        if waits {
            // The path may have become slower since the invitation.
            let seen = self.lane.as_ref().and_then(Lane::response_time).unwrap_or_default();
            let trip = seen.max(self.round_trip);
            let wait = (STALLED + 4 * trip) * (1 << self.stalls.min(MAX_DOUBLED));
            self.stalled_at.get_or_insert(now + wait);
        }
        stalled
    }

    /// Ends messages whose lifetime is over.
    fn expire(&mut self, now: Instant) {
        let (bytes, outcomes) = (&mut self.bytes, &mut self.outcomes);
        self.queue.retain(|(_, number), queued| {
            let over = queued.until <= now;
            if over {
                *bytes -= queued.bytes.len();
                outcomes.push_back((*number, Outcome::Failed(Failure::Unsent)));
            }
            !over
        });
        let late = self.sent.iter().filter(|(_, sent)| sent.until <= now);
        let late: Vec<u32> = late.map(|(number, _)| *number).collect();
        for number in late {
            let begun = self.lane.as_mut().is_none_or(|lane| lane.withdraw(number));
            let failed = Outcome::Failed(Failure::Unsent);
            self.finish(number, if begun { Outcome::Unknown } else { failed });
        }
    }

    /// The member has left: what is queued waits for new keys.
    pub fn disconnect(&mut self) {
        self.lane = None;
    }

    /// Ends messages whose lifetime is over, without sending any; returns the time of the next call.
    pub fn wait(&mut self, now: Instant) -> Option<Instant> {
        self.expire(now);
        self.ends().min()
    }

    fn ends(&self) -> impl Iterator<Item = Instant> {
        let queued = self.queue.values().map(|queued| queued.until);
        queued.chain(self.sent.values().map(|sent| sent.until))
    }

    /// The next datagram at `now`, and the time of the next poll.
    pub fn poll(&mut self, now: Instant) -> (Option<Vec<u8>>, Option<Instant>) {
        self.expire(now);
        let mut wake = None;
        if let Some(lane) = &mut self.lane {
            // One at a time, so that a message of higher priority goes before those that wait.
            while lane.is_begun()
                && self.sent.values().filter(|sent| !sent.delivered).count() < WINDOW
                && let Some(((_, number), queued)) = self.queue.pop_first()
            {
                let Queued { kind, bytes, until } = queued;
                // Rounded down, so that the hub does not reply after the end.
                let ms = u32::try_from((until - now).as_ns() / 1_000_000).unwrap_or(u32::MAX);
                let plain = [&[kind], &ms.to_be_bytes()[..], &bytes].concat();
                // Without an expiry time: `expire` ends it, which asks the lane whether a part was
                // sent.
                if lane.send(number, &plain, None).is_err() {
                    self.bytes -= bytes.len();
                    // Without the kind and the lifetime.
                    let most = lane.longest().saturating_sub(plain.len() - bytes.len());
                    let why = Failure::TooLong { bytes: bytes.len(), most };
                    self.outcomes.push_back((number, Outcome::Failed(why)));
                    continue;
                }
                self.sent.insert(number, Sent { bytes: bytes.len(), until, delivered: false });
            }
            let (datagram, look) = lane.poll(now);
            if datagram.is_some() {
                return (datagram, look);
            }
            wake = look;
        }
        (None, self.ends().chain(wake).chain(self.stalled_at).min())
    }

    /// Outcomes since the last call; each message has one.
    pub fn take_outcomes(&mut self) -> VecDeque<(u32, Outcome)> {
        core::mem::take(&mut self.outcomes)
    }
}
