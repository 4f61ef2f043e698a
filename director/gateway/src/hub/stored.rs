//! Messages that wait for devices, and their filters, over a restart of the hub.

use super::Hub;
use super::known::MAX_LANE;
use super::ledger::Ledger;
use super::memory::Waiting;
use crate::gateway::Effect;
use crate::kept::Change;
use crate::kept_devices::{DeviceChange, KeptDevice, KeptDevices};
use crate::message::Message;
use std::collections::{BTreeMap, BTreeSet};

/// Numbers that are taken on the disk at a time: after a crash none is used twice, though messages of QoS 0
/// have numbers as well.
const AHEAD: u32 = 10_000;

/// A message and the devices that lack it.
type Lacking<'a> = BTreeMap<u32, (&'a Waiting, BTreeSet<u32>)>;

impl Hub {
    /// Devices, and messages of QoS 1 and 2 that wait for them, of a former start.
    pub(super) fn restore_devices(&mut self, kept: &KeptDevices) {
        let (store, next) = kept.numbers;
        let now_s = self.clients.now_s();
        self.number = next;
        let store = if store == 0 { self.start } else { store };
        let (queued, devices) = (BTreeMap::new(), BTreeMap::new());
        // The disk has these under another name, if the log was damaged: they are written once more.
        let mut ledger = Ledger { store, reserved: 0, queued, devices, is_dirty: true };
        for (member, own) in &kept.devices {
            ledger.devices.insert(*member, own.clone());
            let Some(known) = self.devices.get_mut(*member as usize) else { continue };
            known.device.begin(own.start);
            known.had = kept.had.get(member).cloned().unwrap_or_default();
            for number in &known.had {
                known.device.insert(*number);
            }
            for (filter, qos) in &own.filters {
                // Those that the device has given up meanwhile, it gives up again.
                if let Some(own) = self.memory.filter(filter, *qos) {
                    known.filters.insert(filter.clone(), own);
                }
            }
        }
        for (number, (lacking, message)) in &kept.queued {
            self.number = self.number.max(*number);
            ledger.queued.insert(*number, lacking.iter().copied().collect());
            let message = message.clone().arrived(now_s);
            let Some(waiting) = self.memory.message((*number, message)) else { continue };
            for member in lacking {
                let known = self.devices.get_mut(*member as usize);
                known.into_iter().for_each(|known| known.lane.push_back(waiting.clone()));
            }
        }
        self.ledger = Some(ledger);
    }

    /// Something of it may have changed.
    pub(super) fn touch_devices(&mut self) {
        self.ledger.iter_mut().for_each(|own| own.is_dirty = true);
    }

