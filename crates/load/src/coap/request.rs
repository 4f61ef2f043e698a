//! CoAP requests, built once: the bytes of the first message, and the further messages of a
//! block-wise transfer.

use super::{Block, DELETE, FETCH, GET, IPATCH, Kind, Next, PATCH, POST, PUT, Writer};
use super::{exponent, number};
use trace::{CoapSettings, Method};

/// The length of a Request-Tag, in bytes.
const TAG: usize = 4;

/// A request without message ID and token.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    kind: Kind,
    code: u8,
    /// Host, path and query in ascending order of option numbers.
    options: Vec<(u16, Vec<u8>)>,
    /// The size of its body, in bytes.
    body: usize,
    /// The block size for sending a larger body, in bytes.
    block: usize,
    /// The size exponent that it requests for its answer's blocks.
    block_size: Option<u8>,
    /// Whether it observes its resource.
    observes: bool,
}

impl Request {
    pub fn new(
        method: Method,
        host: &str,
        path: &str,
        size: u32,
        confirmable: bool,
        settings: &CoapSettings,
    ) -> Self {
        let code = match method {
            Method::Post => POST,
            Method::Put => PUT,
            Method::Delete => DELETE,
            Method::Fetch => FETCH,
            Method::Patch => PATCH,
            Method::IPatch => IPATCH,
            _ => GET,
        };
        let mut options = Vec::new();
        // Uri-Host is only for names; the packet has the address (section 5.10.1).
        if host.parse::<std::net::IpAddr>().is_err() {
            options.push((number::URI_HOST, host.as_bytes().to_vec()));
        }
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        for part in path.split('/').filter(|_| !path.is_empty()) {
            options.push((number::URI_PATH, decoded(part)));
        }
        for part in query.split('&').filter(|part| !part.is_empty()) {
            options.push((number::URI_QUERY, decoded(part)));
        }
        Self {
            kind: if confirmable { Kind::Confirmable } else { Kind::NonConfirmable },
            code,
            options,
            body: size as usize,
            block: usize::from(settings.block_size()),
            block_size: settings.block.map(|size| exponent(usize::from(size))),
            observes: settings.observe.is_some() && matches!(code, GET | FETCH),
        }
    }

    /// The size of its body, in bytes.
    pub fn body(&self) -> usize {
        self.body
    }

    /// The block size for sending, in bytes.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Whether its body takes more than one message.
    pub fn is_blockwise(&self) -> bool {
        self.body > self.block
    }

    pub fn observes(&self) -> bool {
        self.observes
    }

    pub fn is_confirmable(&self) -> bool {
        self.kind == Kind::Confirmable
    }

    /// The offset of a block-wise request's tag in its first message.
    pub fn tag_at(&self, template: &[u8]) -> Option<usize> {
        // The tag is the last option, in front of the payload marker and the block.
        self.is_blockwise().then(|| template.len().checked_sub(self.block + 1 + TAG)).flatten()
    }

    /// The bytes of the first message, with placeholders for ID, token and tag.
    pub fn template(&self) -> Vec<u8> {
        // The header of an option has at most five bytes (RFC 7252, 3.1).
        let options: usize = self.options.iter().map(|(_, value)| value.len() + 5).sum();
        let mut bytes = vec![0; 64 + options + self.body.min(self.block)];
        let observe = self.observes.then_some(0);
        let length = self.write(&mut bytes, 0, 0, &Next::first(self.body, self.block), observe);
        bytes.truncate(length);
        bytes
    }

    /// Writes one of its messages. Returns its length. `observe` is the value of the
    /// Observe option, if any.
    pub fn write(
        &self,
        room: &mut [u8],
        id: u16,
        token: u64,
        next: &Next,
        observe: Option<u32>,
    ) -> usize {
        let mut writer = Writer::new(room, self.kind, self.code, id, &token.to_be_bytes());
        let (before, after): (Vec<_>, Vec<_>) =
            self.options.iter().partition(|(option, _)| *option < number::OBSERVE);
        before.iter().for_each(|(option, value)| writer.option(*option, value));
        if let Some(observe) = observe {
            writer.uint(number::OBSERVE, observe);
        }
        after.iter().for_each(|(option, value)| writer.option(*option, value));
        let block_size = self.block_size.map(|exponent| Block { number: 0, more: false, exponent });
        for (option, block) in
            [(number::BLOCK2, next.block2.or(block_size)), (number::BLOCK1, next.block1)]
        {
            if let Some(block) = block {
                writer.option(option, &block.encode());
            }
        }
        if next.block1.is_some_and(|block| block.number == 0) {
            writer.uint(number::SIZE1, u32::try_from(self.body).unwrap_or(u32::MAX));
        }
        // Several requests for one resource may be under way; the tag distinguishes their
        // blocks (RFC 9175, section 3).
        if next.block1.is_some() {
            writer.option(number::REQUEST_TAG, &tag(token));
        }
        writer.end_filled(b'x', next.length)
    }
}

/// The Request-Tag, which distinguishes the blocks of different requests.
pub(crate) fn tag(token: u64) -> [u8; TAG] {
    (token as u32).to_be_bytes()
}

