//! The hub of a session: numbers, seals and sends messages, receives answers, selects models.

mod invite;
mod invite_queue;
mod receive;
mod send;
mod supervise;

use self::invite_queue::{InviteQueue, asking_time};
use super::multicast::MulticastHealth;
use super::{Config, Event, Explanation, SessionError};
use crate::Nanos;
use crate::carrier::{self, HubCarrier, Params, To};
use crate::conditions::Conditions;
use crate::envelope;
use crate::estimate::Estimator;
use crate::keys::Root;
use crate::map::PerformanceMap;
use crate::model::{ModelId, Models};
use crate::policy::{Decision, Policy};
use crate::rng::Rng;
use crate::switch::{MemberId, MessageId, Phase, Switch};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// A message with missing answers or acknowledgements.
struct Outgoing {
    bytes: Vec<u8>,
    to: usize,
    sent_at: Nanos,
    /// Time of the next lateness check; `None` after it.
    due: Option<Nanos>,
    until: Option<Nanos>,
}

/// A model in use.
struct Stage {
    model: ModelId,
    carrier: Box<dyn HubCarrier>,
    /// Assumed data rate in bit/s and round-trip time in ns when the stage was opened.
    rate_bit_s: f64,
    rtt_ns: Nanos,
    /// Maximum datagram size, in bytes.
    datagram: usize,
    /// Time of its removal after it was retired: members may not know yet, and still use it.
    until: Option<Nanos>,
}

/// A retired model is kept for this time plus four round trips.
const LINGER: Nanos = 1_000_000_000;

/// The hub (root endpoint) of a session.
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
    /// Current estimate of the data rate, in bit/s.
    rate_bit_s: f64,
    /// Configured MTU, in bytes.
    configured_mtu: f64,
    multicast: MulticastHealth,
    last: Option<Decision>,
    /// Models that members have announced.
    models: BTreeMap<MemberId, Models>,
    /// Members that have never reported ready.
    absent: BTreeSet<MemberId>,
    /// Time and size of the last invitation round, and consecutive rounds without a new member.
    invited: Option<(Nanos, u16)>,
    failed_rounds: u32,
    /// Members to be invited, and the earliest time of the next invitation.
    invite_queue: InviteQueue,
    control_at: Nanos,
    decide_at: Nanos,
    urgent: bool,
    /// Time of the last datagram from a member.
    heard_at: Nanos,
    /// Time of the first datagram after a silence.
    resumed_at: Nanos,
    answer: usize,
    payload: usize,
    /// Number of receivers of the last message.
    fan_out: usize,
    /// Sending times of the last messages, for the message rate.
    sent_at: VecDeque<Nanos>,
    rng: Rng,
    events: VecDeque<Event>,
}

