//! CoAP between load and device over loopback: blocks, retransmission, NSTART, observation;
//! and a device's answers to messages that load never sends.

mod common;

use common::{device, load, patient, sent, served};
use load::{DeviceSettings, MisbehaviourShares, Settings};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use trace::CoapSettings;
use units::Span;

const MS: Span = Span::from_ms(1);

fn fast() -> DeviceSettings {
    device(&["*, r, sleep, constant:0ns"])
}

fn settings(coap: CoapSettings) -> Settings {
    Settings { coap, ..patient() }
}

/// Confirmable and not, each with blocks of 64 B and of the default size.
fn variants() -> impl Iterator<Item = Settings> {
    [(false, None), (true, None), (false, Some(64)), (true, Some(64))].into_iter().map(
        |(confirmable, block)| {
            let coap = CoapSettings { block, ..CoapSettings::default() };
            Settings { confirmable, ..settings(coap) }
        },
    )
}

#[test]
fn an_answer_counts_when_its_last_block_is_there() {
    for settings in variants() {
        let device = DeviceSettings { payload: 5_000, ..fast() };
        let (figures, served) =
            sent(&device, &settings, 50, |_, at| format!("GET, coap://{}/r", at("coap")));
        assert_eq!(figures.all().counts.answered, 50, "{:?}", figures.reasons);
        assert_eq!(
            (figures.codes["2.05"], figures.others.duplicates, figures.others.unexpected),
            (50, 0, 0)
        );
        let blocks = 5_000_u64.div_ceil(settings.coap.block_size().into());
        assert_eq!((served.resources[0].requests, served.blocks), (50, 50 * (blocks - 1)));
    }
}

#[test]
fn a_large_request_is_served_once_and_whole() {
    for settings in variants() {
        let (figures, served) =
            sent(&fast(), &settings, 50, |_, at| format!("PUT, coap://{}/r, 5000", at("coap")));
        assert_eq!(figures.all().counts.answered, 50, "{:?}", figures.reasons);
        assert_eq!((figures.codes["2.04"], figures.all().counts.errors), (50, 0));
        assert_eq!((served.resources[0].requests, served.body_bytes), (50, 250_000));
    }
    // Both directions, with a service time.
    let device = DeviceSettings { payload: 3_000, ..device(&["*, r, sleep, constant:1ms"]) };
    let (figures, served) =
        sent(&device, &patient(), 20, |_, at| format!("POST, coap://{}/r, 3000", at("coap")));
    assert_eq!(figures.all().counts.answered, 20, "{:?}", figures.reasons);
    assert_eq!((served.body_bytes, served.blocks), (60_000, 20 * (3 + 2)));
}

/// A device that does not answer is like a lost packet.
#[test]
fn confirmable_requests_are_sent_again_if_that_is_asked_for() {
    let lossy = || MisbehaviourShares { silent: 0.2, ..MisbehaviourShares::default() };
    let device = DeviceSettings { misbehaviour: lossy(), payload: 2_000, ..fast() };
    let again = CoapSettings {
        max_retransmit: 10,
        ack_timeout: Span::from_ms(5),
        ..CoapSettings::default()
    };
    let settings = Settings { confirmable: true, timeout: Span::from_s(60), ..settings(again) };
    let get = |at: SocketAddr| format!("GET, coap://{at}/r");
    let (figures, _) = sent(&device, &settings, 100, |_, at| get(at("coap")));
    assert_eq!(figures.all().counts.answered, 100, "{:?}", figures.reasons);
    assert!(figures.others.retransmitted > 5, "{}", figures.others.retransmitted);
    // Without retransmission, and after the maximum of retransmissions.
    let once =
        Settings { coap: CoapSettings::default(), timeout: Span::from_ms(500), ..settings.clone() };
    let (figures, _) = sent(&device, &once, 100, |_, at| get(at("coap")));
    assert!(figures.all().counts.timed_out > 5 && figures.others.retransmitted == 0);
    let silent = MisbehaviourShares { silent: 1.0, ..MisbehaviourShares::default() };
    let device = DeviceSettings { misbehaviour: silent, ..fast() };
    let thrice = Settings { coap: CoapSettings { max_retransmit: 2, ..again }, ..settings };
    let (figures, served) = sent(&device, &thrice, 10, |_, at| get(at("coap")));
    assert_eq!((figures.all().counts.timed_out, figures.others.retransmitted), (10, 20));
    assert_eq!(served.misbehaved, 30);
    assert!(figures.reasons.keys().any(|why| why.contains("not acknowledged")));
}

