use super::{App, Listener, Remove, connections, listen, router};
use crate::count::Count;
use crate::feed::Feed;
use crate::token::Token;
use std::fs;
use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout};

const TOKEN: &str = "0123456789abcdef";

fn block_on<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(test)
}

/// Runs `test` with a page of a lab that is not up, at a socket.
fn with_page<T>(test: impl AsyncFnOnce(&Path) -> T) -> T {
    block_on(serve_while(Path::new("/bin/false"), test))
}

/// As `with_page`, in virtual time: it passes only while all wait, so that no timeout depends on the
/// machine.
fn with_paused_page<T>(test: impl AsyncFnOnce(&Path) -> T) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    // A connection that is never closed would hang the test.
    let limited = async |path: &Path| timeout(Duration::from_secs(600), test(path)).await;
    runtime.block_on(serve_while(Path::new("/bin/false"), limited)).expect("it ends in time")
}

/// Serves a page, whose tool is this program, while `test` runs.
async fn serve_while<T>(tool: &Path, test: impl AsyncFnOnce(&Path) -> T) -> T {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("page.sock");
    {
        let app = App {
            // No process has this number.
            lab: u32::MAX,
            tool: tool.into(),
            token: Arc::new(Token::chosen(TOKEN.to_owned()).unwrap()),
            feed: Feed::new(u32::MAX),
            terminals: Count::default(),
            logs: Count::default(),
        };
        let listener = listen(&path).await.unwrap();
        tokio::select! {
            () = connections::serve(Listener::Socket(listener), router(app)) => panic!("it ended"),
            result = test(&path) => result,
        }
    }
}

