//! Members that the hub does not know at its start, over real sockets on loopback.
#![cfg(feature = "io")]

use director::io::{Listener, Preconnection, Session};
use director::session::{KeyError, Security, SessionError};
use director::{MessageProperties, ModelId, Outcome, Pattern, Span};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::timeout;

/// Timeout of a hanging test, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

fn free(ip: IpAddr) -> SocketAddr {
    UdpSocket::bind((ip, 0)).unwrap().local_addr().unwrap()
}

fn key(of: u8) -> Vec<u8> {
    vec![of; 16]
}

fn begin(security: Security) -> Preconnection {
    Preconnection::new(Pattern::PublishCollect, security).models(&[ModelId::UdpArq])
}

fn shared() -> Security {
    Security::Key(key(1))
}

/// A member that answers each message with its name.
fn member(security: Security, at: SocketAddr, hub: SocketAddr, name: &'static str) -> Member {
    let mut listener = begin(security).listen(at, hub).unwrap();
    let publisher = listener.publisher();
    let task = tokio::spawn(async move { serve(&mut listener, name).await });
    Member { publisher, task }
}

async fn serve(listener: &mut Listener, name: &str) {
    while let Some(request) = listener.next().await {
        request.reply(name.as_bytes());
    }
}

struct Member {
    publisher: director::io::Publisher,
    task: tokio::task::JoinHandle<()>,
}

impl Member {
    /// Publishes its name; returns its number at the hub.
    async fn publish(&self, session: &mut director::io::Inbox) -> u32 {
        let publish = self.publisher.publish(b"I am here", MessageProperties::default());
        let both = async { tokio::join!(publish, session.next()) };
        let (outcome, incoming) = timeout(PATIENCE, both).await.unwrap();
        assert_eq!(outcome.unwrap(), Outcome::Acknowledged(None));
        incoming.unwrap().member()
    }
}

async fn answers(session: &Session) -> Vec<(u32, String)> {
    let collected = timeout(PATIENCE, session.collect(b"who?")).await.unwrap().unwrap();
    assert!(collected.lacking.is_empty(), "{collected:?}");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    collected.answers.into_iter().map(|(member, bytes)| (member, text(bytes))).collect()
}

fn all(names: &[(u32, &str)]) -> Vec<(u32, String)> {
    names.iter().map(|(member, name)| (*member, (*name).to_owned())).collect()
}

/// Two members join, over IPv4 and IPv6; when one leaves, another takes its place.
async fn members_come_and_go(ip: IpAddr) {
    let hub = free(ip);
    let session = begin(shared()).places(2).initiate::<SocketAddr>(hub, &[]).unwrap();
    let mut inbox = session.inbox().unwrap();
    assert!(session.ready(PATIENCE).await, "no member is awaited");
    assert_eq!(answers(&session).await, []);
    let one = member(shared(), free(ip), hub, "one");
    assert_eq!(one.publish(&mut inbox).await, 0);
    assert_eq!(answers(&session).await, all(&[(0, "one")]));
    let two = member(shared(), free(ip), hub, "two");
    assert_eq!(two.publish(&mut inbox).await, 1);
    assert_eq!(answers(&session).await, all(&[(0, "one"), (1, "two")]));
    assert_eq!(session.members().await, [0, 1]);
    // All places are taken.
    let three = member(shared(), free(ip), hub, "three");
    let short =
        MessageProperties { lifetime: Span::from_ms(1_500), ..MessageProperties::default() };
    let refused = three.publisher.publish(b"I am here", short).await.unwrap();
    assert!(matches!(refused, Outcome::Failed(_)), "{refused:?}");
    one.publisher.leave();
    assert_eq!(three.publish(&mut inbox).await, 0);
    assert_eq!(answers(&session).await, all(&[(0, "three"), (1, "two")]));
    for member in [one, two, three] {
        member.task.abort();
    }
}

#[tokio::test]
async fn members_come_and_go_over_ipv4() {
    members_come_and_go(V4).await;
}

#[tokio::test]
async fn members_come_and_go_over_ipv6() {
    if UdpSocket::bind((V6, 0)).is_err() {
        println!("skipped: no IPv6 on this machine");
        return;
    }
    members_come_and_go(V6).await;
    let mixed = begin(shared()).initiate(free(V6), &[free(V4)]);
    assert!(mixed.unwrap_err().to_string().contains("use IPv4 addresses only, or IPv6"));
    assert!(begin(shared()).listen(free(V4), free(V6)).is_err());
}

