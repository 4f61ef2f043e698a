//! What has changed of a session since it was written.

use super::shadow::Shadow;
use super::{Receipt, Sent, Session, Stored};
use crate::budget::{OVERHEAD, Outflow};
use crate::kept::{Change, Entry, Life, Saved, Waits};
use crate::message::Message;
use crate::packet::Publish;
use crate::session::{Received, Shared};
use std::collections::{BTreeMap, HashMap};

impl Session {
    /// Whether it outlasts its connection, and a restart of the gateway.
    pub fn is_kept(&self) -> bool {
        self.expires_s > 0
    }

    /// Whether the disk has something of it.
    pub fn is_on_disk(&self) -> bool {
        self.shadow.is_some()
    }

    /// All of it is on the disk.
    pub fn saved(&mut self) {
        self.shadow = self.is_kept().then(|| Box::new(self.shadow()));
    }

    /// What is to be written in this second of the gateway, and the messages that it refers to;
    /// `everything` as if nothing of it were on the disk.
    pub fn changes(
        &self,
        now_s: u64,
        everything: bool,
        messages: &mut BTreeMap<u64, Message>,
    ) -> Vec<Change> {
        if !self.is_kept() {
            return if self.is_on_disk() { vec![Change::End] } else { Vec::new() };
        }
        let (before, now) = (self.shadow.as_deref().filter(|_| !everything), self.shadow());
        let empty = Shadow::default();
        let mut changes = Vec::new();
        if before.is_none_or(|before| before.life != now.life) {
            let left = |at: u64| u32::try_from(at.saturating_sub(now_s)).unwrap_or(u32::MAX);
            let (level, expires_s) = (self.level, self.expires_s);
            changes.push(Change::Life(Life { level, expires_s, left_s: self.ends_at.map(left) }));
        }
        let before = before.unwrap_or(&empty);
        let gone = before.filters.keys().filter(|filter| !now.filters.contains_key(*filter));
        changes.extend(gone.cloned().map(Change::NoFilter));
        let fresh =
            now.filters.iter().filter(|(filter, own)| before.filters.get(*filter) != Some(own));
        changes.extend(fresh.map(|(filter, own)| Change::Filter(filter.clone(), *own)));
        let gone = before.entries.keys().filter(|number| !now.entries.contains_key(number));
        changes.extend(gone.copied().map(Change::Done));
        self.messages_since(before, now_s, messages, &mut changes);
        let gone = before.received.difference(&now.received);
        changes.extend(gone.copied().map(Change::Finished));
        let fresh = now.received.difference(&before.received);
        changes.extend(fresh.copied().map(Change::Received));
        changes
    }

    /// Messages that are new, and what became of the others.
    fn messages_since(
        &self,
        before: &Shadow,
        now_s: u64,
        messages: &mut BTreeMap<u64, Message>,
        changes: &mut Vec<Change>,
    ) {
        for (number, id, stored) in self.entries() {
            let known = before.entries.get(&number).copied();
            if known.is_none() {
                let mut waits = Waits { number, ..Waits::default() };
                if let Some(Stored { publish, .. }) = stored {
                    let Publish { message, subscriptions, .. } = publish;
                    (waits.qos, waits.retain) = (message.qos, message.retain);
                    waits.subscriptions.clone_from(subscriptions);
                    messages.entry(number).or_insert_with(|| message.leaving(now_s));
                }
                changes.push(Change::Waits(waits));
            }
            let (known_id, was_released) = known.unwrap_or_default();
            if known_id != id {
                changes.push(Change::Sent(number, id));
            }
            if stored.is_none() && !was_released {
                changes.push(Change::Released(number));
            }
        }
    }

    /// Numbers of messages, their packet numbers, and those that the client does not have.
    fn entries(&self) -> impl Iterator<Item = (u64, u16, Option<&Stored>)> {
        let sent = self.in_flight.iter().map(|(id, sent)| match sent {
            Sent::Published(stored) => (stored.number, *id, Some(stored)),
            Sent::Released(number) => (*number, *id, None),
        });
        sent.chain(self.queue.iter().map(|stored| (stored.number, 0, Some(stored))))
    }

    fn shadow(&self) -> Shadow {
        let entry =
            |(number, id, stored): (u64, u16, Option<&Stored>)| (number, (id, stored.is_none()));
        let is_published = |own: &Received| own.receipt != Receipt::Coming;
        let received = self.received.iter().filter(|(_, own)| is_published(own));
        Shadow {
            life: (self.level, self.expires_s, self.ends_at),
            filters: self.filters.clone(),
            entries: self.entries().map(entry).collect(),
            received: received.map(|(id, _)| *id).collect(),
        }
    }

    /// A session of a former start, without a connection since this second of the gateway. What has no
    /// room is dropped.
    pub fn restored(
        number: u64,
        saved: Saved,
        messages: &HashMap<u64, (Message, Shared)>,
        memory: [&Outflow; 2],
        now_s: u64,
    ) -> Self {
        let [outflow, states] = memory;
        let Life { level, expires_s, left_s } = saved.life;
        let mut session = Self { level, expires_s, ..Self::new(number) };
        // One whose connection the restart has ended has all of its time.
        session.ends_at = (expires_s != u32::MAX)
            .then(|| now_s.saturating_add(left_s.unwrap_or(expires_s).into()));
        for (filter, options) in saved.filters {
            if session.hold(&filter, states) {
                session.filters.insert(filter, options);
            }
        }
        for id in saved.received {
            if let Some(_held) = states.hold(super::RECEIPT) {
                session.received.insert(id, Received { receipt: Receipt::Acknowledged, _held });
            }
        }
        for (number, Entry { waits, id, is_released }) in saved.entries {
            let Waits { qos, retain, subscriptions, .. } = waits;
            if is_released {
                session.in_flight.push_back((id, Sent::Released(number)));
                continue;
            }
            let Some((message, shared)) = messages.get(&number) else { continue };
            let identifiers = size_of_val(&subscriptions[..]);
            let own = outflow.hold(message.topic.len() + identifiers + OVERHEAD);
            let Some(own) = own else {
                outflow.drop_one();
                continue;
            };
            let message = Message { qos, retain, ..message.clone() };
            let publish = Publish { message, subscriptions, ..Publish::default() };
            let stored = Stored { number, publish, _held: [shared.held.clone(), own] };
            match id {
                0 => session.queue.push_back(stored),
                id => session.in_flight.push_back((id, Sent::Published(stored))),
            }
        }
        session
    }
}
