//! The hub of a session: numbers, seals and sends messages, receives answers, selects models.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
mod apart;
mod distances;
mod echoes;
mod epoch;
mod invite;
mod invite_queue;
mod lanes;
mod measure;
mod memory;
mod outgoing;
mod packets;
mod pairing;
mod places;
mod receive;
mod retries;
mod revoke;
mod send;
mod stored;
mod strangers;
mod subscribers;
mod supervise;
mod topics;
mod uplink;

use self::apart::Apart;
use self::distances::Distances;
use self::echoes::Echoes;
use self::invite_queue::{InviteQueue, asking_time};
use self::lanes::Uplinks;
use self::memory::Memory;
use self::outgoing::Outgoing;
use self::pairing::Pairing;
use self::places::Strangers;
use self::retries::Retries;
use self::subscribers::Topics;
use super::multicast::MulticastHealth;
use super::security::Psks;
use super::{Config, Event, Explanation, SessionError};
use crate::capacity::Capacity;
use crate::carrier::{self, CarrierEvent, HubCarrier, To};
use crate::downlink::Downlink;
use crate::estimate::Estimator;
use crate::keys::{Root, SessionId};
use crate::map::PerformanceMap;
use crate::model::{ModelId, Models};
use crate::path_mtu::PathMtu;
use crate::platform::Arc;
use crate::policy::{Decision, Policy};
use crate::rng::{Rng, Seed};
use crate::signature::Authority;
use crate::switch::{MemberId, MessageId, Phase, Switch};
use crate::{Instant, Span};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

/// A model in use.
struct Stage {
    model: ModelId,
    /// The group's secret in this epoch, and its keys.
    secret: [u8; 32],
    root: Root,
    carrier: Box<dyn HubCarrier>,
    /// Number of its first message.
    first: MessageId,
    /// Assumed round-trip time when the stage was opened.
    rtt: Span,
    /// Maximum datagram size, in bytes.
    datagram: usize,
    /// Time of its removal after it was retired: members may not know yet, and still use it.
    until: Option<Instant>,
}

/// A retired model is kept for this time plus four round trips.
const LINGER: Span = Span::from_s(1);

/// The hub (root endpoint) of a session.
pub struct Hub {
    config: Config,
    session: SessionId,
    psks: Psks,
    /// How messages to all are signed.
    authority: Authority,
    /// Keys with members.
    pairings: BTreeMap<MemberId, Pairing>,
    /// Whether the group needs new keys.
    rekey: bool,
    /// Number of members that can join, known ones first.
    members: u16,
    switch: Switch,
    stages: BTreeMap<u32, Stage>,
    messages: BTreeMap<MessageId, Outgoing>,
    next: MessageId,
    policy: Policy,
    map: Arc<PerformanceMap>,
    estimator: Estimator,
    /// Estimate of the path's capacity.
    capacity: Capacity,
    echoes: Echoes,
    distances: Distances,
    apart: Apart,
    /// Configured MTU, in bytes.
    configured_mtu: f64,
    path_mtu: PathMtu,
    multicast: MulticastHealth,
    last: Option<Decision>,
    /// Models that members have announced.
    models: BTreeMap<MemberId, Models>,
    /// Members that have never reported ready.
    absent: BTreeSet<MemberId>,
    /// Time and size of the last invitation round, and consecutive rounds without a new member.
    invited: Option<(Instant, u16)>,
    failed_rounds: u32,
    /// Members to be invited, and the earliest time of the next invitation.
    invite_queue: InviteQueue,
    /// Absent members whose handshakes are in progress.
    retries: Retries,
    /// Members whose hellos are to be answered.
    hellos: VecDeque<MemberId>,
    /// Control messages to send next.
    control: VecDeque<(MemberId, Vec<u8>)>,
    /// Number of multicast probes.
    probes: u32,
    control_at: Instant,
    /// See [`Self::poll`]: the time, and that of the next poll without models. Each call that
    /// changes anything else must reset it.
    settled: Option<(Instant, Option<Instant>)>,
    decide_at: Instant,
    urgent: bool,
    /// Length of the datagram in hand, until it is proved to be from a member.
    unproved: Option<usize>,
    /// Time of the last datagram from a member.
    heard_at: Instant,
    /// When a member last answered or acknowledged a message, and when a model last sent a datagram.
    served_at: Instant,
    carried_at: Instant,
    /// Time of the first datagram after a silence.
    resumed_at: Instant,
    answer: usize,
    payload: usize,
    /// Number of receivers of the last message.
    fan_out: usize,
    /// Sending times of the last messages, for the message rate.
    sent_at: VecDeque<Instant>,
    rng: Rng,
    strangers: Strangers,
    uplinks: Uplinks,
    topics: Topics,
    memory: Memory,
    /// Messages that outlast this start, if there is a storage.
    downlink: Option<Downlink>,
    /// The member that the last datagram is from, if it is certainly not a repeated one.
    fresh: Option<MemberId>,
    events: VecDeque<Event>,
    /// A buffer for what transports report.
    carried: Vec<CarrierEvent>,
}

