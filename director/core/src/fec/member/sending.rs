//! What a member sends, and when.

use super::complete::{Complete, Due, Scheduled};
use super::{FecMember, Taken};
use crate::bundle::{Bundle, LENGTH};
use crate::fec::answer::Answer;
use crate::fec::code::Decoder;
use crate::fec::frame::{Frame, NO_SYMBOL, NOTHING};
use crate::fec::plan::slot_index;
use crate::fec::short;
use crate::pace::TICK;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::silence;
use crate::switch::MessageId;
use crate::turn::first_in_time;
use crate::{Instant, Span};

/// Number of unanswered `Nack` frames after which a message is dropped.
const MAX_TRIES: u32 = 12;

impl FecMember {
    /// Sets whether the hub reads bundles.
    pub fn set_bundles(&mut self, reads: bool) {
        self.bundles = reads;
    }

    /// The next datagram to the hub at `now`, and the time of the next poll. Frames that are due now
    /// share it, if the rate allows them or it takes no longer on air than a timer's tick.
    pub fn poll(&mut self, now: Instant) -> (Option<Vec<u8>>, Option<Instant>) {
        self.drop_late(now);
        let next = if self.taken.is_some() { None } else { self.next() };
        let at = self.taken.as_ref().map(|_| now).or(next.map(|(at, ..)| at));
        let Some(at) = at.map(|at| at.max(self.pace.next_at())) else { return (None, None) };
        if at > now {
            return (None, Some(at));
        }
        let first = match next {
            Some((_, message, due)) => self.take_frame(message, due, now),
            None => self.taken.take(),
        };
        let Some(first) = first else { return (None, Some(now)) };
        let length = first.bytes.len();
        let mut bundle = Bundle::new(self.settings.datagram.saturating_sub(self.own.code_len()));
        bundle.reserve(if self.bundles { self.scheduled.len() + 1 } else { 1 }, length);
        bundle.push(length, |bytes| bytes.extend_from_slice(&first.bytes));
        self.spare = first.bytes;
        self.pace.sent(length, now);
        // Most frames have the same length.
        while self.bundles
            && first.joins
            && let Some(whole) = bundle.with(length)
            && (self.pace.next_at() <= now || self.pace.airtime(whole) <= TICK)
            && let Some((_, message, due)) = self.next().filter(|(at, ..)| *at <= now)
            && let Some(frame) = self.take_frame(message, due, now)
        {
            if !frame.joins || bundle.with(frame.bytes.len()).is_none() {
                self.taken = Some(frame);
                break;
            }
            bundle.push(frame.bytes.len(), |bytes| bytes.extend_from_slice(&frame.bytes));
            self.pace.joined(LENGTH + frame.bytes.len());
            self.spare = frame.bytes;
        }
        let mut bytes = bundle.finish().unwrap_or_default();
        short::sign(&mut self.own, &mut bytes);
        (Some(bytes), Some(self.pace.next_at()))
    }

    /// Takes the next frame, which is due.
    fn take_frame(&mut self, message: MessageId, kind: Due, now: Instant) -> Option<Taken> {
        let message = if kind == Due::Answer { self.answer_in_time(message, now) } else { message };
        let (low, member) = (message as u16, self.number);
        let complete = self.complete.get_mut(message);
        // The hub has asked for it: the path may not carry datagrams of a bundle's size.
        let answer = complete.as_ref().and_then(|complete| complete.answer.as_ref());
        let joins = !answer.is_some_and(Answer::was_requested);
        let mut bytes = core::mem::take(&mut self.spare);
        bytes.clear();
        let mut write = |frame: Frame<'_>| frame.write(&mut bytes);
        let taken = match kind {
            Due::Nack => self.nack(message, now).map(write),
            Due::Received => complete.map(|complete| {
                complete.say_at = None;
                write(Frame::Nack { message: low, member, symbols: 0 });
            }),
            Due::Answer => {
                let answer = complete.and_then(|complete| complete.answer.as_mut());
                answer.and_then(|answer| answer.take(low, member)).map(write)
            }
        };
        self.schedule(message);
        taken.map(|()| Taken { bytes, joins })
    }

    /// Start of this member's slot for a message; never without slots, to wait for a request.
    pub(super) fn slot(&self, complete: &Complete, message: MessageId) -> Instant {
        if complete.schedule.slot_us == 0 {
            return Instant::NEVER;
        }
        let slot_index = u64::from(slot_index(self.number, self.settings.members, message));
        complete.slots_at + Span::from_us(complete.schedule.slot_us.into()) * slot_index
    }

