//! The hub of a session: it numbers, seals and sends, hears answers, and chooses.

mod invite;
mod watch;

use self::invite::asking_time;
use super::reach::Reach;
use super::{Config, Event, Explanation, SessionError};
use crate::Nanos;
use crate::carrier::{self, Carried, HubCarrier, Load, Place, To};
use crate::chance::Chance;
use crate::conditions::Conditions;
use crate::envelope::{self, FromMember};
use crate::estimate::Estimator;
use crate::keys::Root;
use crate::map::PerformanceMap;
use crate::model::{ModelId, Models};
use crate::policy::{Decision, Policy};
use crate::switch::{Action, MemberId, MessageId, Phase, Switch};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// A message that somebody is awaited for.
struct Outgoing {
    bytes: Vec<u8>,
    to: usize,
    sent_at: Nanos,
    /// By when it should be over; none once that was looked at.
    due: Option<Nanos>,
    until: Option<Nanos>,
}

/// A model in use.
struct Stage {
    model: ModelId,
    carrier: Box<dyn HubCarrier>,
    /// What the channel was taken to carry when it was opened, in bit/s, and a round trip.
    rate_bit_s: f64,
    rtt_ns: Nanos,
    /// Bytes of its datagrams at most.
    datagram: usize,
    /// When it goes, once nothing is under way on it: members may not know that yet, and ask.
    until: Option<Nanos>,
}

/// So long, and four round trips, a model is kept that nothing is under way on.
const LINGER: Nanos = 1_000_000_000;

/// The hub of a session.
pub struct Hub {
    config: Config,
    root: Root,
    invites: Root,
    members: u16,
    switch: Switch,
    stages: BTreeMap<u32, Stage>,
    messages: BTreeMap<MessageId, Outgoing>,
    next: MessageId,
    policy: Policy,
    map: Arc<PerformanceMap>,
    estimator: Estimator,
    /// What the channel is taken to carry, in bit/s.
    rate_bit_s: f64,
    /// Bytes of packets at most, as they were said to be.
    said_mtu: f64,
    reach: Reach,
    last: Option<Decision>,
    /// The models that members have said to have.
    have: BTreeMap<MemberId, Models>,
    /// Who has never said to be ready.
    absent: BTreeSet<MemberId>,
    invite_at: Nanos,
    control: VecDeque<(MemberId, u32)>,
    control_at: Nanos,
    decide_at: Nanos,
    urgent: bool,
    /// When the last datagram came from a member.
    heard_at: Nanos,
    /// When something came after nothing had for a while.
    resumed_at: Nanos,
    answer: usize,
    payload: usize,
    /// To how many members the last message went.
    fan_out: usize,
    /// When the last messages were sent, for their rate.
    sent_at: VecDeque<Nanos>,
    chance: Chance,
    events: VecDeque<Event>,
}

impl Hub {
    /// A session that begins at `session` us since 1970 with so many members; what chance
    /// decides comes from `seed`.
    ///
    /// # Errors
    /// When the key is too short, no model suits, or there are no members.
    pub fn new(
        config: Config,
        map: Arc<PerformanceMap>,
        members: usize,
        session: u64,
        seed: u64,
    ) -> Result<Self, SessionError> {
        let count = u16::try_from(members).ok().filter(|count| (1..u16::MAX).contains(count));
        let count = count.ok_or(SessionError::Members(members))?;
        let root = config.security.root(session)?;
        let invites = config.security.root(0)?;
        let mut models = carrier::available();
        models.extend(config.outside.iter().copied().filter(|model| model.is_outside()));
        models.retain(|model| config.models.is_empty() || config.models.contains(model));
        let why = |model: &ModelId| model.suits(config.pattern, &config.properties).err();
        let suits: Vec<ModelId> = models.iter().copied().filter(|m| why(m).is_none()).collect();
        let Some(first) = suits.first() else {
            let because = models.iter().filter_map(|m| Some(format!("{m}: {}", why(m)?)));
            return Err(SessionError::NoModel(because.collect::<Vec<_>>().join(", ")));
        };
        let assumed = Conditions { group: f64::from(count), ..config.assumed };
        let (pattern, asked) = (config.pattern, config.properties);
        let mut policy =
            Policy::new(pattern, asked, config.targets, &suits, *first, config.settings);
        // It begins with what the map says is best, not with the first in the list.
        let estimator = Estimator::new();
        policy.may_lose(estimator.most_loss(assumed.loss));
        let first = policy.begin(&assumed, &map);
        let all = 0..u32::from(count);
        let mut hub = Self {
            switch: Switch::new(first, all.clone(), asking_time(&assumed, count)),
            stages: BTreeMap::new(),
            root,
            invites,
            members: count,
            messages: BTreeMap::new(),
            next: 0,
            policy,
            map,
            estimator,
            rate_bit_s: config.assumed.rate_bit_s,
            said_mtu: config.assumed.mtu,
            reach: Reach::default(),
            last: None,
            have: BTreeMap::new(),
            absent: all.collect(),
            invite_at: 0,
            control: VecDeque::new(),
            control_at: 0,
            decide_at: 0,
            urgent: false,
            heard_at: 0,
            resumed_at: 0,
            answer: 0,
            payload: config.assumed.payload as usize,
            fan_out: members,
            sent_at: VecDeque::new(),
            chance: Chance::new(seed),
            events: VecDeque::new(),
            config,
        };
        hub.open(first, 0);
        Ok(hub)
    }

