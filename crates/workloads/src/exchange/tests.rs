//! Sides of exchanges over loopback, in this process: both sides, and a driver whose peer is
//! hostile.

use super::*;
use crate::protocols::mqtt::broker;
use record::control::Command;
use record::event::{self, ExchangeEvent, FailureReason, Receipt, Section, SectionEvent};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;
use units::Span;

/// Sizes of the payloads, in bytes: none, too short for a number, one of only the number, and
/// several blocks of CoAP.
const SIZES: [usize; 5] = [0, 3, 8, 1_000, 5_000];
/// No test fails because the machine is busy.
const PATIENT: Duration = Duration::from_secs(120);

/// The spec of a driver at 127.0.0.1 with the server `peer` there; `more` has keys that differ.
pub(crate) fn spec(folder: &Path, protocol: &Value, more: &Value) -> ExchangeSpec {
    let exchanges: Vec<(usize, usize)> = SIZES.into_iter().enumerate().collect();
    let mut spec = json!({
        "side": "drive", "node": "driver", "protocol": protocol, "connection": "new",
        "address": "127.0.0.1", "interface": "lo", "mtu": 65_535,
        "peers": [{"name": "server", "address": "127.0.0.1"}],
        "port": 1, "exchanges": exchanges, "sizes": SIZES, "every_ns": 1_000_000, "pause_ns": 0,
        "timeout_ns": PATIENT.as_nanos() as u64, "seed": 7,
        "events": folder.join("driver.csv"), "sections": folder.join("sections.csv"),
    });
    let all = spec.as_object_mut().unwrap();
    all.extend(more.as_object().unwrap().clone());
    serde_json::from_value(spec).unwrap()
}

/// The spec of the server of a driver.
fn server_of(driver: &ExchangeSpec) -> ExchangeSpec {
    let mut spec = ExchangeSpec { side: Side::Serve, node: "server".to_owned(), ..driver.clone() };
    spec.peers[0].name = "driver".to_owned();
    spec.events = driver.events.with_file_name("server.csv");
    spec
}

/// A program that runs in a thread.
pub(crate) struct Running<'s> {
    lines: BufReader<UnixStream>,
    side: ScopedJoinHandle<'s, Result<(), Error>>,
}

impl<'s> Running<'s> {
    fn start(scope: &'s Scope<'s, '_>, spec: &'s ExchangeSpec) -> Self {
        Self::with(scope, move |control| run(spec, control))
    }

    pub fn with(
        scope: &'s Scope<'s, '_>,
        side: impl FnOnce(&mut Control) -> Result<(), Error> + Send + 's,
    ) -> Self {
        let (near, far) = UnixStream::pair().unwrap();
        let mut control = Control::over(far.as_raw_fd(), far.as_raw_fd()).unwrap();
        near.set_read_timeout(Some(PATIENT)).unwrap();
        Self { lines: BufReader::new(near), side: scope.spawn(move || side(&mut control)) }
    }

    pub fn wait_for(&mut self, word: &str) {
        let begin = format!("{{\"{word}\"");
        let mut line = String::new();
        while !line.starts_with(&begin) {
            line.clear();
            let length = self.lines.read_line(&mut line).unwrap();
            assert!(length > 0, "the side ended before it was {word}");
        }
    }

    pub fn send(&mut self, command: &Command) {
        let line = serde_json::to_string(command).unwrap();
        writeln!(self.lines.get_mut(), "{line}").unwrap();
    }

    pub fn stop(mut self) {
        self.send(&Command::Stop {});
        self.join().unwrap();
    }

    /// Waits for its end.
    pub fn join(self) -> Result<(), Error> {
        self.side.join().unwrap()
    }
}

pub(crate) fn events<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    event::read(&std::fs::read(path).unwrap()).unwrap()
}

/// Runs a driver to the end of its last exchange.
fn drive(spec: &ExchangeSpec) -> Vec<ExchangeEvent> {
    std::thread::scope(|scope| {
        let mut driver = Running::start(scope, spec);
        driver.wait_for("ready");
        driver.send(&Command::Start { at_ns: clock::now_ns() });
        driver.wait_for("done");
        driver.stop();
    });
    events(&spec.events)
}

