//! The gateway of the hub: the broker of all clients. It has subscriptions of devices, retained
//! messages, and wills of devices that fall silent. No I/O and no clock.

mod alone;
mod known;
mod ledger;
mod memory;
mod retained;
mod stored;
mod unwritten;

use crate::clients::{Action, Clients};
use crate::gateway::{Effect, Ended, LIFETIME, Lane, Side, batch};
use crate::kept::{Change, Unsaved};
use crate::message::{KEEPS, Message, Subscribed, Up};
use crate::reason;
use crate::session::Origin;
use director::topic;
use known::Known;
use ledger::Ledger;
use memory::{Memory, Waiting};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;
use unwritten::Topics;

/// A message to several devices waits this time for the slowest; then those get it one by one.
const TOGETHER: Duration = Duration::from_secs(10);

/// A message and the devices that want it.
type Addressed = (Waiting, BTreeSet<u32>);

/// Messages of a topic, and those that are on their way.
#[derive(Default)]
struct Topic {
    waiting: VecDeque<Addressed>,
    sent: Vec<Addressed>,
}

/// The gateway of the hub.
pub struct Hub {
    clients: Clients,
    start: u32,
    number: u32,
    devices: Vec<Known>,
    topics: HashMap<String, Topic>,
    memory: Memory,
    retained: BTreeMap<String, Message>,
    /// Size of all retained messages, in bytes.
    retained_size: usize,
    /// What is to be stored, if retained messages are.
    unwritten: Option<Topics>,
    /// Number of changes of retained messages that are to be stored, so far.
    revision: u64,
    /// Messages whose acknowledgements wait until then.
    unacknowledged: Vec<Origin>,
    /// What the disk has of devices, if there is one.
    ledger: Option<Ledger>,
    /// Retained messages that subscriptions have looked at.
    #[cfg(test)]
    looked_at: std::cell::Cell<usize>,
}

impl Hub {
    /// A gateway with this number of devices; `start` is different for each start. The first effects
    /// greet the devices.
    pub fn new(start: u32, devices: u32) -> (Self, Vec<Effect>) {
        let mut hub = Self {
            clients: Clients::new(start),
            start,
            number: 0,
            devices: (0..devices).map(|_| Known::default()).collect(),
            topics: HashMap::new(),
            memory: Memory::default(),
            retained: BTreeMap::new(),
            retained_size: 0,
            unwritten: None,
            revision: 0,
            unacknowledged: Vec::new(),
            ledger: None,
            #[cfg(test)]
            looked_at: std::cell::Cell::default(),
        };
        let effects = (0..devices).flat_map(|member| hub.next_alone(member)).collect();
        (hub, effects)
    }

    /// Number of changes so far that are to be stored before the messages that cause them are acknowledged.
    pub fn revision(&self) -> u64 {
        self.revision + self.clients.revision()
    }

    /// A frame of a device; returns the answer too, if it is a request.
    pub fn receive(&mut self, member: u32, frame: &[u8]) -> (Option<Vec<u8>>, Vec<Effect>) {
        let Some((start, frame)) = Up::decode(frame) else { return (None, Vec::new()) };
        let Some(known) = self.devices.get_mut(member as usize) else { return (None, Vec::new()) };
        let mut effects = Vec::new();
        let mut has_started = false;
        known.silent_s = 0;
        effects.extend(known.answers(member, true));
        // It is there: what waits for it goes now.
        let is_back = std::mem::take(&mut known.is_paused);
        if is_back {
            known.sent = 0;
        }
        let is_known = known.device.start() != 0;
        if known.device.begin(start) {
            has_started = true;
            if is_known {
                effects.push(Effect::Log(format!("device {member} has started again")));
            }
            known.forget_had();
            // It has started: the connections of its clients are gone.
            let wills = std::mem::take(&mut known.wills);
            if start & KEEPS == 0 {
                // So are their sessions.
                known.filters.clear();
                // What is on its way leaves the lane when it ends.
                known.lane.truncate(if known.is_greeted { known.sent } else { 0 });
                known.unconfirmed.clear();
            }
            known.filters.values_mut().for_each(|own| own.is_former = true);
            let now_s = self.clients.now_s();
            let wills = wills.into_values().map(|will| will.message.arrived(now_s));
            effects.extend(wills.flat_map(|will| self.publish(will)));
        }
        if has_started {
            self.touch_devices();
            // It may have had them, and not stored them.
            effects.extend(self.repeat_unconfirmed(member, u64::MAX));
        }
        let Some(known) = self.devices.get_mut(member as usize) else { return (None, effects) };
        let mut answer = None;
        let changes_devices =
            !matches!(frame, Up::Hello | Up::Alive | Up::Publish(_) | Up::Will { .. });
        match frame {
            Up::Hello | Up::Alive => {}
            Up::Publish(messages) => {
                for (number, message) in messages {
                    effects.extend(self.arrive(member, number, message));
                }
            }
            Up::Subscribe { filter, qos, retained, after } => {
                let valid = topic::is_filter(&filter) && qos < 3;
                let room = self.memory.filter(&filter, qos).filter(|_| valid);
                let is_granted = room.is_some();
                room.map(|room| known.filters.insert(filter.clone(), room));
                let (all, more) = match retained && is_granted {
                    true => self.retained(&filter, after.as_deref()),
                    false => (Vec::new(), false),
                };
                let now_s = self.clients.now_s();
                let retained = all.iter().map(|message| message.leaving(now_s)).collect();
                let code = if is_granted { qos } else { reason::UNSPECIFIED };
                answer = Some(Subscribed { code, more, retained }.encode());
            }
            Up::Subscribed => known.filters.retain(|_, own| !own.is_former),
            Up::Stored(numbers) => self.confirmed(member, &numbers),
            Up::Unsubscribe(filter) => drop(known.filters.remove(&filter)),
            Up::Will { client, will, period_s } => {
                known.period_s = period_s;
                // The former one first: a will that replaces it needs no further room.
                known.wills.remove(&client);
                let room = will.and_then(|will| self.memory.will(will, &client));
                room.map(|will| known.wills.insert(client, will));
            }
        }
        if changes_devices {
            self.touch_devices();
        }
        if is_back {
            effects.extend(self.next_alone(member));
        }
        (answer, effects)
    }

