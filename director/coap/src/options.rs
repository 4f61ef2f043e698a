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
        for (number, value, is_repeated) in occurrences(message) {
            match number {
                _ if is_repeated => unrecognized(number)?,
                // The guards are the lengths of section 5.10. An option of another length counts as
                // unrecognized (section 5.4.3), so a critical one ends in the last arm.
                number::ETAG if (1..=8).contains(&value.len()) => this.etag = Some(value),
                number::OBSERVE => this.observe = Uint::decode(value, 3),
                number::MAX_AGE => this.max_age = Uint::decode(value, 4).unwrap_or(MAX_AGE),
                number::BLOCK1 => this.block1 = Some(valid(Block::decode(value), number)?),
                number::BLOCK2 => this.block2 = Some(valid(Block::decode(value), number)?),
                other => unrecognized(other)?,
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
        for (number, value, is_repeated) in occurrences(message) {
            match number {
                number::URI_PATH if value.len() <= 255 => {
                    // The first segment may be empty, so `path` does not tell whether there was
                    // one.
                    if is_repeated {
                        path.push(b'/');
                    }
                    path.extend_from_slice(value);
                }
                number::URI_QUERY if value.len() <= 255 => {}
                number::IF_MATCH if value.len() <= 8 => {
                    // An empty value matches any version (section 5.10.8.1).
                    let matches = value.is_empty() || value == etag;
                    this.if_match = Some(matches || this.if_match == Some(true));
                }
                _ if is_repeated => unrecognized(number)?,
                number::URI_HOST if (1..=255).contains(&value.len()) => {}
                number::URI_PORT if value.len() <= 2 => {}
                number::IF_NONE_MATCH if value.is_empty() => this.if_none_match = true,
                number::ACCEPT => this.accept = Some(valid(Uint::decode(value, 2), number)?),
                number::BLOCK1 => this.block1 = Some(valid(Block::decode(value), number)?),
                number::BLOCK2 => this.block2 = Some(valid(Block::decode(value), number)?),
                number::PROXY_URI if (1..=1_034).contains(&value.len()) => this.is_proxied = true,
                number::PROXY_SCHEME if (1..=255).contains(&value.len()) => this.is_proxied = true,
                number::OBSERVE => this.observe = Uint::decode(value, 3),
                number::SIZE1 => this.size1 = Uint::decode(value, 4),
                number::SIZE2 => this.wants_size2 = true,
                other => unrecognized(other)?,
            }
        }
        Ok(this)
    }
}

/// Number and value of each option, and whether one of the same number came before it: that is
/// supernumerary, unless the option may be repeated.
fn occurrences<'a>(message: &Message<'a>) -> impl Iterator<Item = (u16, &'a [u8], bool)> {
    let mut before = None;
    // Options are in the order of their numbers.
    message
        .options()
        .map(move |(number, value)| (number, value, before.replace(number) == Some(number)))
}

/// The value of a critical option; an invalid one counts as unrecognized (section 5.4.3).
fn valid<T>(value: Option<T>, number: u16) -> Result<T, BadOption> {
    value.ok_or(BadOption(number))
}