/// Output files of both sides.
struct Both {
    exchanges: Vec<ExchangeEvent>,
    sections: Vec<SectionEvent>,
    receipts: Vec<Receipt>,
}

fn both(driver: &ExchangeSpec) -> Both {
    let server = server_of(driver);
    let exchanges = std::thread::scope(|scope| {
        let mut serving = Running::start(scope, &server);
        serving.wait_for("ready");
        let exchanges = drive(driver);
        serving.stop();
        exchanges
    });
    let (sections, receipts) = (events(&driver.sections), events(&server.events));
    Both { exchanges, sections, receipts }
}

fn free_port() -> u16 {
    // Free for both transports: TCP's is checked here, UDP's is likely.
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Runs both sides and checks all that holds for each protocol. Returns the sections of the
/// exchange of 5,000 B.
fn check(protocol: &Value, connection: &str) -> Vec<Section> {
    let folder = tempfile::tempdir().unwrap();
    let (port, address) = (free_port(), "127.0.0.1");
    let mut more = json!({"port": port, "connection": connection});
    if protocol.get("mqtt").is_some() {
        more["port"] = broker::start(broker::Manners::Good).into();
        more["brokers"] = json!([{"name": "broker", "address": address}]);
    }
    let spec = spec(folder.path(), protocol, &more);
    let Both { exchanges, sections, receipts } = both(&spec);
    assert_eq!(exchanges.len(), SIZES.len(), "{protocol}");
    let mut last_end = 0;
    for (exchange, (number, size)) in exchanges.iter().zip(&spec.exchanges) {
        assert_eq!((exchange.message, exchange.bytes), (*number, *size as u64));
        assert_eq!((exchange.failure, exchange.detail.as_str()), (None, ""), "{protocol}: {size}");
        // One at a time, and none before its time.
        let ExchangeEvent { intended_ns, begin_ns, end_ns, received_ns, .. } = *exchange;
        assert!(last_end <= begin_ns && intended_ns <= begin_ns && begin_ns <= end_ns);
        last_end = end_ns;
        let own: Vec<_> = sections.iter().filter(|row| row.message == Some(*number)).collect();
        assert!(own.windows(2).all(|two| two[0].end_ns == two[1].begin_ns), "{own:?}");
        let span = (own[0].begin_ns, own.last().unwrap().end_ns);
        assert!(begin_ns <= span.0 && span.1 == end_ns, "{exchange:?} has {own:?}");
        assert!(received_ns.is_none_or(|at| (begin_ns..=end_ns).contains(&at)));
        // Loopback: each frame is sent and received here.
        let bytes: u64 = own.iter().map(|row| row.out_bytes).sum();
        assert!(bytes >= exchange.bytes, "{protocol}: {bytes} B for {size} B");
        match spec.protocol.is_pull() {
            true => assert!(received_ns.is_some(), "{protocol}"),
            false => {
                let found: Vec<_> =
                    receipts.iter().filter(|one| one.bytes == exchange.bytes).collect();
                assert_eq!(found.len(), 1, "{protocol}: {receipts:?}");
                assert_eq!(found[0].peer, "driver");
                // HTTP and MQTT have no number but that of a payload with room for it.
                let is_short = *size < body::NUMBER && found[0].message.is_none();
                assert!(is_short || found[0].message == Some(*number), "{protocol}: {receipts:?}");
                assert_eq!(found[0].failure, None);
            }
        }
    }
    let of_last = sections.iter().filter(|row| row.message == Some(4));
    let found = of_last.map(|row| row.section).collect();
    assert_eq!(sections.last().map(|row| row.section), Some(Section::All));
    found
}

#[test]
fn udp() {
    for connection in ["new", "kept"] {
        assert_eq!(check(&json!("udp"), connection), [Section::Payload]);
    }
}

#[test]
fn tcp() {
    use Section::{Payload, TransportClose, TransportConnect};
    assert_eq!(check(&json!("tcp"), "new"), [TransportConnect, Payload, TransportClose]);
    assert_eq!(check(&json!("tcp"), "kept"), [Payload]);
}

#[test]
fn http() {
    use Section::{Payload, TransportClose, TransportConnect};
    for method in ["get", "put", "post"] {
        let protocol = json!({"http": {"method": method}});
        assert_eq!(check(&protocol, "new"), [TransportConnect, Payload, TransportClose]);
        assert_eq!(check(&protocol, "kept"), [Payload]);
    }
}

#[test]
fn coap_over_udp() {
    for (method, confirmable) in [("get", true), ("get", false), ("put", true), ("post", false)] {
        let options = json!({"method": method, "confirmable": confirmable, "block": 512});
        // 5,000 B are ten blocks of 512 B.
        let blocks: Vec<_> = (1..=10).map(Section::Block).collect();
        assert_eq!(check(&json!({"coap": options}), "new"), blocks, "{method}");
        assert_eq!(check(&json!({"coap": options}), "kept"), blocks, "{method}");
    }
}

#[test]
fn mqtt() {
    use Section::{Payload, ProtocolClose, ProtocolConnect, TransportClose, TransportConnect};
    let whole = [TransportConnect, ProtocolConnect, Payload, ProtocolClose, TransportClose];
    for qos in 0..=2 {
        let protocol = json!({"mqtt": {"qos": qos, "version": "3.1.1"}});
        assert_eq!(check(&protocol, "new"), whole);
        assert_eq!(check(&protocol, "kept"), [Payload]);
    }
}

#[cfg(feature = "opcua")]
#[test]
fn opcua() {
    for variables in [1, 10] {
        let protocol = json!({"opcua": {"variables": variables, "timestamps": "both"}});
        assert_eq!(check(&protocol, "kept"), [Section::Payload]);
    }
}

/// A driver with one exchange of `size` bytes; returns how it ended.
fn outcome(protocol: &Value, size: usize, more: &Value) -> ExchangeEvent {
    let folder = tempfile::tempdir().unwrap();
    let mut all = json!({"exchanges": [[4, size]], "sizes": [size]});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut exchanges = drive(&spec(folder.path(), protocol, &all));
    assert_eq!(exchanges.len(), 1);
    exchanges.remove(0)
}

/// What a hostile server does with a connection after the first bytes of the request.
#[derive(Clone)]
enum Hostile {
    /// Sends these bytes, and closes.
    Sends(Vec<u8>),
    /// Sends nothing more, and keeps the connection.
    Waits,
    /// Sends these bytes, and then others for ten seconds.
    SendsMore(Vec<u8>),
}

/// A TCP server that treats each connection so; returns its port.
fn hostile_stream(manners: Hostile) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut open: Vec<TcpStream> = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4_096]);
            match &manners {
                Hostile::Sends(bytes) => drop(stream.write_all(bytes)),
                Hostile::Waits => open.push(stream),
                Hostile::SendsMore(bytes) => {
                    let _ = stream.write_all(bytes);
                    send_more(&mut stream);
                }
            }
        }
    });
    port
}

