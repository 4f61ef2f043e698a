//! Runs the real binary over loopback: each model that works within one network namespace, with a
//! source and three sinks. PGM does not: it delivers nothing between endpoints in one namespace.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const BINARY: &str = env!("CARGO_BIN_EXE_thingbed-workload");
const SINKS: u64 = 3;
const MESSAGES: u64 = 30;
const EVERY: u64 = 10_000_000;

/// A temporary folder.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("thingbed-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("reply.txt"), "state ########## of a consumer").unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A program with its control channel.
struct Program {
    child: Child,
    lines: BufReader<UnixStream>,
    tell: UnixStream,
    events: PathBuf,
}

impl Program {
    fn start(folder: &Path, spec: &Value) -> Self {
        let path = folder.join(format!("{}.json", spec["node"].as_str().unwrap()));
        std::fs::write(&path, spec.to_string()).unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        // Above 3, so that the dup2 below never copies 3 onto itself.
        // SAFETY: duplicates an open descriptor; the copy is owned at once.
        let far = unsafe {
            OwnedFd::from_raw_fd(libc::fcntl(far.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 100))
        };
        let fd = far.as_raw_fd();
        let mut command = Command::new(BINARY);
        command.arg("interaction").arg(&path).env("THINGBED_CONTROL_FD", "3").stdin(Stdio::null());
        // SAFETY: dup2 is async-signal-safe and the descriptor is open.
        unsafe {
            command.pre_exec(move || {
                if libc::dup2(fd, 3) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        near.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        Self {
            child,
            tell: near.try_clone().unwrap(),
            lines: BufReader::new(near),
            events: spec["events"].as_str().unwrap().into(),
        }
    }

    /// Reads messages until one with key `word`.
    fn wait_for(&mut self, word: &str) -> Value {
        loop {
            let mut line = String::new();
            self.lines.read_line(&mut line).unwrap();
            let received: Value =
                serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
            assert!(word == "failed" || received.get("failed").is_none(), "{line}");
            if let Some(value) = received.get(word) {
                return value.clone();
            }
        }
    }

    fn tell(&mut self, order: Value) {
        writeln!(self.tell, "{order}").unwrap();
    }

    fn stop(mut self) -> Vec<Row> {
        self.tell(json!({"stop": {}}));
        assert!(self.child.wait().unwrap().success());
        rows(&self.events)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug, Clone)]
struct Row {
    event: String,
    message: u64,
    peer: String,
    time: u64,
    intended: Option<u64>,
    bytes: u64,
}

fn rows(path: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("event,message,peer,time_ns,intended_ns,bytes"));
    lines
        .map(|line| {
            let fields: Vec<_> = line.split(',').collect();
            assert_eq!(fields.len(), 6, "{line}");
            Row {
                event: fields[0].into(),
                message: fields[1].parse().unwrap(),
                peer: fields[2].into(),
                time: fields[3].parse().unwrap(),
                intended: (!fields[4].is_empty()).then(|| fields[4].parse().unwrap()),
                bytes: fields[5].parse().unwrap(),
            }
        })
        .collect()
}

fn of<'a>(rows: &'a [Row], event: &str) -> Vec<&'a Row> {
    rows.iter().filter(|row| row.event == event).collect()
}

fn spec(folder: &Path, down: &str, up: &str, port: u16, sink: Option<u64>) -> Value {
    let name = |i: u64| format!("consumer-{i}");
    let address = |i: u64| format!("127.0.0.{}", i + 1);
    let (role, node, own, peers) = match sink {
        None => {
            let peers: Vec<_> =
                (1..=SINKS).map(|i| json!({"name": name(i), "address": address(i)})).collect();
            ("source", "utility".to_owned(), address(0), json!(peers))
        }
        Some(i) => {
            let peers = json!([{"name": "utility", "address": address(0)}]);
            ("sink", name(i), address(i), peers)
        }
    };
    let payload =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/payloads/event-state.xml");
    json!({"role": role, "node": node, "down": down, "up": up, "address": own,
        "group": "239.192.0.1", "port_down": port, "port_up": port + 1,
        "mtu": 65535, "multicast_rate_bit_s": 100_000_000, "peers": peers,
        "payload": payload, "reply_payload": folder.join("reply.txt"),
        "events": folder.join(format!("{node}.csv")), "every_ns": EVERY, "messages": MESSAGES})
}

/// A port that is free, as the one after it is.
fn free_ports() -> u16 {
    let first = || TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let is_free = |port: u16| {
        TcpListener::bind(("127.0.0.1", port)).is_ok()
            && UdpSocket::bind(("127.0.0.1", port)).is_ok()
    };
    let both = |port: &u16| port.checked_add(1).is_some_and(|next| is_free(*port) && is_free(next));
    std::iter::repeat_with(first).find(both).unwrap()
}

