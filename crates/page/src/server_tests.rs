use super::{App, Listener, Remove, connections, listen, router};
use crate::count::Count;
use crate::feed::Feed;
use crate::token::Token;
use std::fs;
use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

const TOKEN: &str = "0123456789abcdef";

fn block_on<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(test)
}

/// Runs `test` with a page of a lab that is not up, at a socket.
fn with_page<T>(test: impl AsyncFnOnce(&Path) -> T) -> T {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("page.sock");
    block_on(async {
        let app = App {
            // No process has this number.
            lab: u32::MAX,
            tool: Path::new("/bin/false").into(),
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
    })
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
