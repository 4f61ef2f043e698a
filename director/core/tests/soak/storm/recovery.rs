//! After a storm: who exchanges messages again, and when.

use super::bed::{Bed, MEMBERS, PROBE_LIFETIME, SECOND, What};
use super::setup::First;
use director::ModelId;

/// Time between the messages of an application.
const PROBE_EVERY: u64 = SECOND;

impl Bed {
    /// The storm is over; datagrams that it has delayed are still under way.
    pub fn end(&mut self) {
        self.storm = false;
        self.cut_until = vec![[0; 2]; MEMBERS];
        for what in std::mem::take(&mut self.queue).into_vec() {
            let goes_on = !matches!(&what.0.2, What::Send(_) | What::Disturb);
            self.queue.extend(goes_on.then_some(what));
        }
    }

    /// Changes to a model, as soon as that is possible.
    pub fn change(&mut self, model: ModelId) {
        // Another change is in progress, or it is in use.
        for _ in 0..5 {
            if self.hub.force(model, self.instant()) {
                break;
            }
            self.run(self.now + SECOND);
        }
        self.wake(None, self.now);
    }

    /// Whether each member has exchanged a message in both directions since the last call of
    /// `recover`, and no change of the model is in progress.
    fn is_recovered(&self) -> bool {
        self.lacks_up.is_empty() && self.lacks_down.is_empty() && !self.hub.explain().changing
    }

    /// The applications send until the session has recovered; returns the time that it took, at most
    /// `limit`.
    pub fn recover(&mut self, limit: u64) -> Option<u64> {
        let all = 0..MEMBERS as u32;
        (self.lacks_up, self.lacks_down) = (all.clone().collect(), all.collect());
        let (begin, mut probe_at) = (self.now, self.now);
        while !self.is_recovered() {
            if self.now >= begin + limit {
                return None;
            }
            if self.now >= probe_at {
                self.probe();
                probe_at = self.now + PROBE_EVERY;
            }
            match self.queue.peek().map(|next| next.0.0) {
                Some(next) if next <= probe_at => self.step(),
                _ => self.now = probe_at,
            }
        }
        Some(self.now - begin)
    }

    /// Those send that have not exchanged a message.
    fn probe(&mut self) {
        let (ups, downs) = (self.lacks_up.is_empty(), self.lacks_down.is_empty());
        if self.setup.first != First::Hub || downs {
            for member in self.lacks_up.clone() {
                self.at(self.now, What::Send(Some(member as usize)));
            }
        }
        if (self.setup.first != First::Members || ups) && !downs {
            self.at(self.now, What::Send(None));
        }
    }

    /// Waits until all messages have ended.
    pub fn finish(&mut self) {
        self.run(self.now + 2 * PROBE_LIFETIME.as_ns());
    }

    /// What is wrong with the ends of messages.
    pub fn check(&mut self) -> Vec<String> {
        self.log.check().1
    }

    /// Who does not exchange messages, for a failed test.
    pub fn state(&self) -> String {
        let Self { lacks_up, lacks_down, .. } = self;
        let explained = self.hub.explain();
        format!("without messages to the hub: {lacks_up:?}, from it: {lacks_down:?}; {explained}")
    }
}
