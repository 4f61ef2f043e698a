//! Sessions on loopback over external stacks, with real sockets.
#![cfg(all(feature = "mqtt", feature = "zeromq"))]

use director::io::outside::{Mqtt, Zeromq};
use director::io::{Listener, Preconnection, Session};
use director::session::Security;
use director::{Conditions, ModelId, Pattern, Span};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MEMBERS: u16 = 3;
/// Timeout of a hanging test, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const ZEROMQ: [ModelId; 2] = [ModelId::TcpRouterDealer, ModelId::TcpPublishSubscribe];

/// Loopback addresses whose port and the three ports above are free.
fn addresses(count: u16) -> Vec<SocketAddr> {
    addresses_of(Ipv4Addr::LOCALHOST.into(), count)
}

fn addresses_of(host: IpAddr, count: u16) -> Vec<SocketAddr> {
    let mut found = Vec::new();
    while found.len() < usize::from(count) {
        let Ok(socket) = UdpSocket::bind((host, 0)) else { continue };
        let port = socket.local_addr().unwrap().port();
        let free =
            |by| port.checked_add(by).is_some_and(|at| TcpListener::bind((host, at)).is_ok());
        let apart = |known: &SocketAddr| known.port().abs_diff(port) > 4;
        if (1..=3).all(free) && found.iter().all(apart) {
            found.push(SocketAddr::new(host, port));
        }
    }
    found
}

fn begun(pattern: Pattern) -> Preconnection {
    let here = Conditions { rtt: Span::from_ms(2), rate_bit_s: 100e6, ..Conditions::default() };
    Preconnection::new(pattern, Security::Key(b"a key of sixteen bytes".to_vec())).assume(here)
}

/// How often each member has received each message.
type Had = Arc<Mutex<HashMap<(usize, Vec<u8>), usize>>>;

/// Answers all messages, until it is aborted.
fn answer(mut listener: Listener, member: usize, had: Had) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        while let Some(request) = listener.next().await {
            let message = request.message.clone();
            request.reply(&[&message[..], &[member as u8]].concat());
            *had.lock().unwrap().entry((member, message)).or_default() += 1;
        }
    })
}

fn members(own: &Preconnection, at: &[SocketAddr]) -> Had {
    let had = Had::default();
    for (member, address) in at[1..].iter().enumerate() {
        let listener = own.clone().listen(*address, at[0]).unwrap();
        answer(listener, member, had.clone());
    }
    had
}

/// Sends messages of this length and checks all answers.
async fn collect(session: &Session, messages: std::ops::Range<u16>, length: usize) {
    for number in messages {
        let message = number.to_be_bytes().repeat(length / 2);
        let collected = tokio::time::timeout(PATIENCE, session.collect(&message)).await;
        let Ok(collected) = collected else {
            panic!("message {number}: {}", session.explain().await.unwrap())
        };
        let answers = collected.unwrap().answers;
        assert_eq!(answers.len(), usize::from(MEMBERS), "message {number}");
        for (member, answer) in answers {
            assert_eq!(answer, [&message[..], &[member as u8]].concat());
        }
    }
}

/// Time of one message.
async fn time_of(session: &Session, number: u16) -> Duration {
    let begin = std::time::Instant::now();
    collect(session, number..number + 1, 300).await;
    begin.elapsed()
}

fn once(had: &Had) {
    let had = had.lock().unwrap();
    assert!(had.values().all(|times| *times == 1), "a message arrived twice");
}

async fn model(session: &Session) -> ModelId {
    session.explain().await.unwrap().model
}

#[tokio::test]
async fn each_model_of_zeromq_carries_messages_and_answers() {
    for (model_of, pattern) in [
        (ModelId::TcpRouterDealer, Pattern::RequestResponse),
        (ModelId::TcpPublishSubscribe, Pattern::PublishCollect),
    ] {
        let at = addresses(1 + MEMBERS);
        let own = begun(pattern).outside(Zeromq::new(&ZEROMQ));
        let had = members(&own, &at);
        let session = own.models(&[model_of]).initiate(at[0], &at[1..]).unwrap();
        assert!(session.ready(PATIENCE).await, "{model_of}");
        collect(&session, 0..20, 300).await;
        collect(&session, 20..23, 200_000).await;
        assert_eq!(model(&session).await, model_of);
        once(&had);
        assert_eq!(had.lock().unwrap().len(), 23 * usize::from(MEMBERS));
    }
}

