//! Sessions that outlast a restart of the gateway: what is to be written of them.

use super::{Clients, MAX_SESSIONS};
use crate::budget::OVERHEAD;
use crate::kept::{Change, Kept};
use crate::message::Message;
use crate::session::{Session, Shared};
use std::collections::{BTreeMap, HashMap};

impl Clients {
    /// Sessions of a former start; from now on, changes are to be written. Those whose time is over, and
    /// those without room, are not there.
    pub fn restore(&mut self, kept: Kept) {
        self.unsaved.is_on = true;
        let now_s = self.now_s;
        let mut messages = HashMap::new();
        // Also of messages that a client has and has not released: their content is not there.
        let entries = kept.clients.values().filter_map(|own| own.entries.last_key_value());
        let numbers = kept.messages.keys().chain(entries.map(|(number, _)| number));
        self.deliveries = numbers.copied().max().unwrap_or_default();
        for (number, message) in kept.messages {
            let held = self.hold(&message).map(|shared| shared.held);
            let message = message.arrived(now_s);
            messages.extend(held.map(|held| (number, (message, Shared { number, held }))));
        }
        for (name, saved) in kept.clients {
            // The disk has it as it was: all of it is written once more.
            self.unsaved.end(&name);
            let held = self.states.hold(name.len() + OVERHEAD);
            if saved.is_over || held.is_none() || self.sessions.len() >= MAX_SESSIONS {
                continue;
            }
            self.count += 1;
            let memory = [&self.outflow, &self.states];
            let mut session = Session::restored(self.count, saved, &messages, memory, now_s);
            session.own = held;
            for (filter, options) in &session.filters {
                self.index.change(filter, None, Some(options.qos));
            }
            self.sessions.insert(name, session);
        }
    }

    /// Number of changes so far that must be written before the messages that cause them are acknowledged.
    pub fn revision(&self) -> u64 {
        self.unsaved.revision
    }

    /// What is to be written; then call [`Self::saved`].
    pub fn unsaved(&self) -> Vec<Change> {
        let (mut messages, mut changes) = (BTreeMap::new(), Vec::new());
        for name in &self.unsaved.changed {
            let is_gone = self.unsaved.gone.contains(name);
            let session = self.sessions.get(name);
            let own = session.map(|own| own.changes(self.now_s, is_gone, &mut messages));
            let own = own.unwrap_or_default();
            if is_gone || !own.is_empty() {
                changes.push(Change::Client(name.clone()));
                changes.extend(is_gone.then_some(Change::End));
                changes.extend(own);
            }
        }
        let messages = messages.into_iter().map(|(number, own)| Change::Message(number, own));
        messages.chain(changes).collect()
    }

    /// All of that is on the disk.
    pub fn saved(&mut self) {
        self.unsaved.gone.clear();
        for name in std::mem::take(&mut self.unsaved.changed) {
            self.sessions.get_mut(&name).into_iter().for_each(Session::saved);
        }
    }

    /// The changes that make all sessions: a record for each message and each session.
    pub fn all_sessions(&self) -> Vec<Vec<Change>> {
        let (mut messages, mut sessions) = (BTreeMap::<u64, Message>::new(), Vec::new());
        for (name, session) in self.sessions.iter().filter(|(_, own)| own.is_kept()) {
            let mut own = vec![Change::Client(name.clone())];
            own.extend(session.changes(self.now_s, true, &mut messages));
            sessions.push(own);
        }
        let messages = messages.into_iter().map(|(number, own)| vec![Change::Message(number, own)]);
        messages.chain(sessions).collect()
    }
}
