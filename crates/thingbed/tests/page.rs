//! The page to watch a lab, as a browser and as an attacker use it.

#[path = "page/client.rs"]
mod client;
mod common;

use client::{PATIENCE, Page, Socket, address, status};
use common::live::{Live, until};
use common::{Bed, CommandOutput};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

const LAB: &str = "experiment: NAME
nodes:
  server:
    run: [sh, -c, 'echo \"<b>begun</b>\"; while :; do sleep 0.1; done']
    ready: {log: begun}
  meter: {count: 2}
networks:
  lan:
    attach: [server, meter]
    subnet: 10.1.0.0/24
    links: {meter: {up: {delay: 20 ms}}}
    timetable: [{at: 1000 s, links: meter, set: {loss: 5 %}}]
";
#[test]
fn other_pages_and_users_get_nothing() {
    let bed = Bed::new();
    let lab = Live::up(&bed, "gate", LAB);
    let page = Page::of(&lab);
    let (host, bearer) =
        (format!("Host: {}", page.host), format!("Authorization: Bearer {}", page.token));
    let get = |path: &str, head: &[&str]| {
        let head: Vec<String> = head.iter().map(|line| (*line).to_owned()).collect();
        page.raw(&format!("GET {path}"), &head, "")
    };
    for path in [
        "/api/events",
        "/api/logs?node=server",
        "/api/terminal?node=server&rows=9&cols=9",
        "/metrics",
    ] {
        assert_eq!(status(&get(path, &[&host])), 401, "{path}");
        assert_eq!(status(&get(path, &[&host, "Authorization: Bearer 0123456789abcdef"])), 401);
        assert_eq!(status(&get(path, &[&host, "Cookie: token=x"])), 401);
        // DNS rebinding: the browser believes that the page is the attacker's.
        assert_eq!(status(&get(path, &["Host: evil.example", &bearer])), 403, "{path}");
        // Another page, also of another port of this address.
        for origin in ["http://evil.example", "http://127.0.0.1:1", "null"] {
            assert_eq!(status(&get(path, &[&host, &bearer, &format!("Origin: {origin}")])), 403);
        }
    }
    let html = get("/", &[&host]);
    assert_eq!(status(&html), 200);
    assert!(!html.contains(&page.token) && !html.contains("server"), "data without the token");
    let headers = html.to_lowercase();
    for header in
        ["content-security-policy: default-src 'none'", "nosniff", "no-referrer", "no-store"]
    {
        assert!(headers.contains(header), "{header} in {headers}");
    }
    assert_eq!(status(&get("/../../etc/passwd", &[&host, &bearer])), 404);
    assert_eq!(status(&page.get("/metrics")), 200);
    // Too long, not JSON, not a request, and not one for a page.
    let mut head = page.head();
    head.push("Content-Type: application/json".to_owned());
    let post = |body: &str| status(&page.raw("POST /api/request", &head, body));
    assert_eq!(post(&format!("\"{}\"", "x".repeat(1 << 17))), 413);
    assert_eq!(post("{"), 400);
    assert_eq!(post("{\"sing\":{}}"), 422);
    assert_eq!(post("{\"capture\":{\"nodes\":[]}}"), 400);
    // A form of another page cannot have this content type.
    let form = page.raw("POST /api/request", &page.head(), "{\"end\":{}}");
    assert_eq!(status(&form), 415);
    lab.ask(&["ps"]).expect(0, &["server"]);
}

#[test]
fn clients_that_are_slow_or_many_do_not_stop_the_page() {
    let bed = Bed::new();
    let lab = Live::up(&bed, "flood", LAB);
    let page = Page::of(&lab);
    // One that never reads, and many that send nothing; the page closes those.
    let mut deaf = page.connect();
    let head = page.head().join("\r\n");
    write!(deaf, "GET /api/events HTTP/1.1\r\n{head}\r\n\r\n").unwrap();
    let mute: Vec<_> = (0..200).map(|_| page.connect()).collect();
    assert_eq!(status(&page.get("/metrics")), 200);
    let mut head_of_no_end = page.connect();
    let _ = head_of_no_end.write_all(b"GET / HTTP/1.1\r\n");
    let _ = head_of_no_end.write_all(format!("X: {}", "x".repeat(1 << 16)).as_bytes());
    let mut answer = String::new();
    let _ = head_of_no_end.read_to_string(&mut answer);
    assert!(matches!(status(&answer), 0 | 431 | 400), "{answer}");
    drop(mute);
    deaf.shutdown(Shutdown::Both).unwrap();
    assert_eq!(page.event(|state| state["lab"].is_object())["lab"]["nodes"], 3);
}

