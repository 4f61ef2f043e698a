//! Loads against devices over loopback. The tests check counts and completeness, not speed.

mod common;

use common::{device, load, patient, sent, served};
use load::{Closed, DeviceSettings, MisbehaviourShares, Origin, Progress, Settings};
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::time::Duration;
use trace::Reader;
use units::Histogram;
use units::Span;

#[test]
fn every_coap_request_is_answered_and_has_its_three_times() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("operations.csv");
    for confirmable in [false, true] {
        let settings = Settings { confirmable, operations: Some(file.clone()), ..patient() };
        let device = device(&["*, fast, sleep, constant:0ns", "*, slow, busy, constant:300us"]);
        let (figures, served) = sent(&device, &settings, 600, |i, at| {
            let (method, path) = if i % 4 == 0 { ("PUT", "slow") } else { ("GET", "fast") };
            format!("{method}, coap://{}/{path}", at("coap"))
        });
        let all = figures.all();
        assert_eq!((all.counts.scheduled, all.counts.answered), (600, 600));
        assert_eq!(figures.codes["2.05"], 450);
        assert_eq!(figures.codes["2.04"], 150);
        // Two methods at three devices.
        assert_eq!(figures.series.len(), 6);
        assert_eq!((all.response.count(), all.service.count(), all.slip.count()), (600, 600, 600));
        assert!(all.response.mean_ns() >= all.service.mean_ns());
        let put = &figures.classes()[1];
        assert!(put.service.quantile_ns(0.0) >= 300_000, "faster than its service");
        assert_eq!(figures.submission.expected.quantile_ns(0.5) / 1_000, 200);
        assert_eq!(served.resources[1].requests, 150);
        let lines = std::fs::read_to_string(&file).unwrap();
        assert_eq!(lines.lines().count(), 601);
        assert_eq!(lines.lines().filter(|line| line.ends_with(",2.04,answered,0")).count(), 150);
    }
}

#[test]
fn what_a_bad_device_does_is_counted_and_told_apart() {
    let misbehaviour = MisbehaviourShares {
        corrupt: 0.1,
        duplicate: 0.1,
        late: 0.1,
        silent: 0.1,
        late_by: Span::from_ms(400),
    };
    let device = DeviceSettings { misbehaviour, ..device(&["*, r, sleep, constant:0ns"]) };
    // Late answers arrive while later requests are under way, and are still recognised.
    let settings = Settings { timeout: Span::from_ms(300), ..patient() };
    let (figures, served) =
        sent(&device, &settings, 4_000, |_, at| format!("GET, coap://{}/r", at("coap")));
    let counts = figures.all().counts;
    assert!(counts.answered > 0 && counts.timed_out > 0);
    assert!((300..500).contains(&figures.others.malformed), "{}", figures.others.malformed);
    assert!((300..500).contains(&figures.others.duplicates), "{}", figures.others.duplicates);
    assert!((200..500).contains(&figures.others.late), "{}", figures.others.late);
    // Without a valid answer in time: corrupt, late and silent.
    let lost = served.misbehaved - figures.others.duplicates;
    assert!(counts.timed_out >= lost, "{counts:?} for {lost}");
}

#[test]
fn an_unknown_resource_and_a_closed_port_have_separate_outcomes() {
    let (figures, served) =
        sent(&device(&["*, r, sleep, constant:0ns"]), &patient(), 50, |_, at| {
            format!("GET, coap://{}/other", at("coap"))
        });
    assert_eq!((figures.codes["4.04"], served.unknown), (50, 50));
    assert_eq!(figures.all().counts.errors, 50);
    for scheme in ["coap", "udp", "tcp", "http", "mqtt"] {
        // Bound and released: nothing listens there.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let method = match scheme {
            "coap" | "http" => "GET",
            "mqtt" => "PUBLISH",
            _ => "SEND",
        };
        let text: String =
            (0..50).map(|i| format!("0, {i}, {method}, {scheme}://127.0.0.1:{port}/x\n")).collect();
        let (figures, _) = load(&text, &patient());
        assert_eq!(figures.all().counts.unreachable, 50, "{scheme}: {:?}", figures.reasons);
        let why = figures.reasons.keys().next().unwrap().to_lowercase();
        assert!(why.contains("refused"), "{scheme}: {why}");
    }
}

#[test]
fn a_host_without_address_is_unsent_and_said() {
    let (figures, _) = load("0, 0, GET, coap://no-such-host.invalid/x\n", &patient());
    assert_eq!(figures.all().counts.unsent, 1);
    let why = figures.reasons.keys().next().unwrap();
    assert!(why.contains("no-such-host.invalid"), "{why}");
}

#[test]
fn a_full_queue_refuses_and_says_so() {
    let device =
        DeviceSettings { threads: 1, queue: 2, ..device(&["*, slow, sleep, constant:20ms"]) };
    let (figures, served) =
        sent(&device, &patient(), 100, |_, at| format!("GET, coap://{}/slow", at("coap")));
    assert!(served.refused > 0);
    assert_eq!(figures.codes["5.03"], served.refused);
    assert_eq!(figures.codes["2.05"], 100 - served.refused);
    assert_eq!(figures.all().counts.errors, served.refused);
}