/// The answer to a request with these lines.
async fn answer(path: &Path, lines: &[&str], body: &str) -> String {
    let mut stream = UnixStream::connect(path).await.unwrap();
    let head = lines.join("\r\n");
    let length = body.len();
    let request = format!("{head}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
    // A server may answer, and close, before it has read all.
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

const HOST: &str = "Host: localhost";

#[test]
fn files_need_no_token_and_all_answers_have_the_headers_of_the_gate() {
    with_page(async |path| {
        for (line, expected) in [
            ("GET / HTTP/1.1", "200"),
            ("GET /page.js HTTP/1.1", "200"),
            ("GET /metrics HTTP/1.1", "401"),
            ("GET /api/events HTTP/1.1", "401"),
            ("GET /api/logs?node=a HTTP/1.1", "401"),
            ("POST /api/request HTTP/1.1", "401"),
            ("GET /page.js/../metrics HTTP/1.1", "401"),
            ("GET //metrics HTTP/1.1", "401"),
        ] {
            let answer = answer(path, &[line, HOST], "").await.to_lowercase();
            assert_eq!(status(&answer), expected, "{line}: {answer}");
            for header in ["content-security-policy: default-src 'none'", "cache-control: no-store"]
            {
                assert!(answer.contains(header), "{line}: {answer}");
            }
            assert!(!answer.contains("thingbed_up"), "{line}");
        }
    });
}

#[test]
fn a_lab_that_is_not_up_is_a_state_and_a_request_to_it_an_error() {
    with_page(async |path| {
        let bearer = format!("Authorization: Bearer {TOKEN}");
        let found = answer(path, &["GET /metrics HTTP/1.1", HOST, &bearer], "").await;
        assert!(status(&found) == "200" && found.contains("\nthingbed_up 0\n"), "{found}");
        let post = ["POST /api/request HTTP/1.1", HOST, &bearer, "Content-Type: application/json"];
        let found = answer(path, &post, r#"{"lab":{}}"#).await;
        assert!(status(&found) == "502" && found.contains("could not reach the lab"), "{found}");
        for (body, expected) in [
            ("", "400"),
            ("{", "400"),
            (r#"{"dance":{}}"#, "422"),
            (r#"{"capture":{"nodes":[],"network":null,"filter":null,"snap":null}}"#, "400"),
            (&format!("[{}]", " ".repeat(super::LONGEST)), "413"),
        ] {
            let found = answer(path, &post, body).await;
            assert_eq!(status(&found), expected, "{found}");
        }
        // Another page of the same browser.
        let foreign = ["POST /api/request HTTP/1.1", HOST, &bearer, "Origin: http://evil.example"];
        assert_eq!(status(&answer(path, &foreign, r#"{"end":{}}"#).await), "403");
        let rebound = ["GET /metrics HTTP/1.1", "Host: evil.example", &bearer];
        assert_eq!(status(&answer(path, &rebound, "").await), "403");
    });
}

#[test]
fn heads_that_are_too_long_or_broken_end_their_connection_only() {
    with_page(async |path| {
        let long = format!("X-Long: {}", "x".repeat(40_000));
        for lines in [&["GET / HTTP/1.1", HOST, &long][..], &["nonsense"], &["GET / HTTP/9.9"]] {
            let found = answer(path, lines, "").await;
            assert!(matches!(status(&found), "" | "400" | "431"), "{found}");
        }
        assert_eq!(status(&answer(path, &["GET / HTTP/1.1", HOST], "").await), "200");
    });
}

#[test]
fn a_socket_is_for_its_user_and_only_a_dead_one_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("page.sock");
    block_on(async {
        let first = listen(&path).await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(listen(&path).await.is_err(), "the other page still serves it");
        drop(first);
        // A child that another test starts at this moment has a copy until its program begins.
        let closed = async { while UnixStream::connect(&path).await.is_ok() {} };
        tokio::time::timeout(Duration::from_secs(60), closed).await.expect("all copies close");
        assert!(path.exists(), "as after a kill");
        let again = listen(&path).await.unwrap();
        drop(again);
        let file = dir.path().join("text");
        fs::write(&file, "kept").unwrap();
        assert!(listen(&file).await.is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(listen(&link).await.is_err() && path.exists(), "what a link names stays");
        assert!(listen(&PathBuf::from("/no/such/folder/page.sock")).await.is_err());
    });
    drop(Remove(path.clone()));
    assert!(!path.exists());
    drop(Remove(path));
}

/// Reads what comes until `text` has come, or the end.
async fn read_until(stream: &mut UnixStream, text: &str) -> String {
    let mut found = String::new();
    let mut part = [0; 4096];
    while !found.contains(text) {
        match stream.read(&mut part).await {
            Ok(0) | Err(_) => break,
            Ok(length) => found += &String::from_utf8_lossy(&part[..length]),
        }
    }
    found
}

/// A connection that follows the states of the lab.
async fn follow(path: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(path).await.unwrap();
    let request =
        format!("GET /api/events HTTP/1.1\r\n{HOST}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

#[test]
fn a_client_that_sends_no_request_or_a_part_of_one_is_closed_in_time() {
    for head in ["", "G", "GET / HTTP/1.1", "GET / HTTP/1.1\r\nHost: localhost\r\nX-A: "] {
        with_paused_page(async |path| {
            let began = Instant::now();
            let mut stream = UnixStream::connect(path).await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
            read_until(&mut stream, "200 OK").await;
            let took = began.elapsed().as_secs();
            assert!(took <= 20, "{head:?} after {took} s");
            // Others are served in the meantime and afterwards.
            assert_eq!(status(&answer(path, &["GET / HTTP/1.1", HOST], "").await), "200");
        });
    }
}

#[test]
fn without_the_token_a_connection_does_not_last_however_much_it_sends() {
    with_paused_page(async |path| {
        let began = Instant::now();
        // A head without end, byte by byte.
        let mut slow = UnixStream::connect(path).await.unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\nX-A: ").await.unwrap();
        while slow.write_all(b"a").await.is_ok() {
            sleep(Duration::from_secs(1)).await;
        }
        assert!(began.elapsed().as_secs() <= 21, "{:?}", began.elapsed());
        let began = Instant::now();
        // Files of the page need no token; asking for them again and again proves nothing.
        let mut busy = UnixStream::connect(path).await.unwrap();
        let ask = format!("GET /page.css HTTP/1.1\r\n{HOST}\r\n\r\n");
        while busy.write_all(ask.as_bytes()).await.is_ok()
            && !read_until(&mut busy, "HTTP/1.1 200").await.is_empty()
        {
            sleep(Duration::from_secs(3)).await;
        }
        assert!((10..=24).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    });
}

#[test]
fn with_the_token_states_come_each_second_for_as_long_as_the_client_reads() {
    with_paused_page(async |path| {
        let mut stream = follow(path).await;
        let began = Instant::now();
        let mut states = 0;
        let mut part = [0; 4096];
        while states < 120 {
            let length = stream.read(&mut part).await.unwrap();
            assert!(length > 0, "closed after {states} states, {:?}", began.elapsed());
            states += String::from_utf8_lossy(&part[..length]).matches("data:").count();
        }
        let seconds = began.elapsed().as_secs();
        assert!((100..=140).contains(&seconds), "120 states in {seconds} s");
    });
}

#[test]
fn many_clients_follow_the_states_at_once() {
    with_paused_page(async |path| {
        let mut clients = Vec::new();
        for _ in 0..100 {
            clients.push(follow(path).await);
        }
        for client in &mut clients {
            let found = read_until(client, "data:").await;
            assert!(status(&found) == "200" && found.contains("data:"), "{found}");
        }
        let bearer = format!("Authorization: Bearer {TOKEN}");
        let found = answer(path, &["GET /metrics HTTP/1.1", HOST, &bearer], "").await;
        assert_eq!(status(&found), "200");
    });
}

#[test]
fn strangers_that_take_all_connections_delay_the_page_and_do_not_stop_it() {
    with_paused_page(async |path| {
        let mut strangers = Vec::new();
        // More than are served at a time.
        for _ in 0..150 {
            strangers.push(UnixStream::connect(path).await.unwrap());
        }
        let began = Instant::now();
        let bearer = format!("Authorization: Bearer {TOKEN}");
        let found = answer(path, &["GET /metrics HTTP/1.1", HOST, &bearer], "").await;
        assert_eq!(status(&found), "200");
        assert!(began.elapsed().as_secs() <= 60, "{:?}", began.elapsed());
    });
}

/// Follows the logs of a node; returns the connection and the status of its answer.
async fn follow_logs(path: &Path) -> (UnixStream, String) {
    let mut stream = UnixStream::connect(path).await.unwrap();
    let request =
        format!("GET /api/logs?node=a HTTP/1.1\r\n{HOST}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let head = read_until(&mut stream, "\r\n\r\n").await;
    (stream, status(&head).to_owned())
}

#[test]
fn a_page_that_is_closed_makes_room_for_another_to_follow_logs() {
    let dir = tempfile::tempdir().unwrap();
    let tool = dir.path().join("tool");
    fs::write(&tool, "#!/bin/sh\nexec sleep 1000\n").unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    block_on(serve_while(&tool, async |path| {
        let mut open = Vec::new();
        for place in 0..16 {
            let (stream, status) = follow_logs(path).await;
            assert_eq!(status, "200", "{place}");
            open.push(stream);
        }
        assert_eq!(follow_logs(path).await.1, "503");
        open.pop();
        // The server notices a closed connection some time later.
        let again = async {
            while follow_logs(path).await.1 != "200" {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(Duration::from_secs(120), again).await.expect("a place is free");
    }));
}
