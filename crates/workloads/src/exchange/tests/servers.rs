//! Drivers whose server is hostile.

use super::*;
use crate::protocols::mqtt::broker;
use record::event::FailureReason;
use std::io::Read;
use std::net::{TcpStream, UdpSocket};
use units::Span;

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

/// The answer to a datagram.
type Answer = fn(&[u8]) -> Vec<u8>;

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
    let of = |answer: Answer, timeout: u64| {
        let more = json!({"port": hostile_datagrams(answer), "timeout_ns": timeout});
        outcome(&json!("udp"), 100, &more).failure
    };
    assert_eq!(of(|request| request[..4].to_vec(), PATIENT.as_nanos() as u64), None);
    let wrong: [Answer; 4] = [
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
    let more = json!({"port": hostile_datagrams(first)});
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
    let of = |answer: Answer, timeout: u64| {
        let more = json!({"port": hostile_datagrams(answer), "timeout_ns": timeout});
        outcome(&json!({"coap": {"method": "get"}}), 100, &more)
    };
    let payload = |seed| body::Body::new(seed, 100).message(Some(4), 100);
    let cases: [(Answer, u64, Option<FailureReason>); 6] = [
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

#[test]
fn a_resource_without_observers_cannot_notify() {
    let more = json!({"port": free_port(), "connection": "kept"});
    let found = outcome(&json!({"coap": {"observe": true}}), 100, &more);
    assert_eq!(found.failure, Some(FailureReason::Rejected), "{found:?}");
    assert!(found.detail.contains("no client observes"), "{found:?}");
}