    /// The messages of QoS 1 and 2 that devices lack.
    fn lacking(&self) -> Lacking<'_> {
        let mut all = Lacking::new();
        for topic in self.topics.values() {
            for (own, members) in topic.waiting.iter().chain(&topic.sent) {
                members.iter().for_each(|member| add(&mut all, own, *member));
            }
        }
        for (member, known) in (0..).zip(&self.devices) {
            let unconfirmed = known.unconfirmed.values().map(|(_, own)| own);
            known.lane.iter().chain(unconfirmed).for_each(|own| add(&mut all, own, member));
        }
        all
    }

    /// What is to be written of devices; `everything` as if nothing of it were on the disk.
    pub(super) fn device_changes(&self, everything: bool) -> Vec<Change> {
        let Some(ledger) = self.ledger.as_ref().filter(|own| own.is_dirty || everything) else {
            return Vec::new();
        };
        let (mut changes, now_s) = (Vec::new(), self.clients.now_s());
        let none = (BTreeMap::new(), BTreeMap::new());
        let (queued, devices) = match everything {
            true => (&none.0, &none.1),
            false => (&ledger.queued, &ledger.devices),
        };
        if everything || self.number >= ledger.reserved {
            let next = self.number.saturating_add(AHEAD);
            changes.push(DeviceChange::Numbers(ledger.store, next));
        }
        let all = self.lacking();
        let gone = queued.keys().filter(|number| !all.contains_key(number));
        changes.extend(gone.map(|number| DeviceChange::Lacking(*number, Vec::new())));
        for (number, (own, members)) in &all {
            let lacking: Vec<u32> = members.iter().copied().collect();
            match queued.get(number) {
                Some(known) if known == members => {}
                Some(_) => changes.push(DeviceChange::Lacking(*number, lacking)),
                None => {
                    let message = own.numbered.1.leaving(now_s);
                    changes.push(DeviceChange::Queued(*number, lacking, message));
                }
            }
        }
        for (member, own) in self.kept_devices() {
            changes.extend(changes_of(member, devices.get(&member), &own));
            let Some(known) = self.devices.get(member as usize) else { continue };
            // After its start, and in the record of what follows from these messages.
            let count = if everything { known.had.len() } else { known.unsaved_had };
            let had = known.had.range(known.had.len() - count..);
            changes.extend(had.map(|number| DeviceChange::Had(member, *number)));
        }
        changes.into_iter().map(Change::Device).collect()
    }

    fn kept_devices(&self) -> BTreeMap<u32, KeptDevice> {
        let all = (0..).zip(&self.devices).map(|(member, known)| {
            let filters = known.filters.iter().map(|(filter, own)| (filter.clone(), own.qos));
            (member, KeptDevice { start: known.device.start(), filters: filters.collect() })
        });
        all.filter(|(_, own)| *own != KeptDevice::default()).collect()
    }

    /// All of that is on the disk.
    pub(super) fn devices_written(&mut self) {
        if self.ledger.as_ref().is_none_or(|own| !own.is_dirty) {
            return;
        }
        let members = |(number, (_, members)): (u32, (&Waiting, BTreeSet<u32>))| (number, members);
        let queued = self.lacking().into_iter().map(members).collect();
        self.devices.iter_mut().for_each(|known| known.unsaved_had = 0);
        let (devices, number) = (self.kept_devices(), self.number);
        let Some(own) = &mut self.ledger else { return };
        (own.queued, own.devices, own.is_dirty) = (queued, devices, false);
        if number >= own.reserved {
            own.reserved = number.saturating_add(AHEAD / 2);
        }
    }

    /// A message of a device.
    pub(super) fn arrive(&mut self, member: u32, number: u32, message: Message) -> Vec<Effect> {
        if !self.devices[member as usize].device.insert(number) {
            return Vec::new();
        }
        let (before, is_once) = (self.revision(), message.qos == 2);
        let message = message.arrived(self.clients.now_s());
        let effects = self.publish(message);
        if is_once && self.ledger.is_some() && self.revision() != before {
            self.devices[member as usize].record_had(number);
            self.touch_devices();
        }
        effects
    }

    /// A device has stored these messages.
    pub(super) fn confirmed(&mut self, member: u32, numbers: &[u32]) {
        let Some(known) = self.devices.get_mut(member as usize) else { return };
        numbers.iter().for_each(|number| drop(known.unconfirmed.remove(number)));
    }

    /// Messages that a device has, and may not have stored: they wait until it says that it has.
    pub(super) fn await_storage(&mut self, member: u32, messages: impl Iterator<Item = Waiting>) {
        let now_s = self.clients.now_s();
        let is_stored = self.ledger.is_some();
        let Some(known) = self.devices.get_mut(member as usize) else { return };
        if !is_stored || !known.keeps() {
            return;
        }
        for own in messages.filter(|own| own.numbered.1.qos > 0) {
            if known.unconfirmed.len() < MAX_LANE {
                known.unconfirmed.insert(own.numbered.0, (now_s, own));
            } else {
                known.dropped += 1;
            }
        }
    }

    /// Sends messages again that a device has not stored in time, or before it has started again.
    pub(super) fn repeat_unconfirmed(&mut self, member: u32, until_s: u64) -> Vec<Effect> {
        let Some(known) = self.devices.get_mut(member as usize) else { return Vec::new() };
        let late = known.unconfirmed.extract_if(.., |_, (since_s, _)| *since_s <= until_s);
        let late: Vec<Waiting> = late.map(|(_, (_, own))| own).collect();
        if late.is_empty() {
            return Vec::new();
        }
        // After those that are on their way, before later ones.
        let later = known.lane.split_off(known.sent.min(known.lane.len()));
        known.lane.extend(late);
        known.lane.extend(later);
        self.touch_devices();
        self.next_alone(member)
    }
}

/// A device lacks a message; those of QoS 0 are not kept.
fn add<'a>(all: &mut Lacking<'a>, own: &'a Waiting, member: u32) {
    let (number, message) = &own.numbered;
    if message.qos > 0 {
        all.entry(*number).or_insert_with(|| (own, BTreeSet::new())).1.insert(member);
    }
}

/// What has changed of a device.
fn changes_of(member: u32, before: Option<&KeptDevice>, now: &KeptDevice) -> Vec<DeviceChange> {
    let mut changes = Vec::new();
    let mut before = before.cloned().unwrap_or_default();
    if before.start != now.start {
        // Its filters are void with that.
        changes.push(DeviceChange::Start(member, now.start));
        before = KeptDevice { start: now.start, ..KeptDevice::default() };
    }
    let gone = before.filters.keys().filter(|filter| !now.filters.contains_key(*filter));
    changes.extend(gone.map(|filter| DeviceChange::NoFilter(member, filter.clone())));
    let fresh = now.filters.iter().filter(|(filter, qos)| before.filters.get(*filter) != Some(qos));
    changes.extend(fresh.map(|(filter, qos)| DeviceChange::Filter(member, filter.clone(), *qos)));
    changes
}
