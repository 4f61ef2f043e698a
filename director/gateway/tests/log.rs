//! A gateway whose log cannot be written goes on.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Timeout of a hanging test, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

/// A pipe whose reader has ended.
fn closed() -> Stdio {
    let mut ended = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
    let pipe = ended.stdin.take().unwrap();
    ended.wait().unwrap();
    pipe.into()
}

/// What failed before: the first line of its log ended the gateway, here that the log of the storage is
/// damaged.
#[test]
fn a_gateway_goes_on_without_a_log() {
    for (name, log) in [("full", full as fn() -> Stdio), ("closed", closed)] {
        let id = std::process::id();
        let folder = std::env::temp_dir().join(format!("gateway-log-{name}-{id}"));
        let storage = folder.join("storage");
        fs::create_dir_all(&storage).unwrap();
        fs::write(folder.join("key"), "a key of all the gateways").unwrap();
        // Not the end of a record: 100 bytes of something else.
        fs::write(storage.join("retained.log"), [0xaa; 100]).unwrap();
        let mqtt = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let local = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let mut hub = Command::new(env!("CARGO_BIN_EXE_director-gateway"))
            .args(["hub", "--local", &local, "--mqtt", &mqtt, "--places", "1", "--key"])
            .arg(folder.join("key"))
            .arg("--storage")
            .arg(&storage)
            .stderr(log())
            .spawn()
            .unwrap();
        let until = Instant::now() + PATIENCE;
        let mut client = loop {
            if let Ok(client) = TcpStream::connect(&mqtt) {
                break client;
            }
            assert!(hub.try_wait().unwrap().is_none(), "{name}: the gateway has ended");
            assert!(Instant::now() < until, "{name}: the gateway does not start");
            std::thread::sleep(Duration::from_millis(20));
        };
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(&[&[0x10, 12, 0, 4][..], b"MQTT", &[4, 2, 0, 0, 0, 0]].concat()).unwrap();
        let mut answer = [0; 4];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [0x20, 2, 0, 0], "{name}");
        assert!(fs::exists(storage.join("retained.damaged")).unwrap(), "{name}: no line");
        hub.kill().unwrap();
        hub.wait().unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }
}

/// The exit status of a wrong command line does not depend on the log.
#[test]
fn a_wrong_command_line_has_its_exit_status() {
    for log in [full(), closed()] {
        let ended = Command::new(env!("CARGO_BIN_EXE_director-gateway")).stderr(log).status();
        assert_eq!(ended.unwrap().code(), Some(2));
    }
    let mut help = Command::new(env!("CARGO_BIN_EXE_director-gateway"));
    help.arg("--help").stdout(closed());
    assert!(help.stderr(Stdio::null()).status().unwrap().success());
}