#[test]
fn http_udp_and_tcp_are_answered_too() {
    let device = device(&["*, r, sleep, constant:100us"]);
    let schemes = [("http", "GET", "200"), ("udp", "SEND", "ok"), ("tcp", "SEND", "ok")];
    for (scheme, method, code) in schemes {
        let (figures, _) = sent(&device, &patient(), 300, |i, at| {
            let size = if method == "SEND" { format!(", {}", 20 + i % 50) } else { String::new() };
            format!("{method}, {scheme}://{}/r{size}", at(scheme))
        });
        assert_eq!(figures.all().counts.answered, 300, "{scheme}: {:?}", figures.reasons);
        assert_eq!(figures.codes[code], 300);
    }
}

/// Four connections to a server that serves one request at a time. The test checks lower
/// bounds of times, and that slip is far below the wait, with a margin of a hundred over an
/// idle machine.
#[test]
fn a_wait_for_a_slow_server_is_no_slip() {
    let device = DeviceSettings { threads: 1, ..device(&["*, r, sleep, constant:20ms"]) };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("operations.csv");
    let settings = Settings { connections: 4, operations: Some(file.clone()), ..patient() };
    let (figures, _) =
        sent(&device, &settings, 200, |_, at| format!("GET, http://{}/r", at("http")));
    let all = figures.all();
    assert_eq!((all.counts.answered, all.counts.unsent), (200, 0), "{:?}", figures.reasons);
    // The last of 200 is due after 40 ms and answered after 4 s; at most four are under
    // way.
    let (wait, most) = (all.wait.unwrap(), |of: &Histogram| of.quantile_ns(1.0));
    assert!(most(&all.response) > 3_900_000_000 && most(&wait) > 3_800_000_000);
    assert!(all.slip.mean_ns() < wait.mean_ns() / 4.0, "{}", all.slip.mean_ns());
    // The parts of each operation add up.
    let lines = std::fs::read_to_string(&file).unwrap();
    let mut waited = 0;
    for line in lines.lines().skip(1) {
        let parts: Vec<&str> = line.split(',').collect();
        let [intended, sent, answered, wait] =
            [2, 3, 4, 7].map(|at| parts[at].parse::<u64>().unwrap());
        assert!(intended + wait <= sent && sent < answered, "{line}");
        waited += u64::from(wait > 0);
    }
    assert!(waited > 100, "{waited}");
}

/// Until the broker accepts the connection, messages wait for the broker and not for this
/// machine.
#[test]
fn messages_wait_until_the_broker_accepts() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let broker = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut room = [0; 4_096];
        stream.read_exact(&mut room[..2]).unwrap();
        let rest = usize::from(room[1]);
        stream.read_exact(&mut room[..rest]).unwrap();
        std::thread::sleep(Duration::from_millis(500));
        stream.write_all(b"\x20\x02\0\0").unwrap();
        // A message with QoS 1 has 2 + 2 + 1 + 2 + 4 bytes: the packet identifier is before
        // the last 4.
        let mut message = [0; 11];
        while stream.read_exact(&mut message).is_ok() {
            stream.write_all(&[0x40, 2, message[5], message[6]]).unwrap();
        }
    });
    let text: String =
        (0..50).map(|i| format!("0, {}, PUBLISH, mqtt://{to}/t, 4\n", i * 1_000)).collect();
    let (figures, _) = load(&text, &Settings { qos: 1, ..patient() });
    broker.join().unwrap();
    let all = figures.all();
    assert_eq!(all.counts.answered, 50, "{:?}", figures.reasons);
    // The first is due when the connection is begun, the last 49 ms later.
    let wait = all.wait.unwrap();
    assert!(wait.quantile_ns(0.0) > 400_000_000 && wait.quantile_ns(1.0) > 490_000_000);
    assert!(all.slip.mean_ns() < wait.mean_ns() / 4.0, "{}", all.slip.mean_ns());
}

#[test]
fn what_finds_no_connection_within_the_timeout_is_lost_to_the_server() {
    let device = DeviceSettings { threads: 1, ..device(&["*, r, sleep, constant:200ms"]) };
    let settings = Settings { connections: 1, timeout: Span::from_s(1), ..patient() };
    let (figures, _) =
        sent(&device, &settings, 100, |_, at| format!("GET, http://{}/r", at("http")));
    let counts = figures.all().counts;
    assert_eq!((counts.scheduled, counts.unsent), (100, 0), "{:?}", figures.reasons);
    assert_eq!(counts.sent + counts.no_connection, 100);
    assert!(counts.no_connection > 80, "five a second are served: {counts:?}");
    assert!(figures.reasons.keys().any(|why| why.contains("no connection to 127.0.0.1")));
}

