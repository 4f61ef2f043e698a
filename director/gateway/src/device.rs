//! The gateway of a device: clients publish to the hub, which has subscriptions and retained
//! messages. No I/O and no clock.

mod former;
mod heard;
mod silence;
mod states;

use crate::budget::{Held, OVERHEAD};
use crate::clients::{Action, Clients};
use crate::gateway::{BATCH, Effect, Ended, LIFETIME, Lane, Seen, Side, batch};
use crate::kept::{Change, Unsaved};
use crate::message::{Down, Message, Numbered, Subscribed, Up};
use crate::reason;
use crate::session::Origin;
use crate::storage::Unwritten;
use heard::Heard;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

/// Maximum number of messages of a topic that wait; then the oldest of QoS 0 is dropped.
const MAX_WAITING: usize = 1_000;
/// Maximum size of all messages of QoS 0 that wait or are on their way, in bytes; then further ones are dropped.
const MAX_UNSURE: usize = 64 << 20;

/// What is to be sent to the hub.
enum Job {
    Message(Numbered, Option<Origin>),
    Subscribe(Subscribe, Option<Origin>),
    /// Another frame, with its memory if that is counted.
    Frame(Up, #[expect(dead_code, reason = "it is only dropped")] Option<Arc<Held>>),
}

/// A subscription to send to the hub.
#[derive(Clone)]
struct Subscribe {
    filter: String,
    qos: u8,
    retained: bool,
    after: Option<String>,
    _held: Arc<Held>,
}

/// The jobs of a lane, and those that are on their way.
#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    sent: Vec<Job>,
    dropped: u64,
}

/// The gateway of a device.
pub struct Device {
    clients: Clients,
    start: u32,
    number: u32,
    hub: Seen,
    lanes: HashMap<Lane, Jobs>,
    /// Size of all messages of QoS 0 in `lanes`, in bytes.
    unsure: usize,
    /// Whether the last message of QoS 0 was dropped because of `MAX_UNSURE`.
    is_full: bool,
    /// The hub publishes wills after one and a half of this time of silence.
    period_s: u16,
    /// Seconds since the last frame to the hub.
    silent_s: u16,
    /// Seconds since the start, until the hub has the greeting.
    waits_s: Option<u16>,
    /// Filters of a former start that the hub may not have yet; `None` after that.
    former: Option<BTreeSet<String>>,
    /// Messages of the hub's storage that have arrived.
    heard: Heard,
}

impl Device {
    /// A gateway; `start` is different for each start. The first effects greet the hub.
    pub fn new(start: u32, period_s: u16) -> (Self, Vec<Effect>) {
        let mut device = Self {
            clients: Clients::new(start),
            start,
            number: 0,
            hub: Seen::default(),
            lanes: HashMap::new(),
            unsure: 0,
            is_full: false,
            period_s: period_s.max(1),
            silent_s: 0,
            waits_s: Some(0),
            former: None,
            heard: Heard::default(),
        };
        let effects = device.push(Lane::Alive, Job::Frame(Up::Hello, None));
        (device, effects)
    }

    /// A frame of the hub.
    pub fn receive(&mut self, frame: &[u8]) -> Vec<Effect> {
        let Some((start, frame)) = Down::decode(frame) else { return Vec::new() };
        let mut effects = Vec::new();
        if self.hub.begin(start) {
            // The hub has started: it knows no will and, without a storage, no subscription.
            for filter in self.clients.filters().into_keys() {
                effects.extend(self.resubscribe(filter));
            }
            for (client, will) in self.clients.wills() {
                effects.extend(self.will(client, Some(will)));
            }
        }
        if let Down::Deliver(store, messages) = frame {
            for (number, message) in messages {
                let is_new = match store {
                    Some(store) => self.heard.arrive(store, number, message.qos),
                    None => self.hub.insert(number),
                };
                if is_new {
                    let message = message.arrived(self.clients.now_s());
                    let actions = self.clients.deliver(&message);
                    effects.extend(self.act(actions));
                }
            }
        }
        effects
    }