#[test]
fn nstart_limits_what_is_outstanding_and_the_rest_waits() {
    let device = DeviceSettings { threads: 1, queue: 0, ..device(&["*, r, sleep, constant:2ms"]) };
    for confirmable in [false, true] {
        let get = |_, at: &dyn Fn(&str) -> SocketAddr| format!("GET, coap://{}/r", at("coap"));
        let one = CoapSettings { nstart: Some(1), ..CoapSettings::default() };
        let limited = Settings { confirmable, ..settings(one) };
        let (figures, served) = sent(&device, &limited, 100, get);
        let all = figures.all();
        assert_eq!((all.counts.answered, served.refused), (100, 0), "{:?}", figures.reasons);
        // They are due within 20 ms and take 200 ms.
        assert!(all.wait.unwrap().quantile_ns(1.0) > (MS * 150).as_ns());
        let free = Settings { confirmable, ..patient() };
        let (figures, served) = sent(&device, &free, 100, get);
        assert!(served.refused > 0 && figures.all().wait.is_none());
    }
}

#[test]
fn observers_are_notified_until_they_deregister() {
    for (confirmable, payload, block) in
        [(false, 4, None), (true, 4, None), (false, 3_000, None), (true, 3_000, Some(256))]
    {
        let notify = Some("constant:20ms".parse().unwrap());
        let device = DeviceSettings { notify, payload, ..fast() };
        let observe = Some(Span::from_ms(400));
        let coap = CoapSettings { observe, block, ..CoapSettings::default() };
        let settings = Settings { confirmable, ..settings(coap) };
        let (figures, served) =
            sent(&device, &settings, 3, |_, at| format!("GET, coap://{}/r", at("coap")));
        let (observed, all) = (figures.observed, figures.all());
        assert_eq!((all.counts.answered, all.counts.errors), (3, 0), "{:?}", figures.reasons);
        assert_eq!((observed.registered, observed.refused), (3, 0), "{observed:?}");
        assert_eq!((observed.deregistered, observed.unanswered), (3, 0), "{observed:?}");
        assert!(observed.notifications > 0 && served.notifications >= observed.notifications);
        assert_eq!(all.notification.unwrap().count(), observed.notifications);
        let further = payload as u64 / u64::from(settings.coap.block_size());
        assert!(served.blocks >= 3 * further, "of the first answers at least");
    }
    // A device whose resources never change answers once.
    let observe = Some(Span::from_ms(400));
    let settings = settings(CoapSettings { observe, ..CoapSettings::default() });
    let (figures, _) = sent(&fast(), &settings, 3, |_, at| format!("GET, coap://{}/r", at("coap")));
    assert_eq!((figures.observed.registered, figures.observed.refused), (0, 3));
    assert_eq!(figures.all().counts.answered, 3);
}

#[test]
fn a_slow_answer_comes_by_itself_and_is_acknowledged() {
    let device = device(&["*, r, sleep, constant:1200ms"]);
    let settings = Settings { confirmable: true, ..patient() };
    let (figures, served) =
        sent(&device, &settings, 2, |_, at| format!("GET, coap://{}/r", at("coap")));
    assert_eq!(figures.all().counts.answered, 2, "{:?}", figures.reasons);
    assert_eq!((figures.others.duplicates, served.duplicates), (0, 0));
}

/// A socket that exchanges single messages with a device.
struct Peer(UdpSocket, SocketAddr);

impl Peer {
    fn new(to: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        Self(socket, to)
    }

    fn hear(&self) -> Vec<u8> {
        let mut room = [0; 2_048];
        let count = self.0.recv(&mut room).unwrap();
        room[..count].to_vec()
    }

    fn ask(&self, message: &[u8]) -> Vec<u8> {
        self.0.send_to(message, self.1).unwrap();
        self.hear()
    }

    /// Type and code of the answer to a message.
    fn code(&self, message: &[u8]) -> (u8, u8) {
        let answer = self.ask(message);
        (answer[0] >> 4 & 3, answer[1])
    }
}

const ACK: u8 = 2;
const RESET: u8 = 3;