impl Hub {
    /// A session with this number of members. `session` is its start in us since 1970; `seed`
    /// seeds all random decisions.
    ///
    /// # Errors
    /// [`SessionError`] if the key is too short, no model suits, or `members` is out of range.
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
        // Start with the best model of the map, not with the first in the list.
        let estimator = Estimator::new();
        policy.may_lose(estimator.upper_loss(assumed.loss));
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
            configured_mtu: config.assumed.mtu,
            multicast: MulticastHealth::default(),
            last: None,
            models: BTreeMap::new(),
            absent: all.collect(),
            invited: None,
            failed_rounds: 0,
            invite_queue: InviteQueue::default(),
            control_at: 0,
            decide_at: 0,
            urgent: false,
            heard_at: 0,
            resumed_at: 0,
            answer: 0,
            payload: config.assumed.payload as usize,
            fan_out: members,
            sent_at: VecDeque::new(),
            rng: Rng::new(seed),
            events: VecDeque::new(),
            config,
        };
        hub.open(first, 0);
        Ok(hub)
    }

    /// Current conditions: configured values, corrected by estimates.
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
        let seed = self.rng.bits();
        let overhead = envelope::DATA_OVERHEAD + 6;
        // Before the first answer, assume that answers are as long as messages.
        let answer = if self.answer > 0 { self.answer } else { self.payload };
        let targets = &self.config.targets;
        let params = Params {
            root: self.root.clone(),
            epoch,
            members: self.members,
            datagram: self.config.datagram(),
            below: self.config.below,
            rate_bit_s: here.rate_bit_s,
            loss: here.loss,
            round_trip: here.rtt_ns,
            answer: answer + overhead,
            efficient: targets.data_budget.is_some() || targets.energy.is_some(),
            seed,
        };
        if let Some(carrier) = carrier::hub(model, &params) {
            let Conditions { rate_bit_s, rtt_ns, .. } = here;
            let datagram = self.config.datagram();
            let stage = Stage { model, carrier, rate_bit_s, rtt_ns, datagram, until: None };
            self.stages.insert(epoch, stage);
        }
    }

    /// Sets the path MTU in bytes, or `None` if unknown; the configured MTU remains the upper
    /// limit. Members are informed of a change.
    pub fn packets(&mut self, mtu: Option<u32>, now: Nanos) {
        self.config.assumed.mtu =
            mtu.map_or(self.configured_mtu, |mtu| self.configured_mtu.min(mtu.into()));
        self.renew(now);
    }

    /// Whether all members have joined.
    pub fn is_ready(&self) -> bool {
        self.absent.is_empty()
    }

    /// Members that have not joined.
    pub fn absent(&self) -> impl Iterator<Item = MemberId> {
        self.absent.iter().copied()
    }

    /// The next datagram at `now`, and the time of the next poll.
    pub fn poll(&mut self, now: Nanos) -> (Option<(To, Vec<u8>)>, Option<Nanos>) {
        self.expire(now);
        self.stages.retain(|_, stage| stage.until.is_none_or(|until| until > now));
        self.invite(now);
        self.decide(now);
        let actions = self.switch.tick(now);
        let _ = self.perform(actions, now);
        let mut wake = self.wake();
        if now >= self.control_at
            && let Some((member, epoch)) = self.invite_queue.pop()
            && let Some(bytes) = self.invitation(member, epoch)
        {
            let bits = (bytes.len() + self.config.below) as f64 * 8e9;
            // Leave channel time for the answer.
            self.control_at = now + (2.0 * bits / self.conditions().rate_bit_s) as Nanos;
            return (Some((To::Member(member), bytes)), Some(self.control_at));
        }
        if !self.invite_queue.is_empty() {
            wake = [wake, Some(self.control_at)].into_iter().flatten().min();
        }
        if self.multicast.next_at().is_some_and(|at| at <= now) {
            let member = (self.rng.uniform() * f64::from(self.members)) as u16;
            self.multicast.probe(member.into(), now);
            let probe = envelope::seal_probe(&self.root, self.rng.bits(), member);
            return (Some((To::Group, probe)), Some(now));
        }
        let mut events = Vec::new();
        let mut next = None;
        for stage in self.stages.values_mut() {
            let (datagram, look) = stage.carrier.poll(now);
            events.extend(stage.carrier.take());
            wake = [wake, look].into_iter().flatten().min();
            if datagram.is_some() {
                next = datagram;
                break;
            }
        }
        self.handle_carrier_events(events, now);
        (next, wake)
    }

    fn wake(&self) -> Option<Nanos> {
        let invites = (!self.absent.is_empty()).then(|| self.invite_at());
        let deadlines = self.messages.values().filter_map(|message| message.until).min();
        let decide = (!self.messages.is_empty() || self.urgent).then_some(self.decide_at);
        let probe = self.multicast.next_at();
        [invites, deadlines, decide, probe, self.switch.ask_at()].into_iter().flatten().min()
    }

    /// Drops messages after their deadline.
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

    /// Changes to a model regardless of the map. Returns `false` and does nothing during a
    /// change, or if a member lacks the model.
    pub fn force(&mut self, to: ModelId, now: Nanos) -> bool {
        let from = self.switch.current().0;
        let stable = self.switch.phase() == Phase::Stable;
        let possible = stable && from != to && self.policy.has(to);
        if possible {
            self.policy.set_current(to, now);
            self.change(from, to, now);
        }
        possible
    }

    /// Events since the last call.
    pub fn take_events(&mut self) -> VecDeque<Event> {
        std::mem::take(&mut self.events)
    }

    /// Number of messages with missing answers or acknowledgements.
    pub fn open_messages(&self) -> usize {
        self.messages.len()
    }

    /// Explains which model the session uses and why.
    pub fn explain(&self) -> Explanation {
        Explanation {
            model: self.switch.current().0,
            changing: self.switch.phase() == Phase::Changing,
            conditions: self.conditions(),
            estimate: self.estimator.estimate(),
            multicast: !self.multicast.is_blocked(),
            decision: self.last.clone(),
        }
    }
}
