//! Messages that members send at any time, over real sockets on loopback.
#![cfg(feature = "io")]

use director::io::{Inbox, Listener, Preconnection, Session};
use director::session::{Security, SessionError};
use director::{Conditions, MessageProperties, ModelId, Outcome, Pattern, Span};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::Duration;

/// Timeout of a hanging test, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn free() -> SocketAddrV4 {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, socket.local_addr().unwrap().port())
}

fn begin() -> Preconnection {
    let here = Conditions { rtt: Span::from_ms(2), rate_bit_s: 100e6, ..Conditions::default() };
    let security = Security::Key(b"a key of sixteen bytes".to_vec());
    Preconnection::new(Pattern::RequestResponse, security).assume(here)
}

fn session() -> (Session, Inbox, Listener) {
    let (hub, member) = (free(), free());
    let listener = begin().listen(member, hub).unwrap();
    let session = begin().initiate(hub, &[member]).unwrap();
    let inbox = session.inbox().unwrap();
    assert!(session.inbox().is_none(), "once");
    (session, inbox, listener)
}

#[tokio::test]
async fn a_member_publishes_and_requests_and_the_hub_answers() {
    let (_session, mut inbox, listener) = session();
    let publisher = listener.publisher();
    let serve = tokio::spawn(async move {
        let mut seen = Vec::new();
        while let Some(incoming) = inbox.next().await {
            assert_eq!(incoming.member(), 0);
            seen.push(incoming.message.clone());
            let answer = [&b"to "[..], &incoming.message].concat();
            incoming.reply(&answer);
            if seen.len() == 2 {
                break;
            }
        }
        // The reply goes out before the inbox is gone.
        (seen, inbox)
    });
    let properties = MessageProperties::default();
    let all = async {
        let published = publisher.publish(b"a reading", properties).await;
        assert_eq!(published.unwrap(), Outcome::Acknowledged(None));
        let answered = publisher.request(b"a question", properties).await.unwrap();
        assert_eq!(answered, Outcome::Acknowledged(Some(b"to a question".to_vec())));
    };
    tokio::time::timeout(PATIENCE, all).await.unwrap();
    let (seen, _inbox) = serve.await.unwrap();
    assert_eq!(seen, [b"a reading".to_vec(), b"a question".to_vec()]);
}

#[tokio::test]
async fn without_an_application_or_a_hub_a_message_is_not_acknowledged() {
    let (session, inbox, listener) = session();
    let publisher = listener.publisher();
    drop(inbox);
    let refused = publisher.publish(b"a reading", MessageProperties::default());
    let refused = tokio::time::timeout(PATIENCE, refused).await.unwrap().unwrap();
    assert!(matches!(refused, Outcome::Failed(_)), "{refused:?}");
    drop(session);
    let short = MessageProperties { lifetime: Span::from_ms(200), ..MessageProperties::default() };
    let late = tokio::time::timeout(PATIENCE, publisher.publish(b"a reading", short)).await;
    assert_eq!(late.unwrap().unwrap(), Outcome::Unknown);
    drop(listener);
    let over = tokio::time::timeout(PATIENCE, publisher.publish(b"a reading", short)).await;
    assert!(matches!(over.unwrap(), Err(SessionError::Over)));
}

/// What failed before: messages were acknowledged without limit while nothing took them.
#[tokio::test]
async fn a_member_acknowledges_no_more_than_it_keeps_for_its_application() {
    const LENGTH: usize = 50_000;
    let begin = || {
        let here = Conditions { rtt: Span::from_ms(2), rate_bit_s: 10e9, ..Conditions::default() };
        let security = Security::Key(b"a key of sixteen bytes".to_vec());
        let models = [ModelId::UdpArq];
        Preconnection::new(Pattern::PublishSubscribe, security).assume(here).models(&models)
    };
    let (hub, member) = (free(), free());
    let mut listener = begin().listen(member, hub).unwrap();
    let session = begin().initiate(hub, &[member]).unwrap();
    assert!(session.ready(PATIENCE).await);
    let send = async |bytes: &[u8]| {
        let sent = session.send_within(&[0], bytes, Duration::from_secs(5)).await.unwrap();
        sent.lacking.is_empty()
    };
    let mut kept = 0;
    while send(&[7; LENGTH]).await {
        kept += 1;
        assert!(kept * LENGTH < 20 << 20);
    }
    assert!(kept * LENGTH > 15 << 20, "{kept}");
    for _ in 0..kept {
        let next = tokio::time::timeout(PATIENCE, listener.next()).await.unwrap();
        assert_eq!(next.unwrap().message, [7; LENGTH]);
    }
    // There is room again.
    assert!(send(b"further").await);
    let next = tokio::time::timeout(PATIENCE, listener.next()).await.unwrap();
    assert_eq!(next.unwrap().message, b"further");
}