#[test]
fn what_a_device_says_to_odd_messages() {
    let (_, served) = served(&fast(), |at| {
        let peer = Peer::new(at("coap"));
        // GET /r, confirmable, with an option in between.
        let with = |id: u8, option: &[u8]| [&b"\x40\x01\0"[..], &[id, 0xb1, b'r'], option].concat();
        assert_eq!(peer.code(&with(1, b"")), (ACK, 0x45));
        assert_eq!(peer.code(&with(2, b"\x11x")), (ACK, 0x45), "elective 12");
        assert_eq!(peer.code(&with(3, b"\x21x")), (ACK, 0x82), "critical 13");
        let mut not = with(4, b"\x21x");
        not[0] = 0x50;
        assert_eq!(peer.code(&not), (RESET, 0), "critical, and not to be confirmed");
        assert_eq!(peer.code(&with(5, b"\x61\x28")), (ACK, 0x86), "Accept: links");
        assert_eq!(peer.code(&with(6, b"\x60")), (ACK, 0x45), "Accept: text");
        assert_eq!(peer.code(&with(7, b"\xd1\x0bx")), (ACK, 0xa5), "Proxy-Uri");
        assert_eq!(peer.code(&with(8, b"\xc1\xf6")), (ACK, 0x80), "block 15 of 4 B");
        assert_eq!(peer.code(b"\x40\x1f\0\x09\xb1r"), (ACK, 0x85), "an unknown method");
        assert_eq!(peer.code(b"\x40\x03\0\x0a\x50\x61r"), (ACK, 0x8c), "If-None-Match");
        assert_eq!(peer.code(b"\x40\x03\0\x0b\x11x\xa1r"), (ACK, 0x8c), "If-Match");
        assert_eq!(peer.code(b"\x40\x03\0\x0c\x10\xa1r"), (ACK, 0x44), "If-Match any");
        assert_eq!(peer.code(b"\x40\x04\0\x0d\xb1r"), (ACK, 0x42), "DELETE");
        assert_eq!(peer.code(b"\x40\0\0\x0e"), (RESET, 0), "a ping");
        assert_eq!(peer.code(b"\x40\x45\0\x0f"), (RESET, 0), "a response");
        assert_eq!(peer.code(b"\x40\x01\0\x10\xff"), (RESET, 0), "no message");
        // PUT /r with block 1 before block 0; a block of another size than it says.
        assert_eq!(peer.code(b"\x40\x03\0\x11\xb1r\xd1\x03\x10\xffx"), (ACK, 0x88));
        assert_eq!(peer.code(b"\x40\x03\0\x12\xb1r\xd1\x03\x08\xffx"), (ACK, 0x80));
        // More than 1 MiB is too large, already by Size1.
        let large = b"\x40\x03\0\x13\xb1r\xd1\x03\x08\xd3\x14\x10\0\x01\xff0123456789abcdef";
        assert_eq!(peer.code(large), (ACK, 0x8d));
        // None of these gets an answer; the next answer is to the last message.
        for silent in [&b"\x80\x01\0\x01"[..], b"", b"x", b"\x50\x01\0\x10\xff", b"\x60\0\0\x14"] {
            peer.0.send_to(silent, peer.1).unwrap();
        }
        assert_eq!(peer.code(b"\x40\0\0\x15"), (RESET, 0));
    });
    assert_eq!((served.bad_options, served.duplicates), (2, 0));
    assert_eq!(served.malformed, 5);
}

#[test]
fn a_request_that_comes_again_is_not_served_again() {
    let device = device(&["*, fast, sleep, constant:0ns", "*, slow, sleep, constant:300ms"]);
    let (_, served) = served(&device, |at| {
        let peer = Peer::new(at("coap"));
        let fast = b"\x41\x01\0\x01t\xb4fast";
        let first = peer.ask(fast);
        assert_eq!(first[..4], [0x61, 0x45, 0, 1]);
        assert_eq!(peer.ask(fast), first);
        // During service, a duplicate is acknowledged; the answer is a separate response.
        let slow = b"\x41\x01\0\x02t\xb4slow";
        peer.0.send_to(slow, peer.1).unwrap();
        assert_eq!(peer.ask(slow), [0x60, 0, 0, 2]);
        let answer = peer.hear();
        assert_eq!((answer[0], answer[1]), (0x41, 0x45), "confirmable");
        // Without an acknowledgement it is retransmitted after 2 to 3 s.
        assert_eq!(peer.hear(), answer);
        peer.0.send_to(&[0x60, 0, answer[2], answer[3]], peer.1).unwrap();
        // The same ID for another request, too early: not a duplicate.
        assert_eq!(peer.ask(b"\x41\x01\0\x01u\xb4fast")[4], b'u');
    });
    assert_eq!((served.duplicates, served.resources[0].requests), (2, 2));
    assert_eq!(served.resources[1].requests, 1);
}

#[test]
fn who_observes_can_be_ended_by_a_reset() {
    let notify = Some("constant:30ms".parse().unwrap());
    let (_, served) = served(&DeviceSettings { notify, ..fast() }, |at| {
        let peer = Peer::new(at("coap"));
        let answer = peer.ask(b"\x41\x01\0\x01t\x60\x51r");
        assert_eq!(answer[5] >> 4, 6, "it has the option: {answer:02x?}");
        let one = peer.hear();
        assert_eq!((one[0], one[1], one[4]), (0x41, 0x45, b't'), "confirmable, as it was asked");
        // The next one arrives only after this acknowledgement.
        peer.0.send_to(&[0x60, 0, one[2], one[3]], peer.1).unwrap();
        let next = peer.hear();
        assert_ne!(next[2..4], one[2..4]);
        peer.0.send_to(&[0x70, 0, next[2], next[3]], peer.1).unwrap();
        peer.0.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut room = [0; 64];
        assert!(peer.0.recv(&mut room).is_err(), "it is told no more");
    });
    assert_eq!(served.notifications, 2);
}