    fn publish(&mut self, origin: Option<Origin>, message: Message) -> Vec<Effect> {
        if origin.is_none() {
            let unsure = self.unsure + cost(&message);
            if unsure > MAX_UNSURE {
                let text = "messages of QoS 0 are dropped: 64 MiB of them wait for the hub";
                let log = (!self.is_full).then(|| Effect::Log(text.to_owned()));
                self.is_full = true;
                return log.into_iter().collect();
            }
            (self.unsure, self.is_full) = (unsure, false);
        }
        self.number = self.number.wrapping_add(1);
        let lane = Lane::Topic(message.topic.clone());
        let jobs = self.lanes.entry(lane.clone()).or_default();
        if jobs.waiting.len() >= MAX_WAITING {
            // Messages of QoS 1 and 2 stay: their clients wait for the acknowledgement, and are not
            // read beyond `MAX_OPEN` of them.
            if let Some(oldest) = jobs.waiting.iter().position(is_sent_once)
                && let Some(Job::Message((_, message), _)) = jobs.waiting.remove(oldest)
            {
                self.unsure = self.unsure.saturating_sub(cost(&message));
                jobs.dropped += 1;
            }
        }
        self.push(lane, Job::Message((self.number, message), origin))
    }

    fn push(&mut self, lane: Lane, job: Job) -> Vec<Effect> {
        let jobs = self.lanes.entry(lane.clone()).or_default();
        jobs.waiting.push_back(job);
        self.next(lane)
    }

    /// Sends the next of a lane, unless something of it is on its way.
    fn next(&mut self, lane: Lane) -> Vec<Effect> {
        let Some(jobs) = self.lanes.get_mut(&lane) else { return Vec::new() };
        // One batch of a lane at a time keeps the order without a reorder buffer (decision 85).
        if !jobs.sent.is_empty() {
            return Vec::new();
        }
        let mut effects = Vec::new();
        if std::mem::take(&mut jobs.dropped) > 0 {
            effects.push(Effect::Log(format!("messages of QoS 0 were dropped: {lane:?} is full")));
        }
        jobs.sent = match jobs.waiting.front() {
            None => {
                self.lanes.remove(&lane);
                return effects;
            }
            Some(_) => batch(&mut jobs.waiting, |job| match job {
                Job::Message((_, message), _) => message.size(),
                // Alone in its frame.
                Job::Subscribe(..) | Job::Frame(..) => BATCH + 1,
            }),
        };
        effects.extend(self.transport(lane));
        effects
    }

    /// Sends what is on its way on a lane, or sends it again.
    fn transport(&mut self, lane: Lane) -> Vec<Effect> {
        let Some(jobs) = self.lanes.get(&lane) else { return Vec::new() };
        let (frame, is_request) = match &jobs.sent[..] {
            [Job::Subscribe(subscribe, _)] => {
                let Subscribe { filter, qos, retained, after, _held } = subscribe.clone();
                (Up::Subscribe { filter, qos, retained, after }, true)
            }
            [Job::Frame(frame, _)] => (frame.clone(), false),
            messages => {
                let now_s = self.clients.now_s();
                let message = |job: &Job| match job {
                    Job::Message((number, message), _) => Some((*number, message.leaving(now_s))),
                    Job::Subscribe(..) | Job::Frame(..) => None,
                };
                let messages: Vec<Numbered> = messages.iter().filter_map(message).collect();
                // The hub may store them, and its answer says that it has: without a request, a
                // message is acknowledged when the hub's gateway reads it.
                let is_kept = messages.iter().any(|(_, message)| message.retain || message.qos > 0);
                (Up::Publish(messages), is_kept)
            }
        };
        self.silent_s = 0;
        let frame = frame.encode(self.start);
        let (members, lifetime) = (Vec::new(), LIFETIME);
        vec![Effect::Transport { lane, frame, members, is_request, lifetime }]
    }

    /// The hub has a job, or never will.
    fn finish(&mut self, job: Job, how: &Ended) -> Vec<Effect> {
        let delivered = matches!(how, Ended::Delivered(_));
        if let Job::Message((_, message), None) = &job {
            self.unsure = self.unsure.saturating_sub(cost(message));
        }
        match (job, how) {
            (Job::Frame(Up::Hello, _), Ended::Delivered(_)) => {
                self.waits_s = None;
                vec![Effect::Log("the hub's gateway answers".to_owned())]
            }
            (Job::Message(_, Some(origin)), _) => {
                let actions = match delivered {
                    true => self.clients.published(&origin),
                    false => self.clients.refused(&origin),
                };
                let mut effects = self.act(actions);
                if !delivered {
                    let why = format!("a message of {} is too long for the path", origin.client);
                    effects.push(Effect::Log(why));
                }
                effects
            }
            (Job::Message((_, message), None), Ended::TooLong) => {
                vec![Effect::Log(format!("a message of {} is too long", message.topic))]
            }
            (Job::Subscribe(subscribe, Some(origin)), how) => {
                let mut effects = self.answered(&subscribe.filter);
                effects.extend(self.finish_subscribe(subscribe, origin, how));
                effects
            }
            (Job::Subscribe(Subscribe { filter, .. }, None), _)
            | (Job::Frame(Up::Unsubscribe(filter), _), _) => self.answered(&filter),
            _ => Vec::new(),
        }
    }