#[tokio::test]
async fn zeromq_works_over_ipv6() {
    if UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        return eprintln!("NOT RUN: no IPv6");
    }
    for (model_of, pattern) in [
        (ModelId::TcpRouterDealer, Pattern::RequestResponse),
        (ModelId::TcpPublishSubscribe, Pattern::PublishCollect),
    ] {
        let at = addresses_of(Ipv6Addr::LOCALHOST.into(), 1 + MEMBERS);
        let own = begun(pattern).outside(Zeromq::new(&ZEROMQ));
        let had = members(&own, &at);
        let session = own.models(&[model_of]).initiate(at[0], &at[1..]).unwrap();
        assert!(session.ready(PATIENCE).await, "{model_of}");
        collect(&session, 0..10, 300).await;
        assert_eq!(model(&session).await, model_of);
        once(&had);
    }
}

#[tokio::test]
async fn messages_without_answers_are_acknowledged() {
    let at = addresses(1 + MEMBERS);
    let own = begun(Pattern::PublishSubscribe).outside(Zeromq::new(&ZEROMQ));
    let had = members(&own, &at);
    let only = [ModelId::TcpPublishSubscribe];
    let session = own.models(&only).initiate(at[0], &at[1..]).unwrap();
    assert!(session.ready(PATIENCE).await);
    for number in 0..10 {
        let collected = session.collect(&[number; 100]).await.unwrap();
        assert_eq!(collected.answers.len(), usize::from(MEMBERS));
    }
    assert_eq!(had.lock().unwrap().len(), 10 * usize::from(MEMBERS));
    once(&had);
}

#[tokio::test]
async fn live_changes_lose_nothing_and_double_nothing() {
    let at = addresses(1 + MEMBERS);
    let own = begun(Pattern::RequestResponse).outside(Zeromq::new(&ZEROMQ));
    let had = members(&own, &at);
    let both = [ModelId::UdpArq, ModelId::TcpRouterDealer];
    let session = own.models(&both).initiate(at[0], &at[1..]).unwrap();
    assert!(session.ready(PATIENCE).await);
    // Several messages are in flight at all times.
    let senders = (0..4_u16).map(|n| {
        let session = session.clone();
        tokio::spawn(async move { collect(&session, n * 60..(n + 1) * 60, 2_000).await })
    });
    let senders: Vec<_> = senders.collect();
    let mut seen = Vec::new();
    for change in 0..6 {
        let requested = both[(change + 1) % 2];
        session.use_model(requested);
        for _ in 0..50 {
            tokio::time::sleep(Duration::from_millis(10)).await;
            if model(&session).await == requested {
                break;
            }
        }
        seen.push(model(&session).await);
    }
    for sender in senders {
        sender.await.unwrap();
    }
    assert!(both.iter().all(|model| seen.contains(model)), "{seen:?}");
    assert_eq!(had.lock().unwrap().len(), 240 * usize::from(MEMBERS));
    once(&had);
}

/// One member has no ZeroMQ: the session finds the model that all members have.
#[tokio::test]
async fn who_is_not_reached_by_a_stack_is_reached_otherwise() {
    let at = addresses(1 + MEMBERS);
    let own = begun(Pattern::RequestResponse).outside(Zeromq::new(&ZEROMQ));
    let had = Had::default();
    for (member, address) in at[1..].iter().enumerate() {
        let with = if member == 1 { begun(Pattern::RequestResponse) } else { own.clone() };
        let listener = with.listen(*address, at[0]).unwrap();
        answer(listener, member, had.clone());
    }
    let both = [ModelId::UdpArq, ModelId::TcpRouterDealer];
    let session = own.models(&both).initiate(at[0], &at[1..]).unwrap();
    assert!(session.ready(PATIENCE).await);
    session.use_model(ModelId::TcpRouterDealer);
    collect(&session, 0..10, 300).await;
    assert_eq!(model(&session).await, ModelId::UdpArq);
    once(&had);
}