/// With a key for each member, its key says who it is, at whatever address.
#[tokio::test]
async fn a_member_with_its_own_key_is_known_at_any_address() {
    let hub = free(V4);
    let keys = Security::Keys(vec![key(1), key(2), key(3)]);
    let session = begin(keys.clone()).places(3).initiate::<SocketAddr>(hub, &[]).unwrap();
    let mut inbox = session.inbox().unwrap();
    let own = |of| Security::Key(key(of));
    let three = member(own(3), free(V4), hub, "three");
    assert_eq!(three.publish(&mut inbox).await, 2);
    let one = member(own(1), free(V4), hub, "one");
    assert_eq!(one.publish(&mut inbox).await, 0);
    assert_eq!(answers(&session).await, all(&[(0, "one"), (2, "three")]));
    // The program restarts elsewhere, without having left.
    three.task.abort();
    let again = member(own(3), free(V4), hub, "again");
    assert_eq!(again.publish(&mut inbox).await, 2);
    assert_eq!(answers(&session).await, all(&[(0, "one"), (2, "again")]));
    // No member has this key.
    let stranger = member(own(9), free(V4), hub, "stranger");
    let short =
        MessageProperties { lifetime: Span::from_ms(1_000), ..MessageProperties::default() };
    let refused = stranger.publisher.publish(b"let me in", short).await.unwrap();
    assert!(matches!(refused, Outcome::Failed(_)), "{refused:?}");
    // Revoked, then accepted with another key.
    session.revoke(2).await.unwrap();
    // What failed before: no error, so that a mistaken number locked no one out.
    assert!(session.revoke(9).await.unwrap_err().to_string().contains("no member 9"));
    let refused = again.publisher.publish(b"I was here", short).await.unwrap();
    assert_ne!(refused, Outcome::Acknowledged(None));
    assert_eq!(answers(&session).await, all(&[(0, "one")]));
    assert!(matches!(session.admit(2, b"short").await, Err(SessionError::Key(KeyError::Short(_)))));
    let same = session.admit(2, &key(1)).await;
    assert!(matches!(same, Err(SessionError::Key(KeyError::Same(0, 2)))), "{same:?}");
    session.admit(2, &key(4)).await.unwrap();
    // What failed before: another key of a member that is not revoked was ignored without an error.
    session.admit(2, &key(4)).await.unwrap();
    assert!(matches!(session.admit(2, &key(5)).await, Err(SessionError::NotRevoked(2))));
    let anew = member(own(4), free(V4), hub, "anew");
    assert_eq!(anew.publish(&mut inbox).await, 2);
    assert_eq!(answers(&session).await, all(&[(0, "one"), (2, "anew")]));
    let few = begin(keys).places(2).initiate::<SocketAddr>(free(V4), &[]);
    assert!(few.unwrap_err().to_string().contains("3 keys for 2 members"));
    // What failed before: the second of them never joined.
    let twice = begin(Security::Keys(vec![key(1), key(2), key(1)])).places(3);
    let twice = twice.initiate::<SocketAddr>(free(V4), &[]).unwrap_err().to_string();
    assert!(twice.contains("members 0 and 2 have the same key"), "{twice}");
}

/// What failed before: with one key for all, a hub without a vacant place never answered a known member
/// that restarted at another address.
#[tokio::test]
async fn with_one_key_a_known_member_takes_its_place_at_another_address() {
    let (hub, at_one, at_two) = (free(V4), free(V4), free(V4));
    let session = begin(shared()).initiate(hub, &[at_one, at_two]).unwrap();
    let mut inbox = session.inbox().unwrap();
    let one = member(shared(), at_one, hub, "one");
    let two = member(shared(), at_two, hub, "two");
    assert_eq!(two.publish(&mut inbox).await, 1);
    assert_eq!(answers(&session).await, all(&[(0, "one"), (1, "two")]));
    two.task.abort();
    drop(two.publisher);
    // Member 0 is as silent, but answers when it is asked: its place is not given away.
    let again = member(shared(), free(V4), hub, "again");
    assert_eq!(again.publish(&mut inbox).await, 1);
    assert_eq!(answers(&session).await, all(&[(0, "one"), (1, "again")]));
    // All members are there: another one finds no place, however long it asks.
    let stranger = member(shared(), free(V4), hub, "stranger");
    let longer =
        MessageProperties { lifetime: Span::from_ms(20_000), ..MessageProperties::default() };
    let refused = stranger.publisher.publish(b"let me in", longer).await.unwrap();
    assert!(matches!(refused, Outcome::Failed(_)), "{refused:?}");
    assert_eq!(answers(&session).await, all(&[(0, "one"), (1, "again")]));
    for member in [one, again, stranger] {
        member.task.abort();
    }
}

