//! Parses the options of requests and answers, and detects unknown critical options (RFC
//! 7252, section 5.4).

use crate::{Block, Message, Uint};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Option numbers: RFC 7252 section 5.10, RFC 7641 section 2, RFC 7959 section 6, RFC 9175
/// section 5.
pub mod number {
    /// If-Match.
    pub const IF_MATCH: u16 = 1;
    /// Uri-Host.
    pub const URI_HOST: u16 = 3;
    /// ETag.
    pub const ETAG: u16 = 4;
    /// If-None-Match.
    pub const IF_NONE_MATCH: u16 = 5;
    /// Observe.
    pub const OBSERVE: u16 = 6;
    /// Uri-Port.
    pub const URI_PORT: u16 = 7;
    /// Uri-Path.
    pub const URI_PATH: u16 = 11;
    /// Content-Format.
    pub const CONTENT_FORMAT: u16 = 12;
    /// Max-Age.
    pub const MAX_AGE: u16 = 14;
    /// Uri-Query.
    pub const URI_QUERY: u16 = 15;
    /// Accept.
    pub const ACCEPT: u16 = 17;
    /// Block2, of answers.
    pub const BLOCK2: u16 = 23;
    /// Block1, of requests.
    pub const BLOCK1: u16 = 27;
    /// Size2.
    pub const SIZE2: u16 = 28;
    /// Proxy-Uri.
    pub const PROXY_URI: u16 = 35;
    /// Proxy-Scheme.
    pub const PROXY_SCHEME: u16 = 39;
    /// Size1.
    pub const SIZE1: u16 = 60;
    /// Request-Tag.
    pub const REQUEST_TAG: u16 = 292;
}

/// The default Max-Age, in s (RFC 7252, section 5.10.5).
const MAX_AGE: u32 = 60;

/// The number of a critical option that is unknown, repeated or has an invalid value
/// (sections 5.4.1, 5.4.3, 5.4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadOption(pub u16);

/// The options of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerOptions<'a> {
    /// The version of the resource.
    pub etag: Option<&'a [u8]>,
    /// The sequence number of a notification.
    pub observe: Option<u32>,
    /// Time for which the answer is fresh, in s.
    pub max_age: u32,
    /// The block of the request that it answers.
    pub block1: Option<Block>,
    /// The block of the answer that it carries.
    pub block2: Option<Block>,
}

impl<'a> AnswerOptions<'a> {
    /// Parses the options.
    ///
    /// # Errors
    /// An unknown critical option: the answer must be rejected.
    pub fn read(message: &Message<'a>) -> Result<Self, BadOption> {
        let mut this =
            Self { etag: None, observe: None, max_age: MAX_AGE, block1: None, block2: None };
        for (number, value) in message.options() {
            match number {
                // The guards are the lengths of section 5.10. An option of another length counts as
                // unknown (section 5.4.3), so a critical one ends in the last arm but one.
                number::ETAG if (1..=8).contains(&value.len()) => this.etag = Some(value),
                number::OBSERVE => this.observe = Uint::decode(value, 3).or(this.observe),
                number::MAX_AGE => this.max_age = Uint::decode(value, 4).unwrap_or(this.max_age),
                number::BLOCK1 => take(&mut this.block1, Block::decode(value), number)?,
                number::BLOCK2 => take(&mut this.block2, Block::decode(value), number)?,
                // Odd numbers are critical (section 5.4.6).
                critical if critical % 2 == 1 => return Err(BadOption(critical)),
                _ => {}
            }
        }
        Ok(this)
    }
}

