//! Sessions that outlast a restart of the gateway: what is to be written of them.

use super::{Action, Clients, MAX_SESSIONS};
use crate::budget::OVERHEAD;
use crate::kept::{Change, Kept};
use crate::kept_devices::DeviceChange;
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

    /// Wills of clients of a former start, with their delays: their connections are lost with it. From now on,
    /// wills are to be written. Those of sessions that go on wait for their delay.
    pub fn restore_wills(&mut self, wills: BTreeMap<String, (u32, Message)>) -> Vec<Action> {
        let (mut actions, now_s) = (Vec::new(), self.now_s);
        for (name, (delay_s, will)) in &wills {
            self.unsaved.touch(name);
            match self.sessions.get_mut(name).filter(|_| *delay_s > 0) {
                Some(session) => {
                    (session.will, session.will_delay_s) = (Some(will.clone()), *delay_s);
                    session.will_at = Some(now_s + u64::from(*delay_s));
                }
                None => actions.push(Action::Publish(None, will.clone().arrived(now_s))),
            }
        }
        self.unsaved.wills = Some(wills);
        actions
    }

    fn will_of(&self, name: &str) -> Option<(u32, Message)> {
        let session = self.sessions.get(name)?;
        Some((session.will_delay_s, session.will.clone()?))
    }

    /// Wills that have changed since they were written.
    fn will_changes(&self) -> Vec<Change> {
        let Some(wills) = &self.unsaved.wills else { return Vec::new() };
        let changed = |name: &String| {
            let (before, now) = (wills.get(name), self.will_of(name));
            match now {
                None => before.map(|_| Change::Device(DeviceChange::NoWill(name.clone()))),
                now if now.as_ref() == before => None,
                now => will_change(name, now),
            }
        };
        self.unsaved.changed.iter().filter_map(changed).collect()
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
        messages.chain(changes).chain(self.will_changes()).collect()
    }

    /// All of that is on the disk.
    pub fn saved(&mut self) {
        self.unsaved.gone.clear();
        for name in std::mem::take(&mut self.unsaved.changed) {
            let will = self.will_of(&name);
            if let Some(wills) = &mut self.unsaved.wills {
                match will {
                    Some(will) => drop(wills.insert(name.clone(), will)),
                    None => drop(wills.remove(&name)),
                }
            }
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
        if self.unsaved.wills.is_some() {
            let wills =
                self.sessions.keys().filter_map(|name| will_change(name, self.will_of(name)));
            sessions.extend(wills.map(|change| vec![change]));
        }
        let messages = messages.into_iter().map(|(number, own)| vec![Change::Message(number, own)]);
        messages.chain(sessions).collect()
    }
}

fn will_change(name: &str, will: Option<(u32, Message)>) -> Option<Change> {
    let (delay_s, will) = will?;
    Some(Change::Device(DeviceChange::Will(name.to_owned(), delay_s, will)))
}