impl Hub {
    /// A session with this number of known members, and the places of the configuration. Two
    /// sessions must not use the same seed: keys are made from it too.
    ///
    /// # Errors
    /// [`SessionError`] if a key is too short or missing, no model suits, or `members` is out of
    /// range.
    pub fn new(
        config: Config,
        map: Arc<PerformanceMap>,
        members: usize,
        seed: &Seed,
    ) -> Result<Self, SessionError> {
        let (known, members) = (members, members.saturating_add(config.places));
        let count = u16::try_from(members).ok().filter(|count| (1..u16::MAX).contains(count));
        let count = count.ok_or(SessionError::Members(members))?;
        // Without a known member, the choice of the first model is for one.
        let (present, psks) = (known.clamp(1, members) as u16, config.security.of_hub(members)?);
        let (mut rng, all) = (Rng::new(seed), 0..u32::from(count));
        let (suits, first) = Self::suitable(&config)?;
        let (capacity, assumed) = Self::begin(&config, present);
        let Config { pattern, properties, targets, settings, lifetime, .. } = config;
        let policy = Policy::new(pattern, properties, targets, &suits, first, settings);
        let mut policy = policy.with_lifetime(lifetime);
        policy.needs_measuring(capacity.is_estimated() && config.models.is_empty());
        policy.may_lose(Estimator::new().upper_loss(assumed.loss));
        let first = policy.begin(&assumed, &map);
        let authority = psks.authority(config.signed, &mut rng)?;
        let mut hub = Self {
            switch: Switch::new(first, all.clone(), asking_time(&assumed, present)),
            stages: BTreeMap::new(),
            session: rng.bytes(),
            psks,
            authority,
            pairings: BTreeMap::new(),
            rekey: false,
            members: count,
            messages: BTreeMap::new(),
            next: 0,
            policy,
            map,
            estimator: Estimator::new(),
            capacity,
            echoes: Echoes::default(),
            distances: Distances::default(),
            apart: Apart::default(),
            configured_mtu: config.assumed.mtu,
            path_mtu: PathMtu::new(config.assumed.mtu as u32),
            multicast: MulticastHealth::default(),
            last: None,
            models: BTreeMap::new(),
            absent: all.collect(),
            invited: None,
            failed_rounds: 0,
            invite_queue: InviteQueue::default(),
            retries: Retries::default(),
            hellos: VecDeque::new(),
            control: VecDeque::new(),
            probes: 0,
            control_at: Instant::START,
            settled: None,
            decide_at: Instant::START,
            urgent: false,
            unproved: None,
            heard_at: Instant::START,
            served_at: Instant::START,
            carried_at: Instant::START,
            resumed_at: Instant::START,
            answer: 0,
            payload: config.assumed.payload as usize,
            fan_out: present.into(),
            sent_at: VecDeque::new(),
            rng,
            strangers: Strangers::default(),
            uplinks: Uplinks::default(),
            topics: Topics::default(),
            memory: Memory::default(),
            downlink: None,
            fresh: None,
            events: VecDeque::new(),
            carried: Vec::new(),
            config,
        };
        hub.open(first, 0);
        hub.vacate(known as u32);
        Ok(hub)
    }

