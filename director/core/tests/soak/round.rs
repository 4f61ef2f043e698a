//! A session of a hub and its members over the faulty relay, and its applications.

use crate::draws::Draws;
use crate::log::{End, Ends, HEAD, Log, answer_to, message};
use crate::relay::Relay;
use crate::weather::{Faults, Weather};
use director::io::{Inbox, Incoming, Listener, Preconnection, Publisher, Request, Session};
use director::session::Security;
use director::{Conditions, MessageProperties, ModelId, Pattern, Span};
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::{JoinSet, unconstrained};
use tokio::time::{sleep, timeout};

pub const PATTERNS: [Pattern; 3] =
    [Pattern::PublishCollect, Pattern::RequestResponse, Pattern::PublishSubscribe];
pub const MEMBERS: u32 = 5;
/// Tasks of a member, and of the hub, that send one message after another.
const SENDERS: usize = 8;
/// Every message ends within its lifetime of a few seconds; the rest is for a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// What differs between rounds.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    pub seed: u64,
    pub pattern: Pattern,
    /// Whether each member has a separate key. Then members also change their addresses: a hello
    /// from an unknown address names no member if all have one key.
    pub keys: bool,
    /// Configured data rate in bit/s; 0 for none.
    pub rate_bit_s: f64,
    pub weather: Weather,
    pub time: Duration,
}

/// The applications of a session.
struct Applications {
    setup: Setup,
    log: Mutex<Log>,
    draws: Mutex<Draws>,
    publishers: Vec<Mutex<Option<Publisher>>>,
    ends_at: Instant,
}