    /// A message to all clients and devices that want it.
    fn publish(&mut self, message: Message) -> Vec<Effect> {
        let mut effects = Vec::new();
        if message.retain {
            effects.extend(self.retain(&message));
        }
        let actions = self.clients.deliver(&message);
        effects.extend(self.act(actions));
        let requested =
            (0..).zip(&self.devices).filter(|(_, own)| own.wants(&message.topic).is_some());
        let members: BTreeSet<u32> = requested.map(|(member, _)| member).collect();
        if members.is_empty() {
            return effects;
        }
        self.number = self.number.wrapping_add(1);
        if message.qos > 0 && self.ledger.is_some() {
            self.revision += 1;
        }
        self.touch_devices();
        let topic = message.topic.clone();
        let Some(message) = self.memory.message((self.number, message)) else { return effects };
        let queue = self.topics.entry(topic.clone()).or_default();
        queue.waiting.push_back((message, members));
        effects.extend(self.next(&topic));
        effects
    }

    /// Sends the next messages of a topic to the devices that have the earlier ones.
    fn next(&mut self, name: &str) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some(topic) = self.topics.get_mut(name) {
            if !topic.sent.is_empty() {
                return effects;
            }
            let Some((_, members)) = topic.waiting.front() else {
                self.topics.remove(name);
                return effects;
            };
            // Only messages for the same devices share a frame.
            let same = members.clone();
            let different = |(_, members): &Addressed| *members != same;
            let length = topic.waiting.iter().position(different).unwrap_or(topic.waiting.len());
            let mut run: VecDeque<Addressed> = topic.waiting.drain(..length).collect();
            topic.sent = batch(&mut run, |(own, _)| own.numbered.1.size());
            while let Some(back) = run.pop_back() {
                topic.waiting.push_front(back);
            }
            let messages: Vec<Waiting> = topic.sent.iter().map(|(own, _)| own.clone()).collect();
            // Devices that lack earlier messages get these after them, alone, so that the others do
            // not wait (decision 85).
            let (current, behind): (Vec<u32>, Vec<u32>) =
                same.into_iter().partition(|member| self.devices[*member as usize].is_current());
            for (_, members) in &mut topic.sent {
                *members = current.iter().copied().collect();
            }
            if current.is_empty() {
                topic.sent.clear();
            } else {
                let lifetime = if current.len() > 1 { TOGETHER } else { LIFETIME };
                let frame = self.deliver(&messages).encode(self.start);
                let lane = Lane::Topic(name.to_owned());
                effects.push(Effect::Transport {
                    lane,
                    frame,
                    members: current,
                    is_request: false,
                    lifetime,
                });
            }
            for member in behind {
                effects.extend(self.alone(member, &messages));
            }
        }
        effects
    }
}

impl Side for Hub {
    fn clients(&mut self) -> &mut Clients {
        &mut self.clients
    }

    fn act(&mut self, actions: Vec<Action>) -> Vec<Effect> {
        let mut effects = Vec::new();
        for action in actions {
            match action {
                Action::Send(to, packet) => effects.push(Effect::Send(to, packet)),
                Action::Close(connection) => effects.push(Effect::Close(connection)),
                Action::Publish(origin, message) => {
                    let before = self.revision();
                    effects.extend(self.publish(message));
                    if self.revision() != before {
                        origin.iter().for_each(|origin| self.clients.accept(origin));
                        self.unacknowledged.extend(origin);
                        continue;
                    }
                    // The hub has the message now, which is all that an acknowledgement says
                    // (decision 85).
                    let answers = origin.map(|origin| self.clients.published(&origin));
                    effects.extend(self.act(answers.unwrap_or_default()));
                }
                Action::Subscribe { origin, filter, qos, retained } => {
                    effects.extend(self.subscribe(&origin, &filter, qos, retained));
                }
                Action::Unsubscribe(_) | Action::Will(..) => {}
            }
        }
        effects
    }