#[test]
fn the_page_shows_and_changes_what_the_command_line_does() {
    let bed = Bed::new();
    let lab = Live::up(&bed, "shown", LAB);
    let (page, other) = (Page::of(&lab), Page::of(&lab));
    let state = page.event(|state| state["lab"].is_object());
    assert_eq!(state["lab"]["experiment"], lab.name.as_str());
    assert_eq!(state["nodes"][0]["name"], "server");
    assert_eq!(state["nodes"][0]["state"], "running");
    let planned = &state["timeline"][0];
    assert_eq!(
        (&planned["what"], &planned["planned"]),
        (&json!("lan: meter-1, meter-2: loss 5 %"), &json!(true))
    );
    // The same keys and the same errors as `link set`.
    let links = json!({"nodes": ["meter-1"], "network": "lan", "way": "up"});
    let set = |key: &str, value: &str| {
        page.ask(&json!({"set": {"links": links, "set": [[key, value]], "over": "0 s"}}))
    };
    assert_eq!(set("delay", "70 ms")["links"].as_array().map(Vec::len), Some(2));
    for (key, value) in [("colour", "red"), ("delay", "80"), ("loss", "200 %")] {
        let words =
            ["set", "--lab", &lab.name, "--way", "up", "meter-1", &format!("{key}={value}")];
        let output = bed.thingbed(&[&["link"], &words[..]].concat()).expect(2, &[]);
        let wrong = set(key, value)["wrong"].as_str().unwrap().to_owned();
        let line = wrong.lines().next().unwrap().trim_start_matches("error: ").to_owned();
        assert!(output.err.contains(&line), "{wrong} against {}", output.err);
    }
    let shown = bed.thingbed(&["link", "show", "--lab", &lab.name, "meter-1"]);
    shown.expect(0, &["meter-1 lan up    delay 70 ms"]);
    // A change by the command line appears on both pages.
    let words = ["link", "set", "--lab", &lab.name, "--way", "up", "meter-2", "delay=90ms"];
    bed.thingbed(&words).expect(0, &[]);
    let link = |state: &Value, node: &str| {
        let all = state["links"].as_array().unwrap().clone();
        all.into_iter().find(|link| link["node"] == node && link["way"] == "up").unwrap()
    };
    for one in [&page, &other] {
        let state = one.event(|state| link(state, "meter-2")["now"]["delay"] == "90 ms");
        assert_eq!(link(&state, "meter-1")["now"]["delay"], "70 ms");
        let what: Vec<_> =
            state["timeline"].as_array().unwrap().iter().map(|one| one["what"].clone()).collect();
        assert!(what.contains(&json!("lan: meter-1 uplink: delay 70 ms by hand")), "{what:?}");
    }
    // Programs, and a node that comes while the page is open.
    page.ask(&json!({"inject_fault": {"what": "pause", "nodes": ["server"]}}));
    let paused = other.event(|state| state["nodes"][0]["state"] == "paused");
    let fault =
        paused["timeline"].as_array().unwrap().iter().any(|one| one["what"] == "pause server");
    assert!(fault, "{paused}");
    page.ask(&json!({"inject_fault": {"what": "resume", "nodes": ["server"]}}));
    lab.awaits("server", "running");
    let refused = page.ask(&json!({"inject_fault": {"what": "stop", "nodes": ["meter-1"]}}));
    assert!(refused["refused"].as_str().unwrap().contains("has no program to stop"), "{refused}");
    lab.ask(&["clone", "meter-1"]).expect(0, &["meter-3"]);
    let grown = page.event(|state| state["lab"]["nodes"] == 4);
    assert_eq!(link(&grown, "meter-3")["now"]["delay"], "70 ms", "the clone's link");
    // The lab ends, and the page with it.
    lab.ask(&["down"]).expect(0, &[]);
    until(|| TcpStream::connect(&page.host).is_err(), || "the page outlives its lab".to_owned());
}

