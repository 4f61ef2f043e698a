//! What the hub knows of its devices.

use super::memory::{Filter, Waiting, Will};
use crate::gateway::{Effect, Seen};
use crate::kept_devices::remember;
use crate::message::KEEPS;
use director::topic;
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of messages that wait for a device.
pub(super) const MAX_LANE: usize = 10_000;

/// What the hub knows of a device.
#[derive(Default)]
pub(super) struct Known {
    pub device: Seen,
    pub filters: BTreeMap<String, Filter>,
    pub wills: BTreeMap<String, Will>,
    pub period_s: u16,
    pub silent_s: u16,
    /// Whether the device knows that this hub has started.
    pub is_greeted: bool,
    /// What it gets alone, because it does not have earlier messages yet.
    pub lane: VecDeque<Waiting>,
    /// How many of them are on their way; the greeting counts as one.
    pub sent: usize,
    /// Whether these are not on their way, but wait for a second before they are sent again.
    pub is_paused: bool,
    /// Whether it did not take the last message: the operator knows.
    pub is_silent: bool,
    pub dropped: u64,
    /// What it has, and may not have stored, with the second in which it got it.
    pub unconfirmed: BTreeMap<u32, (u64, Waiting)>,
    /// Numbers of its messages of QoS 2 that have left something on the disk, and how many of the last ones
    /// are not there yet.
    pub had: VecDeque<u32>,
    pub unsaved_had: usize,
}

impl Known {
    /// A message of QoS 2 of it is to be stored: its number as well, so that a restart of the hub does not
    /// make it two.
    pub fn record_had(&mut self, number: u32) {
        remember(&mut self.had, number);
        self.unsaved_had = (self.unsaved_had + 1).min(self.had.len());
    }

    /// It takes messages, or does not; returns a line for the operator if that is new. A device that has
    /// not joined is not silent.
    pub fn answers(&mut self, member: u32, is_answer: bool) -> Option<Effect> {
        let is_new = self.is_greeted && is_answer == self.is_silent;
        self.is_silent = !is_answer && self.is_greeted;
        let what = match is_answer {
            true => "answers again",
            false => "does not answer: messages for it wait",
        };
        is_new.then(|| Effect::Log(format!("device {member} {what}")))
    }

    /// It has started: its numbers begin anew.
    pub fn forget_had(&mut self) {
        (self.had, self.unsaved_had) = (VecDeque::new(), 0);
    }

    pub fn wants(&self, topic: &str) -> Option<u8> {
        let matching = self.filters.iter().filter(|(filter, _)| topic::matches(filter, topic));
        matching.map(|(_, own)| own.qos).max()
    }

    /// Whether it keeps sessions over a restart.
    pub fn keeps(&self) -> bool {
        self.device.start() & KEEPS != 0
    }

    /// Whether it gets messages together with others.
    pub fn is_current(&self) -> bool {
        self.is_greeted && self.lane.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_of_a_device_that_has_joined_has_one_line() {
        let mut known = Known::default();
        assert_eq!([known.answers(7, false), known.answers(7, true)], [None, None]);
        known.is_greeted = true;
        let lines = [false, false, true, true].map(|is_answer| known.answers(7, is_answer));
        let line = |text: &str| Some(Effect::Log(format!("device 7 {text}")));
        let silent = line("does not answer: messages for it wait");
        assert_eq!(lines, [silent, None, line("answers again"), None]);
    }
}