/// Members reconnect to a restarted hub.
#[tokio::test]
async fn a_hub_that_comes_back_is_found_again() {
    let at = addresses(1 + MEMBERS);
    let own = begun(Pattern::PublishCollect).outside(Zeromq::new(&ZEROMQ));
    let had = members(&own, &at);
    let only = own.models(&[ModelId::TcpPublishSubscribe]);
    for round in 0..2_u16 {
        // The first hub's thread releases its ports shortly after its session ends.
        let mut begun = None;
        for _ in 0..1_200 {
            begun = only.clone().initiate(at[0], &at[1..]).ok();
            if begun.is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let session = begun.unwrap();
        assert!(session.ready(PATIENCE).await);
        collect(&session, 10 * round..10 * (round + 1), 300).await;
    }
    once(&had);
}

#[tokio::test]
async fn a_port_that_is_taken_is_said() {
    let at = addresses(2);
    let _taken = TcpListener::bind((at[0].ip(), at[0].port() + 1)).unwrap();
    let own = begun(Pattern::RequestResponse).outside(Zeromq::new(&ZEROMQ));
    let error = own.initiate(at[0], &at[1..]).unwrap_err().to_string();
    assert!(error.contains(&(at[0].port() + 1).to_string()), "{error}");
}

/// A mosquitto on loopback, stopped on drop.
struct Broker {
    port: u16,
    config: PathBuf,
    program: Child,
}

impl Broker {
    /// Starts it at this port, or at a free one.
    fn start(port: Option<u16>, more: &str) -> Self {
        let port = port.unwrap_or_else(|| {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            free.local_addr().unwrap().port()
        });
        let config = std::env::temp_dir().join(format!("mosquitto-{}-{port}", std::process::id()));
        // Without `user root` it drops its privileges and cannot read root's files.
        let text = format!("listener {port} 127.0.0.1\nuser root\n{more}\n");
        std::fs::write(&config, text).unwrap();
        let program = ["mosquitto", "/usr/sbin/mosquitto"].into_iter().find_map(|program| {
            let mut command = Command::new(program);
            command.arg("-c").arg(&config).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().ok()
        });
        let program = program.expect("no mosquitto: scripts/dependencies.sh test installs it");
        let broker = Self { port, config, program };
        for _ in 0..3_000 {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return broker;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("no mosquitto at port {port}");
    }

    fn kill(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_file(&self.config);
    }
}

/// By default mosquitto delays small messages until the previous one is acknowledged.
const OPEN: &str = "allow_anonymous true\nset_tcp_nodelay true";

#[tokio::test]
async fn a_broker_carries_messages_and_answers_of_each_pattern() {
    let broker = Broker::start(None, OPEN);
    for pattern in [Pattern::RequestResponse, Pattern::PublishCollect] {
        let at = addresses(1 + MEMBERS);
        let own = begun(pattern).outside(Mqtt::new("127.0.0.1", broker.port).topic("of/tests"));
        let had = members(&own, &at);
        let session = own.models(&[ModelId::Mqtt]).initiate(at[0], &at[1..]).unwrap();
        assert!(session.ready(PATIENCE).await);
        // A session without a broker measures the load of this machine.
        let other = addresses(1 + MEMBERS);
        let plain = begun(pattern);
        let _had = members(&plain, &other);
        let direct = plain.models(&[ModelId::UdpArq]).initiate(other[0], &other[1..]).unwrap();
        assert!(direct.ready(PATIENCE).await);
        collect(&session, 0..20, 300).await;
        let (mut by_broker, mut by_udp) = (Vec::new(), Vec::new());
        for number in 20..40 {
            by_broker.push(time_of(&session, number).await);
            by_udp.push(time_of(&direct, number).await);
        }
        by_broker.sort();
        by_udp.sort();
        // A delayed acknowledgement or a timeout would cost 40 ms per message.
        let most = 5 * by_udp[10] + Duration::from_millis(20);
        assert!(by_broker[10] < most, "{by_broker:?} {by_udp:?}");
        collect(&session, 40..42, 200_000).await;
        once(&had);
        assert_eq!(had.lock().unwrap().len(), 42 * usize::from(MEMBERS));
    }
}

#[tokio::test]
async fn a_broker_that_asks_who_it_is_is_told() {
    let file = std::env::temp_dir().join(format!("mosquitto-users-{}", std::process::id()));
    let made = Command::new("mosquitto_passwd")
        .args(["-b", "-c"])
        .arg(&file)
        .args(["meter", "a word"])
        .status();
    assert!(made.is_ok_and(|made| made.success()), "mosquitto_passwd comes with mosquitto");
    let more = format!("allow_anonymous false\npassword_file {}", file.display());
    let broker = Broker::start(None, &more);
    let at = addresses(1 + MEMBERS);
    let way = Mqtt::new("127.0.0.1", broker.port).credentials("meter", "a word");
    assert!(!format!("{way:?}").contains("a word"));
    let own = begun(Pattern::PublishCollect).outside(way);
    let had = members(&own, &at);
    let session = own.models(&[ModelId::Mqtt]).initiate(at[0], &at[1..]).unwrap();
    assert!(session.ready(PATIENCE).await);
    collect(&session, 0..3, 300).await;
    once(&had);
    let _ = std::fs::remove_file(&file);
}

/// The broker is killed during transfers and restarted: no message is lost, and the session uses
/// another model meanwhile.
#[tokio::test]
async fn a_broker_that_is_killed_is_left_for_another_model() {
    let mut broker = Broker::start(None, OPEN);
    let port = broker.port;
    let at = addresses(1 + MEMBERS);
    let own = begun(Pattern::PublishCollect).outside(Mqtt::new("localhost", port));
    let had = members(&own, &at);
    let both = [ModelId::UdpArq, ModelId::Mqtt];
    let session = own.models(&both).initiate(at[0], &at[1..]).unwrap();
    assert!(session.ready(PATIENCE).await);
    let mut next = by(&session, ModelId::Mqtt, 0).await;
    let first = next;
    let more = {
        let session = session.clone();
        tokio::spawn(async move { collect(&session, first..first + 170, 300).await })
    };
    tokio::time::sleep(Duration::from_millis(20)).await;
    broker.kill();
    more.await.unwrap();
    next += 170;
    collect(&session, next..next + 20, 300).await;
    next += 20;
    assert_eq!(model(&session).await, ModelId::UdpArq);
    // Clients reconnect by themselves, each in its own time; a session that changes to the
    // broker too early leaves it again.
    let _back = Broker::start(Some(port), OPEN);
    next = by(&session, ModelId::Mqtt, next).await;
    once(&had);
    assert_eq!(had.lock().unwrap().len(), usize::from(next) * usize::from(MEMBERS));
}

/// Requests a model until the session uses it; `next` is the number of the first message. Returns
/// the next number. On a busy machine a session may leave a model that has just started.
async fn by(session: &Session, requested: ModelId, mut next: u16) -> u16 {
    let begin = std::time::Instant::now();
    loop {
        session.use_model(requested);
        tokio::time::sleep(Duration::from_millis(100)).await;
        collect(session, next..next + 5, 300).await;
        next += 5;
        if model(session).await == requested {
            return next;
        }
        assert!(begin.elapsed() < PATIENCE, "{}", session.explain().await.unwrap());
    }
}

/// Without a broker from the start, messages are still answered.
#[tokio::test]
async fn a_broker_that_is_not_there_is_no_error() {
    let at = addresses(1 + MEMBERS);
    let own = begun(Pattern::RequestResponse).outside(Mqtt::new("127.0.0.1", 1));
    let had = members(&own, &at);
    let both = [ModelId::UdpArq, ModelId::Mqtt];
    let session = own.models(&both).initiate(at[0], &at[1..]).unwrap();
    assert!(session.ready(PATIENCE).await);
    session.use_model(ModelId::Mqtt);
    collect(&session, 0..5, 300).await;
    assert_eq!(model(&session).await, ModelId::UdpArq);
    once(&had);
}
