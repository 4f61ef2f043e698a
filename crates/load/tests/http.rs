//! HTTP between load and device over loopback, and with peers that send what neither does.

mod common;

use common::{device, load, patient, sent, served};
use load::{DeviceSettings, Settings};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;
use units::Span;

fn fast() -> DeviceSettings {
    device(&["*, r, sleep, constant:0ns"])
}

/// The full response of a device to these bytes, until it closes the connection.
fn response_to(to: SocketAddr, pieces: &[&[u8]]) -> String {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    for piece in pieces {
        stream.write_all(piece).unwrap();
    }
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    String::from_utf8(all).unwrap()
}

fn statuses(response: &str) -> Vec<&str> {
    response.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect()
}

#[test]
fn a_device_keeps_to_what_the_standard_wants() {
    let (_, served) = served(&fast(), |at| {
        let to = at("http");
        let one = |text: &str| response_to(to, &[text.as_bytes()]);
        // Three pipelined requests, answered in order; the last closes the connection.
        let pipelined = "GET /r HTTP/1.1\r\nHost: x\r\n\r\nGET /no HTTP/1.1\r\nHost: x\r\n\r\n\
                         HEAD /r HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let response = one(pipelined);
        assert_eq!(statuses(&response), ["200", "404", "200"], "{response}");
        assert!(response.ends_with("Content-Length: 4\r\nConnection: close\r\n\r\n"), "{response}");
        // HTTP/1.0 closes the connection unless the client asks for keep-alive.
        assert_eq!(statuses(&one("GET /r HTTP/1.0\r\n\r\n")), ["200"]);
        let kept = "GET /r HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /r HTTP/1.0\r\n\r\n";
        let response = one(kept);
        assert_eq!(statuses(&response), ["200", "200"]);
        assert!(response.contains("Connection: keep-alive"), "{response}");
        // Chunked bodies, cut anywhere, followed by another request.
        let put = b"PUT /r HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
        let chunks = b"5\r\nhello\r\n3;x\r\nabc\r\n0\r\nA: b\r\n\r\n";
        let get = b"GET /r HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let response = response_to(to, &[put, &chunks[..7], &chunks[7..], get]);
        assert_eq!(statuses(&response), ["200", "200"], "{response}");
        // A refused request closes the connection.
        for (text, status) in [
            ("GET /r HTTP/1.1\r\n\r\n", "400"),
            ("what?\r\n\r\n", "400"),
            ("PUT /r HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n", "413"),
            ("OPTIONS /r HTTP/1.1\r\nHost: x\r\n\r\n", "405"),
            ("PUT /r HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfive\r\n", "400"),
        ] {
            let response = one(text);
            assert_eq!(statuses(&response), [status], "{text}");
            assert!(response.contains("Connection: close"), "{response}");
        }
        let long = format!("GET / HTTP/1.1\r\n{}", "X: yyyyyyyyyyyyyyyyyyyyyy\r\n".repeat(1_000));
        assert_eq!(statuses(&one(&long)), ["431"]);
        assert_eq!(statuses(&one(&format!("GET /{}", "x".repeat(20_000)))), ["414"]);
    });
    assert_eq!((served.body_bytes, served.unknown), (8, 1));
    assert_eq!(served.malformed, 7);
}

#[test]
fn a_body_that_waits_is_asked_for() {
    served(&fast(), |at| {
        let mut stream = TcpStream::connect(at("http")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let head =
            "PUT /r HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        let mut room = [0; 25];
        stream.read_exact(&mut room).unwrap();
        assert_eq!(&room, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(b"abc").unwrap();
        let mut room = [0; 15];
        stream.read_exact(&mut room).unwrap();
        assert_eq!(&room, b"HTTP/1.1 200 OK");
    });
}

#[test]
fn any_bytes_end_a_connection_and_no_more() {
    let (_, _) = served(&fast(), |at| {
        for seed in 0..300_u64 {
            let noise: Vec<u8> = units::words(seed).flat_map(u64::to_le_bytes).take(200).collect();
            let mut stream = TcpStream::connect(at("http")).unwrap();
            let _ =
                stream.write_all(b"PUT /r HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n");
            let _ = stream.write_all(if seed % 2 > 0 { b"\r\n" } else { b"X" });
            let _ = stream.write_all(&noise);
        }
        let get = b"GET /r HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        assert_eq!(statuses(&response_to(at("http"), &[get])), ["200"]);
    });
}

/// A server that closes each connection after its answer: requests wait for connections,
/// and none is lost.
#[test]
fn a_server_that_closes_after_each_answer_is_connected_to_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut room = [0; 1_024];
                let Ok(_) = stream.read(&mut room) else { return };
                // Body by the end of the connection, by length, or chunked with
                // `Connection: close`.
                let answer: &[u8] = match number % 3 {
                    0 => b"HTTP/1.0 200 OK\r\n\r\nto the end",
                    1 => b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
                    _ => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nok\r\n0\r\n\r\n",
                };
                let _ = stream.write_all(answer);
                if number % 3 == 2 {
                    // The client closes the connection.
                    let _ = stream.read_to_end(&mut Vec::new());
                }
            });
        }
    });
    let text: String = (0..200).map(|i| format!("0, {}, GET, http://{to}/r\n", i * 200)).collect();
    let settings = Settings { connections: 3, ..patient() };
    let (figures, error) = load(&text, &settings);
    assert_eq!((figures.all().counts.answered, error), (200, None), "{:?}", figures.reasons);
}

/// For any answers, each request has exactly one outcome, and the load ends.
#[test]
fn a_load_bears_any_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (seed, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut room = [0; 1_024];
                let noise = units::words(seed as u64).flat_map(u64::to_le_bytes);
                let noise: Vec<u8> = noise.take(seed % 300).collect();
                while stream.read(&mut room).is_ok_and(|count| count > 0) {
                    let head: &[u8] = match seed % 5 {
                        0 => b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n",
                        1 => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello",
                        2 => b"HTTP/1.1 100 Continue\r\n\r\n",
                        3 => b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
                        _ => b"",
                    };
                    if stream.write_all(head).and_then(|()| stream.write_all(&noise)).is_err() {
                        return;
                    }
                }
            });
        }
    });
    for scheme in ["http", "mqtt", "tcp"] {
        let method = match scheme {
            "http" => "GET",
            "mqtt" => "PUBLISH",
            _ => "SEND",
        };
        let text: String =
            (0..300).map(|i| format!("0, {}, {method}, {scheme}://{to}/r\n", i * 300)).collect();
        let settings =
            Settings { timeout: Span::from_ms(300), qos: 1, connections: 4, ..patient() };
        let (figures, error) = load(&text, &settings);
        assert_eq!((figures.all().counts.scheduled, error), (300, None));
    }
}

#[test]
fn a_large_answer_is_read_to_its_end() {
    let device = DeviceSettings { payload: 300_000, ..fast() };
    let (figures, _) =
        sent(&device, &patient(), 20, |_, at| format!("GET, http://{}/r", at("http")));
    assert_eq!(figures.all().counts.answered, 20, "{:?}", figures.reasons);
}
