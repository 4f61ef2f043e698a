//! Messages of a hub that outlast its start: a process is killed at any time, and each member's application
//! gets each of its messages once at most, with true outcomes.
#![cfg(feature = "io")]

use director::io::{Listener, Preconnection, Session, StoredSending};
use director::session::{Security, SessionError};
use director::{Conditions, Failure, Outcome, Outcomes, Pattern, Span};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Timeout of a hanging test, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// What the test says to the process that it starts: folder, hub, members.
const ROLE: &str = "DIRECTOR_HUB_STORAGE_TEST";
/// Messages of all starts.
const MESSAGES: u32 = 60;
/// Lifetime of messages, longer than a test.
const LONG: Duration = Duration::from_secs(600);

fn free() -> SocketAddrV4 {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, socket.local_addr().unwrap().port())
}

fn begin(pattern: Pattern) -> Preconnection {
    let here = Conditions { rtt: Span::from_ms(2), rate_bit_s: 100e6, ..Conditions::default() };
    let security = Security::Key(b"a key of sixteen bytes".to_vec());
    Preconnection::new(pattern, security).assume(here)
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("director-hub-storage-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The hub's process: it stores the messages that its folder does not count yet, goes on with those of
/// former starts, and writes a line for the outcomes of each.
#[tokio::test]
async fn hub_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let [folder, hub, one, other] = role.split('|').collect::<Vec<_>>()[..] else {
        panic!("{role}")
    };
    let members: [SocketAddrV4; 2] = [one, other].map(|own| own.parse().unwrap());
    let hub: SocketAddrV4 = hub.parse().unwrap();
    let folder = Path::new(folder);
    let begun = begin(Pattern::PublishSubscribe).storage(folder, 1 << 20);
    let session = begun.initiate(hub, &members).unwrap();
    assert_eq!(session.damaged_log(), None);
    let mut all = tokio::task::JoinSet::new();
    let wait = |mut sending: StoredSending| async move {
        let outcomes = sending.outcomes().await.unwrap();
        (sending.message, outcomes)
    };
    session.restored().into_iter().for_each(|sending| drop(all.spawn(wait(sending))));
    assert!(session.restored().is_empty(), "once");
    let counter = folder.join("counter");
    let first = std::fs::read_to_string(&counter).unwrap_or_default().parse().unwrap_or(0);
    for n in first..MESSAGES {
        // Counted first: a message may be missing, but none is stored twice.
        let next = folder.join("counter.next");
        std::fs::write(&next, (n + 1).to_string()).unwrap();
        std::fs::rename(&next, &counter).unwrap();
        all.spawn(wait(session.store(&[0, 1], &n.to_be_bytes(), LONG).await.unwrap()));
    }
    while let Some(ended) = all.join_next().await {
        let (bytes, outcomes) = ended.unwrap();
        let both = [Outcome::Acknowledged(None), Outcome::Acknowledged(None)];
        assert_eq!(outcomes.into_values().collect::<Vec<_>>(), both, "{bytes:?}");
    }
    std::fs::write(folder.join("done"), "").unwrap();
}

fn start(role: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hub_process", "--nocapture"])
        .env(ROLE, role)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits until something is so.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let all = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, all).await.is_ok(), "{what}");
}

type Had = Arc<Mutex<BTreeMap<Vec<u8>, usize>>>;

/// Counts the messages that a member gets.
fn count(mut listener: Listener) -> Had {
    let had = Had::default();
    let counted = had.clone();
    tokio::spawn(async move {
        while let Some(request) = listener.next().await {
            *counted.lock().unwrap().entry(request.message.clone()).or_default() += 1;
        }
    });
    had
}