/// Runs a model end to end and checks the output of all programs.
fn check(name: &str, down: &str, up: &str) {
    let port = free_ports();
    let folder = Folder::new(name);
    let make = |sink| Program::start(&folder.0, &spec(&folder.0, down, up, port, sink));
    // One sink starts before the source, the others after it.
    let mut sinks = vec![make(Some(1))];
    std::thread::sleep(Duration::from_millis(150));
    let mut source = make(None);
    sinks.extend((2..=SINKS).map(|i| make(Some(i))));
    source.wait_for("ready");
    sinks.iter_mut().for_each(|sink| drop(sink.wait_for("ready")));

    let start = clock::now_ns() + 50_000_000;
    source.tell(json!({"start": {"at_ns": start}}));
    sinks.iter_mut().for_each(|sink| sink.tell(json!({"start": {"at_ns": start}})));
    source.wait_for("done");

    // After `done` the file is complete, while the program still runs.
    let to_all = down.contains("publish");
    let answers = if to_all { MESSAGES * SINKS } else { MESSAGES };
    assert_eq!(of(&rows(&source.events), "reply_received").len() as u64, answers);
    let source = source.stop();
    let sinks: BTreeMap<_, _> =
        sinks.into_iter().zip(1..).map(|(s, i)| (format!("consumer-{i}"), s.stop())).collect();

    let sent = of(&source, "sent");
    assert_eq!(sent.len() as u64, MESSAGES);
    for (row, k) in sent.iter().zip(0..) {
        let peer = if to_all { "*".into() } else { format!("consumer-{}", k % SINKS + 1) };
        assert_eq!((row.message, &row.peer, row.bytes), (k, &peer, 1699));
        assert_eq!(row.intended, Some(start + k * EVERY));
        assert!(row.time >= start + k * EVERY, "{row:?}");
    }
    assert!(of(&source, "duplicate").is_empty());

    let mut pairs = BTreeSet::new();
    for reply in of(&source, "reply_received") {
        assert!(reply.bytes == 30 && reply.intended.is_none());
        assert!(pairs.insert((reply.message, reply.peer.clone())), "{reply:?} twice");
        let sink = &sinks[&reply.peer];
        let find =
            |event| *of(sink, event).iter().find(|row| row.message == reply.message).unwrap();
        let (received, answer) = (find("received"), find("reply_sent"));
        assert_eq!((received.bytes, answer.bytes, received.peer.as_str()), (1699, 30, "utility"));
        assert_eq!(answer.intended, Some(received.time));
        let sent = sent[reply.message as usize].time;
        assert!(sent <= received.time && received.time <= answer.time && answer.time <= reply.time);
    }
    let received: usize = sinks.values().map(|rows| of(rows, "received").len()).sum();
    assert_eq!((pairs.len() as u64, received as u64), (answers, answers));
}

#[test]
fn udp_request_response() {
    check("udp-rr", "udp/request-response", "udp/request-response");
}

#[test]
fn tcp_router_dealer() {
    check("tcp-rd", "tcp/router-dealer", "tcp/request-reply");
}

#[test]
fn tcp_publish_subscribe() {
    check("tcp-ps", "tcp/publish-subscribe", "tcp/request-reply");
}

/// Runs a program manually, with standard input and output as its control channel.
fn by_hand(folder: &Path, spec: &str) -> Output {
    let path = folder.join("spec.json");
    std::fs::write(&path, spec).unwrap();
    let mut command = Command::new(BINARY);
    command.arg("interaction").arg(&path).env_remove("THINGBED_CONTROL_FD").stdin(Stdio::null());
    command.output().unwrap()
}

#[test]
fn the_end_of_the_channel_means_stop() {
    let folder = Folder::new("end");
    let udp = "udp/request-response";
    let output = by_hand(&folder.0, &spec(&folder.0, udp, udp, 25_590, None).to_string());
    assert!(output.status.success(), "{output:?}");
    assert!(folder.0.join("utility.csv").exists());
}

#[test]
fn failures_are_one_line_and_said_on_both_channels() {
    let folder = Folder::new("failures");
    let with = |down: &str, key: &str, value: Value| {
        let up = if down.starts_with("udp") { down } else { "tcp/request-reply" };
        let mut spec = spec(&folder.0, down, up, 25_592, None);
        spec[key] = value;
        spec.to_string()
    };
    for (text, words) in [
        ("{\"role\": \"source\"".to_owned(), ["spec.json", "line 1"]),
        (
            with("tcp/router-dealer", "payload", json!("/nowhere/p.xml")),
            ["/nowhere/p.xml", "No such"],
        ),
        (with("tcp/router-dealer", "address", json!("192.0.2.1")), ["192.0.2.1", "ip address"]),
        (with("udp/request-response", "address", json!("192.0.2.1")), ["192.0.2.1", "ip address"]),
        (
            with("udp/request-response", "events", json!("/nowhere/e.csv")),
            ["/nowhere/e.csv", "folder"],
        ),
        (
            with("pgm/publish-subscribe", "address", json!("192.0.2.1")),
            ["192.0.2.1|PGM", "ip address|PGM"],
        ),
    ] {
        let output = by_hand(&folder.0, &text);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        for word in words {
            assert!(word.split('|').any(|word| error.contains(word)), "{word}: {error}");
        }
        let received: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(
            error.contains(received["failed"]["error"].as_str().unwrap()),
            "{received} {error}"
        );
    }
}

#[test]
fn tells_what_libzmq_can_do() {
    let output = Command::new(BINARY).arg("zmq-info").output().unwrap();
    assert!(output.status.success());
    let info: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(info["version"].is_string() && info["pgm"].is_boolean());
}
