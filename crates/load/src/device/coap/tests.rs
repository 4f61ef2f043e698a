//! The server's dealings with observers, step by step; the client's socket is real.

use super::exchanges::MAX_UNACKNOWLEDGED;
use super::*;
use crate::device::MisbehaviourShares;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

const TOKEN: &[u8] = b"tok";

/// A device with one observable resource, and an observer.
struct Bed {
    settings: DeviceSettings,
    resource_server: ResourceServer,
    queue: Queue,
    timers: Timers,
    observer: UdpSocket,
}

impl Bed {
    fn new() -> Self {
        let settings = DeviceSettings {
            coap: Some(([127, 0, 0, 1], 0).into()),
            http: None,
            udp: None,
            tcp: None,
            resources: vec!["*, r, sleep, constant:0ns".parse().unwrap()],
            threads: 1,
            queue: 1,
            payload: 4,
            notify: Some("constant:1s".parse().unwrap()),
            misbehaviour: MisbehaviourShares::default(),
            core: None,
            spin: false,
            seed: 1,
        };
        let observer = UdpSocket::bind("127.0.0.1:0").unwrap();
        observer.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        Self {
            resource_server: ResourceServer::new(&settings),
            settings,
            queue: Queue::new(1),
            timers: Timers::default(),
            observer,
        }
    }

    fn server(&self) -> CoapServer<'_> {
        let socket = Datagrams::bind(([127, 0, 0, 1], 0).into()).unwrap();
        CoapServer::new(socket, &self.settings, &self.resource_server, &self.queue, &self.timers)
    }

    fn address(&self) -> SocketAddr {
        self.observer.local_addr().unwrap()
    }

    /// A notification that the observer has received: its type and message ID.
    fn notification(&self) -> (Kind, u16) {
        let mut buffer = [0; 128];
        let length = self.observer.recv(&mut buffer).unwrap();
        let message = Message::parse(&buffer[..length]).unwrap();
        assert_eq!((message.code, message.token), (CONTENT, TOKEN));
        (message.kind, message.id)
    }

    fn notifications(&self) -> u64 {
        self.resource_server.counts.notifications.load(Relaxed)
    }
}

/// Passes a datagram from `from` to the server; returns the code of its answer.
fn pass(server: &CoapServer, from: SocketAddr, datagram: &[u8]) -> Option<u8> {
    let (mut out, mut transfers, mut path) = (Batch::new(ROOM), Transfers::default(), Vec::new());
    server.datagram(datagram, &Address::new(from), &mut transfers, &mut path, &mut out);
    (out.len() > 0).then(|| Message::parse(out.get(0)).unwrap().code)
}

fn register(server: &CoapServer, from: SocketAddr, kind: Kind) {
    let mut request = [0; 64];
    let mut writer = coap::Writer::new(&mut request, kind, 1, 77, TOKEN);
    writer.uint(6, 0);
    writer.option(11, b"r");
    let length = writer.end(b"");
    assert_eq!(pass(server, from, &request[..length]), Some(CONTENT));
}

fn empty(kind: Kind, id: u16) -> Vec<u8> {
    let mut message = vec![0; 8];
    let length = coap::empty(&mut message, kind, id);
    message.truncate(length);
    message
}

fn change(server: &CoapServer) {
    server.work(Task::Change(0), &mut Batch::new(ROOM));
}

/// What failed: its first notification was not kept for retransmission, so the observer's
/// acknowledgement was ignored, and the next notification waited for it for ever.
#[test]
fn an_observer_is_notified_even_if_no_more_messages_can_wait_for_acknowledgements() {
    let bed = Bed::new();
    let server = bed.server();
    register(&server, bed.address(), Kind::Confirmable);
    // Other observers that do not answer.
    let others: Vec<Key> = (0..MAX_UNACKNOWLEDGED)
        .map(|i| Key::new(&Address::new(([10, 0, 0, 1], 5_683).into()), i as u16).unwrap())
        .collect();
    let wait = Span::from_s(2);
    let keep = |key: &Key| server.exchanges.lock().unwrap().sent(*key, b"x", wait, None);
    assert!(others.iter().all(keep));
    change(&server);
    // It cannot be sent again, so no acknowledgement is requested.
    assert_eq!(bed.notification().0, Kind::NonConfirmable);
    change(&server);
    assert_eq!((bed.notification().0, bed.notifications()), (Kind::NonConfirmable, 2));
    // With room again, they are confirmable, one at a time.
    for key in &others {
        server.exchanges.lock().unwrap().settle(*key);
    }
    change(&server);
    let (kind, id) = bed.notification();
    assert_eq!(kind, Kind::Confirmable);
    change(&server);
    assert_eq!(bed.notifications(), 3, "the next one waits for the acknowledgement");
    let mut out = Batch::new(ROOM);
    let acknowledgement = empty(Kind::Acknowledgement, id);
    let (mut transfers, mut path) = (Transfers::default(), Vec::new());
    let from = Address::new(bed.address());
    server.datagram(&acknowledgement, &from, &mut transfers, &mut path, &mut out);
    assert_eq!(bed.notifications(), 4);
}

/// RFC 7641, section 3.6: a client that does not know the token of a notification rejects it,
/// and the server removes it from the observers.
#[test]
fn a_reset_ends_the_observation_whatever_the_type_of_the_notification() {
    for kind in [Kind::Confirmable, Kind::NonConfirmable] {
        let bed = Bed::new();
        let server = bed.server();
        register(&server, bed.address(), kind);
        change(&server);
        let (notified, id) = bed.notification();
        assert_eq!((notified, bed.notifications()), (kind, 1));
        // Neither another peer's nor one about another message.
        pass(&server, ([127, 0, 0, 9], 5_683).into(), &empty(Kind::Reset, id));
        pass(&server, bed.address(), &empty(Kind::Reset, id.wrapping_add(1)));
        if kind == Kind::Confirmable {
            pass(&server, bed.address(), &empty(Kind::Acknowledgement, id));
        }
        change(&server);
        let (_, id) = bed.notification();
        assert_eq!(bed.notifications(), 2);
        pass(&server, bed.address(), &empty(Kind::Reset, id));
        change(&server);
        assert_eq!(bed.notifications(), 2, "it observes no more: {kind:?}");
    }
}

/// RFC 7252, section 4.3: an empty confirmable message is a ping, and its answer a reset.
#[test]
fn messages_without_a_request_are_rejected_if_confirmable_and_else_ignored() {
    let bed = Bed::new();
    let server = bed.server();
    let answer = |datagram: &[u8]| pass(&server, bed.address(), datagram);
    assert_eq!(answer(&empty(Kind::Confirmable, 5)), Some(0));
    assert_eq!(answer(&empty(Kind::NonConfirmable, 5)), None);
    assert_eq!(answer(&empty(Kind::Acknowledgement, 5)), None);
    assert_eq!(answer(&empty(Kind::Reset, 5)), None);
    // A response that no request of the device has (2.05).
    assert_eq!(answer(&[0x40, 0x45, 0, 1]), Some(0));
    assert_eq!(answer(&[0x50, 0x45, 0, 1]), None);
    assert_eq!(bed.resource_server.counts.malformed.load(Relaxed), 0);
    assert_eq!(answer(&[0x40, 0x01, 0, 1, 0xff]), Some(0), "a marker without a payload");
    assert_eq!(answer(b"garbage"), None);
    assert_eq!(bed.resource_server.counts.malformed.load(Relaxed), 2);
}