#[test]
fn traffic_is_counted_by_node_and_link() {
    if !common::has("ping") {
        return;
    }
    let bed = Bed::new();
    let lab = Live::up(&bed, "counted", LAB);
    let page = Page::of(&lab);
    lab.ask(&["exec", "meter-1", "--", "ping", "-c", "3", "-i", "0.2", "server"])
        .expect(0, &["3 received"]);
    let value = |text: &str, labels: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(labels));
        line.unwrap_or_else(|| panic!("no {labels} in {text}")).trim().parse().unwrap()
    };
    let up = "{node=\"meter-1\",network=\"lan\",direction=\"up\"}";
    let passed = |text: &str| value(text, &format!("thingbed_link_passed_frames_total{up}"));
    until(|| passed(&page.get("/metrics")) >= 3.0, || page.get("/metrics"));
    let text = page.get("/metrics");
    assert!(text.contains("content-type: text/plain; version=0.0.4"), "{text}");
    let delay = value(&text, &format!("thingbed_link_delay_seconds_total{up}"));
    assert!((delay / passed(&text) - 0.02).abs() < 0.001, "20 ms of delay for each frame: {text}");
    assert!(
        value(&text, "thingbed_node_sent_bytes_total{node=\"meter-1\",group=\"meter\"}")
            > 3.0 * 84.0
    );
    assert!(value(&text, "thingbed_up") > 0.5);
}

#[test]
fn logs_and_a_terminal_of_a_node_come_as_they_are() {
    let bed = Bed::new();
    let lab = Live::up(&bed, "inside", LAB);
    let page = Page::of(&lab);
    let mut stream = page.connect();
    let head = page.head().join("\r\n");
    write!(stream, "GET /api/logs?node=server HTTP/1.1\r\n{head}\r\n\r\n").unwrap();
    let mut text = String::new();
    let mut lines = BufReader::new(stream).lines();
    while !text.contains("<b>begun</b>") {
        text += &lines.next().expect("the log").unwrap();
    }
    assert!(text.contains("text/plain") && text.contains("server.run.out"), "{text}");
    let unknown = page.get("/api/terminal?node=server&rows=20&cols=80");
    assert_eq!(status(&unknown), 400, "a terminal is a WebSocket: {unknown}");
    let mut socket = Socket::open(&page, "meter-2");
    socket.send(2, b"stty size; hostname; exit 3\r");
    let output = socket.until("the shell has ended: exit status: 3");
    assert!(output.contains("20 80") && output.contains("meter-2"), "{output}");
    // The shell ends with its browser.
    let mut socket = Socket::open(&page, "meter-2");
    socket.send(2, b"echo be''gun; sleep 1234\r");
    socket.until("begun");
    let sleeps = || {
        let output = lab.ask(&[
            "exec",
            "meter-2",
            "--",
            "sh",
            "-c",
            "cat /proc/[0-9]*/cmdline | tr '\\0' ' '",
        ]);
        output.out.contains("sleep 1234")
    };
    until(sleeps, || "no sleep in the node".to_owned());
    drop(socket);
    until(|| !sleeps(), || "a shell outlives its browser".to_owned());
}

#[test]
fn programs_that_print_much_do_not_flood_the_browser() {
    let bed = Bed::new();
    let text = "experiment: NAME
nodes: {server: {run: [sh, -c, 'yes 0123456789']}, meter: {}}
networks: {lan: {attach: [server, meter], subnet: 10.1.0.0/24}}
";
    let lab = Live::up(&bed, "much", text);
    let page = Page::of(&lab);
    let mut logs = page.connect();
    let head = page.head().join("\r\n");
    write!(logs, "GET /api/logs?node=server HTTP/1.1\r\n{head}\r\n\r\n").unwrap();
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    let skipped = "a part of it is not shown here";
    while !String::from_utf8_lossy(&all).contains(skipped) {
        let length = logs.read(&mut buffer).unwrap();
        assert!(length > 0, "the log has ended: {}", String::from_utf8_lossy(&all));
        all.extend(&buffer[..length]);
        all.drain(..all.len().saturating_sub(1 << 17));
    }
    drop(logs);
    // A browser that shows nothing gets no more than it can hold.
    let mut socket = Socket::open(&page, "meter");
    socket.send(2, b"yes 0123456789\r");
    socket.0.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let mut ahead = 0;
    while let Ok(part) = socket.part() {
        ahead += part.len();
        assert!(ahead < 160 * 1024, "{ahead} B sent that were not shown");
    }
    socket.0.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send(2, b"\x03echo fini''shed\r");
    // When it shows more again, Ctrl-C takes effect: the terminals' buffers hold less than this.
    let (mut end, mut more) = (Vec::new(), 0);
    socket.shown(ahead);
    while !String::from_utf8_lossy(&end).contains("finished") {
        let part = socket.part().unwrap();
        socket.shown(part.len());
        more += part.len();
        assert!(more < 1 << 20, "Ctrl-C has no effect");
        end.extend(part);
        end.drain(..end.len().saturating_sub(8192));
    }
}

