//! A collector with real sockets.

use super::*;
use record::event;
use record::spec::OtlpSpec;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// Runs a collector until `drive` returns; returns its events.
fn collected(spec: &CollectorSpec, drive: impl FnOnce()) -> Vec<Collected> {
    let (near, far) = UnixStream::pair().unwrap();
    let mut control = Control::over(far.as_raw_fd(), far.as_raw_fd()).unwrap();
    std::thread::scope(|scope| {
        let collector = scope.spawn(|| run(spec, &mut control));
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
    let values: Vec<_> = found.iter().map(|event| (event.name.as_str(), event.value)).collect();
    assert_eq!(values, [("up", Some(4.0)), ("up", Some(6.0))]);
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
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            let length = body.len();
            let head =
                format!("POST /v1/metrics HTTP/1.1\r\n{head}\r\ncontent-length: {length}\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            // The server may refuse a large one before its end.
            let _ = stream.write_all(&body);
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(String::from_utf8_lossy(&answer), format!("HTTP/1.1 {status}"));
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
    let mut log = Log { events, unknown: BTreeSet::new(), values: VALUES - 1, malformed: 0 };
    let value = Collected { name: "a".to_owned(), value: Some(1.0), ..Collected::default() };
    log.value(value.clone()).unwrap();
    let error = log.value(value).unwrap_err().to_string();
    assert!(error.contains("more than 2000000 values") && error.contains("sample rate"), "{error}");
    drop(log);
    let text = std::fs::read_to_string(dir.path().join("e.csv")).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
}
