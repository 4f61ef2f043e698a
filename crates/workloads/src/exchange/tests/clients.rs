//! Servers whose client is hostile, and a client of the workload after it.

use super::*;
use std::io::Read;
use std::net::{SocketAddr, TcpStream, UdpSocket};

/// Runs a server while `act` runs with its address; returns what it has received.
fn serving(protocol: &Value, act: impl FnOnce(SocketAddr)) -> Vec<(Option<u64>, u64)> {
    let folder = tempfile::tempdir().unwrap();
    let spec = server_of(&spec(folder.path(), protocol, &json!({"port": free_port()})));
    std::thread::scope(|scope| {
        let mut server = Running::start(scope, &spec);
        server.wait_for("ready");
        act((spec.address, spec.port).into());
        server.stop();
    });
    let receipts: Vec<Receipt> = events(&spec.events);
    receipts.iter().map(|one| (one.message, one.bytes)).collect()
}

fn payload(number: u64, size: usize) -> Vec<u8> {
    body::Body::new(7, 5_000).message(Some(number), size)
}

/// Sends all bytes, and returns all that comes back until the server closes, or the first
/// `most` bytes.
fn converse(to: SocketAddr, bytes: &[u8], most: usize) -> Vec<u8> {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENT)).unwrap();
    // A server that closes early may reset the connection.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = Read::take(&mut stream, most as u64).read_to_end(&mut answer);
    answer
}

#[test]
fn a_tcp_server_closes_foreign_connections_and_serves_on() {
    let message = |number: u32, payload: &[u8]| {
        [&number.to_be_bytes()[..], &(payload.len() as u32).to_be_bytes(), payload].concat()
    };
    let received = serving(&json!("tcp"), |server| {
        let huge = [[0, 0, 0, 1], [0xff; 4]].concat();
        assert_eq!(converse(server, &huge, 9), b"", "a length beyond the longest payload");
        assert_eq!(converse(server, &message(1, &[9; 100]), 9), b"", "a foreign payload");
        assert_eq!(converse(server, b"GET / HTTP/1.1\r\n\r\n", 9), b"");
        // Incomplete, and closed by the client.
        drop(TcpStream::connect(server).unwrap().write_all(&message(2, &payload(2, 50))[..30]));
        // Several messages at once, the last one in pieces.
        let mut stream = TcpStream::connect(server).unwrap();
        stream.set_read_timeout(Some(PATIENT)).unwrap();
        let all = [3, 4, 5].map(|number| message(number, &payload(number.into(), 1_000))).concat();
        let (whole, rest) = all.split_at(2_500);
        stream.write_all(whole).unwrap();
        let mut answers = [0; 12];
        stream.read_exact(&mut answers[..8]).unwrap();
        rest.chunks(100).for_each(|piece| stream.write_all(piece).unwrap());
        stream.read_exact(&mut answers[8..]).unwrap();
        assert_eq!(answers, [0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5]);
        // Too short for a number: that of the header counts.
        let short = body::Body::new(7, 5_000).message(None, 4);
        assert_eq!(converse(server, &message(6, &short), 4), [0, 0, 0, 6]);
    });
    assert_eq!(received, [(Some(3), 1_000), (Some(4), 1_000), (Some(5), 1_000), (Some(6), 4)]);
}

#[test]
fn a_udp_server_does_not_answer_foreign_datagrams() {
    let received = serving(&json!("udp"), |server| {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(server).unwrap();
        client.set_read_timeout(Some(PATIENT)).unwrap();
        let foreign: [&[u8]; 5] = [b"", b"abc", b"abcdX", &[7; 2_000], &[0; 65_507]];
        foreign.iter().for_each(|datagram| assert!(client.send(datagram).is_ok()));
        let own = [&[0, 0, 0, 9][..], &payload(9, 1_000)].concat();
        client.send(&own).unwrap();
        let mut answer = [0; 64];
        // The answer to the last one, since there is none to those before.
        let length = client.recv(&mut answer).unwrap();
        assert_eq!(answer[..length], [0, 0, 0, 9]);
    });
    assert_eq!(received, [(Some(9), 1_000)]);
}

#[test]
fn an_http_server_answers_foreign_requests_with_an_error() {
    let received = serving(&json!({"http": {"method": "put"}}), |server| {
        let status = |request: &[u8]| {
            let answer = converse(server, request, 12);
            String::from_utf8_lossy(&answer).into_owned()
        };
        let put = |path: &str, body: &[u8]| {
            let head =
                format!("PUT {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
            status(&[head.as_bytes(), body].concat())
        };
        let own = payload(8, 1_000);
        assert_eq!(put("/1000", &own), "HTTP/1.1 204");
        assert_eq!(put("/1000", &own[..999]), "HTTP/1.1 400");
        assert_eq!(put("/1000", &[7; 1_000]), "HTTP/1.1 400");
        assert_eq!(put("/1000", &payload(8, 1_001)), "HTTP/1.1 413");
        for path in ["/999", "/", "/-1", "/1e3", "/99999999999999999999", "/1000/1000", "/%31000"] {
            assert_eq!(put(path, &own), "HTTP/1.1 404", "{path}");
        }
        let request =
            |method: &str| status(format!("{method} /1000 HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes());
        assert_eq!(request("DELETE"), "HTTP/1.1 405");
        assert_eq!(request("GET"), "HTTP/1.1 200");
        assert_eq!(status(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"), "HTTP/1.1 400");
    });
    assert_eq!(received, [(Some(8), 1_000)]);
}
