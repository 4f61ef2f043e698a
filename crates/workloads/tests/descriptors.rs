//! Servers of exchanges without free descriptors: they wait for some, and then go on.

use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

const PATIENT: Duration = Duration::from_secs(120);

/// CPU time of a process in ticks of 10 ms.
fn ticks(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
    // utime and stime (proc_pid_stat(5), fields 14 and 15; the first here is field 3).
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn limit_descriptors(pid: u32, soft: u64) {
    let limit = libc::rlimit { rlim_cur: soft, rlim_max: 1_024 };
    // SAFETY: the limit lives over the call, which changes only the given child's limit.
    let result = unsafe {
        libc::prlimit(pid as i32, libc::RLIMIT_NOFILE, &raw const limit, std::ptr::null_mut())
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// Runs the server of `protocol` on `port` out of descriptors; `request` gets an answer that begins
/// with `answer` when there are some again.
fn check(protocol: &serde_json::Value, request: &[u8], answer: &[u8]) {
    let free = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spec.json");
    let spec = json!({
        "side": "serve", "node": "server", "protocol": protocol, "connection": "new",
        "address": "127.0.0.1", "interface": "lo", "mtu": 65_535,
        "peers": [{"name": "driver", "address": "127.0.0.1"}],
        "port": port, "exchanges": [[0, 0]], "sizes": [0], "every_ns": 1_000_000, "pause_ns": 0,
        "timeout_ns": 1_000_000_000_u64, "seed": 7,
        "events": folder.path().join("server.csv"),
        "sections": folder.path().join("sections.csv"),
    });
    std::fs::write(&path, spec.to_string()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_thingbed-workload"));
    command.arg("exchange").arg(&path).env_remove("THINGBED_CONTROL_FD");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("{\"ready\"") {
        line.clear();
        assert!(lines.read_line(&mut line).unwrap() > 0, "the server ended");
    }
    let pid = child.id();
    limit_descriptors(pid, 3);
    let connect = || TcpStream::connect(("127.0.0.1", port)).unwrap();
    let waiting: Vec<TcpStream> = (0..3).map(|_| connect()).collect();
    let before = ticks(pid);
    std::thread::sleep(Duration::from_secs(3));
    let used = ticks(pid) - before;
    assert!(used < 25, "{protocol}: {used} ticks in three seconds without anything to do");
    limit_descriptors(pid, 1_024);
    let mut client = connect();
    client.set_read_timeout(Some(PATIENT)).unwrap();
    client.write_all(request).unwrap();
    let mut found = vec![0; answer.len()];
    client.read_exact(&mut found).unwrap();
    assert_eq!(found, answer, "{protocol}");
    drop((waiting, client, child.stdin.take()));
    assert!(child.wait().unwrap().success());
}

/// What failed: the server took a whole CPU until a connection ended.
#[test]
fn a_server_without_descriptors_does_not_spin_and_goes_on_later() {
    let get = b"GET /0 HTTP/1.1\r\nhost: server\r\n\r\n";
    check(&json!({"http": {"method": "get"}}), get, b"HTTP/1.1 200 OK\r\n");
    check(&json!("tcp"), &[0; 8], &[0; 4]);
}