    /// The hub has answered a subscription, or never will.
    fn finish_subscribe(
        &mut self,
        subscribe: Subscribe,
        origin: Origin,
        how: &Ended,
    ) -> Vec<Effect> {
        let answer = match how {
            Ended::Delivered(bytes) => Subscribed::decode(bytes),
            _ => None,
        };
        let filter = &subscribe.filter;
        // Without a readable answer the client learns that it is not subscribed.
        let Some(Subscribed { code, more, retained }) = answer else {
            let actions = self.clients.subscribed(&origin, filter, reason::UNSPECIFIED);
            return self.act(actions);
        };
        let after = retained.last().map(|message| message.topic.clone());
        let now_s = self.clients.now_s();
        let retained = retained.into_iter().map(|message| message.arrived(now_s)).collect();
        let mut actions = self.clients.subscribed(&origin, filter, code);
        actions.extend(self.clients.retained(&origin, filter, retained));
        let mut effects = self.act(actions);
        // Not after the end of the subscription, which may wait behind it.
        if more && after.is_some() && self.clients.granted(filter).is_some() {
            let lane = Lane::Filter(filter.clone());
            let job = Job::Subscribe(Subscribe { after, ..subscribe }, Some(origin));
            effects.extend(self.push(lane, job));
        }
        effects
    }
}

/// Whether a job is a message of QoS 0. A will of QoS 1 or 2 has no client that waits for it either.
fn is_sent_once(job: &Job) -> bool {
    matches!(job, Job::Message((_, message), None) if message.qos == 0)
}

/// The memory that a waiting message takes, in bytes.
fn cost(message: &Message) -> usize {
    message.size() + OVERHEAD
}

impl Side for Device {
    fn clients(&mut self) -> &mut Clients {
        &mut self.clients
    }

    fn act(&mut self, actions: Vec<Action>) -> Vec<Effect> {
        let mut effects = Vec::new();
        for action in actions {
            match action {
                Action::Send(to, packet) => effects.push(Effect::Send(to, packet)),
                Action::Close(connection) => effects.push(Effect::Close(connection)),
                Action::Publish(origin, message) => effects.extend(self.publish(origin, message)),
                Action::Subscribe { origin, filter, retained, .. } => {
                    effects.extend(self.subscribe(origin, filter, retained));
                }
                Action::Unsubscribe(filter) => effects.extend(self.unsubscribe(filter)),
                Action::Will(client, will) => effects.extend(self.will(client, will)),
            }
        }
        effects
    }

    fn ended(&mut self, lane: Lane, how: Ended) -> Vec<Effect> {
        let Some(jobs) = self.lanes.get_mut(&lane) else { return Vec::new() };
        match how {
            Ended::Waited => return self.transport(lane),
            // Nothing was sent, so QoS 0 can wait as well.
            Ended::Full => return vec![Effect::Later(lane)],
            Ended::Delivered(_) | Ended::TooLong => {}
            Ended::Lost | Ended::Lacking(_) => {
                // Messages of QoS 0 are sent once. What else is on its way is sent again, with the
                // same numbers.
                let is_sure =
                    |job: &Job| !is_sent_once(job) && !matches!(job, Job::Frame(Up::Alive, _));
                if jobs.sent.iter().any(is_sure) {
                    return vec![Effect::Later(lane)];
                }
            }
        }
        let mut effects = Vec::new();
        for job in std::mem::take(&mut jobs.sent) {
            effects.extend(self.finish(job, &how));
        }
        effects.extend(self.next(lane));
        effects
    }

    fn clients_ref(&self) -> &Clients {
        &self.clients
    }

    fn unsaved(&self) -> Unsaved {
        let retained = Unwritten::Changes(Vec::new());
        let mut sessions = self.clients.unsaved();
        sessions.extend(self.heard.unsaved());
        Unsaved { retained, sessions }
    }

    fn all_sessions(&self) -> Vec<Vec<Change>> {
        let mut all = self.clients.all_sessions();
        all.push(self.heard.all());
        all
    }

    fn all_retained(&self) -> BTreeMap<String, Message> {
        BTreeMap::new()
    }

