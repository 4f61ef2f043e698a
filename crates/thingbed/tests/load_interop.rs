//! Loads and devices with third-party implementations: libcoap, aiocoap, curl, ab, nginx. Parts
//! whose program is missing are skipped with a message.

mod common;

use common::device::{Device, figures};
use common::{Bed, figure, has, peer};
use serde_json::Value;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    /// Starts a server on a free port, which `is_up` waits for. Another program may take the port
    /// before the server does, which then exits: it is started again on another port.
    #[track_caller]
    fn new(
        free_port: fn() -> u16,
        command: impl Fn(u16) -> Command,
        is_up: impl Fn(u16) -> bool,
    ) -> (Self, u16) {
        let begun = Instant::now();
        for _ in 0..5 {
            let port = free_port();
            let mut server = Self(command(port).stdin(Stdio::null()).spawn().unwrap());
            while server.0.try_wait().unwrap().is_none() {
                if is_up(port) {
                    return (server, port);
                }
                assert!(begun.elapsed() < Duration::from_secs(60), "port {port} does not answer");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        panic!("the server exits at once on five ports");
    }
}

/// The output of a shell command, which must succeed.
#[track_caller]
fn shell(bed: &Bed, script: &str) -> String {
    let output = Command::new("sh")
        .args(["-ec", script])
        .current_dir(bed.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{error}");
    text + &error
}

fn interop(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop").join(name).display().to_string()
}

fn free_udp_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn free_tcp_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Results of a load with these options.
#[track_caller]
fn load(bed: &Bed, uri: &str, options: &[&str]) -> Value {
    let base = ["load", "--target", uri, "--patience", "10 min", "--json"];
    let timeout: &[&str] =
        if options.contains(&"--timeout") { &[] } else { &["--timeout", "30 s"] };
    figures(bed.thingbed(&[&base, timeout, options].concat()))
}

#[track_caller]
fn all_answered(answer: &Value, count: f64) {
    assert_eq!(figure(answer, ".counts.answered"), count, "{answer:#}");
    assert_eq!(figure(answer, ".counts.errors"), 0.0, "{answer:#}");
    assert_eq!(figure(answer, ".malformed") + figure(answer, ".unexpected"), 0.0, "{answer:#}");
}

/// Whether a CoAP server on this port answers a single request.
fn answers(bed: &Bed, port: u16, path: &str) -> bool {
    let one = ["--path", path, "--arrivals", "constant:1ms", "--requests", "1"];
    let uri = format!("coap://127.0.0.1:{port}");
    let answer = load(bed, &uri, &[&one[..], &["--timeout", "500 ms"]].concat());
    figure(&answer, ".counts.answered") > 0.0
}

#[test]
fn libcoaps_client_and_our_device() {
    if !has("coap-client-notls") {
        return;
    }
    let bed = Bed::new();
    std::fs::write(bed.path().join("big"), vec![b'x'; 10_000]).unwrap();
    let options = ["--resource", "a", "--payload", "5000B", "--notify", "constant:200ms"];
    let device = Device::new(&bed, "coap", &options);
    let uri = format!("{}/a", device.uri);
    let client = "coap-client-notls -B 30";
    for (options, size) in
        [("", 5_000), ("-b 64", 5_000), ("-N", 5_000), ("-N -b 16", 5_000), ("-O 65000,x", 5_000)]
    {
        shell(&bed, &format!("{client} {options} -o payload {uri}"));
        let payload = std::fs::read(bed.path().join("payload")).unwrap();
        assert_eq!(payload.len(), size, "{options}");
    }
    for options in ["", "-b 32", "-N -b 512"] {
        let answer = shell(&bed, &format!("{client} {options} -m put -f big {uri}"));
        assert_eq!(answer.matches('2').count(), 5_000, "{options}: {answer}");
    }
    let answer = shell(&bed, &format!("{client} -O 65001,x {uri}"));
    assert!(answer.contains("4.02"), "{answer}");
    // The current value, and its changes, each in five blocks.
    for options in ["", "-N"] {
        let answer = shell(&bed, &format!("{client} {options} -s 3 {uri}"));
        assert!(answer.matches('2').count() >= 2 * 5_000, "{options}: {}", answer.len());
    }
    let answer = shell(&bed, &format!("{client} {}/.well-known/core", device.uri));
    assert!(answer.contains("</a>;obs"), "{answer}");
    let served = device.end();
    assert_eq!(figure(&served, ".body_bytes"), 30_000.0, "{served:#}");
    assert_eq!(figure(&served, ".bad_options"), 1.0, "{served:#}");
    assert_eq!(figure(&served, ".malformed"), 0.0, "{served:#}");
}

#[test]
fn aiocoaps_client_and_our_device() {
    let Some(python) = peer("python") else { return };
    let bed = Bed::new();
    let device = Device::new(
        &bed,
        "coap",
        &[
            "--resource",
            "fast",
            "--resource",
            "slow=constant:1500ms",
            "--payload",
            "5000B",
            "--notify",
            "constant:200ms",
        ],
    );
    let script = interop("coap_client.py");
    let answer = shell(&bed, &format!("{} {script} {}/ 5000", python.display(), device.uri));
    assert!(answer.contains("all went well"), "{answer}");
    let served = device.end();
    assert_eq!(figure(&served, ".body_bytes"), 10_000.0, "{served:#}");
    assert_eq!(figure(&served, ".malformed"), 0.0, "{served:#}");
}

#[test]
fn our_load_and_libcoaps_server() {
    if !has("coap-server-notls") {
        return;
    }
    let bed = Bed::new();
    let command = |port: u16| {
        let mut command = Command::new("coap-server-notls");
        command.args(["-A", "127.0.0.1", "-d", "100", "-p"]).arg(port.to_string());
        command
    };
    let (_server, port) = Server::new(free_udp_port, command, |port| answers(&bed, port, "time"));
    let uri = format!("coap://127.0.0.1:{port}");
    let some = ["--arrivals", "constant:10ms", "--requests", "20"];
    // The first request creates the resource, and the second reads it. Request-Tag distinguishes
    // simultaneous transfers to one resource.
    for put in [
        &["--confirmable"][..],
        &["--block", "64B"],
        &["--confirmable", "--block", "16B", "--max-retransmit", "4", "--nstart", "1"],
    ] {
        let one = ["--path", "big", "--method", "PUT", "--size", "5000B"];
        let answer = load(&bed, &uri, &[&some, &one[..], put].concat());
        all_answered(&answer, 20.0);
        // Sequential requests: libcoap gives each new answer another ETag, which on a busy machine
        // would happen during other transfers.
        let one = ["--closed", "1", "--requests", "20", "--path", "big"];
        for get in [&[][..], &["--block", "128B"], &["--confirmable"]] {
            let answer = load(&bed, &uri, &[&one[..], get].concat());
            all_answered(&answer, 20.0);
            assert_eq!(answer["codes"]["2.05"], 20, "{answer:#}");
        }
    }
    for how in [&[][..], &["--confirmable"]] {
        let one = ["--path", "time", "--arrivals", "constant:1ms", "--requests", "1"];
        let answer = load(&bed, &uri, &[&one, &["--observe", "4 s"][..], how].concat());
        all_answered(&answer, 1.0);
        let observed = &answer["observed"];
        assert_eq!((&observed["registered"], &observed["deregistered"]), (&1.into(), &1.into()));
        assert!(figure(observed, ".notifications") >= 1.0, "{answer:#}");
    }
    // A missing resource; and an unknown critical option, which is rejected as usual.
    let answer = load(&bed, &uri, &[&some[..], &["--path", "none"]].concat());
    assert_eq!(answer["codes"]["4.04"], 20, "{answer:#}");
}

#[test]
fn our_load_and_aiocoaps_server() {
    let Some(python) = peer("python") else { return };
    let bed = Bed::new();
    let command = |port: u16| {
        let mut command = Command::new(&python);
        command.arg(interop("coap_resources.py")).args(["127.0.0.1", &port.to_string()]);
        command.stdout(Stdio::null());
        command
    };
    let (_server, port) = Server::new(free_udp_port, command, |port| answers(&bed, port, "large"));
    let uri = format!("coap://127.0.0.1:{port}");
    let some = ["--arrivals", "constant:10ms", "--requests", "10"];
    for how in
        [&[][..], &["--confirmable"], &["--block", "64B"], &["--confirmable", "--nstart", "1"]]
    {
        for what in [
            &["--path", "large"][..],
            &["--path", "large", "--method", "PUT", "--size", "5000B"],
            &["--path", "slow"],
        ] {
            let answer = load(&bed, &uri, &[&some[..], how, what].concat());
            all_answered(&answer, 10.0);
        }
        // The value has 300 or more digits, so that with small blocks a notification has many
        // blocks.
        let one = ["--path", "changing", "--arrivals", "constant:1ms", "--requests", "2"];
        let answer = load(&bed, &uri, &[&one, &["--observe", "2 s"][..], how].concat());
        // On a busy machine a newer notification replaces one whose blocks are still under way, and
        // the answers to these are to no request any more: they count as unexpected.
        assert_eq!(figure(&answer, ".counts.answered"), 2.0, "{answer:#}");
        assert_eq!(
            figure(&answer, ".counts.errors") + figure(&answer, ".malformed"),
            0.0,
            "{answer:#}"
        );
        assert_eq!(figure(&answer, ".observed.registered"), 2.0, "{answer:#}");
        assert!(figure(&answer, ".observed.notifications") >= 2.0, "{answer:#}");
    }
}

#[test]
fn curl_and_ab_and_our_device() {
    let bed = Bed::new();
    std::fs::write(bed.path().join("big"), vec![b'x'; 10_000]).unwrap();
    std::fs::write(bed.path().join("huge"), vec![b'x'; 3_000_000]).unwrap();
    let device = Device::new(&bed, "http", &["--resource", "a", "--payload", "5000B"]);
    let uri = format!("{}/a", device.uri);
    let mut bodies = 0.0;
    if has("curl") {
        let say = "-sS -m 60 -o payload -w '%{http_code} %{size_download} %{num_connects}\\n'";
        for (options, answer) in [
            (String::new(), "200 5000 1\n"),
            ("--http1.0".to_owned(), "200 5000 1\n"),
            ("-H 'Expect:'".to_owned(), "200 5000 1\n"),
            ("-I".to_owned(), "200 0 1\n"),
            // Two requests on one connection; with HTTP/1.0, each has a separate one.
            (format!("{uri} --next {say}"), "200 5000 1\n200 5000 0\n"),
            (format!("--http1.0 {uri} --next --http1.0 {say}"), "200 5000 1\n200 5000 1\n"),
            ("-T big".to_owned(), "200 5000 1\n"),
            ("-T big -H 'Transfer-Encoding: chunked'".to_owned(), "200 5000 1\n"),
            ("-T big -H 'Expect: 100-continue'".to_owned(), "200 5000 1\n"),
            ("-T big --http1.0".to_owned(), "200 5000 1\n"),
            ("-T huge".to_owned(), "413 0 1\n"),
            ("-T huge -H 'Transfer-Encoding: chunked'".to_owned(), "413 0 1\n"),
            ("-H 'Expect: tea'".to_owned(), "417 0 1\n"),
            ("-X BREW".to_owned(), "501 0 1\n"),
            (format!("-H 'X: {}'", "y".repeat(17_000)), "431 0 1\n"),
            (format!("{uri}?{} --next {say}", "y".repeat(9_000)), "414 0 1\n200 5000 1\n"),
        ] {
            assert_eq!(
                shell(&bed, &format!("curl {say} {options} {uri}")),
                answer,
                "{options:.100}"
            );
        }
        bodies += 40_000.0;
    }
    if has("ab") {
        for options in ["", "-k", "-k -u big -T text/plain", "-u big -T text/plain", "-k -i"] {
            let answer = shell(&bed, &format!("ab -q -s 60 -n 100 -c 4 {options} {uri}"));
            let count = |what: &str| {
                let line = answer.lines().find(|line| line.starts_with(what));
                line.and_then(|line| line.split_whitespace().nth(2)).map(str::to_owned)
            };
            assert_eq!(count("Complete requests:").as_deref(), Some("100"), "{options}: {answer}");
            assert_eq!(count("Failed requests:").as_deref(), Some("0"), "{options}: {answer}");
            assert!(!answer.contains("Non-2xx"), "{options}: {answer}");
            let kept = options.contains("-k").then_some("100");
            assert_eq!(count("Keep-Alive requests:").as_deref(), kept, "{options}: {answer}");
        }
        bodies += 2_000_000.0;
    }
    let served = device.end();
    assert_eq!(figure(&served, ".body_bytes"), bodies, "{served:#}");
}

const NGINX: &str = "daemon off; master_process off; pid nginx.pid; error_log stderr;
events {}
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server {
    listen 127.0.0.1:PORT;
    root .;
    location /chunked/ { alias ./; ssi on; ssi_types *; }
    location /closing/ { alias ./; keepalive_timeout 0; }
    location /few/ { alias ./; keepalive_requests 3; }
    location /slow/ { alias ./; limit_rate 5k; }
  }
}
";

#[test]
fn our_load_and_nginx() {
    let program =
        ["nginx", "/usr/sbin/nginx"].into_iter().find(|path| Path::new(path).exists() || has(path));
    let Some(program) = program else { return };
    let bed = Bed::new();
    std::fs::write(bed.path().join("file"), vec![b'x'; 10_000]).unwrap();
    let command = |port: u16| {
        bed.write("nginx.conf", &NGINX.replace("PORT", &port.to_string()));
        let prefix = format!("{}/", bed.path().display());
        let mut command = Command::new(program);
        command.args(["-p", &prefix, "-c", "nginx.conf", "-e", "stderr"]).current_dir(bed.path());
        command
    };
    let (_server, port) =
        Server::new(free_tcp_port, command, |port| TcpStream::connect(("127.0.0.1", port)).is_ok());
    let uri = format!("http://127.0.0.1:{port}");
    for path in ["file", "chunked/file", "closing/file", "few/file"] {
        for method in ["GET", "HEAD"] {
            let options = ["--path", path, "--method", method, "--connections", "4"];
            let answer = load(
                &bed,
                &uri,
                &[&options[..], &["--arrivals", "constant:1ms", "--requests", "100"]].concat(),
            );
            all_answered(&answer, 100.0);
            assert_eq!(answer["codes"]["200"], 100, "{path}");
        }
    }
    // 10 kB at 5 kB/s take a second: four connections carry four of the twenty requests that are
    // due per second.
    let slow = ["--path", "slow/file", "--connections", "4", "--arrivals", "constant:50ms"];
    let answer = load(&bed, &uri, &[&slow[..], &["--requests", "20"]].concat());
    all_answered(&answer, 20.0);
    assert_eq!(figure(&answer, ".counts.unsent"), 0.0, "{answer:#}");
    let all = &answer["all"];
    assert!(figure(all, ".wait.p90") > 1e6, "{answer:#}");
    assert!(figure(all, ".slip.mean") < figure(all, ".wait.mean") / 4.0, "{answer:#}");
    // With a timeout of one second, the other requests time out, also for nginx.
    let answer =
        load(&bed, &uri, &[&slow[..], &["--requests", "40", "--timeout", "1500 ms"]].concat());
    assert_eq!(figure(&answer, ".counts.unsent"), 0.0, "{answer:#}");
    assert!(figure(&answer, ".counts.no_connection") > 10.0, "{answer:#}");
}
