//! A collector with real sockets.

use super::*;
use record::event;
use record::spec::OtlpSpec;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// Runs a collector until `drive` returns; returns its events.
fn collected(spec: &CollectorSpec, drive: impl FnOnce()) -> Vec<Collected> {
    let (near, far) = UnixStream::pair().unwrap();
    let mut control = Control::over(far.as_raw_fd(), far.as_raw_fd()).unwrap();
    std::thread::scope(|scope| {
        // Closed if `drive` fails, so that the collector ends.
        let near = near;
        let collector = scope.spawn(move || {
            // Closed if the collector fails, so that the test ends.
            let _far = far;
            run(spec, &mut control)
        });
        let mut ready = String::new();
        BufReader::new(&near).read_line(&mut ready).unwrap();
        assert_eq!(ready, "{\"ready\":{}}\n");
        drive();
        (&near).write_all(b"{\"stop\":{}}\n").unwrap();
        collector.join().unwrap().unwrap();
    });
    event::read(&std::fs::read(&spec.events).unwrap()).unwrap()
}

fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn datagrams_sent_before_the_stop_are_kept_and_unknown_names_are_named_once() {
    let dir = tempfile::tempdir().unwrap();
    let address = ([127, 0, 0, 1], free_port()).into();
    let names = vec!["rtt".to_owned()];
    let spec = CollectorSpec {
        statsd: Some(StatsdSpec { address, names }),
        otlp: None,
        pages: Vec::new(),
        events: dir.path().join("e.csv"),
    };
    let send = |texts: &[&[u8]]| {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        texts.iter().for_each(|text| assert!(client.send_to(text, address).is_ok()));
    };
    let found = collected(&spec, || {
        send(&[b"rtt:5|ms\nrt:1|ms\nrtt:7|ms\n", b"garbage\xff", b"rt:2|ms"]);
    });
    let of = |found: &[Collected]| -> Vec<(String, Option<f64>)> {
        found.iter().map(|event| (event.name.clone(), event.value)).collect()
    };
    let expected = [("rtt", Some(5.0)), ("rt", None), ("rtt", Some(7.0))];
    let expected = expected.map(|(name, value)| (name.to_owned(), value));
    assert_eq!(of(&found), expected);
    // A collector that was killed with its node and started again continues.
    let found = collected(&spec, || send(&[b"rtt:9|ms"]));
    assert_eq!(of(&found)[..3], expected);
    assert_eq!(of(&found)[3..], [("rtt".to_owned(), Some(9.0))]);
}

#[test]
fn a_page_is_read_when_the_program_listens() {
    let dir = tempfile::tempdir().unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let page = PageSpec {
        port: server.local_addr().unwrap().port(),
        path: "/metrics".to_owned(),
        every_ns: 5_000_000,
        series: vec!["up".to_owned(), "missing".to_owned()],
    };
    let spec = CollectorSpec {
        statsd: None,
        otlp: None,
        pages: vec![page],
        events: dir.path().join("e.csv"),
    };
    let found = collected(&spec, || {
        for (number, body) in ["", "up 4\n", "up 6\n", "last"].into_iter().enumerate() {
            let mut stream = server.accept().unwrap().0;
            let mut request = [0; 512];
            let length = stream.read(&mut request).unwrap();
            assert!(request[..length].starts_with(b"GET /metrics HTTP/1.1\r\n"));
            // An error page, one with a length, one in chunks, and one that never ends.
            let answer = match number {
                0 => "HTTP/1.1 500 Oops\r\ncontent-length: 5\r\n\r\nup 1\n".to_owned(),
                1 => format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()),
                2 => format!(
                    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
                    body.len()
                ),
                _ => "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nup 8".to_owned(),
            };
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let named = |event: &Collected| (event.name.clone(), event.value);
    let values: Vec<_> = found.iter().map(named).filter(|(_, value)| value.is_some()).collect();
    assert_eq!(values, [("up".to_owned(), Some(4.0)), ("up".to_owned(), Some(6.0))]);
    let why = found.iter().find(|event| event.value.is_none()).map(|event| event.name.as_str());
    assert_eq!(why, Some("the answer had the status 500 Internal Server Error"));
}

/// Sends an export over HTTP; returns the status line of the answer up to its code.
fn post(address: SocketAddr, head: &str, body: &[u8]) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let length = body.len();
    let head = format!("POST /v1/metrics HTTP/1.1\r\n{head}\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    // The server may refuse a large one before its end.
    let _ = stream.write_all(body);
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn exports_are_kept_before_their_answer() {
    let dir = tempfile::tempdir().unwrap();
    let address = ([127, 0, 0, 1], free_port()).into();
    let spec = CollectorSpec {
        statsd: None,
        otlp: Some(OtlpSpec { address, series: vec!["up".to_owned()] }),
        pages: Vec::new(),
        events: dir.path().join("e.csv"),
    };
    let gauge = |name: &str, value: u32| {
        format!(
            r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{{"name":"{name}",
            "gauge":{{"dataPoints":[{{"asInt":"{value}"}}]}}}}]}}]}}]}}"#
        )
    };
    let packed = |text: &str| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(text.as_bytes()).unwrap();
        packed.finish().unwrap()
    };
    let message: opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest =
        serde_json::from_str(&gauge("up", 3)).unwrap();
    let binary = prost::Message::encode_to_vec(&message);
    let json = "content-type: application/json; charset=utf-8";
    let found = collected(&spec, || {
        for (head, body, status) in [
            (json.to_owned(), gauge("up", 1).into_bytes(), 200),
            (format!("{json}\r\ncontent-encoding: gzip"), packed(&gauge("up", 2)), 200),
            ("content-type: application/x-protobuf".to_owned(), binary, 200),
            (json.to_owned(), gauge("down", 1).into_bytes(), 200),
            (json.to_owned(), b"{".to_vec(), 400),
            ("content-type: application/x-protobuf".to_owned(), b"\xff\xff".to_vec(), 400),
            ("content-type: text/plain".to_owned(), b"up 5".to_vec(), 400),
            (format!("{json}\r\ncontent-encoding: gzip"), packed(&" ".repeat(5 << 20)), 400),
            (json.to_owned(), vec![b' '; 5 << 20], 413),
        ] {
            let answer = post(address, &head, &body);
            assert_eq!(answer, format!("HTTP/1.1 {status}"));
        }
    });
    let values: Vec<_> = found.iter().map(|event| (event.name.as_str(), event.value)).collect();
    assert_eq!(values, [("up", Some(1.0)), ("up", Some(2.0)), ("up", Some(3.0)), ("down", None)]);
    assert!(found.iter().all(|event| event.source == CollectorSource::Opentelemetry));
}