    fn written(&mut self) -> Vec<Effect> {
        self.clients.saved();
        // The hub keeps them until it knows that they are stored.
        match self.heard.saved() {
            numbers if numbers.is_empty() => Vec::new(),
            numbers => self.push(Lane::Stored, Job::Frame(Up::Stored(numbers), None)),
        }
    }

    fn tick(&mut self) -> Vec<Effect> {
        let actions = self.clients.tick();
        let mut effects = self.act(actions);
        effects.extend(self.clients.report().map(Effect::Log));
        effects.extend(self.clients.report_refused().map(Effect::Log));
        effects.extend(self.report_silence());
        effects.extend(self.report_refused());
        self.silent_s = self.silent_s.saturating_add(1);
        let due = self.silent_s >= self.period_s && !self.lanes.contains_key(&Lane::Alive);
        // Without wills the hub does nothing when the device is silent, so it need not report.
        if due && !self.clients.wills().is_empty() {
            effects.extend(self.push(Lane::Alive, Job::Frame(Up::Alive, None)));
        }
        effects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(topic: usize, bytes: usize) -> Message {
        Message {
            topic: format!("t/{topic}"),
            payload: vec![0; bytes].into(),
            ..Message::default()
        }
    }

    /// What failed before: each topic had a queue without a limit of their number.
    #[test]
    fn messages_of_any_number_of_topics_are_limited_while_the_hub_is_silent() {
        let (mut device, _) = Device::new(1, 60);
        let mut logs = 0;
        for topic in 0..200 {
            let effects = device.publish(None, message(topic, 1 << 20));
            logs += effects.iter().filter(|effect| matches!(effect, Effect::Log(_))).count();
        }
        assert_eq!((device.unsure <= MAX_UNSURE, logs), (true, 1));
        let kept = device.lanes.len() - 1;
        assert_eq!(kept, MAX_UNSURE / cost(&message(0, 1 << 20)), "and the greeting");
        // What is lost makes room.
        for topic in 0..200 {
            device.ended(Lane::Topic(format!("t/{topic}")), Ended::Lost);
        }
        assert_eq!((device.unsure, device.lanes.len()), (0, 1));
        assert_eq!(device.publish(None, message(7, 9)).len(), 1);
    }

    /// What failed before: a will was sent once, whatever its QoS.
    #[test]
    fn a_will_of_qos_1_is_sent_again() {
        for qos in 0..3 {
            let (mut device, _) = Device::new(1, 60);
            let will = Message { qos, ..message(7, 9) };
            assert_eq!(device.publish(None, will).len(), 1);
            let lane = Lane::Topic("t/7".to_owned());
            let effects = device.ended(lane.clone(), Ended::Lost);
            let again = vec![Effect::Later(lane)];
            assert_eq!(effects, if qos > 0 { again } else { Vec::new() }, "{qos}");
        }
    }

    /// What failed before: with a wrong key, clients waited and no log said why.
    #[test]
    fn a_device_says_once_that_the_hub_does_not_answer_and_when_it_does() {
        let (mut device, _) = Device::new(1, 60);
        let logs: Vec<Effect> = (0..30).flat_map(|_| device.tick()).collect();
        let [Effect::Log(text)] = &logs[..] else { panic!("{logs:?}") };
        assert!(text.contains("no answer from the hub's gateway for 10 s"), "{text}");
        let answered = device.ended(Lane::Alive, Ended::Delivered(Vec::new()));
        assert_eq!(answered, [Effect::Log("the hub's gateway answers".to_owned())]);
        let (mut device, _) = Device::new(1, 60);
        device.ended(Lane::Alive, Ended::Delivered(Vec::new()));
        assert!((0..30).all(|_| device.tick().is_empty()));
    }

    /// What failed before: of 3,000 topics that a client published at once with QoS 0, the hub got 2,000
    /// and no log said so.
    #[test]
    fn messages_of_qos_0_wait_while_too_many_are_open() {
        let (mut device, _) = Device::new(1, 60);
        assert_eq!(device.publish(None, message(7, 9)).len(), 1);
        let (lane, unsure) = (Lane::Topic("t/7".to_owned()), device.unsure);
        let effects = device.ended(lane.clone(), Ended::Full);
        assert_eq!((effects, device.unsure), (vec![Effect::Later(lane.clone())], unsure));
        let again = device.ended(lane, Ended::Waited);
        assert!(matches!(again[..], [Effect::Transport { .. }]), "{again:?}");
    }
}