/// Sends without end, as seen by an exchange with a timeout of `SHORT`.
fn send_more(stream: &mut TcpStream) {
    let until = clock::now() + FLOOD;
    // More than the reader takes at once, so that there is always data.
    let bytes = vec![7; 1 << 20];
    while clock::now() < until && stream.write_all(&bytes).is_ok() {}
}

const FLOOD: Span = Span::from_s(10);
/// Short, for peers that never answer.
const SHORT: u64 = 400_000_000;

#[test]
fn a_tcp_server_with_a_wrong_answer_has_a_reason() {
    use FailureReason::{Corrupt, Lost, Timeout};
    let of = |manners, timeout: u64| {
        let port = hostile_stream(manners);
        outcome(&json!("tcp"), 100, &json!({"port": port, "timeout_ns": timeout}))
    };
    let long = PATIENT.as_nanos() as u64;
    let sends = |bytes: &[u8]| of(Hostile::Sends(bytes.to_vec()), long).failure;
    assert_eq!(sends(&[0, 0, 0, 4]), None);
    assert_eq!(sends(&[0, 0, 0, 5]), Some(Corrupt), "another exchange's number");
    assert_eq!(sends(&[0, 0, 0, 4, 9, 9]), None, "late data is not part of the exchange");
    assert_eq!(sends(&[0, 0, 0]), Some(Lost));
    assert_eq!(sends(&[]), Some(Lost));
    for manners in [Hostile::Waits, Hostile::SendsMore(vec![0, 0, 0, 4])] {
        let late = of(manners, SHORT);
        assert_eq!(late.failure, Some(Timeout));
        assert!(late.end_ns - late.begin_ns < FLOOD.as_ns() / 2, "{late:?}");
    }
    let late = of(Hostile::Waits, SHORT);
    assert!(late.end_ns - late.begin_ns >= SHORT, "{late:?}");
}

