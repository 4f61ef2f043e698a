//! Messages that outlast a start of their member: a process is killed at any time, and the hub's
//! application gets each of its messages once.
#![cfg(feature = "io")]

use director::io::{Preconnection, Session};
use director::session::{Security, SessionError};
use director::{Conditions, Failure, MessageProperties, Outcome, Pattern, Span};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Timeout of a hanging test, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// What the test tells the process that it starts: folder, hub, member.
const ROLE: &str = "DIRECTOR_STORAGE_TEST";
/// Messages of all starts.
const MESSAGES: u32 = 120;

fn free() -> SocketAddrV4 {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, socket.local_addr().unwrap().port())
}

fn begin() -> Preconnection {
    let here = Conditions { rtt: Span::from_ms(2), rate_bit_s: 100e6, ..Conditions::default() };
    let security = Security::Key(b"a key of sixteen bytes".to_vec());
    Preconnection::new(Pattern::RequestResponse, security).assume(here)
}

fn stored(lifetime: Span) -> MessageProperties {
    MessageProperties { lifetime, stored: true, ..MessageProperties::default() }
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("director-storage-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The member's process: it stores the messages that its folder does not count yet, and goes on
/// with those of former starts. It writes a line for each outcome that it gets.
#[tokio::test]
async fn member_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let [folder, hub, member] = role.split('|').collect::<Vec<_>>()[..] else { panic!("{role}") };
    let (hub, member): (SocketAddrV4, SocketAddrV4) =
        (hub.parse().unwrap(), member.parse().unwrap());
    let folder = Path::new(folder);
    let mut listener = begin().storage(folder, 1 << 20).listen(member, hub).unwrap();
    let restored = listener.restored();
    assert_eq!(listener.damaged_log(), None);
    let mut all = tokio::task::JoinSet::new();
    for message in restored {
        all.spawn(async move { (message.message.clone(), message.outcome().await) });
    }
    let counter = folder.join("counter");
    let first = std::fs::read_to_string(&counter).unwrap_or_default().parse().unwrap_or(0);
    for n in first..MESSAGES {
        // Counted first: a message may be missing, but none is stored twice.
        let next = folder.join("counter.next");
        std::fs::write(&next, (n + 1).to_string()).unwrap();
        std::fs::rename(&next, &counter).unwrap();
        let bytes = n.to_be_bytes();
        let message = listener.publisher().store(&bytes, stored(Span::from_s(600))).await.unwrap();
        all.spawn(async move { (bytes.to_vec(), message.outcome().await) });
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    while let Some(ended) = all.join_next().await {
        let (bytes, outcome) = ended.unwrap();
        assert_eq!(outcome.unwrap(), Outcome::Acknowledged(None), "{bytes:?}");
    }
    std::fs::write(folder.join("done"), "").unwrap();
}

fn start(role: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "member_process", "--nocapture"])
        .env(ROLE, role)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits for a process; returns whether it has succeeded.
async fn ended(child: &mut Child) -> bool {
    let status = tokio::time::timeout(PATIENCE, async {
        loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    });
    status.await.unwrap().success()
}

fn hub_of(member: SocketAddrV4, hub: SocketAddrV4) -> Session {
    begin().initiate(hub, &[member]).unwrap()
}

/// The process is killed ten times, at random moments, in the middle of storing, sending and
/// getting outcomes.
#[tokio::test]
async fn each_message_of_a_killed_process_arrives_once() {
    let folder = Folder::new("killed");
    let (hub, member) = (free(), free());
    let session = hub_of(member, hub);
    let mut inbox = session.inbox().unwrap();
    let taken = tokio::spawn(async move {
        let mut taken: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        // Some wait until a process is gone, so that another one gets their reply.
        while let Some(incoming) = inbox.next().await {
            *taken.entry(incoming.message.clone()).or_default() += 1;
            if incoming.message == u32::MAX.to_be_bytes() {
                break;
            }
        }
        taken
    });
    let role = format!("{}|{hub}|{member}", folder.0.display());
    let mut state = 88_172_645_463_325_252_u64;
    for _ in 0..10 {
        let mut child = start(&role);
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        tokio::time::sleep(Duration::from_millis(20 + (state >> 33) % 150)).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let mut child = start(&role);
    assert!(ended(&mut child).await);
    assert!(folder.0.join("done").exists());
    // A last message of this process ends the count.
    let listener = begin().storage(&folder.0, 1 << 20).listen(member, hub).unwrap();
    let (publisher, bytes) = (listener.publisher(), u32::MAX.to_be_bytes());
    let last = publisher.publish(&bytes, stored(Span::from_s(100)));
    let last = tokio::time::timeout(PATIENCE, last).await.unwrap();
    assert_eq!(last.unwrap(), Outcome::Acknowledged(None));
    let taken = taken.await.unwrap();
    assert!(taken.values().all(|times| *times == 1), "{taken:?}");
    // Messages that the process knew to be stored are all there. One that was counted and not stored
    // before the process was killed is missing: one for each time at most.
    assert!(taken.len() > MESSAGES as usize - 10, "{}", taken.len());
}

/// Neither a hub that has forgotten what it had, nor a member without a storage, leads to a false
/// outcome.
#[tokio::test]
async fn a_hub_that_has_restarted_makes_outcomes_unknown() {
    let folder = Folder::new("hub");
    let (hub, member) = (free(), free());
    let all = async {
        let session = hub_of(member, hub);
        let inbox = session.inbox().unwrap();
        let listener = begin().storage(&folder.0, 1 << 20).listen(member, hub).unwrap();
        let publisher = listener.publisher();
        let open =
            tokio::spawn(
                async move { publisher.publish(b"sent", stored(Span::from_s(600))).await },
            );
        assert!(session.ready(PATIENCE).await);
        // The application does not take it.
        tokio::time::sleep(Duration::from_millis(500)).await;
        drop(listener);
        assert!(matches!(open.await.unwrap(), Err(SessionError::Over)));
        // The message that waits in the inbox keeps the session.
        drop((session, inbox));
        tokio::time::sleep(Duration::from_millis(100)).await;
        let session = hub_of(member, hub);
        let mut inbox = session.inbox().unwrap();
        let mut listener = begin().storage(&folder.0, 1 << 20).listen(member, hub).unwrap();
        let mut restored = listener.restored();
        let message = restored.pop().unwrap();
        assert_eq!((message.message.clone(), restored.len()), (b"sent".to_vec(), 0));
        assert_eq!(message.outcome().await.unwrap(), Outcome::Unknown);
        let publisher = listener.publisher();
        let next = publisher.publish(b"next", stored(Span::from_s(600)));
        let (next, taken) = tokio::join!(next, inbox.next());
        assert_eq!(next.unwrap(), Outcome::Acknowledged(None));
        assert_eq!(taken.unwrap().message, b"next");
    };
    tokio::time::timeout(PATIENCE, all).await.unwrap();
}

#[tokio::test]
async fn limits_and_damaged_logs_are_errors_in_words() {
    let folder = Folder::new("limits");
    let (hub, member) = (free(), free());
    let plain = begin().listen(member, hub).unwrap();
    let error = plain.publisher().publish(b"x", stored(Span::from_s(1))).await.unwrap_err();
    assert!(error.to_string().contains("has no storage"), "{error}");
    drop(plain);
    let member = free();
    let listener = begin().storage(&folder.0, 1_000).listen(member, hub).unwrap();
    let publisher = listener.publisher();
    let error = publisher.publish(&[7; 2_000], stored(Span::from_s(60))).await.unwrap_err();
    assert!(error.to_string().contains("exceed the limit of 1000"), "{error}");
    let kept = publisher.publish(&[7; 200], stored(Span::from_s(60)));
    assert!(tokio::time::timeout(Duration::from_millis(300), kept).await.is_err());
    let second = begin().storage(&folder.0, 1_000).listen(free(), hub).unwrap_err();
    assert!(second.to_string().contains("another program uses it"), "{second}");
    drop(listener);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let log = folder.0.join("outgoing.log");
    let mut bytes = std::fs::read(&log).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    let listener = begin().storage(&folder.0, 1_000).listen(free(), hub).unwrap();
    let aside = listener.damaged_log().unwrap();
    assert_eq!(std::fs::read(aside).unwrap(), bytes);
}

/// What the test of a full disk tells the process that it starts: folder, hub, member.
const FULL: &str = "DIRECTOR_FULL_TEST";

/// A process whose files cannot exceed 4 KiB, until it lifts the limit.
#[tokio::test]
async fn process_with_a_full_disk() {
    let Ok(role) = std::env::var(FULL) else { return };
    let [folder, hub, member] = role.split('|').collect::<Vec<_>>()[..] else { panic!("{role}") };
    let (hub, member): (SocketAddrV4, SocketAddrV4) =
        (hub.parse().unwrap(), member.parse().unwrap());
    let listener = begin().storage(Path::new(folder), 1 << 20).listen(member, hub).unwrap();
    let (publisher, properties) = (listener.publisher(), stored(Span::from_s(3)));
    let mut all = Vec::new();
    let why = loop {
        match publisher.store(&[7; 100], properties).await {
            Ok(message) => all.push(message),
            Err(why) => break why.to_string(),
        }
    };
    assert!(why.contains("cannot store messages") && why.contains("free space"), "{why}");
    // Their lifetimes end, which cannot be written for all of them.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let error = publisher.store(&[7; 100], properties).await.unwrap_err();
    assert!(matches!(error, SessionError::Storage(_)), "{error}");
    let process = std::process::id().to_string();
    let lifted = Command::new("prlimit").args(["--fsize=unlimited", "--pid", &process]).status();
    if !lifted.is_ok_and(|status| status.success()) {
        std::fs::write(Path::new(folder).join("skipped"), "").unwrap();
        return;
    }
    for message in all {
        assert_eq!(message.outcome().await.unwrap(), Outcome::Failed(Failure::Unsent));
    }
    publisher.store(b"later", stored(Span::from_s(600))).await.unwrap();
    std::fs::write(Path::new(folder).join("done"), "").unwrap();
}

/// What failed before: the member ended when it could not write an outcome, and records after a failed one
/// were lost.
#[tokio::test]
async fn a_member_goes_on_when_its_full_disk_has_room() {
    let folder = Folder::new("full");
    std::fs::create_dir_all(&folder.0).unwrap();
    let (hub, member) = (free(), free());
    let role = format!("{}|{hub}|{member}", folder.0.display());
    // Without the trap, the signal of the limit would end the process.
    let script = "trap '' XFSZ; ulimit -S -f 8; exec \"$0\" \"$@\"";
    let mut child = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "process_with_a_full_disk", "--nocapture"])
        .env(FULL, &role)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    assert!(ended(&mut child).await);
    if folder.0.join("skipped").exists() {
        eprintln!("skipped: prlimit is not installed");
        return;
    }
    assert!(folder.0.join("done").exists());
    let mut listener = begin().storage(&folder.0, 1 << 20).listen(member, hub).unwrap();
    assert_eq!(listener.damaged_log(), None);
    let restored: Vec<_> = listener.restored().into_iter().map(|own| own.message).collect();
    assert_eq!(restored, [b"later"]);
}
