//! Request templates, built once and sent many times.

use crate::coap::Request;
use crate::settings::Settings;
use std::net::SocketAddr;
use trace::{Method, Scheme, Target};

/// The bytes of a request and its destination.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    /// The destination, or why there is none.
    pub to: Result<SocketAddr, String>,
    pub bytes: Vec<u8>,
    /// The offset of the packet identifier of an MQTT message, or of the tag of a
    /// block-wise CoAP request; 0 if there is none.
    pub number_at: usize,
    /// The data for further messages of a CoAP request.
    pub coap: Option<Box<Request>>,
}

/// The minimum size of a plain UDP datagram, which must carry its number.
pub(crate) const MIN_DATAGRAM: u32 = 8;

impl Template {
    pub fn new(
        to: Result<SocketAddr, String>,
        target: &Target,
        method: Method,
        size: Option<u32>,
        settings: &Settings,
    ) -> Self {
        let size = size.unwrap_or(0);
        let (mut number_at, mut coap) = (0, None);
        let bytes = match target.scheme {
            Scheme::Coap => {
                let (host, path) = (target.host, target.path);
                let request =
                    Request::new(method, host, path, size, settings.confirmable, &settings.coap);
                let bytes = request.template();
                number_at = request.tag_at(&bytes).unwrap_or(0);
                coap = Some(Box::new(request));
                bytes
            }
            Scheme::Http => http(method, target, size),
            Scheme::Mqtt => {
                // Behind type and remaining length, the topic's length (2 B) and the topic (MQTT
                // 3.1.1, 3.3.2).
                number_at = 2 + remaining_length(mqtt_length(target, size, settings)) - 1
                    + 2
                    + target.path.len();
                mqtt(target, size, settings)
            }
            Scheme::Udp => vec![b'x'; size.max(MIN_DATAGRAM) as usize],
            Scheme::Tcp => vec![b'x'; size.max(1) as usize],
        };
        Self { to, bytes, number_at, coap }
    }
}

fn http(method: Method, target: &Target, size: u32) -> Vec<u8> {
    let slash = if target.path.starts_with('?') { "" } else { "/" };
    let host = if target.host.contains(':') {
        format!("[{}]:{}", target.host, target.port)
    } else {
        format!("{}:{}", target.host, target.port)
    };
    let mut text = format!("{method} {slash}{} HTTP/1.1\r\nHost: {host}\r\n", target.path);
    let carries = size > 0 || matches!(method, Method::Post | Method::Put | Method::Patch);
    if carries {
        text += &format!("Content-Length: {size}\r\n");
    }
    text += "\r\n";
    let mut bytes = text.into_bytes();
    bytes.resize(bytes.len() + size as usize, b'x');
    bytes
}

/// What follows the fixed header of a PUBLISH (MQTT 3.1.1, section 3.3).
fn mqtt_length(target: &Target, size: u32, settings: &Settings) -> usize {
    2 + target.path.len() + usize::from(settings.qos > 0) * 2 + size as usize
}

/// The length of an MQTT remaining length, in bytes (MQTT 3.1.1, section 2.2.3).
fn remaining_length(length: usize) -> usize {
    match length {
        0..128 => 1,
        128..16_384 => 2,
        16_384..2_097_152 => 3,
        _ => 4,
    }
}

fn mqtt(target: &Target, size: u32, settings: &Settings) -> Vec<u8> {
    let mut bytes = vec![0x30 | (settings.qos.min(1) << 1)];
    push_length(&mut bytes, mqtt_length(target, size, settings));
    bytes.extend((target.path.len() as u16).to_be_bytes());
    bytes.extend(target.path.as_bytes());
    if settings.qos > 0 {
        bytes.extend([0, 0]);
    }
    bytes.resize(bytes.len() + size as usize, b'x');
    bytes
}

pub(crate) fn push_length(bytes: &mut Vec<u8>, mut length: usize) {
    loop {
        let low = (length % 128) as u8;
        length /= 128;
        bytes.push(if length > 0 { low | 0x80 } else { low });
        if length == 0 {
            return;
        }
    }
}

/// The name of a code in its protocol: CoAP's up to 255, HTTP's from [`HTTP`] on.
pub(crate) fn code_name(code: u16) -> String {
    match u8::try_from(code) {
        Ok(code) => format!("{}.{:02}", code >> 5, code & 0x1f),
        Err(_) if code >= HTTP => (code - HTTP).to_string(),
        Err(_) => "ok".to_owned(),
    }
}

/// The code of answers without a status: an echo, a PUBACK.
pub(crate) const NO_STATUS: u16 = 999;
/// The offset of HTTP codes, which distinguishes HTTP 200 from CoAP 6.08.
pub(crate) const HTTP: u16 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn made(uri: &str, method: Method, size: Option<u32>, qos: u8) -> Template {
        let settings = Settings { qos, ..Settings::default() };
        let target = Target::parse(uri).unwrap();
        Template::new(Err(String::new()), &target, method, size, &settings)
    }

    #[test]
    fn http_requests_say_what_they_carry() {
        let get = made("http://h/a?b", Method::Get, None, 0).bytes;
        assert_eq!(get, b"GET /a?b HTTP/1.1\r\nHost: h:80\r\n\r\n");
        let post = made("http://[::1]:8080/", Method::Post, Some(3), 0).bytes;
        assert_eq!(post, b"POST / HTTP/1.1\r\nHost: [::1]:8080\r\nContent-Length: 3\r\n\r\nxxx");
        let query = made("http://h?b", Method::Get, None, 0).bytes;
        assert!(query.starts_with(b"GET ?b") || query.starts_with(b"GET /?b"));
    }

    #[test]
    fn mqtt_messages_have_their_number_where_it_is_said() {
        for (size, length) in [(0, 2), (200, 3), (20_000, 4)] {
            let made = made("mqtt://h/some/topic", Method::Publish, Some(size), 1);
            let head = 1 + length - 1;
            assert_eq!(&made.bytes[head..head + 2], [0, 10]);
            assert_eq!(&made.bytes[head + 2..head + 12], b"some/topic");
            assert_eq!(made.number_at, head + 12);
            assert_eq!(made.bytes.len(), head + 12 + 2 + size as usize);
        }
        assert_eq!(made("mqtt://h/t", Method::Publish, None, 0).bytes, b"\x30\x03\0\x01t");
    }

    #[test]
    fn codes_are_written_as_their_protocols_do() {
        assert_eq!(code_name(0x45), "2.05");
        assert_eq!(code_name(0xa3), "5.03");
        assert_eq!(code_name(HTTP + 404), "404");
        assert_eq!(code_name(HTTP + 200), "200");
        assert_eq!(code_name(NO_STATUS), "ok");
    }
}