#[test]
fn an_http_server_with_a_wrong_answer_has_a_reason() {
    use FailureReason::{Corrupt, Lost, Status, Timeout};
    let of = |method: &str, manners, timeout: u64| {
        let protocol = json!({"http": {"method": method}});
        let port = hostile_stream(manners);
        outcome(&protocol, 100, &json!({"port": port, "timeout_ns": timeout}))
    };
    let long = PATIENT.as_nanos() as u64;
    let payload = body::Body::new(7, 100).message(None, 100);
    let whole = |body: &[u8]| {
        [format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len()).as_bytes(), body]
            .concat()
    };
    let other = body::Body::new(8, 100).message(None, 100);
    let foreign = body::Body::new(7, 100).message(Some(5), 100);
    let cases: [(&str, Vec<u8>, Option<FailureReason>); 13] = [
        ("get", whole(&payload), None),
        ("get", whole(&other), Some(Corrupt)),
        ("get", whole(&foreign), Some(Corrupt)),
        ("get", whole(&payload[..99]), Some(Corrupt)),
        ("get", whole(&[&payload[..], b"x"].concat()), Some(Corrupt)),
        ("get", whole(&payload)[..100].to_vec(), Some(Lost)),
        ("get", b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec(), Some(Status)),
        ("put", b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n".to_vec(), Some(Status)),
        ("put", b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(), None),
        ("put", b"SSH-2.0-x\r\n\r\n".to_vec(), Some(Corrupt)),
        ("put", b"HTTP/1.1 200 OK\r\n".to_vec(), Some(Lost)),
        ("put", Vec::new(), Some(Lost)),
        (
            "get",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n".to_vec(),
            Some(Corrupt),
        ),
    ];
    for (method, bytes, expected) in cases {
        let found = of(method, Hostile::Sends(bytes.clone()), long);
        assert_eq!(found.failure, expected, "{found:?}: {}", String::from_utf8_lossy(&bytes));
    }
    assert_eq!(of("put", Hostile::Waits, SHORT).failure, Some(Timeout));
    let done = b"HTTP/1.1 204 No Content\r\n\r\n".to_vec();
    let late = of("put", Hostile::SendsMore(done), SHORT);
    assert!(late.end_ns - late.begin_ns < FLOOD.as_ns() / 2, "{late:?}");
}

#[test]
fn a_broker_with_bad_manners_has_a_reason() {
    use FailureReason::{Lost, Rejected, Timeout};
    use broker::Manners;
    for (manners, qos, timeout, expected) in [
        (Manners::Good, 2, PATIENT.as_nanos() as u64, None),
        (Manners::Refuses(5), 0, PATIENT.as_nanos() as u64, Some(Rejected)),
        (Manners::Closes, 1, PATIENT.as_nanos() as u64, Some(Lost)),
        (Manners::Garbles, 1, PATIENT.as_nanos() as u64, Some(Lost)),
        (Manners::NeverAcknowledges, 1, SHORT, Some(Timeout)),
        (Manners::NeverAcknowledges, 2, SHORT, Some(Timeout)),
    ] {
        let more = json!({
            "port": broker::start(manners), "timeout_ns": timeout,
            "brokers": [{"name": "broker", "address": "127.0.0.1"}],
        });
        let protocol = json!({"mqtt": {"qos": qos, "version": "3.1.1"}});
        let found = outcome(&protocol, 100, &more);
        assert_eq!(found.failure, expected, "{manners:?}: {found:?}");
    }
}