    /// What the network is like, as far as it is known.
    pub fn conditions(&self) -> Conditions {
        let spans = self.sent_at.len().saturating_sub(1);
        let rate = match (self.sent_at.front(), self.sent_at.back()) {
            (Some(first), Some(last)) if last > first => spans as f64 * 1e9 / (last - first) as f64,
            _ => self.config.assumed.messages_s,
        };
        let known = Conditions {
            group: self.fan_out as f64,
            payload: self.payload as f64,
            messages_s: rate,
            rate_bit_s: self.rate_bit_s,
            ..self.config.assumed
        };
        self.estimator.conditions(known)
    }

    fn open(&mut self, model: ModelId, epoch: u32) {
        let here = self.conditions();
        let seed = self.chance.bits();
        let overhead = envelope::DATA_OVERHEAD + 6;
        // While none was seen, an answer is taken to be as long as a message.
        let answer = if self.answer > 0 { self.answer } else { self.payload };
        let targets = &self.config.targets;
        let place = Place {
            root: self.root.clone(),
            epoch,
            members: self.members,
            datagram: self.config.datagram(),
            below: self.config.below,
            rate_bit_s: here.rate_bit_s,
            loss: here.loss,
            round_trip: here.rtt_ns,
            answer: answer + overhead,
            thrifty: targets.data_budget.is_some() || targets.energy.is_some(),
            seed,
        };
        if let Some(carrier) = carrier::hub(model, &place) {
            let Conditions { rate_bit_s, rtt_ns, .. } = here;
            let datagram = self.config.datagram();
            let stage = Stage { model, carrier, rate_bit_s, rtt_ns, datagram, until: None };
            self.stages.insert(epoch, stage);
        }
    }

    /// The longest packets that get through, in bytes, where that is known; those that were
    /// assumed are never exceeded. Members are told when it changes.
    pub fn packets(&mut self, mtu: Option<u32>, now: Nanos) {
        self.config.assumed.mtu = mtu.map_or(self.said_mtu, |mtu| self.said_mtu.min(mtu.into()));
        self.renew(now);
    }

    /// Whether all members have said that they are there.
    pub fn is_ready(&self) -> bool {
        self.absent.is_empty()
    }

    /// Members that have not been heard of.
    pub fn absent(&self) -> impl Iterator<Item = MemberId> {
        self.absent.iter().copied()
    }

    /// Sends a message to all; its number.
    ///
    /// # Errors
    /// When no model in use can carry it.
    pub fn send(&mut self, bytes: &[u8], now: Nanos) -> Result<MessageId, SessionError> {
        let all: Vec<MemberId> = (0..u32::from(self.members)).collect();
        self.send_to(bytes, &all, now)
    }

    /// Sends a message to some; its number.
    ///
    /// # Errors
    /// When no model in use can carry it.
    pub fn send_to(
        &mut self,
        bytes: &[u8],
        to: &[MemberId],
        now: Nanos,
    ) -> Result<MessageId, SessionError> {
        let number = self.next;
        self.next += 1;
        self.payload = bytes.len().max(1);
        self.fan_out = to.len().max(1);
        self.sent_at.push_back(now);
        if self.sent_at.len() > 32 {
            self.sent_at.pop_front();
        }
        let until = self.config.targets.deadline_ns.map(|deadline| now + deadline);
        let bytes = bytes.to_vec();
        let outgoing = Outgoing { bytes, to: to.len(), sent_at: now, due: None, until };
        self.messages.insert(number, outgoing);
        self.forget_oldest();
        let actions = self.switch.send_to(number, to);
        if let Err(error) = self.perform(actions, now)
            && !self.gives_way(&error, now)
        {
            self.switch.forget(number);
            self.messages.remove(&number);
            return Err(error);
        }
        Ok(number)
    }