    /// The models that suit the session, and the first of them.
    fn suitable(config: &Config) -> Result<(Vec<ModelId>, ModelId), SessionError> {
        let mut models = carrier::available();
        models.extend(config.outside.iter().copied().filter(|model| model.is_outside()));
        models.retain(|model| config.models.is_empty() || config.models.contains(model));
        let why = |model: &ModelId| model.suits(config.pattern, &config.properties).err();
        let suits: Vec<ModelId> = models.iter().copied().filter(|m| why(m).is_none()).collect();
        let Some(first) = suits.first().copied() else {
            let because = models.iter().filter_map(|m| Some(format!("{m}: {}", why(m)?)));
            return Err(SessionError::no_model(because, &config.models, &models));
        };
        Ok((suits, first))
    }

    /// The next datagram at `now`, and the time of the next poll.
    pub fn poll(&mut self, now: Instant) -> (Option<(To, Vec<u8>)>, Option<Instant>) {
        // Nothing else has changed since a model gave a datagram at this time.
        if let Some((_, wake)) = self.settled.take().filter(|(at, _)| *at == now) {
            return self.poll_models(now, wake);
        }
        // What has ended goes first: the steps after it ask for and repeat what is open.
        self.expire(now);
        self.vacate_silent(now);
        self.stages.retain(|_, stage| stage.until.is_none_or(|until| until > now));
        self.change_keys(now);
        self.invite(now);
        self.relay_topics(now);
        let stored = self.send_stored(now);
        self.decide(now);
        let actions = self.switch.tick(now);
        let _ = self.perform(actions, now);
        let mut wake = [self.wake(), stored].into_iter().flatten().min();
        // Keys, invitations and probes go before the models' datagrams, which can fill the channel
        // for long.
        if now >= self.control_at
            && let Some((member, bytes)) = self
                .next_control(now)
                .or_else(|| self.next_probe(now))
                .or_else(|| self.next_echo(now))
        {
            let bits = (bytes.len() + self.config.below) as f64 * 8e9;
            // Leave channel time for the answer.
            self.control_at = now + Span::from_ns_f64(2.0 * bits / self.capacity.rate());
            self.record_invitation(member, &bytes, now);
            return (Some((To::Member(member), bytes)), Some(self.control_at));
        }
        let probe = self.path_mtu.next_at().map(|at| at.max(self.control_at));
        let control = self.has_control().then_some(self.control_at);
        wake = [wake, control, probe].into_iter().flatten().min();
        if let Some(probe) = self.probe_multicast(now) {
            return (Some((To::Group, probe)), Some(now));
        }
        let (datagram, look) = self.poll_uplinks(now);
        wake = [wake, look].into_iter().flatten().min();
        if datagram.is_some() {
            return (datagram, wake);
        }
        self.poll_models(now, wake)
    }

    fn wake(&self) -> Option<Instant> {
        // While control messages are queued, `invite` does nothing: with its time, which may have
        // passed, the driver would poll without a pause.
        let invites = !self.absent.is_empty() && !self.has_control();
        let invites = invites.then(|| self.invite_at());
        let deadlines = self.messages.values().filter_map(|message| message.until).min();
        let decide = (!self.messages.is_empty() || self.urgent).then_some(self.decide_at);
        let probe = self.multicast.next_at();
        let silent = self.strangers.wake();
        let all = [invites, deadlines, decide, probe, silent, self.switch.ask_at()];
        all.into_iter().flatten().min()
    }

    /// Changes to a model regardless of the map. Returns `false` and does nothing during a
    /// change, or if a member lacks the model.
    pub fn force(&mut self, to: ModelId, now: Instant) -> bool {
        self.settled = None;
        let from = self.switch.current().0;
        let stable = self.switch.phase() == Phase::Stable;
        let possible = stable && from != to && self.policy.has(to);
        if possible {
            self.policy.set_current(to, now);
            self.change(from, to, now);
        }
        possible
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
            apart: self.apart.members().clone(),
            decision: self.last.clone(),
        }
    }
}
