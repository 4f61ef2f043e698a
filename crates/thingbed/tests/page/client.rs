//! A client of the page, as a browser or an attacker is.

use super::common::live::Live;
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

/// Longest wait for an answer.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A page of a lab.
pub struct Page<'a> {
    pub lab: &'a Live<'a>,
    pub child: Child,
    pub host: String,
    pub token: String,
}

impl<'a> Page<'a> {
    /// Serves the page of a lab on a free port.
    pub fn of(lab: &'a Live<'a>) -> Self {
        let mut child = lab.command(&["page"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (host, token) = address(&line);
        Self { lab, child, host, token }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends a request with these lines in its head; returns the answer.
    pub fn raw(&self, request: &str, head: &[String], body: &str) -> String {
        let mut stream = self.connect();
        let head: String = head.iter().map(|line| format!("{line}\r\n")).collect();
        let length = body.len();
        let text = format!(
            "{request} HTTP/1.1\r\n{head}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub fn head(&self) -> Vec<String> {
        vec![format!("Host: {}", self.host), format!("Authorization: Bearer {}", self.token)]
    }

    pub fn get(&self, path: &str) -> String {
        self.raw(&format!("GET {path}"), &self.head(), "")
    }

    /// Sends a request of the live commands; returns the reply.
    pub fn ask(&self, request: &Value) -> Value {
        let mut head = self.head();
        head.push("Content-Type: application/json".to_owned());
        let answer = self.raw("POST /api/request", &head, &request.to_string());
        let body = answer.split_once("\r\n\r\n").expect("a head").1;
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    /// Reads events until one meets a condition.
    pub fn event(&self, holds: impl Fn(&Value) -> bool) -> Value {
        let mut stream = self.connect();
        let head = self.head().join("\r\n");
        stream.write_all(format!("GET /api/events HTTP/1.1\r\n{head}\r\n\r\n").as_bytes()).unwrap();
        let lines = BufReader::new(stream).lines().map(|line| line.expect("an event in time"));
        let data = lines.filter_map(|line| line.strip_prefix("data:").map(str::to_owned));
        let states = data.map(|data| serde_json::from_str::<Value>(&data).unwrap()).take(60);
        states.into_iter().find(holds).expect("a state that meets the condition")
    }
}

impl Drop for Page<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Host and token in the line that a command printed.
pub fn address(line: &str) -> (String, String) {
    let url =
        line.trim().split("page: http://").nth(1).unwrap_or_else(|| panic!("no URL in {line}"));
    let (host, token) = url.split_once("/#token=").expect("a token");
    (host.to_owned(), token.to_owned())
}

pub fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// A WebSocket to a terminal.
pub struct Socket(pub TcpStream);

impl Socket {
    pub fn open(page: &Page<'_>, node: &str) -> Self {
        let mut stream = page.connect();
        let (host, token) = (&page.host, &page.token);
        write!(
            stream,
            "GET /api/terminal?node={node}&rows=20&cols=80 HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: thingbed, token.{token}\r\n\r\n"
        )
        .unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8_lossy(&head).to_lowercase();
        assert!(
            head.starts_with("http/1.1 101")
                && head.contains("sec-websocket-protocol: thingbed\r\n"),
            "{head}"
        );
        Self(stream)
    }

    /// Sends a short message, masked with zeros.
    pub fn send(&mut self, opcode: u8, bytes: &[u8]) {
        let mut frame = vec![0x80 | opcode, 0x80 | bytes.len() as u8, 0, 0, 0, 0];
        frame.extend_from_slice(bytes);
        self.0.write_all(&frame).unwrap();
    }

    /// All output until it contains a text.
    pub fn until(&mut self, text: &str) -> String {
        let mut all = Vec::new();
        while !String::from_utf8_lossy(&all).contains(text) {
            let part = self.part().unwrap_or_else(|error| {
                panic!("{error} after {}", String::from_utf8_lossy(&all));
            });
            all.extend(part);
        }
        String::from_utf8_lossy(&all).into_owned()
    }

    /// The next message.
    pub fn part(&mut self) -> io::Result<Vec<u8>> {
        let mut head = [0; 2];
        self.0.read_exact(&mut head)?;
        let mut length = usize::from(head[1] & 0x7f);
        if length == 126 {
            let mut more = [0; 2];
            self.0.read_exact(&mut more)?;
            length = usize::from(u16::from_be_bytes(more));
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok(body)
    }

    /// Tells the server that output was shown, as the browser does.
    pub fn shown(&mut self, bytes: usize) {
        self.send(1, format!("{{\"shown\":{bytes}}}").as_bytes());
    }
}
