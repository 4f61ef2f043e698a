//! Exchanges with third-party implementations, in real nodes: each stack as client and as server.

mod common;

use common::{Bed, has};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

const SEED: u64 = 11;
const SERVER: &str = "10.0.0.1";
const SIZES: [usize; 5] = [0, 7, 100, 2_500, 70_000];

/// The interpreter with the packages of `interop/requirements.txt`.
fn python() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = root.canonicalize().unwrap().join("target/interop/bin/python");
    assert!(
        python.exists(),
        "{} is not there: `scripts/dependencies.sh test` makes it, with asyncua and aioquic",
        python.display()
    );
    python.display().to_string()
}

fn script(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop").join(name).display().to_string()
}

fn workload() -> String {
    let tool = Path::new(env!("CARGO_BIN_EXE_thingbed"));
    tool.with_file_name("thingbed-workload").display().to_string()
}

fn sizes() -> String {
    SIZES.map(|size| size.to_string()).join(" ")
}

/// The spec of one side, as the runner writes it.
fn spec(side: &str, protocol: &str, port: u16, connection: &str) -> Value {
    let (own, other) = (("server", SERVER), ("client", "10.0.0.2"));
    let (own, other) = if side == "drive" { (other, own) } else { (own, other) };
    let exchanges: Vec<(usize, usize)> = SIZES.into_iter().enumerate().collect();
    let protocol = match protocol {
        "opcua" => json!({"opcua": {"variables": 1, "timestamps": "source"}}),
        "http" => json!({"http": {"method": "get"}}),
        "quic" => json!({"quic": {"early_data": false, "mtu_discovery": false}}),
        plain => json!(plain),
    };
    json!({"side": side, "node": own.0, "protocol": protocol, "connection": connection,
        "address": own.1, "interface": "eth0", "mtu": 1500,
        "peers": [{"name": other.0, "address": other.1}], "port": port,
        "exchanges": exchanges, "sizes": SIZES, "every_ns": 1, "pause_ns": 0,
        "timeout_ns": 5_000_000_000_u64, "seed": SEED,
        "events": format!("{side}-events.csv"), "sections": format!("{side}-sections.csv")})
}

/// A folder for a server and a client.
struct Meeting(Bed);

impl Meeting {
    fn new() -> Self {
        let meeting = Self(Bed::new());
        // Here, Thingbed's side uses standard input and output. It ends when its standard input is
        // closed.
        meeting.0.write(
            "serve.sh",
            &format!("mkfifo never; exec {} exchange serve.json <> never", workload()),
        );
        meeting.0.write(
            "drive.sh",
            &format!(
                "touch status\n\
             (echo '{{\"start\":{{\"at_ns\":1}}}}'\n\
             until grep -q 'done\\|failed' status; do sleep 0.05; done) |\n\
             timeout 60 {} exchange drive.json > status\n\
             ! grep failed status",
                workload()
            ),
        );
        meeting
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, spec: &Value) {
        self.0.write(name, &spec.to_string());
    }

    /// Starts `server`, waits until it is `ready`, then runs `client`, which must succeed.
    #[track_caller]
    fn hold(&self, server: &str, ready: &str, client: &str) -> String {
        self.0.write(
            "e.yaml",
            &format!(
                "experiment: interop
nodes:
  server:
    run: [sh, -c, {}]
    ready: {ready}
  client: {{}}
networks:
  field:
    attach: [server, client]
    subnet: 10.0.0.0/24
    links: {{client: {{up: {{delay: 2 ms}}, down: {{delay: 2 ms}}}}}}
workloads:
  - command: {{on: client, run: [sh, -c, {}]}}
duration: 100 ms
drain: 60 s
",
                json!(server),
                json!(format!("({client}) && echo ended well"))
            ),
        );
        let answer = self.0.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
        let programs = self.0.sweep("interop").join("programs");
        let mut output = format!("{}{}", answer.out, answer.err);
        for entry in fs::read_dir(&programs).into_iter().flatten().flatten() {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            output += &format!("--- {}\n{text}", entry.file_name().display());
        }
        assert!(output.contains("ended well"), "{output}");
        output
    }

    /// The failures of Thingbed's exchanges in order; empty for successful ones.
    fn failures(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("drive-events.csv")).unwrap();
        let rows = text.lines().skip(1).map(|row| row.splitn(8, ',').nth(7).unwrap().to_owned());
        rows.map(|failure| failure.trim_matches(',').to_owned()).collect()
    }

    /// The sections of Thingbed's first exchange, without totals.
    fn sections(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("drive-sections.csv")).unwrap();
        let first = text.lines().filter(|row| row.starts_with("0,"));
        first.map(|row| row.split(',').nth(1).unwrap().to_owned()).collect()
    }

    /// Lengths of the payloads that Thingbed's server received.
    fn received(&self) -> Vec<usize> {
        let text = fs::read_to_string(self.path("serve-events.csv")).unwrap();
        text.lines().skip(1).map(|row| row.split(',').nth(2).unwrap().parse().unwrap()).collect()
    }
}