/// The options of a request. Host, port and query are ignored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestOptions {
    /// The accepted content format.
    pub accept: Option<u32>,
    /// 0 registers an observer, 1 ends it.
    pub observe: Option<u32>,
    /// The block of the request that it carries.
    pub block1: Option<Block>,
    /// The block of the answer that it requests.
    pub block2: Option<Block>,
    /// Whether one of its If-Match options matches; None without any: see [`Self::read`].
    pub if_match: Option<bool>,
    /// Whether it is only for a resource that does not exist.
    pub if_none_match: bool,
    /// The size of the request's body as stated by the client, in bytes.
    pub size1: Option<u32>,
    /// Whether it requests the size of the answer's body.
    pub wants_size2: bool,
    /// Whether it is for another server (proxy request).
    pub is_proxied: bool,
}

/// A key that all blocks of one request share: a hash of the method and of all options
/// except blocks, sizes and Observe (RFC 7959, section 2.5; RFC 9175, section 3.3).
pub fn transfer_key(message: &Message<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    message.code.hash(&mut hasher);
    // Options are in the order of their numbers, so the same ones give the same hash.
    for (number, value) in message.options() {
        if !matches!(
            number,
            number::BLOCK1 | number::BLOCK2 | number::SIZE1 | number::SIZE2 | number::OBSERVE
        ) {
            (number, value).hash(&mut hasher);
        }
    }
    hasher.finish()
}

impl RequestOptions {
    /// Parses the options, writes the path segments to `path`, joined by slashes, and
    /// compares If-Match with `etag`.
    ///
    /// # Errors
    /// An unknown critical option: 4.02.
    pub fn read(message: &Message<'_>, path: &mut Vec<u8>, etag: &[u8]) -> Result<Self, BadOption> {
        path.clear();
        let mut this = Self::default();
        let mut first = true;
        let mut hosts = 0;
        for (number, value) in message.options() {
            match number {
                number::URI_PATH if value.len() <= 255 => {
                    // The first segment may be empty, so `path` does not tell whether there was
                    // one.
                    if !first {
                        path.push(b'/');
                    }
                    first = false;
                    path.extend_from_slice(value);
                }
                number::URI_QUERY if value.len() <= 255 => {}
                number::URI_HOST | number::URI_PORT if hosts < 2 => hosts += 1,
                number::IF_MATCH if value.len() <= 8 => {
                    // An empty value matches any version (section 5.10.8.1).
                    let matches = value.is_empty() || value == etag;
                    this.if_match = Some(matches || this.if_match == Some(true));
                }
                number::IF_NONE_MATCH if value.is_empty() => this.if_none_match = true,
                number::ACCEPT => take(&mut this.accept, Uint::decode(value, 2), number)?,
                number::BLOCK1 => take(&mut this.block1, Block::decode(value), number)?,
                number::BLOCK2 => take(&mut this.block2, Block::decode(value), number)?,
                number::PROXY_URI | number::PROXY_SCHEME => this.is_proxied = true,
                number::OBSERVE => this.observe = Uint::decode(value, 3).or(this.observe),
                number::SIZE1 => this.size1 = Uint::decode(value, 4).or(this.size1),
                number::SIZE2 => this.wants_size2 = true,
                critical if critical % 2 == 1 => return Err(BadOption(critical)),
                _ => {}
            }
        }
        Ok(this)
    }
}