#[test]
fn nodes_do_not_reach_the_page() {
    let bed = Bed::new();
    let lab = Live::up(&bed, "unreached", LAB);
    let page = Page::of(&lab);
    let (host, port) = page.host.split_once(':').unwrap();
    let connect = format!(
        "import socket\ntry:\n socket.create_connection(('{host}', {port}), 2)\n print('reached')\nexcept OSError:\n print('refused')"
    );
    assert!(TcpStream::connect(&page.host).is_ok());
    page.lab.ask(&["exec", "server", "--", "python3", "-c", &connect]).expect(0, &["refused"]);
    // Nor does one learn the token from the processes that it sees.
    let look = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' ' '; true";
    let seen = lab.ask(&["exec", "server", "--", "sh", "-c", look]).expect(0, &["sleep"]);
    assert!(!seen.out.contains(&page.token));
}

#[test]
fn up_serves_a_page_on_a_socket_file_with_a_chosen_token() {
    let bed = Bed::new();
    let name = format!("socket-{}", std::process::id());
    bed.write("lab.yaml", &LAB.replace("NAME", &name));
    let mut command = bed.command(&["up", "lab.yaml", "--detach", "--page=./page.sock"]);
    let output = CommandOutput::of(command.env("THINGBED_PAGE_TOKEN", "short").output().unwrap());
    output.expect(1, &["could not serve the page on ./page.sock", "16 characters"]);
    let token = "chosen-by-the-user_1";
    let output = CommandOutput::of(command.env("THINGBED_PAGE_TOKEN", token).output().unwrap());
    output.expect(0, &["page: ./page.sock", "runs in the background"]);
    let lab = Live { bed: &bed, name };
    let path = bed.path().join("page.sock");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(
        answer.contains("thingbed_node_running{node=\"server\",group=\"server\"} 1"),
        "{answer}"
    );
    // No program in a node gets the token: who has it controls the lab.
    let look = "env; cat /proc/[0-9]*/environ | tr '\\0' '\\n'; echo e''nd";
    let mut exec = lab.command(&["exec", "server", "--", "sh", "-c", look]);
    let output = CommandOutput::of(exec.env("THINGBED_PAGE_TOKEN", token).output().unwrap());
    let output = output.expect(0, &["THINGBED_NODE=server", "end"]);
    assert!(!output.out.contains(token), "{}", output.out);
    // The socket is taken, and goes with the lab.
    lab.ask(&["page", "--at", "./page.sock"]).expect(1, &["another page uses it"]);
    lab.ask(&["page", "--at", "./none/page.sock"]).expect(1, &["there is no such folder"]);
    lab.ask(&["page", "--at", "0.0.0.0:80"]).expect(2, &["127.0.0.1 only"]);
    lab.ask(&["down"]).expect(0, &[]);
    until(|| !path.exists(), || "the socket outlives its lab".to_owned());
}

#[test]
fn a_run_is_watched_from_its_start_and_only_in_real_time() {
    let bed = Bed::new();
    let file = "experiment: watched
nodes: {a: {}, b: {}}
networks: {lan: {attach: [a, b], subnet: 10.1.0.0/24}}
workloads: [{command: {on: a, run: [sleep, '60']}}]
duration: 60 s
";
    bed.write("w.yaml", file);
    bed.thingbed(&["run", "w.yaml", "--watch", "--cpu", "1"])
        .expect(2, &["--watch needs the real clock", "--stop-at"]);
    bed.thingbed(&["run", "w.yaml", "--watch=nowhere"])
        .expect(2, &["neither a port (0 to 65535) nor the path of a socket"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    bed.thingbed(&["run", "w.yaml", &format!("--watch={port}")])
        .expect(1, &["could not serve the page on port", "another program uses it"]);
    let mut run = bed.command(&["run", "w.yaml", "--watch", "--quiet"]);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = BufReader::new(run.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("page: ") {
        line.clear();
        assert!(errors.read_line(&mut line).unwrap() > 0, "the run ended without a page");
    }
    let (host, token) = address(&line);
    let lab = Live { bed: &bed, name: "watched".to_owned() };
    let idle = bed.command(&["labs"]).stdout(Stdio::null()).spawn().unwrap();
    let page = Page { lab: &lab, child: idle, host, token };
    let state = page.event(|state| state["lab"]["run"] == true);
    assert_eq!(state["lab"]["experiment"], "watched");
    assert_eq!(page.ask(&json!({"end": {}})), json!({"done": {}}));
    let ended = run.wait().unwrap();
    assert_eq!(ended.code(), Some(130), "a run that was stopped");
    until(|| TcpStream::connect(&page.host).is_err(), || "the page outlives its run".to_owned());
}