    fn perform(&mut self, actions: Vec<Action>, now: Nanos) -> Result<(), SessionError> {
        let due = now + self.patience();
        let mut performed = Ok(());
        for action in actions {
            match action {
                Action::Prepare { model, epoch } => self.open(model, epoch),
                Action::Ask { member, epoch } => self.control.push_back((member, epoch)),
                Action::Retire { epoch, .. } => {
                    let until = now + LINGER + 4 * self.conditions().rtt_ns;
                    if let Some(stage) = self.stages.get_mut(&epoch) {
                        stage.carrier.retire(now);
                        stage.until = Some(until);
                    }
                }
                Action::Send { message, model, epoch, members } => {
                    let Some(outgoing) = self.messages.get_mut(&message) else { continue };
                    outgoing.due = Some(due);
                    let Some(stage) = self.stages.get_mut(&epoch) else { continue };
                    let sealed = envelope::seal_data(&self.root, epoch, message, &outgoing.bytes);
                    let load = Load {
                        number: message,
                        sealed: &sealed,
                        answered: self.config.pattern.is_answered(),
                        until: outgoing.until,
                    };
                    let sent = stage.carrier.send(load, &members, now);
                    performed =
                        performed.and(sent.map_err(|why| SessionError::Refused(model, why)));
                }
            }
        }
        performed
    }

    /// Takes a datagram that came from the address of `from`, if it is a member's, or a frame of
    /// another stack.
    pub fn receive(&mut self, datagram: &[u8], from: Option<MemberId>, now: Nanos) {
        self.estimator.arrival(now, datagram.len() + self.config.below);
        if from.is_some() {
            self.heard(now);
        }
        if let Some(known) = envelope::open_hello(&self.invites, datagram) {
            // Whoever has started anew is told where the session is.
            if let Some(member) = from {
                // There is none after the last number.
                let later = known.checked_add(1).filter(|_| known > self.root.session());
                if let Some(later) = later {
                    self.renumber(later, now);
                }
                let (_, epoch) = self.switch.current();
                self.control.push_front((member, epoch));
            }
            return;
        }
        if envelope::is_envelope(datagram) {
            self.envelope(datagram, now);
            return;
        }
        let mut told = Vec::new();
        // Frames of other stacks say no epoch: envelopes do, and once will do.
        let outside = carrier::model_of(datagram);
        let newest = self.stages.iter().rev().find(|(_, stage)| Some(stage.model) == outside);
        let newest = newest.map(|(epoch, _)| *epoch);
        for (epoch, stage) in &mut self.stages {
            if carrier::is_of(stage.model, datagram) && newest.is_none_or(|newest| newest == *epoch)
            {
                stage.carrier.receive(datagram, from, now);
                told.extend(stage.carrier.take());
            }
        }
        self.hear(told, now);
    }

    /// Somebody is there.
    fn heard(&mut self, now: Nanos) {
        if now.saturating_sub(self.heard_at) > self.patience() {
            self.resumed_at = now;
        }
        self.heard_at = now;
    }

    fn hear(&mut self, told: Vec<Carried>, now: Nanos) {
        for carried in told {
            match carried {
                Carried::Had(member, number) => {
                    // Where an answer is awaited, only the answer will do.
                    if !self.config.pattern.is_answered() {
                        self.acknowledged(member, number, now);
                    }
                }
                Carried::Envelope(bytes) => self.envelope(&bytes, now),
                Carried::Frames { came, lost } => self.estimator.frames(came, lost),
                Carried::RoundTrip(ns) => self.estimator.round_trip(ns),
                Carried::Unreached => {
                    if self.reach.block(now) {
                        self.policy.multicast(false);
                        self.urgent = true;
                    }
                }
            }
        }
    }

    fn envelope(&mut self, bytes: &[u8], now: Nanos) {
        let (_, epoch) = self.switch.current();
        let Some((member, what)) = envelope::open_member(&self.root, (epoch, self.next), bytes)
        else {
            return;
        };
        // By another stack it has no address.
        self.heard(now);
        match what {
            FromMember::Answer(number, body) => {
                if self.switch.owes(number, member) {
                    self.answer = body.len();
                    self.events.push_back(Event::Answer { message: number, member, bytes: body });
                    self.done(member, number, now);
                }
            }
            FromMember::Acknowledge(number) => self.acknowledged(member, number, now),
            FromMember::Cannot(_, models) => self.member_has(member, models),
            FromMember::Ready(epoch, models) => {
                self.member_has(member, models);
                if self.absent.remove(&member) {
                    self.events.push_back(Event::Joined(member));
                }
                if self.reach.heard(member, now) {
                    self.policy.multicast(true);
                }
                let actions = self.switch.ready(member, epoch);
                // What cannot be carried by the new model expires.
                let _ = self.perform(actions, now);
            }
        }
    }