/// A recorded hello, sent from elsewhere, gets an answer there, and changes nothing else.
#[tokio::test]
async fn a_recorded_hello_moves_no_member() {
    let (hub, tap) = (free(V4), free(V4));
    let session = begin(shared()).places(2).initiate::<SocketAddr>(hub, &[]).unwrap();
    let mut inbox = session.inbox().unwrap();
    // The attacker is on the path of the member.
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let path = tokio::net::UdpSocket::bind(tap).await.unwrap();
    let (record, mut member_at) = (recorded.clone(), None);
    let forward = tokio::spawn(async move {
        let mut buffer = vec![0; 65_536];
        while let Ok((length, from)) = path.recv_from(&mut buffer).await {
            let to = if from == hub { member_at } else { Some(hub) };
            if from != hub {
                member_at = Some(from);
                record.lock().unwrap().push(buffer[..length].to_vec());
            }
            if let Some(to) = to {
                let _ = path.send_to(&buffer[..length], to).await;
            }
        }
    });
    let one = member(shared(), free(V4), tap, "one");
    assert_eq!(one.publish(&mut inbox).await, 0);
    let attacker = tokio::net::UdpSocket::bind((V4, 0)).await.unwrap();
    let all_recorded: Vec<Vec<u8>> = recorded.lock().unwrap().clone();
    assert!(all_recorded.iter().any(|datagram| datagram.first() == Some(&0x26)));
    for datagram in all_recorded.iter().cycle().take(200) {
        attacker.send_to(datagram, hub).await.unwrap();
    }
    assert_eq!(answers(&session).await, all(&[(0, "one")]));
    assert_eq!(one.publish(&mut inbox).await, 0);
    let two = member(shared(), free(V4), hub, "two");
    assert_eq!(two.publish(&mut inbox).await, 1);
    forward.abort();
}

/// A hub that the members' names lead to is elsewhere now, and has restarted.
#[tokio::test]
async fn a_name_is_resolved_again() {
    let (before, after) = (free(V4), free(V4));
    let name = Arc::new(Mutex::new(before));
    let resolve = {
        let name = name.clone();
        move || Ok(*name.lock().unwrap())
    };
    let open = |at| {
        let session = begin(shared()).places(1).initiate::<SocketAddr>(at, &[]).unwrap();
        let inbox = session.inbox().unwrap();
        (session, inbox)
    };
    let (session, mut inbox) = open(before);
    let mut listener = begin(shared()).listen_by(free(V4), resolve).unwrap();
    let publisher = listener.publisher();
    let task = tokio::spawn(async move { serve(&mut listener, "one").await });
    let one = Member { publisher, task };
    assert_eq!(one.publish(&mut inbox).await, 0);
    drop((session, inbox));
    *name.lock().unwrap() = after;
    let (session, mut inbox) = open(after);
    // What was under way to the former hub ends as unknown; then the member joins the new one.
    let short =
        MessageProperties { lifetime: Span::from_ms(15_000), ..MessageProperties::default() };
    let arrived = async {
        loop {
            let outcome = one.publisher.publish(b"I am here", short).await.unwrap();
            if outcome == Outcome::Acknowledged(None) {
                return;
            }
        }
    };
    let serve = async { while inbox.next().await.is_some() {} };
    tokio::select! {
        done = timeout(PATIENCE, arrived) => done.unwrap(),
        () = serve => unreachable!("the session goes on"),
    }
    assert_eq!(answers(&session).await, all(&[(0, "one")]));
}

/// What failed before: nothing at the hub said that a member has another key.
#[tokio::test]
async fn a_member_with_another_key_is_reported_with_its_address() {
    let (hub, at) = (free(V4), free(V4));
    let (report, mut reported) = tokio::sync::mpsc::unbounded_channel();
    let session =
        begin(shared()).places(1).on_warning(move |text| drop(report.send(text.to_owned())));
    let session = session.initiate::<SocketAddr>(hub, &[]).unwrap();
    let _other = member(Security::Key(key(9)), at, hub, "other");
    let text = timeout(PATIENCE, reported.recv()).await.unwrap().unwrap();
    assert!(text.contains(&format!("from {at} was refused")) && text.contains("key"), "{text}");
    assert!(session.members().await.is_empty());
}

/// What failed before: the first one of them never joined.
#[tokio::test]
async fn two_members_with_one_address_are_an_error() {
    let one = free(V4);
    let twice = begin(shared()).initiate(free(V4), &[one, free(V4), one]);
    let error = twice.unwrap_err().to_string();
    assert!(error.contains(&format!("two members have the address {one}")), "{error}");
}