/// Treats an option as unrecognized: a critical one, which has an odd number (section 5.4.6), is
/// an error, and an elective one is ignored.
fn unrecognized(number: u16) -> Result<(), BadOption> {
    if number % 2 == 1 { Err(BadOption(number)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Writer, code::CONTENT};
    use proptest::prelude::*;

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

    /// RFC 7252, section 5.4.5: of an option that may not be repeated the first one counts, and
    /// later ones are treated like unrecognized options.
    #[test]
    fn the_first_of_a_repeated_option_counts() {
        let twice = |number, [one, two]: [&'static [u8]; 2]| [(number, one), (number, two)];
        let read = |options: &[(u16, &[u8])]| read_options(options).unwrap().0;
        assert_eq!(answered(&twice(number::OBSERVE, [b"\x05", b"\x09"])).unwrap().0, Some(5));
        assert_eq!(answered(&twice(number::MAX_AGE, [b"\x0a", b"\x14"])).unwrap().1, 10);
        assert_eq!(read(&twice(number::OBSERVE, [b"", b"\x01"])).observe, Some(0));
        assert_eq!(read(&twice(number::SIZE1, [b"\x10", b"\x20"])).size1, Some(16));
        let bytes = message(CONTENT, &twice(number::ETAG, [b"one", b"two"]));
        let answer = AnswerOptions::read(&Message::parse(&bytes).unwrap()).unwrap();
        assert_eq!(answer.etag, Some(&b"one"[..]));
        for (number, value) in [
            (number::URI_HOST, &b"meter"[..]),
            (number::IF_NONE_MATCH, b""),
            (number::URI_PORT, b"\x16\x33"),
            (number::ACCEPT, b"\x28"),
            (number::BLOCK2, b"\x06"),
            (number::BLOCK1, b"\x06"),
            (number::PROXY_URI, b"coap://meter"),
            (number::PROXY_SCHEME, b"coap"),
        ] {
            assert!(read_options(&[(number, value)]).is_ok(), "{number}");
            let repeated = read_options(&twice(number, [value, value]));
            assert_eq!(repeated.unwrap_err(), BadOption(number));
        }
    }

    /// The options of RFC 7252 (section 5.10, table 4), RFC 7641, RFC 7959 and RFC 9175: number,
    /// shortest and longest value in bytes, and whether it may be repeated in a request.
    const STANDARD: [(u16, usize, usize, bool); 20] = [
        (1, 0, 8, true),
        (3, 1, 255, false),
        (4, 1, 8, true),
        (5, 0, 0, false),
        (6, 0, 3, false),
        (7, 0, 2, false),
        (8, 0, 255, true),
        (11, 0, 255, true),
        (12, 0, 2, false),
        (14, 0, 4, false),
        (15, 0, 255, true),
        (17, 0, 2, false),
        (20, 0, 255, true),
        (23, 0, 3, false),
        (27, 0, 3, false),
        (28, 0, 4, false),
        (35, 1, 1_034, false),
        (39, 1, 255, false),
        (60, 0, 4, false),
        (292, 0, 8, true),
    ];

    /// The first option of a request that must be rejected: critical, and unknown, of a wrong
    /// length or repeated (sections 5.4.1, 5.4.3, 5.4.5).
    fn rejected(options: &[(u16, Vec<u8>)]) -> Option<u16> {
        let is_recognized = |place: usize| {
            let (number, value) = &options[place];
            let known = STANDARD.iter().find(|known| known.0 == *number);
            known.is_some_and(|(number, shortest, longest, may_repeat)| {
                let is_first = options[..place].iter().all(|before| before.0 != *number);
                (*shortest..=*longest).contains(&value.len()) && (*may_repeat || is_first)
            })
        };
        let critical = |place: &usize| options[*place].0 % 2 == 1;
        (0..options.len())
            .filter(critical)
            .find(|place| !is_recognized(*place))
            .map(|place| options[place].0)
    }

    /// Options in the order of their numbers; those not in the table are OSCORE (9), a critical
    /// and an elective one that are not assigned.
    fn any_options() -> impl Strategy<Value = Vec<(u16, Vec<u8>)>> {
        let number = prop_oneof![
            20 => (0..STANDARD.len()).prop_map(|place| STANDARD[place].0),
            1 => prop::sample::select(&[9, 65_001, 65_000][..]),
        ];
        // Also as blocks, these values are valid.
        let value = (prop_oneof![0..5_usize, 5..10_usize, 250..260_usize], 0..3_u8);
        let value = value.prop_map(|(length, number)| vec![number << 4; length]);
        prop::collection::vec((number, value), 0..5).prop_map(|mut options| {
            options.sort_by_key(|option| option.0);
            options
        })
    }

    proptest! {
        #[test]
        fn a_request_is_rejected_as_the_tables_of_the_standards_say(options in any_options()) {
            let borrowed: Vec<(u16, &[u8])> =
                options.iter().map(|(number, value)| (*number, value.as_slice())).collect();
            let read = read_options(&borrowed);
            prop_assert_eq!(read.as_ref().err().map(|bad| bad.0), rejected(&options));
            let Ok((read, path)) = read else { return Ok(()) };
            let all = |number: u16| borrowed.iter().filter(move |option| option.0 == number);
            let first = |number, most| all(number).next().and_then(|one| Uint::decode(one.1, most));
            prop_assert_eq!(read.observe, first(number::OBSERVE, 3));
            prop_assert_eq!(read.size1, first(number::SIZE1, 4));
            prop_assert_eq!(read.accept, first(number::ACCEPT, 2));
            let segments: Vec<_> = all(number::URI_PATH).map(|one| one.1.to_vec()).collect();
            prop_assert_eq!(path.into_bytes(), segments.join(&b'/'));
        }
    }
}