/// What failed before: a panic of the runtime's library.
#[test]
fn without_a_runtime_a_session_is_an_error() {
    let errors = [
        begin().listen(free(), free()).unwrap_err(),
        begin().initiate(free(), &[free()]).unwrap_err(),
    ];
    for error in errors {
        assert!(error.to_string().contains("tokio runtime"), "{error}");
    }
}

/// What failed before: a member that had not joined said nothing, whatever the reason.
#[tokio::test]
async fn a_member_says_that_its_hub_does_not_answer() {
    let (lines, mut said) = tokio::sync::mpsc::unbounded_channel();
    let hub = free();
    let member = begin().on_warning(move |line| drop(lines.send(line.to_owned())));
    let _listener = member.listen(free(), hub).unwrap();
    let line = tokio::time::timeout(PATIENCE, said.recv()).await.unwrap().unwrap();
    assert!(line.contains(&hub.to_string()) && line.contains("another key"), "{line}");
}

/// A NAT gives a member another address: the hub follows what the member has sealed.
#[tokio::test]
async fn a_member_behind_a_changing_address_is_the_same_member() {
    let (hub, inside, outside) = (free(), free(), free());
    let gateway = free();
    // The gateway forwards between the member and the hub, from `outside` at first.
    let towards_member = tokio::net::UdpSocket::bind(gateway).await.unwrap();
    let before = tokio::net::UdpSocket::bind(outside).await.unwrap();
    let after = tokio::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let (change, mut changed) = tokio::sync::watch::channel(false);
    tokio::spawn(async move {
        let (mut a, mut b, mut c) = (vec![0; 65_536], vec![0; 65_536], vec![0; 65_536]);
        loop {
            let moved = *changed.borrow_and_update();
            tokio::select! {
                Ok((length, _)) = towards_member.recv_from(&mut a) => {
                    let out = if moved { &after } else { &before };
                    let _ = out.send_to(&a[..length], hub).await;
                }
                Ok((length, _)) = before.recv_from(&mut b), if !moved => {
                    let _ = towards_member.send_to(&b[..length], inside).await;
                }
                Ok((length, _)) = after.recv_from(&mut c) => {
                    let _ = towards_member.send_to(&c[..length], inside).await;
                }
                Ok(()) = changed.changed() => {}
            }
        }
    });
    let listener = begin().listen(inside, gateway).unwrap();
    let session = begin().initiate(hub, &[outside]).unwrap();
    let mut inbox = session.inbox().unwrap();
    assert!(session.ready(PATIENCE).await);
    change.send(true).unwrap();
    let publisher = listener.publisher();
    let published = async { publisher.publish(b"I am here", MessageProperties::default()).await };
    let both = async { tokio::join!(published, inbox.next()) };
    let (outcome, incoming) = tokio::time::timeout(PATIENCE, both).await.unwrap();
    assert_eq!(outcome.unwrap(), Outcome::Acknowledged(None));
    assert_eq!(incoming.unwrap().member(), 0);
}

/// A member's messages of a topic reach the hub's application and the members that have subscribed,
/// and so do those of the hub.
#[tokio::test]
async fn members_subscribe_to_topics() {
    let (hub, one, other) = (free(), free(), free());
    let sensor = begin().listen(one, hub).unwrap();
    let mut display = begin().listen(other, hub).unwrap();
    let session = begin().initiate(hub, &[one, other]).unwrap();
    let mut inbox = session.inbox().unwrap();
    let all = async {
        let subscribed = display.publisher().subscribe("plant/+/temperature").await;
        assert_eq!(subscribed.unwrap(), Outcome::Acknowledged(None));
        let properties = MessageProperties::default();
        let publisher = sensor.publisher();
        let published = publisher.publish_to("plant/7/temperature", b"21", properties);
        let (outcome, taken, shown) = tokio::join!(published, inbox.next(), display.next());
        assert_eq!(outcome.unwrap(), Outcome::Acknowledged(None));
        let (taken, shown) = (taken.unwrap(), shown.unwrap());
        let topic = Some("plant/7/temperature");
        assert_eq!((taken.topic.as_deref(), &taken.message[..]), (topic, &b"21"[..]));
        assert_eq!((shown.topic.as_deref(), &shown.message[..]), (topic, &b"21"[..]));
        shown.reply(b"of no effect");
        let collected = session.publish("plant/8/temperature", b"22").await.unwrap();
        assert_eq!(collected.answers.into_keys().collect::<Vec<_>>(), [1]);
        assert_eq!(display.next().await.unwrap().message, b"22");
        let none = session.publish("other", b"23").await.unwrap();
        assert!(none.answers.is_empty() && none.lacking.is_empty());
        let wrong = publisher.publish_to("plant/#", b"21", properties).await;
        assert!(matches!(wrong, Err(SessionError::Topic(_))));
    };
    tokio::time::timeout(PATIENCE, all).await.unwrap();
}