#[test]
fn a_subscriber_records_only_the_payloads_of_its_workload() {
    let folder = tempfile::tempdir().unwrap();
    let more = json!({
        "exchanges": [[0, 1_000], [1, 5_000]], "sizes": [1_000, 5_000],
        "port": broker::start(broker::Manners::Babbles),
        "brokers": [{"name": "broker", "address": "127.0.0.1"}],
    });
    let protocol = json!({"mqtt": {"qos": 1, "version": "3.1.1"}});
    let Both { receipts, .. } = both(&spec(folder.path(), &protocol, &more));
    let found: Vec<_> = receipts.iter().map(|one| (one.message, one.bytes)).collect();
    assert_eq!(found, [(Some(0), 1_000), (Some(1), 5_000)]);
}

#[test]
fn a_refused_subscription_is_recorded_with_its_code() {
    let folder = tempfile::tempdir().unwrap();
    let more = json!({
        "port": broker::start(broker::Manners::RefusesSubscriptions),
        "brokers": [{"name": "broker", "address": "127.0.0.1"}],
    });
    let protocol = json!({"mqtt": {"qos": 0, "version": "3.1.1"}});
    let Both { exchanges, receipts, .. } = both(&spec(folder.path(), &protocol, &more));
    // The publisher cannot know.
    assert!(exchanges.iter().all(|exchange| exchange.failure.is_none()));
    assert_eq!(receipts.len(), 1, "{receipts:?}");
    assert_eq!(receipts[0].failure, Some(FailureReason::Rejected));
    assert_eq!(receipts[0].peer, "driver");
    assert!(receipts[0].detail.contains("broker broker") && receipts[0].detail.contains("128"));
}

/// A UDP server that answers each datagram so; returns its port.
fn hostile_datagrams(answer: impl Fn(&[u8]) -> Vec<u8> + Send + 'static) -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut buffer = [0; 2_048];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&answer(&buffer[..length]), from);
        }
    });
    port
}

#[test]
fn a_udp_server_with_a_wrong_answer_is_like_one_without() {
    let of = |answer: fn(&[u8]) -> Vec<u8>, timeout: u64| {
        let more = json!({"port": hostile_datagrams(answer), "timeout_ns": timeout});
        outcome(&json!("udp"), 100, &more).failure
    };
    assert_eq!(of(|request| request[..4].to_vec(), PATIENT.as_nanos() as u64), None);
    let wrong: [fn(&[u8]) -> Vec<u8>; 4] = [
        |request| request[..5].to_vec(),
        |request| request[..3].to_vec(),
        |_| vec![0, 0, 0, 9],
        |_| Vec::new(),
    ];
    for answer in wrong {
        assert_eq!(of(answer, SHORT), Some(FailureReason::Timeout));
    }
}

#[test]
fn datagrams_without_end_do_not_prolong_an_exchange() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let from = socket.recv_from(&mut [0; 2_048]).unwrap().1;
        let until = clock::now() + FLOOD;
        while clock::now() < until {
            let _ = socket.send_to(&[0, 0, 0, 9], from);
        }
    });
    let late = outcome(&json!("udp"), 100, &json!({"port": port, "timeout_ns": SHORT}));
    assert_eq!(late.failure, Some(FailureReason::Timeout));
    assert!(late.end_ns - late.begin_ns < FLOOD.as_ns() / 2, "{late:?}");
}