#[track_caller]
fn all_went_well(meeting: &Meeting) {
    assert_eq!(meeting.failures(), vec![""; SIZES.len()]);
}

const WHOLE: [&str; 5] =
    ["transport_connect", "protocol_connect", "payload", "protocol_close", "transport_close"];

#[test]
fn our_opcua_client_reads_from_asyncua() {
    for (connection, variables) in [("new", 3), ("kept", 1)] {
        let meeting = Meeting::new();
        let mut drive = spec("drive", "opcua", 4840, connection);
        drive["protocol"]["opcua"] = json!({"variables": variables, "timestamps": "both"});
        // The server has no variables for the last size.
        drive["sizes"].as_array_mut().unwrap().push(json!(5));
        drive["exchanges"].as_array_mut().unwrap().push(json!([9, 5]));
        meeting.write("drive.json", &drive);
        let (python, script, sizes) = (python(), script("opcua_server.py"), sizes());
        let server = format!("exec {python} {script} {SERVER} 4840 {variables} {SEED} {sizes}");
        meeting.hold(&server, "{tcp: 4840}", "sh drive.sh");
        let mut failures = meeting.failures();
        let last = failures.pop().unwrap();
        assert!(last.starts_with("status,") && last.contains("BadNodeIdUnknown"), "{last}");
        assert_eq!(failures, vec![""; SIZES.len()]);
        match connection {
            "new" => assert_eq!(meeting.sections(), WHOLE),
            _ => assert_eq!(meeting.sections(), ["payload"]),
        }
    }
}

#[test]
fn an_opcua_endpoint_that_there_is_not_is_a_reason() {
    let meeting = Meeting::new();
    meeting.write("drive.json", &spec("drive", "opcua", 4840, "new"));
    let (python, script) = (python(), script("opcua_server.py"));
    let server = format!("SECURE=1 exec {python} {script} {SERVER} 4840 1 {SEED} 100");
    meeting.hold(&server, "{tcp: 4840}", "sh drive.sh");
    for failure in meeting.failures() {
        let says =
            failure.starts_with("rejected,") && failure.contains("endpoint without security");
        assert!(says, "{failure}");
    }
}

#[test]
fn asyncua_reads_from_our_opcua_server() {
    let meeting = Meeting::new();
    let mut serve = spec("serve", "opcua", 4840, "kept");
    serve["protocol"]["opcua"]["variables"] = json!(3);
    meeting.write("serve.json", &serve);
    let (python, script, sizes) = (python(), script("opcua_client.py"), sizes());
    let client = format!("exec {python} {script} {SERVER} 4840 3 {SEED} {sizes}");
    let output = meeting.hold("sh serve.sh", "{tcp: 4840}", &client);
    assert!(
        output.contains("read 70000") && output.contains("refused what is not there"),
        "{output}"
    );
}

#[test]
fn our_http_client_gets_from_pythons_server() {
    for connection in ["new", "kept"] {
        let meeting = Meeting::new();
        let mut drive = spec("drive", "http", 8000, connection);
        drive["sizes"].as_array_mut().unwrap().push(json!(5));
        drive["exchanges"].as_array_mut().unwrap().push(json!([9, 5]));
        meeting.write("drive.json", &drive);
        let files = format!(
            "import sys; sys.path.insert(0, {:?}); from payload import payload\n\
             for size in {SIZES:?}: open(str(size), 'wb').write(payload({SEED}, size))",
            script("")
        );
        meeting.0.write("files.py", &files);
        let protocol = if connection == "kept" { "HTTP/1.1" } else { "HTTP/1.0" };
        let server =
            format!("{0} files.py && exec {0} -m http.server -p {protocol} 8000", python());
        meeting.hold(&server, "{tcp: 8000}", "sh drive.sh");
        let mut failures = meeting.failures();
        let last = failures.pop().unwrap();
        assert!(last.starts_with("status,") && last.contains("404"), "{last}");
        assert_eq!(failures, vec![""; SIZES.len()], "{connection}");
        match connection {
            "new" => assert_eq!(meeting.sections(), [WHOLE[0], WHOLE[2], WHOLE[4]]),
            _ => assert_eq!(meeting.sections(), ["payload"]),
        }
    }
}