#[test]
fn values_without_end_are_refused_and_those_before_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let events = EventsFile::append(&dir.path().join("e.csv")).unwrap();
    let mut log = Log { events, remarks: BTreeSet::new(), values: VALUES - 1, malformed: 0 };
    let value = Collected { name: "a".to_owned(), value: Some(1.0), ..Collected::default() };
    log.value(value.clone()).unwrap();
    let error = log.value(value).unwrap_err().to_string();
    assert!(error.contains("more than 2000000 values") && error.contains("sample rate"), "{error}");
    drop(log);
    let text = std::fs::read_to_string(dir.path().join("e.csv")).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
}

/// Whether a name can be shown in a message on a terminal.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().count() <= 100 && !name.chars().any(char::is_control)
}

/// What failed: names came into the messages of a run as they were, of any length and with the escape
/// sequences of a terminal.
#[test]
fn hostile_lines_leave_the_values_of_others_and_plain_names() {
    let dir = tempfile::tempdir().unwrap();
    let address = ([127, 0, 0, 1], free_port()).into();
    let names = vec!["rtt".to_owned(), "level".to_owned()];
    let spec = CollectorSpec {
        statsd: Some(StatsdSpec { address, names }),
        otlp: None,
        pages: Vec::new(),
        events: dir.path().join("e.csv"),
    };
    let long = "x".repeat(20_000);
    let datagrams: [&[u8]; 12] = [
        b"rtt:5|ms\0\nrtt:6|ms",
        b"rtt\0:7|ms\n\0:1|c\n\0\0\0",
        b"\xff\xfe:1|g\nrtt:\xff|ms\nrtt:8|ms\xff",
        b"rtt:1e400|ms\nrtt:-1e400|ms\nrtt:NaN|ms\nrtt:-nan|ms\nrtt:inf|ms\nrtt:1e-400|ms",
        b"rtt:-0|ms\nrtt:+0|ms\nlevel:-0|g\nrtt:0x10|ms\nrtt:1_000|ms\nrtt:1,5|ms\nrtt: 9|ms",
        b"\x1b[2J\x1b]0;title\x07:1|c",
        b"a,b\"c;d'e\tf:1|c\ng\rh:1|c",
        &[long.as_bytes(), b":1|c"].concat(),
        &[b"rtt:", "1".repeat(20_000).as_bytes(), b"|ms"].concat(),
        &[b"rtt:1|ms|#", long.as_bytes()].concat(),
        b"",
        b"\r\n\n\r\nrtt:9|ms\r\n",
    ];
    let found = collected(&spec, || {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        for datagram in datagrams {
            assert_eq!(client.send_to(datagram, address).unwrap(), datagram.len());
        }
    });
    let of = |name: &str| -> Vec<f64> {
        found.iter().filter(|event| event.name == name).filter_map(|event| event.value).collect()
    };
    assert_eq!(of("rtt"), [6.0, 0.0, 0.0, 0.0, 1.0, 9.0]);
    assert_eq!(of("level"), [0.0]);
    let unknown: Vec<_> = found.iter().filter(|event| event.value.is_none()).collect();
    assert_eq!(unknown.len(), 7, "{unknown:?}");
    assert!(unknown.iter().all(|event| is_plain(&event.name)), "{unknown:?}");
}