#[test]
fn links_are_listed_block_by_block() {
    let lines: Vec<String> =
        (0..200).map(|i| format!("*, resource-{i}, sleep, constant:0ns")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let (figures, served) = sent(&device(&lines), &patient(), 5, |_, at| {
        format!("GET, coap://{}/.well-known/core", at("coap"))
    });
    assert_eq!((figures.codes["2.05"], figures.all().counts.errors), (5, 0));
    // `</resource-0>` and so on, with commas between them.
    let length: u64 = (0..200).map(|i| format!("</resource-{i}>,").len() as u64).sum::<u64>() - 1;
    assert_eq!((served.unknown, served.blocks), (0, 5 * (length.div_ceil(1_024) - 1)));
}

/// Deterministic pseudo-random bytes.
fn noise(seed: u64, count: usize) -> Vec<u8> {
    units::words(seed).flat_map(u64::to_le_bytes).take(count).collect()
}

/// A device serves on after any input.
#[test]
fn a_device_bears_any_bytes() {
    let notify = Some("constant:10ms".parse().unwrap());
    let device = DeviceSettings { notify, payload: 3_000, ..fast() };
    served(&device, |at| {
        let peer = Peer::new(at("coap"));
        for seed in 0..20_000_u64 {
            let mut bytes = noise(seed, 4 + seed as usize % 60);
            // Most have a valid header and an existing path.
            if seed % 4 > 0 {
                bytes[0] = 0x40 | bytes[0] & 0x30;
                bytes[1] &= 0x07;
                bytes.splice(4..4, *b"\xb1r");
            }
            peer.0.send_to(&bytes, peer.1).unwrap();
        }
        // Answers to these fill the socket; a new one gets only its answer.
        let peer = Peer::new(at("coap"));
        assert_eq!(peer.ask(b"\x40\x01\xff\xfe\xb1r")[1], 0x45);
    });
}

/// For any answers, each request has exactly one outcome, and the load ends.
#[test]
fn a_load_bears_any_answers() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut room = [0; 2_048];
        for seed in 0_u64.. {
            let Ok((count, from)) = server.recv_from(&mut room) else { return };
            let (request, noise) = (&room[..count], noise(seed, 40));
            let token = request.get(4..12).unwrap_or(&[0; 8]);
            // Answers to the request with random options and payload, or only random bytes.
            let answer = match seed % 8 {
                0 => noise,
                1 => [&[0x70, 0][..], &request[2..4]].concat(),
                2 => [&[0x60, 0][..], &request[2..4]].concat(),
                kind => {
                    let code = [0x45, 0x5f, 0x44, 0x84, 0x88, 0x8d][noise[0] as usize % 6];
                    let first = if kind > 5 { 0x48 } else { 0x68 };
                    // Observe, Block2 and Block1 with random values.
                    let (a, b, c) = (noise[1], noise[2] & 0xfe, noise[3] & 0xfe);
                    let options = match noise[4] % 4 {
                        0 => vec![],
                        1 => vec![0xd1, 10, b],
                        2 => vec![0x61, a, 0xd1, 4, b, 0x41, c],
                        _ => vec![0x61, a, 0xd1, 8, c],
                    };
                    let payload = if noise[5] % 2 > 0 { vec![0xff; 17] } else { vec![] };
                    [&[first, code][..], &request[2..4], token, &options, &payload].concat()
                }
            };
            let _ = server.send_to(&answer, from);
        }
    });
    let text = |method: &str, size: &str| -> String {
        (0..300).map(|i| format!("0, {}, {method}, coap://{to}/r{size}\n", i * 100)).collect()
    };
    let coap = CoapSettings { max_retransmit: 3, nstart: Some(20), ..CoapSettings::default() };
    let all = CoapSettings {
        ack_timeout: Span::from_ms(20),
        observe: Some(Span::from_ms(50)),
        block: Some(32),
        ..coap
    };
    for (coap, confirmable) in [(CoapSettings::default(), false), (all, true)] {
        let settings = Settings {
            confirmable,
            coap,
            timeout: Span::from_ms(300),
            patience: Span::MAX,
            ..patient()
        };
        for (method, size) in [("GET", ""), ("PUT", ", 2000")] {
            let (figures, error) = load(&text(method, size), &settings);
            assert_eq!((figures.all().counts.scheduled, error), (300, None));
        }
    }
}