/// Decodes percent encoding; invalid sequences stay unchanged.
pub(crate) fn decoded(part: &str) -> Vec<u8> {
    let bytes = part.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = part.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coap::{AnswerOptions, Message, RequestOptions, number_request, token_number};
    use coap_lite::{CoapOption, MessageClass, Packet, RequestType};

    /// The bytes of a request with default settings.
    fn template(method: Method, host: &str, path: &str, size: u32, con: bool) -> Vec<u8> {
        Request::new(method, host, path, size, con, &CoapSettings::default()).template()
    }

    #[test]
    fn requests_are_what_another_codec_reads() {
        let mut request = template(Method::Put, "meter", "a/b%20c?d=e&f", 5, true);
        number_request(&mut request, 0x1234, 0x0102_0304_0506_0708);
        let packet = Packet::from_bytes(&request).unwrap();
        assert_eq!(packet.header.message_id, 0x1234);
        assert_eq!(packet.get_token(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(packet.header.code, MessageClass::Request(RequestType::Put));
        assert_eq!(packet.payload, b"xxxxx");
        let seen = Message::parse(&request).unwrap();
        assert_eq!((seen.kind, seen.id), (Kind::Confirmable, 0x1234));
        assert_eq!(token_number(seen.token), Some(0x0102_0304_0506_0708));
        let mut path = Vec::new();
        RequestOptions::read(&seen, &mut path, b"").unwrap();
        assert_eq!(path, b"a/b c");
        let queries: Vec<_> = packet.get_option(CoapOption::UriQuery).unwrap().iter().collect();
        assert_eq!(queries, [b"d=e".as_slice(), b"f"]);
        let host = packet.get_option(CoapOption::UriHost).unwrap();
        assert_eq!(host.front().map(Vec::as_slice), Some(&b"meter"[..]));
    }

    #[test]
    fn every_method_has_its_code() {
        for (method, code) in [
            (Method::Get, RequestType::Get),
            (Method::Post, RequestType::Post),
            (Method::Put, RequestType::Put),
            (Method::Delete, RequestType::Delete),
            (Method::Fetch, RequestType::Fetch),
            (Method::Patch, RequestType::Patch),
            (Method::IPatch, RequestType::IPatch),
        ] {
            let packet = Packet::from_bytes(&template(method, "h", "", 0, false)).unwrap();
            assert_eq!(packet.header.code, MessageClass::Request(code));
        }
    }

    #[test]
    fn a_large_request_begins_with_its_first_block() {
        let request = template(Method::Put, "10.0.0.1", "a", 2_500, true);
        let message = Message::parse(&request).unwrap();
        let options = RequestOptions::read(&message, &mut Vec::new(), b"").unwrap();
        assert_eq!(options.block1, Block::at(0, 1_024, true));
        assert_eq!((options.size1, message.payload.len()), (Some(2_500), 1_024));
        assert_eq!(options.block2, None, "the target chooses its blocks");
        let put = Request::new(Method::Put, "h", "a", 2_500, true, &CoapSettings::default());
        let mut bytes = put.template();
        let at = put.tag_at(&bytes).unwrap();
        bytes[at..at + TAG].copy_from_slice(&tag(0x0102_0304_0506_0708));
        let tagged = Message::parse(&bytes).unwrap().options().last().unwrap();
        assert_eq!(tagged, (number::REQUEST_TAG, &[5, 6, 7, 8][..]));
        // A body that fits into one message is sent as it is.
        let request = template(Method::Put, "10.0.0.1", "a", 1_024, true);
        assert_eq!(Message::parse(&request).unwrap().payload.len(), 1_024);
    }

    #[test]
    fn blocks_and_observation_are_asked_for() {
        let observe = Some(units::Span::from_ns(1));
        let settings = CoapSettings { block: Some(64), observe, ..CoapSettings::default() };
        let get = Request::new(Method::Get, "meter", "a", 0, false, &settings);
        let template = get.template();
        let message = Message::parse(&template).unwrap();
        let options = RequestOptions::read(&message, &mut Vec::new(), b"").unwrap();
        assert_eq!((options.observe, options.block2), (Some(0), Block::at(0, 64, false)));
        let numbers: Vec<u16> = message.options().map(|(number, _)| number).collect();
        assert_eq!(numbers, [3, 6, 11, 23]);
        // Requests for further blocks have no Observe option (RFC 7959, section 2.6).
        let mut room = [0; 128];
        let next = Next { block1: None, block2: Block::at(64, 64, false), length: 0 };
        let length = get.write(&mut room, 1, 2, &next, None);
        let message = Message::parse(&room[..length]).unwrap();
        let options = RequestOptions::read(&message, &mut Vec::new(), b"").unwrap();
        assert_eq!((options.observe, options.block2), (None, Block::at(64, 64, false)));
        assert!(AnswerOptions::read(&message).is_err(), "it is no answer");
        assert!(!Request::new(Method::Put, "h", "a", 0, false, &settings).observes());
    }
}