#[test]
fn hostile_pages_have_the_values_of_their_whole_lines() {
    let dir = tempfile::tempdir().unwrap();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let page = PageSpec {
        port: server.local_addr().unwrap().port(),
        path: "/metrics".to_owned(),
        every_ns: 5_000_000,
        series: vec!["up".to_owned(), "up{a=\"\u{fffd}\"}".to_owned()],
    };
    let spec = CollectorSpec {
        statsd: None,
        otlp: None,
        pages: vec![page],
        events: dir.path().join("e.csv"),
    };
    let bodies: [Vec<u8>; 4] = [
        b"up NaN\nup 1e400\nup -Inf\nup -0\nup 4 99\nup{a=\"\xff\"} 2\nup{a=\"} 8\n\0\nup\0 16\nup 32\0\n".to_vec(),
        [b"up 1\n".to_vec(), vec![b'x'; 1 << 20], b"\nup 2".to_vec()].concat(),
        b"up 1e308\nup 1e308\n".to_vec(),
        // Larger than a page may be.
        [b"up 64\n".to_vec(), vec![b'#'; PAGE_LIMIT]].concat(),
    ];
    let found = collected(&spec, || {
        for body in &bodies {
            let mut stream = server.accept().unwrap().0;
            let _ = stream.read(&mut [0; 512]).unwrap();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all(head.as_bytes()).unwrap();
            // The collector may refuse a large one before its end.
            let _ = stream.write_all(body);
        }
        // It asks again only after it has taken the last page.
        drop(server.accept().unwrap());
    });
    let (values, why): (Vec<_>, Vec<_>) = found
        .iter()
        .map(|event| (event.name.as_str(), event.value))
        .partition(|(_, value)| value.is_some());
    assert_eq!(why[0].0, "the page has more than 16 MiB");
    let labelled = "up{a=\"\u{fffd}\"}";
    assert_eq!(values, [("up", Some(6.0)), (labelled, Some(2.0)), ("up", Some(3.0))]);
}

/// What failed: the collector of a node that was killed and started again found the port in use.
#[test]
fn exports_are_received_when_the_collector_before_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let before = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = before.local_addr().unwrap();
    let spec = CollectorSpec {
        statsd: None,
        otlp: Some(OtlpSpec { address, series: Vec::new() }),
        pages: Vec::new(),
        events: dir.path().join("e.csv"),
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(300));
            drop(before);
        });
        assert!(collected(&spec, || {}).is_empty());
    });
}

#[test]
fn hostile_exports_are_refused_whole_and_their_names_are_plain() {
    let dir = tempfile::tempdir().unwrap();
    let address = ([127, 0, 0, 1], free_port()).into();
    let spec = CollectorSpec {
        statsd: None,
        otlp: Some(OtlpSpec { address, series: vec!["up".to_owned()] }),
        pages: Vec::new(),
        events: dir.path().join("e.csv"),
    };
    let gauge = |name: &str, value: &str| {
        format!(
            r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{{"name":{name},
            "gauge":{{"dataPoints":[{{{value}}}]}}}}]}}]}}]}}"#
        )
    };
    let up = |value: &str| gauge("\"up\"", value);
    let nested = |depth: usize| {
        let inner = r#"{"arrayValue":{"values":["#.repeat(depth);
        let value = format!(r#""asInt":"1","attributes":[{{"key":"a","value":{inner}"#);
        up(&format!("{value}{}}}]", "]}}".repeat(depth)))
    };
    let json = "content-type: application/json";
    let found = collected(&spec, || {
        // The library may refuse these or take them as points without a value.
        for number in [
            r#""asDouble":1e400"#,
            r#""asInt":"9223372036854775808""#,
            r#""asInt":"1x""#,
            r#""asInt":1.5"#,
        ] {
            post(address, json, up(number).as_bytes());
        }
        for (body, status) in [
            (up(r#""asDouble":-0.0"#), 200),
            (up(r#""asDouble":1e301"#), 200),
            (gauge(r#""\u001b[2J\u0000\r\nx""#, r#""asInt":"1""#), 200),
            (gauge(&format!("\"{}\"", "x".repeat(60_000)), r#""asInt":"1""#), 200),
            (nested(20), 200),
            (nested(100_000), 400),
            ("[".repeat(1 << 20), 400),
            (up(r#""asInt":"7""#).replace("up", "u\u{0}p"), 400),
        ] {
            let answer = post(address, json, body.as_bytes());
            assert_eq!(answer, format!("HTTP/1.1 {status}"), "{body:.400}");
        }
    });
    let values: Vec<_> = found.iter().filter_map(|event| event.value).collect();
    assert_eq!(values, [0.0, 1.0]);
    let unknown: Vec<_> = found.iter().filter(|event| event.value.is_none()).collect();
    assert_eq!(unknown.len(), 2, "{unknown:?}");
    assert!(unknown.iter().all(|event| is_plain(&event.name)), "{unknown:?}");
}