impl Applications {
    fn with_log<T>(&self, what: impl FnOnce(&mut Log) -> T) -> T {
        what(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn below(&self, end: u64) -> u64 {
        self.draws.lock().unwrap_or_else(PoisonError::into_inner).below(end)
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.ends_at
    }

    fn publisher(&self, member: u32) -> Option<Publisher> {
        let own = self.publishers[member as usize].lock();
        own.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A message, its number, and a lifetime of 0.2 to 4.2 s; after the last fault, of 10 s.
    fn compose(&self) -> (u64, Vec<u8>, Duration) {
        let number = self.with_log(Log::number);
        let longest = if self.below(50) == 0 { 30_000 } else { 1_500 };
        let bytes = message(number, HEAD + self.below(longest) as usize);
        let ms = if self.is_over() { 10_000 } else { 200 + self.below(4_000) };
        (number, bytes, Duration::from_millis(ms))
    }

    /// Sends a message of a member; returns whether it was acknowledged.
    async fn publish(&self, member: u32) -> bool {
        let Some(publisher) = self.publisher(member) else {
            sleep(Duration::from_millis(10)).await;
            return false;
        };
        let (number, bytes, lifetime) = self.compose();
        let properties = MessageProperties {
            lifetime: Span::from(lifetime),
            priority: self.below(3) as u32,
            ..MessageProperties::default()
        };
        let request = self.below(4) == 0;
        let outcome = match request {
            true => publisher.request(&bytes, properties).await,
            false => publisher.publish(&bytes, properties).await,
        };
        let acknowledged = matches!(outcome, Ok(director::Outcome::Acknowledged(_)));
        if outcome.is_err() {
            // Its member restarts, or has too many open messages.
            sleep(Duration::from_millis(10)).await;
        }
        self.with_log(|log| log.outcome(number, request, outcome));
        acknowledged
    }

    /// Sends a message of the hub to some members; returns whether all have it.
    async fn collect(&self, session: &Session, to: &[u32]) -> bool {
        let (number, bytes, lifetime) = self.compose();
        let collected = session.send_within(to, &bytes, lifetime).await;
        let Ok(collected) = collected else {
            self.with_log(|log| to.iter().for_each(|to| log.end(number, Some(*to), End::Failed)));
            sleep(Duration::from_millis(10)).await;
            return false;
        };
        for member in to {
            let answer = collected.answers.get(member);
            let lacks = collected.lacking.contains(member);
            let expected = match self.setup.pattern {
                Pattern::PublishSubscribe => Vec::new(),
                _ => answer_to(number, member + 1),
            };
            self.with_log(|log| {
                if answer.is_some() == lacks || answer.is_some_and(|bytes| *bytes != expected) {
                    log.violation(format!(
                        "{number} to {member}: lacking {lacks}, or a wrong answer"
                    ));
                }
                let how = if answer.is_some() { End::Acknowledged } else { End::Unknown };
                log.end(number, Some(*member), how);
            });
        }
        collected.lacking.is_empty()
    }

    /// A member's application has a message.
    fn serve(&self, request: Request, member: u32, start: u32) {
        let number = self.with_log(|log| log.receive(&request.message, Some((member, start))));
        let Some(number) = number.filter(|_| self.setup.pattern != Pattern::PublishSubscribe)
        else {
            return;
        };
        let reply = move || request.reply(&answer_to(number, member + 1));
        match self.below(20) {
            // Never.
            0 if !self.is_over() => {}
            1 => later(self.below(300), reply),
            _ => reply(),
        }
    }

    /// The hub's application has a message.
    fn serve_hub(&self, incoming: Incoming) {
        let number = self.with_log(|log| log.receive(&incoming.message, None));
        let Some(number) = number.filter(|_| incoming.is_request) else { return };
        let reply = move || incoming.reply(&answer_to(number, 0));
        match self.below(20) {
            // Drops the request: it ends as acknowledged, without an answer.
            0 => {}
            1 => later(self.below(300), reply),
            _ => reply(),
        }
    }
}

fn later(ms: u64, what: impl FnOnce() + Send + 'static) {
    tokio::spawn(async move {
        sleep(Duration::from_millis(ms)).await;
        what();
    });
}

fn key(of: u32) -> Vec<u8> {
    format!("the pre-shared key number {of}").into_bytes()
}

impl Setup {
    fn preconnection(&self, security: Security, group: SocketAddr) -> Preconnection {
        let serves = |model: &ModelId| model.features().patterns.contains(&self.pattern);
        let models: Vec<ModelId> =
            director::carrier::available().into_iter().filter(serves).collect();
        let assumed = Conditions {
            payload: 800.0,
            group: f64::from(MEMBERS),
            rate_bit_s: self.rate_bit_s,
            ..Conditions::default()
        };
        let preconnection = Preconnection::new(self.pattern, security);
        preconnection.models(&models).assume(assumed).group(group)
    }
}

/// A message that is there, without waiting for one.
pub fn take(listener: &mut Listener) -> Option<Request> {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(unconstrained(listener.next())).poll(&mut context) {
        Poll::Ready(request) => request,
        Poll::Pending => None,
    }
}

/// One member: starts, serves its application, and starts again at each request to restart.
async fn run_member(
    applications: Arc<Applications>,
    member: u32,
    new: impl Fn() -> Listener,
    mut restarts: mpsc::Receiver<()>,
) {
    for start in 0.. {
        let mut listener = new();
        let own = &applications.publishers[member as usize];
        *own.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener.publisher());
        let again = loop {
            tokio::select! {
                Some(request) = listener.next() => applications.serve(request, member, start),
                again = restarts.recv() => break again.is_some(),
            }
        };
        // The application takes what its listener has acknowledged before it stops.
        while let Some(request) = take(&mut listener) {
            applications.serve(request, member, start);
        }
        drop(listener);
        if !again {
            return;
        }
        sleep(Duration::from_millis(applications.below(300))).await;
    }
}

async fn run_hub(applications: Arc<Applications>, mut inbox: Inbox) {
    while let Some(incoming) = inbox.next().await {
        applications.serve_hub(incoming);
        if applications.below(5_000) == 0 {
            sleep(Duration::from_millis(200)).await;
        }
    }
}

/// Cuts, restarts, changes of model and of addresses.
async fn disturb(
    applications: &Applications,
    relay: &Relay,
    session: &Session,
    restarts: &[mpsc::Sender<()>],
) {
    let serves = |model: &ModelId| model.features().patterns.contains(&applications.setup.pattern);
    let models: Vec<ModelId> = director::carrier::available().into_iter().filter(serves).collect();
    while !applications.is_over() {
        sleep(Duration::from_millis(20 + applications.below(200))).await;
        let member = applications.below(MEMBERS.into()) as usize;
        match applications.below(10) {
            0..3 => {
                let time = Duration::from_millis(10 + applications.below(1_500));
                let both = applications.below(3);
                relay.cut(member, time, [both != 0, both != 1]);
            }
            3..5 if restarts[member].try_send(()).is_ok() => {
                relay.count(|faults| faults.restarts += 1);
            }
            5..9 => {
                session.use_model(models[applications.below(models.len() as u64) as usize]);
                relay.count(|faults| faults.model_changes += 1);
            }
            9 if applications.setup.keys => relay.rebind(member).await,
            _ => {}
        }
    }
}

/// Time in which a session recovers from a storm: the latest datagrams arrive after 5 s, a member
/// says hello every 16 s at least, then messages need less than 5 s; the rest is for a busy machine.
const RECOVERY: Duration = Duration::from_secs(90);

/// After the last fault: each member sends a message and gets one.
async fn recovers(applications: &Applications, session: &Session) -> bool {
    let all: Vec<u32> = (0..MEMBERS).collect();
    let until = Instant::now() + RECOVERY;
    // What is under way, for example a change of the model, can take some of the tries.
    while Instant::now() < until {
        // Members first: the hub may not know the new address of one.
        let mut fine = true;
        for member in &all {
            fine &= applications.publish(*member).await;
        }
        fine = fine && applications.collect(session, &all).await;
        if fine {
            return true;
        }
        sleep(Duration::from_millis(50)).await;
    }
    false
}

/// Runs a session; returns faults, ends of messages and violations.
pub async fn run(setup: Setup) -> (Faults, Ends, Vec<String>) {
    let hub = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|own| own.local_addr());
    let hub = hub.expect("a socket on loopback");
    let [high, low] = hub.port().to_be_bytes();
    // Another group for each hub of this machine.
    let group = SocketAddr::from((Ipv4Addr::new(239, 255, high, low), 5_777));
    let draws = |stream| Draws::new(setup.seed, stream);
    let (relay, of_members, of_hub) = Relay::start(hub, MEMBERS as usize, draws(1)).await;
    let (of_all, of_each) = match setup.keys {
        false => (Security::Key(key(0)), vec![key(0); MEMBERS as usize]),
        true => (Security::Keys((0..MEMBERS).map(key).collect()), (0..MEMBERS).map(key).collect()),
    };
    let session = setup.preconnection(of_all, group).initiate(hub, &of_members);
    let session = session.expect("a session");
    let applications = Arc::new(Applications {
        setup,
        log: Mutex::default(),
        draws: Mutex::new(draws(2)),
        publishers: (0..MEMBERS).map(|_| Mutex::default()).collect(),
        ends_at: Instant::now() + setup.time,
    });
    let inbox = session.inbox().expect("the inbox, once");
    let mut served = JoinSet::new();
    served.spawn(run_hub(applications.clone(), inbox));
    let mut restarts = Vec::new();
    for (member, (own, hub)) in of_each.into_iter().zip(of_hub).enumerate() {
        let (sender, receiver) = mpsc::channel(1);
        restarts.push(sender);
        let new = move || {
            let start = setup.preconnection(Security::Key(own.clone()), group);
            start.listen((Ipv4Addr::LOCALHOST, 0), hub).expect("a member")
        };
        served.spawn(run_member(applications.clone(), member as u32, new, receiver));
    }
    relay.set_weather(Some(setup.weather));
    let mut senders = JoinSet::new();
    for place in 0..SENDERS {
        for member in 0..MEMBERS {
            let own = applications.clone();
            senders.spawn(async move {
                while !own.is_over() {
                    own.publish(member).await;
                }
            });
        }
        let (own, session) = (applications.clone(), session.clone());
        senders.spawn(async move {
            while !own.is_over() {
                let some = 1 + own.below((1 << MEMBERS) - 1);
                let to = (0..MEMBERS).filter(|member| some >> member & 1 == 1 || place == 0);
                own.collect(&session, &to.collect::<Vec<_>>()).await;
            }
        });
    }
    disturb(&applications, &relay, &session, &restarts).await;
    let ended = async { while senders.join_next().await.is_some() {} };
    if timeout(PATIENCE, ended).await.is_err() {
        applications.with_log(|log| log.violation("messages without an end".to_owned()));
    }
    relay.set_weather(None);
    let last_fault = Instant::now();
    if !recovers(&applications, &session).await {
        let explained = session.explain().await;
        applications.with_log(|log| log.violation(format!("no recovery: {explained:?}")));
    }
    relay.count(|faults| faults.recovery = last_fault.elapsed());
    // Late duplicates of what has ended must change nothing.
    sleep(Duration::from_millis(200)).await;
    drop((restarts, session));
    while served.join_next().await.is_some() {}
    let (ends, violations) = applications.with_log(Log::check);
    (relay.faults(), ends, violations)
}