#[test]
fn curl_gets_from_and_puts_to_our_http_server() {
    assert!(has("curl"), "`scripts/dependencies.sh test` installs curl");
    let meeting = Meeting::new();
    meeting.write("serve.json", &spec("serve", "http", 80, "new"));
    meeting.0.write(
        "client.sh",
        &format!(
            "set -e\n\
         for size in {}; do\n\
         curl -sSf http://server/$size -o page; test $(stat -c %s page) = $size\n\
         curl -sSf -X PUT --data-binary @page http://server/$size\n\
         done\n\
         test $(curl -s -o none -w '%{{http_code}}' http://server/5) = 404\n\
         test $(curl -s -o none -w '%{{http_code}}' -d wrong http://server/7) = 400",
            sizes()
        ),
    );
    meeting.hold("sh serve.sh", "{tcp: 80}", "sh client.sh");
    assert_eq!(meeting.received(), SIZES);
}

/// Certificates of an authority, and of a server with this name.
fn certificates(meeting: &Meeting, name: &str) -> Value {
    let made = std::process::Command::new(python())
        .arg(script("certificates.py"))
        .args([meeting.0.path().as_os_str(), name.as_ref()])
        .output();
    let made = made.unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let file = |name: &str| meeting.path(name).display().to_string();
    json!({"ca": file("ca.pem"), "cert": file("cert.pem"), "key": file("key.pem")})
}

#[test]
fn our_quic_client_sends_to_aioquic() {
    for connection in ["new", "kept"] {
        let meeting = Meeting::new();
        let mut drive = spec("drive", "quic", 4433, connection);
        drive["tls"] = certificates(&meeting, "server");
        meeting.write("drive.json", &drive);
        let (python, script) = (python(), script("quic_server.py"));
        let server = format!("exec {python} {script} {SERVER} 4433 cert.pem key.pem");
        meeting.hold(&server, "{udp: 4433}", "sh drive.sh");
        all_went_well(&meeting);
        match connection {
            "new" => assert_eq!(meeting.sections(), [WHOLE[0], WHOLE[2], WHOLE[4]]),
            _ => assert_eq!(meeting.sections(), ["payload"]),
        }
    }
}

#[test]
fn aioquic_sends_to_our_quic_server() {
    let meeting = Meeting::new();
    let mut serve = spec("serve", "quic", 4433, "new");
    serve["tls"] = certificates(&meeting, "server");
    meeting.write("serve.json", &serve);
    let (python, script, sizes) = (python(), script("quic_client.py"), sizes());
    let client = format!("exec {python} {script} {SERVER} 4433 server ca.pem {SEED} {sizes}");
    meeting.hold("sh serve.sh", "{udp: 4433}", &client);
    assert_eq!(meeting.received(), SIZES);
}

#[test]
fn a_certificate_of_somebody_else_is_refused() {
    let meeting = Meeting::new();
    let tls = certificates(&meeting, "somebody");
    for (side, file) in [("serve", "serve.json"), ("drive", "drive.json")] {
        let mut spec = spec(side, "quic", 4433, "new");
        spec["tls"] = tls.clone();
        meeting.write(file, &spec);
    }
    meeting.hold("sh serve.sh", "{udp: 4433}", "sh drive.sh");
    for failure in meeting.failures() {
        assert!(failure.starts_with("certificate,"), "{failure}");
    }
}

#[test]
fn a_server_that_hangs_up_is_not_called_for_ever() {
    let meeting = Meeting::new();
    meeting.write("serve.json", &spec("serve", "tcp", 4840, "new"));
    meeting.write("drive.json", &spec("drive", "opcua", 4840, "new"));
    meeting.hold("sh serve.sh", "{tcp: 4840}", "sh drive.sh");
    for failure in meeting.failures() {
        assert!(failure.starts_with("lost,"), "{failure}");
    }
    let sections = fs::read_to_string(meeting.path("drive-sections.csv")).unwrap();
    let frames = |row: &str| row.rsplit(',').nth(1).unwrap().parse::<u64>().unwrap();
    assert!(sections.lines().skip(1).map(frames).all(|n| n < 200), "{sections}");
}

#[test]
fn where_nobody_listens_each_exchange_says_so() {
    for protocol in ["opcua", "http"] {
        let meeting = Meeting::new();
        meeting.write("drive.json", &spec("drive", protocol, 4000, "new"));
        meeting.hold("echo there; exec sleep 1000", "{log: there}", "sh drive.sh");
        let failures = meeting.failures();
        assert_eq!(failures.len(), SIZES.len());
        for failure in failures {
            assert!(
                failure.starts_with("refused,") && failure.contains("10.0.0.1:4000"),
                "{failure}"
            );
        }
    }
}
