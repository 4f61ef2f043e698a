//! What the hub sends to one device alone, because it does not have earlier messages yet.

use super::Hub;
use super::known::MAX_LANE;
use super::memory::Waiting;
use crate::gateway::{Effect, Ended, LIFETIME, Lane, batch};
use crate::message::Down;

impl Hub {
    /// Messages to a device that does not have earlier ones yet.
    pub(super) fn alone(&mut self, member: u32, messages: &[Waiting]) -> Vec<Effect> {
        let known = &mut self.devices[member as usize];
        for message in messages {
            if known.lane.len() < MAX_LANE {
                known.lane.push_back(message.clone());
            } else {
                known.dropped += 1;
            }
        }
        self.next_alone(member)
    }

    /// A frame of messages, with what is left of their lifetimes.
    pub(super) fn deliver(&self, messages: &[Waiting]) -> Down {
        let now_s = self.clients.now_s();
        let leaving = |own: &Waiting| (own.numbered.0, own.numbered.1.leaving(now_s));
        let store = self.ledger.as_ref().map(|own| own.store);
        Down::Deliver(store, messages.iter().map(leaving).collect())
    }

    pub(super) fn next_alone(&mut self, member: u32) -> Vec<Effect> {
        let known = &mut self.devices[member as usize];
        let mut effects = Vec::new();
        if known.dropped > 0 {
            let dropped = std::mem::take(&mut known.dropped);
            let why =
                format!("{dropped} messages to device {member} were dropped: {MAX_LANE} wait");
            effects.push(Effect::Log(why));
        }
        if known.sent > 0 || known.is_current() {
            return effects;
        }
        let frame = match known.is_greeted {
            false => {
                known.sent = 1;
                Down::Hello
            }
            true => {
                let mut all = known.lane.clone();
                let messages = batch(&mut all, |own| own.numbered.1.size());
                known.sent = messages.len();
                self.deliver(&messages)
            }
        };
        effects.push(Effect::Transport {
            lane: Lane::Member(member),
            frame: frame.encode(self.start),
            members: vec![member],
            is_request: false,
            lifetime: LIFETIME,
        });
        effects
    }

    /// What was sent to one device has ended.
    pub(super) fn ended_alone(&mut self, member: u32, how: &Ended) -> Vec<Effect> {
        let known = &mut self.devices[member as usize];
        // The device was back earlier.
        if *how == Ended::Waited && !known.is_paused {
            return Vec::new();
        }
        known.is_paused = false;
        let sent = std::mem::take(&mut known.sent);
        let mut effects = Vec::new();
        match how {
            Ended::Delivered(_) => effects.extend(known.answers(member, true)),
            Ended::Lost | Ended::Lacking(_) => effects.extend(known.answers(member, false)),
            Ended::TooLong | Ended::Full | Ended::Waited => {}
        }
        match how {
            Ended::Delivered(_) if !known.is_greeted => known.is_greeted = true,
            Ended::Delivered(_) | Ended::TooLong => {
                let had: Vec<Waiting> = known.lane.drain(..sent.min(known.lane.len())).collect();
                if matches!(how, Ended::Delivered(_)) {
                    self.await_storage(member, had.into_iter());
                }
                self.touch_devices();
            }
            // The same messages follow again; their numbers make that harmless. Not at once: a message
            // to a vacant place ends as soon as it is sent.
            Ended::Lost | Ended::Lacking(_) | Ended::Full => {
                (known.sent, known.is_paused) = (sent, true);
                effects.push(Effect::Later(Lane::Member(member)));
                return effects;
            }
            Ended::Waited => {}
        }
        effects.extend(self.next_alone(member));
        effects
    }
}