/// The process is killed eight times, when the members have had some more messages.
#[tokio::test]
async fn each_message_of_a_killed_hub_arrives_once() {
    let folder = Folder::new("killed");
    let (hub, members) = (free(), [free(), free()]);
    let listen = |own| begin(Pattern::PublishSubscribe).listen(own, hub).unwrap();
    let had = members.map(|own| count(listen(own)));
    let [one, other] = members;
    let role = format!("{}|{hub}|{one}|{other}", folder.0.display());
    let number = |own: &Had| own.lock().unwrap().len();
    for round in 0..8 {
        let mut child = start(&role);
        let before = number(&had[round % 2]);
        let has_ended = folder.0.join("done");
        let is_time = || number(&had[round % 2]) > before + round || has_ended.exists();
        until("members get messages", is_time).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let mut child = start(&role);
    until("the hub ends", || child.try_wait().unwrap().is_some()).await;
    assert!(folder.0.join("done").exists());
    for own in had {
        let own = own.lock().unwrap();
        assert!(own.values().all(|times| *times == 1), "{own:?}");
        // One that was counted and not stored is missing: one for each kill at most.
        assert!(own.len() >= MESSAGES as usize - 8, "{}", own.len());
    }
}

async fn outcomes(mut sending: StoredSending) -> Outcomes {
    tokio::time::timeout(PATIENCE, sending.outcomes()).await.unwrap().unwrap()
}

async fn stored(session: &Session, members: &[u32], text: &[u8]) -> StoredSending {
    session.store(members, text, LONG).await.unwrap()
}

/// A member without a storage that restarts may have had a message: it does not get it again. One with a
/// storage goes on.
#[tokio::test]
async fn what_a_restarted_member_may_have_had_is_unknown_unless_it_remembers() {
    let (folder, memory) = (Folder::new("members"), Folder::new("memory"));
    let (hub, members) = (free(), [free(), free()]);
    let all = async {
        let begun = begin(Pattern::PublishCollect).storage(&folder.0, 1 << 20);
        let session = begun.initiate(hub, &members).unwrap();
        let plain = || begin(Pattern::PublishCollect).listen(members[0], hub);
        let kept =
            || begin(Pattern::PublishCollect).storage(&memory.0, 1 << 20).listen(members[1], hub);
        let (mut one, mut other) = (plain().unwrap(), kept().unwrap());
        let first = stored(&session, &[0, 1], b"first").await;
        let (a, b) = (one.next().await.unwrap(), other.next().await.unwrap());
        assert_eq!((&a.message[..], &b.message[..]), (&b"first"[..], &b"first"[..]));
        // Neither application takes it.
        std::mem::forget((a, b));
        drop((one, other));
        until("addresses are free", || members.iter().all(|own| UdpSocket::bind(own).is_ok()))
            .await;
        let (mut one, mut other) = (plain().unwrap(), kept().unwrap());
        let unknown = BTreeMap::from([(0, Outcome::Unknown), (1, Outcome::Unknown)]);
        assert_eq!(outcomes(first).await, unknown);
        let second = stored(&session, &[0, 1], b"second").await;
        let (a, b) = (one.next().await.unwrap(), other.next().await.unwrap());
        assert_eq!((&a.message[..], &b.message[..]), (&b"second"[..], &b"second"[..]));
        a.reply(b"yes");
        drop(b);
        let answers = [Outcome::Acknowledged(Some(b"yes".to_vec())), Outcome::Acknowledged(None)];
        assert_eq!(outcomes(second).await.into_values().collect::<Vec<_>>(), answers);
    };
    tokio::time::timeout(PATIENCE, all).await.unwrap();
}

/// A hub with another key reaches no member: what was not sent has failed, at the deadline.
#[tokio::test]
async fn with_a_wrong_key_messages_fail_at_their_deadline() {
    let folder = Folder::new("key");
    let (hub, member) = (free(), free());
    let key = Security::Key(b"another key of sixteen bytes".to_vec());
    let begun = Preconnection::new(Pattern::PublishSubscribe, key).storage(&folder.0, 1 << 20);
    let session = begun.initiate(hub, &[member]).unwrap();
    let had = count(begin(Pattern::PublishSubscribe).listen(member, hub).unwrap());
    let sending = session.store(&[0], b"a secret", Duration::from_secs(2)).await.unwrap();
    let failed = BTreeMap::from([(0, Outcome::Failed(Failure::Unsent))]);
    assert_eq!(outcomes(sending).await, failed);
    assert!(had.lock().unwrap().is_empty());
}

#[tokio::test]
async fn limits_and_two_hubs_with_one_folder_are_errors_in_words() {
    let folder = Folder::new("limits");
    let member = free();
    let begun = |limit| begin(Pattern::PublishSubscribe).storage(&folder.0, limit);
    let plain = begin(Pattern::PublishSubscribe).initiate(free(), &[member]).unwrap();
    let error = plain.store(&[0], b"x", LONG).await.unwrap_err();
    assert!(error.to_string().contains("there is no storage"), "{error}");
    let session = begun(1_000).initiate(free(), &[member]).unwrap();
    let error = begun(1_000).initiate(free(), &[member]).unwrap_err();
    assert!(error.to_string().contains("another program uses it"), "{error}");
    let error = session.store(&[0], &[7; 2_000], LONG).await.unwrap_err();
    assert!(error.to_string().contains("exceed the limit of 1000"), "{error}");
    let error = session.store(&[1], b"x", LONG).await.unwrap_err();
    assert!(matches!(error, SessionError::NoMember(1, 1)), "{error}");
    // To no member: over at once.
    assert!(outcomes(stored(&session, &[], b"x").await).await.is_empty());
    // The folder of a member can be that of its hub.
    begun(1_000).listen(free(), free()).unwrap();
}