#[test]
fn without_wanted_answers_nothing_is_waited_for() {
    let settings = Settings { answers: false, ..patient() };
    let (figures, _) = sent(&device(&["*, r, sleep, constant:0ns"]), &settings, 100, |_, at| {
        format!("SEND, udp://{}", at("udp"))
    });
    assert_eq!(figures.all().counts.without_answer, 100);
}

#[test]
fn a_closed_loop_has_no_more_under_way_than_users() {
    let closed = Some(Closed { users: 3, think: None });
    let settings = Settings { closed, ..patient() };
    let device = DeviceSettings { queue: 1, ..device(&["*, r, sleep, constant:2ms"]) };
    let (figures, served) =
        sent(&device, &settings, 90, |_, at| format!("GET, coap://{}/r", at("coap")));
    assert_eq!(figures.closed, Some(3));
    // Two are in service and one waits; an open loop at this rate would be refused.
    assert_eq!((figures.all().counts.answered, served.refused), (90, 0));
    let (open, refused) =
        sent(&device, &patient(), 90, |_, at| format!("GET, coap://{}/r", at("coap")));
    assert!(open.all().counts.errors > 0 && refused.refused > 0);
}

#[test]
fn several_senders_share_the_devices_and_their_books_are_added() {
    let settings = Settings { senders: 2, ..patient() };
    let (figures, _) = sent(&device(&["*, r, sleep, constant:0ns"]), &settings, 300, |_, at| {
        format!("GET, coap://{}/r", at("coap"))
    });
    assert_eq!((figures.senders, figures.all().counts.answered), (2, 300));
    let by_device: Vec<_> =
        figures.series.iter().map(|s| (s.device.unwrap(), s.counts.answered)).collect();
    assert_eq!(by_device, [(0, 100), (1, 100), (2, 100)]);
}

#[test]
fn who_falls_too_far_behind_gives_up_and_counts_the_rest() {
    // All at once, with minimal patience: what is not sent within it stays unsent.
    let text: String = (0..200_000).map(|_| "0, 0, SEND, udp://127.0.0.1:9\n".to_owned()).collect();
    let settings = Settings { patience: Span::from_ms(1), answers: false, ..Settings::default() };
    let (figures, _) = load(&text, &settings);
    let counts = figures.all().counts;
    assert_eq!(counts.scheduled, 200_000);
    assert!(counts.unsent > 0, "{counts:?}");
    assert_eq!(figures.pace(), record::event::Pace::NotKept);
    assert!(figures.reasons.keys().any(|why| why.contains("too far behind")));
}

/// Sends until the device and both kernels take no more.
fn fill(stream: &mut TcpStream, bytes: &[u8]) {
    stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    while stream.write(bytes).is_ok() {}
}

/// What failed: the device waited for ever, and its results were lost.
#[test]
fn a_device_ends_though_clients_do_not_read_their_answers() {
    let (done, ended) = channel();
    std::thread::spawn(move || {
        let device = DeviceSettings { payload: 1 << 20, ..device(&["*, r, sleep, constant:0ns"]) };
        let (clients, served) = served(&device, |at| {
            ["tcp", "http"].map(|scheme| {
                let mut client = TcpStream::connect(at(scheme)).unwrap();
                fill(&mut client, &b"GET /r HTTP/1.1\r\nHost: x\r\n\r\n".repeat(100));
                client
            })
        });
        done.send(served.resources[0].requests).unwrap();
        drop(clients);
    });
    let requests = ended.recv_timeout(Duration::from_secs(120)).expect("the device ends");
    assert!(requests > 0);
}

/// A trace without an end, whose lines arrive slowly: its load is never prepared in full.
struct Endless {
    line: &'static [u8],
    at: usize,
}

impl Read for Endless {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.line.len() {
            std::thread::sleep(Duration::from_millis(1));
            self.at = 0;
        }
        let read = (&self.line[self.at..]).read(into)?;
        self.at += read;
        Ok(read)
    }
}

/// A stop message that arrives before the first request is handled, and a start time that other
/// programs share is kept.
#[test]
fn a_load_in_preparation_stops_and_starts_on_time() {
    let line = b"0, 0, GET, coap://127.0.0.1:9/r\n";
    let origin = || Origin::Read(Reader::new(Box::new(BufReader::new(Endless { line, at: 0 }))));
    let stop = AtomicBool::new(false);
    let stops = |_: &Progress| stop.store(true, Relaxed);
    let (figures, _) = load::run(origin(), &patient(), &stop, stops).unwrap();
    assert!(stop.load(Relaxed) && figures.all().counts.sent == 0);

    let (stop, start) = (AtomicBool::new(false), Some(clock::now()));
    let settings = Settings { start, ..patient() };
    let stops_after_the_first = |progress: &Progress| stop.store(progress.sent > 0, Relaxed);
    let (figures, _) = load::run(origin(), &settings, &stop, stops_after_the_first).unwrap();
    assert!(figures.all().counts.sent > 0);
}