    fn ended(&mut self, lane: Lane, how: Ended) -> Vec<Effect> {
        let name = match lane {
            Lane::Member(member) => return self.ended_alone(member, &how),
            Lane::Topic(name) => name,
            Lane::Filter(_) | Lane::Will(_) | Lane::Alive | Lane::Stored => return Vec::new(),
        };
        if how == Ended::Waited {
            return self.next(&name);
        }
        let Some(topic) = self.topics.get_mut(&name) else { return Vec::new() };
        let sent = std::mem::take(&mut topic.sent);
        self.touch_devices();
        let Some(topic) = self.topics.get_mut(&name) else { return Vec::new() };
        if how == Ended::Full {
            // Nothing was sent, so QoS 0 can wait as well.
            sent.into_iter().rev().for_each(|own| topic.waiting.push_front(own));
            return vec![Effect::Later(Lane::Topic(name))];
        }
        let mut effects = Vec::new();
        let all = || sent.iter().flat_map(|(_, members)| members).copied().collect::<BTreeSet<_>>();
        let lacking = match &how {
            Ended::Lacking(members) => members.iter().copied().collect(),
            Ended::Lost => all(),
            Ended::Delivered(_) | Ended::Waited | Ended::Full => BTreeSet::new(),
            Ended::TooLong => {
                effects.push(Effect::Log(format!("a message of {name} is too long for the path")));
                BTreeSet::new()
            }
        };
        if matches!(how, Ended::Delivered(_) | Ended::Lacking(_)) {
            for member in all().difference(&lacking) {
                let had = sent.iter().filter(|(_, members)| members.contains(member));
                self.await_storage(*member, had.map(|(own, _)| own.clone()));
            }
        }
        for member in lacking {
            let Some(known) = self.devices.get(member as usize) else { continue };
            // QoS 0 is sent once.
            let sure = |message: &Message| {
                message.qos.min(known.wants(&message.topic).unwrap_or_default()) > 0
            };
            let again = sent.iter().filter(|(own, _)| sure(&own.numbered.1));
            let again: Vec<Waiting> = again.map(|(own, _)| own.clone()).collect();
            effects.extend(self.alone(member, &again));
        }
        effects.extend(self.next(&name));
        effects
    }

    fn clients_ref(&self) -> &Clients {
        &self.clients
    }

    fn unsaved(&self) -> Unsaved {
        let mut sessions = self.clients.unsaved();
        sessions.extend(self.device_changes(false));
        Unsaved { retained: self.unwritten(), sessions }
    }

    fn all_sessions(&self) -> Vec<Vec<Change>> {
        let mut all = self.clients.all_sessions();
        all.extend(self.device_changes(true).into_iter().map(|change| vec![change]));
        all
    }

    fn all_retained(&self) -> BTreeMap<String, Message> {
        let now_s = self.clients.now_s();
        let leaving = |(topic, own): (&String, &Message)| (topic.clone(), own.leaving(now_s));
        self.retained.iter().map(leaving).collect()
    }

    fn written(&mut self) -> Vec<Effect> {
        if let Some(unwritten) = &mut self.unwritten {
            *unwritten = Topics::default();
        }
        self.clients.saved();
        self.devices_written();
        let mut actions = Vec::new();
        for origin in std::mem::take(&mut self.unacknowledged) {
            actions.extend(self.clients.published(&origin));
        }
        self.act(actions)
    }

    fn tick(&mut self) -> Vec<Effect> {
        let actions = self.clients.tick();
        let mut effects = self.act(actions);
        effects.extend(self.clients.report().map(Effect::Log));
        effects.extend(self.clients.report_refused().map(Effect::Log));
        effects.extend(self.memory.report());
        let now_s = self.clients.now_s();
        self.retained.retain(|_, message| !message.is_expired(now_s));
        self.retained_size = self.retained.values().map(Message::size).sum();
        for member in 0..self.devices.len() {
            // As frames that have no answer.
            if let Some(until_s) = now_s.checked_sub(LIFETIME.as_secs()) {
                effects.extend(self.repeat_unconfirmed(member as u32, until_s));
            }
            let known = &mut self.devices[member];
            known.silent_s = known.silent_s.saturating_add(1);
            // One and a half periods, as for MQTT's keep alive (3.1.2.10).
            if u32::from(known.silent_s) * 2 <= u32::from(known.period_s) * 3 {
                continue;
            }
            let wills = std::mem::take(&mut known.wills);
            if !wills.is_empty() {
                effects.push(Effect::Log(format!("device {member} is silent: its wills follow")));
            }
            let wills = wills.into_values().map(|will| will.message.arrived(now_s));
            effects.extend(wills.flat_map(|will| self.publish(will)));
        }
        effects
    }
}