    fn acknowledged(&mut self, member: MemberId, number: MessageId, now: Nanos) {
        if self.switch.owes(number, member) && !self.config.pattern.is_answered() {
            self.events.push_back(Event::Acknowledged { message: number, member });
            self.done(member, number, now);
        }
    }

    fn done(&mut self, member: MemberId, number: MessageId, now: Nanos) {
        self.switch.acknowledged(member, number);
        if !self.switch.is_open(number)
            && let Some(outgoing) = self.messages.remove(&number)
        {
            self.policy.observed((now - outgoing.sent_at.min(now)) as f64 / 1e6);
            self.look_at_rate();
            self.renew(now);
            self.events.push_back(Event::Over { message: number, lacking: Vec::new() });
        }
    }

    /// The next datagram that goes at `now`, and when to look again.
    pub fn poll(&mut self, now: Nanos) -> (Option<(To, Vec<u8>)>, Option<Nanos>) {
        self.expire(now);
        self.stages.retain(|_, stage| stage.until.is_none_or(|until| until > now));
        self.invite(now);
        self.decide(now);
        let actions = self.switch.tick(now);
        let _ = self.perform(actions, now);
        let mut wake = self.wake();
        if now >= self.control_at
            && let Some((member, epoch)) = self.control.pop_front()
            && let Some(bytes) = self.invitation(member, epoch)
        {
            let bits = (bytes.len() + self.config.below) as f64 * 8e9;
            // The answer needs its time on the air, too.
            self.control_at = now + (2.0 * bits / self.conditions().rate_bit_s) as Nanos;
            return (Some((To::Member(member), bytes)), Some(self.control_at));
        }
        if !self.control.is_empty() {
            wake = [wake, Some(self.control_at)].into_iter().flatten().min();
        }
        if self.reach.next_at().is_some_and(|at| at <= now) {
            let member = (self.chance.share() * f64::from(self.members)) as u16;
            self.reach.probe(member.into(), now);
            let probe = envelope::seal_probe(&self.root, self.chance.bits(), member);
            return (Some((To::Group, probe)), Some(now));
        }
        let mut told = Vec::new();
        let mut next = None;
        for stage in self.stages.values_mut() {
            let (datagram, look) = stage.carrier.poll(now);
            told.extend(stage.carrier.take());
            wake = [wake, look].into_iter().flatten().min();
            if datagram.is_some() {
                next = datagram;
                break;
            }
        }
        self.hear(told, now);
        (next, wake)
    }

    fn wake(&self) -> Option<Nanos> {
        let invites = (!self.absent.is_empty()).then_some(self.invite_at);
        let deadlines = self.messages.values().filter_map(|message| message.until).min();
        let decide = (!self.messages.is_empty() || self.urgent).then_some(self.decide_at);
        let probe = self.reach.next_at();
        [invites, deadlines, decide, probe, self.switch.ask_at()].into_iter().flatten().min()
    }

    /// Gives up what is too late.
    fn expire(&mut self, now: Nanos) {
        let late = |(number, message): (&MessageId, &Outgoing)| {
            message.until.is_some_and(|until| until <= now).then_some(*number)
        };
        let late: Vec<MessageId> = self.messages.iter().filter_map(late).collect();
        for number in late {
            self.messages.remove(&number);
            let lacking = self.switch.forget(number);
            self.urgent |= !lacking.is_empty();
            self.events.push_back(Event::Over { message: number, lacking });
        }
    }

    /// Goes over to a model, whatever the map says; not while a change is going on, and not
    /// where somebody is known not to have it.
    pub fn force(&mut self, to: ModelId, now: Nanos) -> bool {
        let from = self.switch.current().0;
        let stable = self.switch.phase() == Phase::Stable;
        let possible = stable && from != to && self.policy.has(to);
        if possible {
            self.policy.follow(to, now);
            self.change(from, to, now);
        }
        possible
    }

    /// What has happened since the last time.
    pub fn take_events(&mut self) -> VecDeque<Event> {
        std::mem::take(&mut self.events)
    }

    /// Messages for which somebody is awaited.
    pub fn open_messages(&self) -> usize {
        self.messages.len()
    }

    /// Why the session uses the model that it uses.
    pub fn explain(&self) -> Explanation {
        Explanation {
            model: self.switch.current().0,
            changing: self.switch.phase() == Phase::Changing,
            conditions: self.conditions(),
            estimate: self.estimator.estimate(),
            multicast: !self.reach.is_blocked(),
            decision: self.last.clone(),
        }
    }
}