/// What failed: the same block was requested again and again until the deadline.
#[test]
fn a_coap_block_that_is_shorter_than_its_size_is_corrupt() {
    let first = |request: &[u8]| {
        let mut room = vec![0; 256];
        let request = coap::Message::parse(request).unwrap();
        let kind = coap::Kind::Acknowledgement;
        let content = coap::code::CONTENT;
        let mut writer = coap::Writer::new(&mut room, kind, content, request.id, request.token);
        writer.option(coap::number::BLOCK2, &coap::Block::sized(0, true, 64).encode());
        let length = writer.end(b"");
        room.truncate(length);
        room
    };
    let more = json!({"port": hostile_datagrams(first), "timeout_ns": 5_000_000_000_u64});
    let found = outcome(&json!({"coap": {"method": "get"}}), 100, &more);
    assert_eq!(found.failure, Some(FailureReason::Corrupt), "{found:?}");
}

/// A message of CoAP in answer to a request.
fn coap_answer(request: &[u8], kind: coap::Kind, code: u8, payload: &[u8]) -> Vec<u8> {
    let mut room = vec![0; 2_048];
    let request = coap::Message::parse(request).unwrap();
    let length = match code {
        0 => coap::empty(&mut room, kind, request.id),
        _ => coap::answer(&mut room, kind, code, request.id, request.token, payload),
    };
    room.truncate(length);
    room
}

#[test]
fn a_coap_server_with_a_wrong_answer_has_a_reason() {
    use FailureReason::{Corrupt, Rejected, Status, Timeout};
    use coap::Kind::{Acknowledgement, Reset};
    let long = PATIENT.as_nanos() as u64;
    let of = |answer: fn(&[u8]) -> Vec<u8>, timeout: u64| {
        let more = json!({"port": hostile_datagrams(answer), "timeout_ns": timeout});
        outcome(&json!({"coap": {"method": "get"}}), 100, &more)
    };
    let payload = |seed| body::Body::new(seed, 100).message(Some(4), 100);
    let cases: [(fn(&[u8]) -> Vec<u8>, u64, Option<FailureReason>); 6] = [
        (|r| coap_answer(r, Reset, 0, b""), long, Some(Rejected)),
        (|r| coap_answer(r, Acknowledgement, coap::code::NOT_FOUND, b""), long, Some(Status)),
        (|r| coap_answer(r, Acknowledgement, coap::code::CONTENT, &[7; 100]), long, Some(Corrupt)),
        (|r| coap_answer(r, Acknowledgement, coap::code::CONTENT, b"short"), long, Some(Corrupt)),
        (|_| b"garbage".to_vec(), SHORT, Some(Timeout)),
        // Acknowledged, and then never answered.
        (|r| coap_answer(r, Acknowledgement, 0, b""), SHORT, Some(Timeout)),
    ];
    for (place, (answer, timeout, expected)) in cases.into_iter().enumerate() {
        let found = of(answer, timeout);
        assert_eq!(found.failure, expected, "case {place}: {found:?}");
    }
    let right = move |request: &[u8]| {
        coap_answer(request, Acknowledgement, coap::code::CONTENT, &payload(7))
    };
    let more = json!({"port": hostile_datagrams(right)});
    let found = outcome(&json!({"coap": {"method": "get"}}), 100, &more);
    assert_eq!(found.failure, None, "{found:?}");
}

#[test]
fn a_port_where_no_server_listens_is_refused() {
    for protocol in
        [json!("udp"), json!("tcp"), json!({"http": {"method": "put"}}), json!({"coap": {}})]
    {
        let found = outcome(&protocol, 100, &json!({"port": free_port()}));
        assert_eq!(found.failure, Some(FailureReason::Refused), "{protocol}: {found:?}");
    }
}

#[test]
fn a_payload_that_no_datagram_can_carry_is_unsupported() {
    let port = hostile_datagrams(|request| request[..4].to_vec());
    let found = outcome(&json!("udp"), 65_504, &json!({"port": port}));
    assert_eq!(found.failure, Some(FailureReason::Unsupported), "{found:?}");
    assert_eq!(outcome(&json!("udp"), 2_000, &json!({"port": port})).failure, None);
}