    /// A random number for [`Self::backoff`], 0 to 1; a single member needs none.
    pub(super) fn draw(&mut self) -> f64 {
        if self.settings.members <= 1 { 0.0 } else { self.rng.uniform() }
    }

    /// Random backoff before a `Nack` frame, doubled with each try. The distribution (truncated
    /// exponential, RFC 5401, 3.2.2) lets few members of a large group report early, and the
    /// repair suppresses the other reports. A single member reports at once.
    pub(super) fn backoff(&self, tries: u32, drawn: f64) -> Span {
        if self.settings.members <= 1 {
            return 2 * self.interval() * (1 << tries.min(6));
        }
        let most = self.settings.round_trip.max(8 * self.interval()).as_ns_f64();
        let lambda = f64::from(self.settings.members.max(1)).ln() + 1.0;
        let spread = lambda.exp() - 1.0;
        let wait = most / lambda * (drawn * spread + 1.0).ln();
        (2 * self.interval() + Span::from_ns_f64(wait)) * (1 << tries.min(6))
    }

    /// Drops answers that the hub no longer waits for.
    fn drop_late(&mut self, now: Instant) {
        let is_late = |own: &Scheduled| own.until.is_some_and(|until| until <= now);
        if !self.scheduled.iter().any(|(_, _, own)| is_late(own)) {
            return;
        }
        let complete = &mut self.complete;
        self.scheduled.retain(|message, _, own| {
            let late = complete.get_mut(message).filter(|_| is_late(own));
            late.into_iter().for_each(|late| {
                (late.answer, late.say_at, late.is_over) = (None, None, true);
            });
            !is_late(own)
        });
    }

    /// The first due answer that can still arrive in time, if that of `first` cannot.
    fn answer_in_time(&self, first: MessageId, now: Instant) -> MessageId {
        // The message had a part of this time on its way, and the answer has the rest before it.
        let needed = now + self.settings.round_trip;
        let until = self.scheduled.get(first).and_then(|(_, own)| own.until);
        if until.is_none_or(|until| until >= needed) {
            return first;
        }
        let is_due = |at: Instant, own: &Scheduled| at <= now && own.due == Due::Answer;
        let due = || self.scheduled.iter().filter(|(_, at, own)| is_due(*at, own));
        let place = first_in_time(due().map(|(_, _, own)| own.until), needed);
        place.and_then(|place| due().nth(place)).map_or(first, |(message, ..)| message)
    }

    /// The state of a complete message has changed.
    pub(super) fn schedule(&mut self, message: MessageId) {
        let complete = self.complete.get(message).filter(|complete| !complete.is_over);
        let next = complete.and_then(|own| Some((own.next_at()?, own.until)));
        match next {
            Some(((at, due), until)) => {
                self.scheduled.insert(message, at, Scheduled { due, until });
            }
            None => drop(self.scheduled.remove(message)),
        }
    }

    /// The next transmission: time, message, and what is sent.
    fn next(&mut self) -> Option<(Instant, MessageId, Due)> {
        let nacks = self.incomplete.iter();
        let nacks = nacks.map(|(id, incomplete)| (incomplete.nack_at, id, Due::Nack));
        let answer = self.scheduled.first().map(|(at, id, own)| (at, id, own.due));
        nacks.chain(answer).min()
    }

    fn nack(&mut self, message: MessageId, now: Instant) -> Option<Frame<'static>> {
        let tries = self.incomplete.get(message)?.tries + 1;
        if tries > MAX_TRIES {
            // The sender is gone.
            self.incomplete.remove(message);
            return None;
        }
        // The path may have become far slower since the hub has measured it.
        let drawn = self.draw();
        let wait = self.settings.round_trip + self.backoff(tries, drawn);
        let wait = wait.max(silence::least_timeout(tries));
        let incomplete = self.incomplete.get_mut(message)?;
        incomplete.tries = tries;
        incomplete.nack_at = now + wait;
        // The two largest numbers have other meanings.
        let some = |decoder: &Decoder| decoder.missing().min(usize::from(NO_SYMBOL) - 1) as u8;
        let none = if incomplete.asked { NO_SYMBOL } else { NOTHING };
        let symbols = incomplete.decoder.as_ref().map_or(none, some);
        Some(Frame::Nack { message: message as u16, member: self.number, symbols })
    }
}