/// Stores the value of a critical option that may occur once.
fn take<T>(place: &mut Option<T>, value: Option<T>, number: u16) -> Result<(), BadOption> {
    match (&place, value) {
        (None, Some(value)) => {
            *place = Some(value);
            Ok(())
        }
        // A second one, or an invalid value: both count as unknown (sections 5.4.3, 5.4.5).
        _ => Err(BadOption(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Writer, code::CONTENT};

    /// A message with these options.
    fn message(code: u8, options: &[(u16, &[u8])]) -> Vec<u8> {
        let mut room = vec![0; 2_048];
        let mut writer = Writer::new(&mut room, Kind::Confirmable, code, 1, b"");
        options.iter().for_each(|(number, value)| writer.option(*number, value));
        let length = writer.end(b"");
        room.truncate(length);
        room
    }

    fn read_options(options: &[(u16, &[u8])]) -> Result<(RequestOptions, String), BadOption> {
        let bytes = message(1, options);
        let mut path = b"before".to_vec();
        let read = RequestOptions::read(&Message::parse(&bytes).unwrap(), &mut path, b"tag")?;
        Ok((read, String::from_utf8(path).unwrap()))
    }

    fn answered(options: &[(u16, &[u8])]) -> Result<(Option<u32>, u32, Option<Block>), BadOption> {
        let bytes = message(CONTENT, options);
        let read = AnswerOptions::read(&Message::parse(&bytes).unwrap())?;
        Ok((read.observe, read.max_age, read.block2))
    }

    #[test]
    fn critical_options_that_are_not_known_are_refused_and_elective_ones_ignored() {
        assert!(read_options(&[(2, b"x"), (258, b"x"), (65_000, b"x")]).is_ok());
        assert_eq!(read_options(&[(9, b"x")]).unwrap_err(), BadOption(9), "OSCORE");
        assert_eq!(read_options(&[(65_001, b"")]).unwrap_err(), BadOption(65_001));
        assert_eq!(answered(&[(9, b"x")]).unwrap_err(), BadOption(9));
        assert_eq!(answered(&[(11, b"x")]).unwrap_err(), BadOption(11), "of requests");
        // Repeated, and with an invalid value.
        assert_eq!(read_options(&[(17, b""), (17, b"")]).unwrap_err(), BadOption(17));
        assert_eq!(read_options(&[(23, b"\x07")]).unwrap_err(), BadOption(23));
        assert_eq!(read_options(&[(5, b"x")]).unwrap_err(), BadOption(5));
        assert_eq!(read_options(&[(11, &[b'x'; 256])]).unwrap_err(), BadOption(11));
        assert_eq!(answered(&[(23, b"\0\0\0\0")]).unwrap_err(), BadOption(23));
        // Elective options with an invalid value are ignored.
        assert_eq!(answered(&[(6, b"long"), (14, b"too long")]), Ok((None, 60, None)));
    }

    #[test]
    fn requests_say_what_they_want() {
        let (read, path) = read_options(&[
            (number::IF_MATCH, b"other"),
            (number::IF_MATCH, b"tag"),
            (number::URI_HOST, b"meter"),
            (number::OBSERVE, b""),
            (number::URI_PATH, b"a"),
            (number::URI_PATH, b"b c"),
            (number::ACCEPT, b"\x28"),
            (number::BLOCK2, b"\x16"),
            (number::SIZE2, b""),
        ])
        .unwrap();
        assert_eq!((path.as_str(), read.accept, read.observe), ("a/b c", Some(40), Some(0)));
        assert_eq!((read.if_match, read.wants_size2), (Some(true), true));
        assert_eq!(read.block2, Some(Block { number: 1, more: false, exponent: 6 }));
        assert_eq!(read_options(&[(number::IF_MATCH, b"no")]).unwrap().0.if_match, Some(false));
        assert_eq!(
            read_options(&[(number::URI_PATH, b""), (number::URI_PATH, b"")]).unwrap().1,
            "/"
        );
        assert!(read_options(&[(number::PROXY_URI, b"coap://x")]).unwrap().0.is_proxied);
    }

    #[test]
    fn blocks_of_one_request_have_one_key() {
        let key =
            |options: &[(u16, &[u8])]| transfer_key(&Message::parse(&message(3, options)).unwrap());
        let path: (u16, &[u8]) = (number::URI_PATH, b"a");
        let first = key(&[path, (number::BLOCK1, b"\x0e"), (number::SIZE1, b"\x10\0")]);
        assert_eq!(first, key(&[path, (number::BLOCK1, b"\x1e")]));
        assert_ne!(first, key(&[(number::URI_PATH, b"b"), (number::BLOCK1, b"\x1e")]));
        // A Request-Tag distinguishes requests (RFC 9175, section 3).
        assert_ne!(first, key(&[path, (number::BLOCK1, b"\x1e"), (number::REQUEST_TAG, b"1")]));
    }
}
