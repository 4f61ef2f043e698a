//! What gateways write for their operator.

use crate::bed::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Instant;

/// A gateway whose log is read.
struct Logged {
    process: Child,
    lines: mpsc::Receiver<String>,
}

impl Logged {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_director-gateway"));
        let mut process = command.args(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let log = BufReader::new(process.stderr.take().unwrap());
        std::thread::spawn(move || {
            log.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        Self { process, lines }
    }

    /// Waits for a line with this text.
    fn wait_for(&self, text: &str) -> String {
        let (until, mut others) = (Instant::now() + PATIENCE, Vec::new());
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(rest) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => others.push(line),
                Err(_) => panic!("no line with `{text}`: {others:?}"),
            }
        }
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A folder with a key, which is removed at the end.
struct Key {
    folder: PathBuf,
    file: String,
}

impl Key {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("gateway-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("key");
        std::fs::write(&file, "a key of all the gateways").unwrap();
        let file = file.to_str().unwrap().to_owned();
        Self { folder, file }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn free_tcp() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

fn connected(address: &str) -> TcpStream {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Ok(client) = TcpStream::connect(address) {
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            return client;
        }
        assert!(Instant::now() < until, "the gateway does not start");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// What failed before: the connection closed, and nothing said why.
#[test]
fn a_gateway_says_why_it_ends_the_connection_of_a_client() {
    let key = Key::new("refused");
    let client = [&[0x10, 17, 0, 4][..], b"MQTT", &[4, 2, 0, 0, 0, 5], b"meter"].concat();
    let large = [&client[..], &[0x30, 0x80, 0x80, 0x20]].concat();
    let second = [&client[..], &client].concat();
    let reserved = [&client[..], &[0xc1, 0]].concat();
    for (bytes, expected) in [
        (&[0x16, 3, 1, 2, 0, 1][..], "a client at 127.0.0.1:"),
        (&[0x16, 3, 1, 2, 0, 1], "it speaks TLS: this port is without TLS"),
        (
            b"GET /mqtt HTTP/1.1\r\n",
            "it speaks HTTP, for example MQTT over WebSocket: use plain MQTT",
        ),
        (&[0x30, 3, 0, 1, b'a'], "its first packet is not CONNECT"),
        (&large, "a packet of 524288 B, and the limit is 262144 B (256 KiB)"),
        (&second, "a packet that is not valid MQTT (a second CONNECT)"),
        (&reserved, "client meter at 127.0.0.1:"),
        (&reserved, "a packet that is not valid MQTT (reserved flags)"),
    ] {
        let (mqtt, local) = (free_tcp(), free_udp());
        let arguments =
            ["hub", "--key", &key.file, "--local", &local, "--mqtt", &mqtt, "--places", "1"];
        let hub = Logged::start(&arguments);
        let mut client = connected(&mqtt);
        client.write_all(bytes).unwrap();
        // The end, or a reset because not all was read.
        let _ = client.read_to_end(&mut Vec::new());
        hub.wait_for(expected);
    }
}

/// What failed before: gateways that work wrote nothing.
#[test]
fn gateways_say_where_they_listen_and_the_hub_which_devices_it_has() {
    let key = Key::new("joined");
    let (hub, device) = (free_udp(), free_udp());
    let (mqtt, other) = (free_tcp(), free_tcp());
    let port = other.rsplit(':').next().unwrap();
    let everywhere = format!("0.0.0.0:{port}");
    let at_hub = Logged::start(&[
        "hub", "--key", &key.file, "--local", &hub, "--mqtt", &mqtt, "--places", "1", &device,
    ]);
    let line = at_hub.wait_for("hub, MQTT");
    let expected =
        format!("director-gateway: hub, MQTT on {mqtt}, session on {hub}, 2 devices expected");
    assert_eq!(line, expected);
    let arguments =
        ["device", "--key", &key.file, "--local", &device, "--hub", &hub, "--mqtt", &everywhere];
    let at_device = Logged::start(&arguments);
    at_device.wait_for(&format!(
        "device, MQTT on {everywhere}, session from {device} to the hub's gateway at {hub}"
    ));
    at_device.wait_for(&format!("warning: everyone who reaches {everywhere} can publish"));
    at_device.wait_for("the hub's gateway answers");
    at_hub.wait_for(&format!("device 0 at {device} has joined"));
    let placed = ["device", "--key", &key.file, "--local", "127.0.0.1:0", "--hub", &hub];
    let placed = Logged::start(&[&placed[..], &["--mqtt", "127.0.0.1:0"]].concat());
    placed.wait_for("the hub's gateway answers");
    at_hub.wait_for("device 1 at 127.0.0.1:");
    drop(at_device);
    let _at_device = Logged::start(&arguments);
    at_hub.wait_for("device 0 has started again");
}

#[test]
fn a_gateway_prints_its_version() {
    for argument in ["--version", "-V"] {
        let output = Command::new(env!("CARGO_BIN_EXE_director-gateway")).arg(argument).output();
        let output = output.unwrap();
        assert!(output.status.success());
        assert_eq!(text(&output), concat!("director-gateway ", env!("CARGO_PKG_VERSION"), "\n"));
    }
}

/// What failed before: a device that started before its DNS ended.
#[test]
fn a_device_waits_until_the_name_of_its_hub_resolves() {
    let key = Key::new("named");
    let arguments = |local, hub| {
        let all = ["device", "--key", &key.file, "--local", local, "--hub", hub];
        [&all[..], &["--mqtt", "127.0.0.1:0"]].concat()
    };
    let mut device = Logged::start(&arguments("127.0.0.1:0", "hub.invalid:5700"));
    for wait in ["1 s", "2 s"] {
        let line = device.wait_for("cannot resolve hub.invalid:5700");
        assert!(line.contains(&format!("tries again in {wait}")), "{line}");
    }
    assert!(device.process.try_wait().unwrap().is_none());
    let local = free_udp();
    for (local, hub, expected) in [
        (&local[..], &local[..], "--hub and --local are both 127.0.0.1:"),
        ("127.0.0.1:0", "hub", "NAME:PORT is expected"),
        ("127.0.0.1:0", "a hub:5700", "cannot resolve a hub:5700"),
        ("127.0.0.1:0", "[::1]:5700", "no IPv4 address"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_director-gateway"));
        let output = command.args(arguments(local, hub)).output().unwrap();
        let output = text(&output);
        assert!(output.contains(expected), "{hub}: {output}");
    }
}

#[test]
fn a_folder_that_cannot_be_used_is_an_error_with_a_fix() {
    let key = Key::new("folder");
    for (folder, expected) in [
        ("/proc/x", "(os error 2): use a folder that exists or that can be created"),
        (&key.file, "use a folder that exists"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_director-gateway"));
        command.args(["hub", "--key", &key.file, "--local", "127.0.0.1:0", "--places", "1"]);
        let output = command.args(["--mqtt", "127.0.0.1:0", "--storage", folder]).output();
        let output = text(&output.unwrap());
        assert!(output.contains(&format!("cannot use --storage {folder}: ")), "{output}");
        assert!(output.contains(expected), "{output}");
    }
}
