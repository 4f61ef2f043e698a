//! CoAP messages as load needs them, RFC 7252: requests made once and then only
//! numbered, and messages looked at where they lie.
//!
//! Requests are built by `coap-lite`. What is done for each message is done here,
//! since that crate takes memory for each option of each message.

use coap_lite::{CoapOption, MessageClass, MessageType, Packet, RequestType};
use trace::Method;

/// Where the message id of a request stands.
const ID: usize = 2;
/// Where its token does.
const TOKEN: usize = 4;
/// Our tokens are as long as may be.
const TOKEN_LENGTH: usize = 8;
/// Option number of the parts of a path (section 5.10).
const URI_PATH: u16 = 11;

/// Kinds of messages (section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Confirmable,
    NonConfirmable,
    Acknowledgement,
    Reset,
}

/// A message whose parts are known to be sound.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'a> {
    pub kind: Kind,
    /// Class and detail: 2.05 is 0x45.
    pub code: u8,
    pub id: u16,
    pub token: &'a [u8],
    options: &'a [u8],
}

/// 2.05 Content.
pub(crate) const CONTENT: u8 = 0x45;
/// 2.04 Changed.
pub(crate) const CHANGED: u8 = 0x44;
/// 4.04 Not Found.
pub(crate) const NOT_FOUND: u8 = 0x84;
/// 5.03 Service Unavailable.
pub(crate) const UNAVAILABLE: u8 = 0xa3;

/// The bytes of a request, with room for id and token.
pub(crate) fn template(method: Method, host: &str, path: &str, size: u32, con: bool) -> Vec<u8> {
    let mut packet = Packet::new();
    packet.header.set_type(if con {
        MessageType::Confirmable
    } else {
        MessageType::NonConfirmable
    });
    packet.header.code = MessageClass::Request(match method {
        Method::Post => RequestType::Post,
        Method::Put => RequestType::Put,
        Method::Delete => RequestType::Delete,
        Method::Fetch => RequestType::Fetch,
        Method::Patch => RequestType::Patch,
        Method::IPatch => RequestType::IPatch,
        _ => RequestType::Get,
    });
    packet.set_token(vec![0; TOKEN_LENGTH]);
    // A name is said, an address is known from the packet (section 5.10.1).
    if host.parse::<std::net::IpAddr>().is_err() {
        packet.add_option(CoapOption::UriHost, host.as_bytes().to_vec());
    }
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    for part in path.split('/').filter(|_| !path.is_empty()) {
        packet.add_option(CoapOption::UriPath, decoded(part));
    }
    for part in query.split('&').filter(|part| !part.is_empty()) {
        packet.add_option(CoapOption::UriQuery, decoded(part));
    }
    if size > 0 {
        packet.payload = vec![b'x'; size as usize];
    }
    // Only an option that is too long can fail, and a URI is not.
    packet.to_bytes_with_limit(usize::MAX).unwrap_or_default()
}

/// With `%20` and the like put right; what is no such thing stays.
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

/// Numbers a request that was copied from a template.
pub(crate) fn number(request: &mut [u8], id: u16, token: u64) {
    if let Some(room) = request.get_mut(ID..ID + 2) {
        room.copy_from_slice(&id.to_be_bytes());
    }
    if let Some(room) = request.get_mut(TOKEN..TOKEN + TOKEN_LENGTH) {
        room.copy_from_slice(&token.to_be_bytes());
    }
}

/// The number in a token of ours.
pub(crate) fn token_number(token: &[u8]) -> Option<u64> {
    token.try_into().ok().map(u64::from_be_bytes)
}

impl<'a> Message<'a> {
    /// Looks at a message; nothing of one that is none.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let header: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
        let length = usize::from(header[0] & 0x0f);
        if header[0] >> 6 != 1 || length > TOKEN_LENGTH {
            return None;
        }
        let kind = match (header[0] >> 4) & 3 {
            0 => Kind::Confirmable,
            1 => Kind::NonConfirmable,
            2 => Kind::Acknowledgement,
            _ => Kind::Reset,
        };
        let (code, id) = (header[1], u16::from_be_bytes([header[2], header[3]]));
        // Classes 1, 6 and 7 are reserved; an empty message is its header alone (section 4.1).
        if matches!(code >> 5, 1 | 6 | 7) || code == 0 && bytes.len() > 4 {
            return None;
        }
        let token = bytes.get(4..4 + length)?;
        let message = Self { kind, code, id, token, options: &bytes[4 + length..] };
        message.walk(|_, _| ())?;
        Some(message)
    }

    /// Calls `f` with the number and the value of each option; nothing if they are not
    /// sound (section 3.1).
    fn walk(&self, mut f: impl FnMut(u16, &'a [u8])) -> Option<()> {
        let mut rest = self.options;
        let mut number = 0u16;
        while let Some((first, after)) = rest.split_first() {
            if *first == 0xff {
                // A marker without a payload is an error.
                return (!after.is_empty()).then_some(());
            }
            rest = after;
            let delta = extended(first >> 4, &mut rest)?;
            let length = usize::from(extended(first & 0x0f, &mut rest)?);
            number = number.checked_add(delta)?;
            f(number, rest.get(..length)?);
            rest = &rest[length..];
        }
        Some(())
    }

    /// Writes the path, its parts joined by slashes.
    pub fn path(&self, out: &mut Vec<u8>) {
        out.clear();
        let mut any = false;
        let _ = self.walk(|number, value| {
            if number == URI_PATH {
                if any {
                    out.push(b'/');
                }
                any = true;
                out.extend_from_slice(value);
            }
        });
    }
}

/// A delta or length with its one or two further bytes.
fn extended(nibble: u8, rest: &mut &[u8]) -> Option<u16> {
    let take = |rest: &mut &[u8], count: usize| -> Option<u16> {
        let bytes = rest.get(..count)?;
        let value = bytes.iter().fold(0u16, |sum, byte| sum << 8 | u16::from(*byte));
        *rest = &rest[count..];
        Some(value)
    };
    match nibble {
        13 => take(rest, 1)?.checked_add(13),
        14 => take(rest, 2)?.checked_add(269),
        15 => None,
        small => Some(u16::from(small)),
    }
}

/// Writes an answer without options: how long it is.
pub(crate) fn answer(
    room: &mut [u8],
    kind: Kind,
    code: u8,
    id: u16,
    token: &[u8],
    payload: &[u8],
) -> usize {
    let sign = match kind {
        Kind::Confirmable => 0,
        Kind::NonConfirmable => 1,
        Kind::Acknowledgement => 2,
        Kind::Reset => 3,
    };
    let marker = usize::from(!payload.is_empty());
    let length = 4 + token.len() + marker + payload.len();
    if room.len() < length || token.len() > TOKEN_LENGTH {
        return 0;
    }
    room[0] = 1 << 6 | sign << 4 | token.len() as u8;
    room[1] = code;
    room[2..4].copy_from_slice(&id.to_be_bytes());
    room[4..4 + token.len()].copy_from_slice(token);
    if marker == 1 {
        room[4 + token.len()] = 0xff;
        room[length - payload.len()..length].copy_from_slice(payload);
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_what_another_codec_reads() {
        let mut request = template(Method::Put, "meter", "a/b%20c?d=e&f", 5, true);
        number(&mut request, 0x1234, 0x0102_0304_0506_0708);
        let packet = Packet::from_bytes(&request).unwrap();
        assert_eq!(packet.header.message_id, 0x1234);
        assert_eq!(packet.get_token(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(packet.header.code, MessageClass::Request(RequestType::Put));
        assert_eq!(packet.payload, b"xxxxx");
        let seen = Message::parse(&request).unwrap();
        assert_eq!((seen.kind, seen.id), (Kind::Confirmable, 0x1234));
        assert_eq!(token_number(seen.token), Some(0x0102_0304_0506_0708));
        let mut path = Vec::new();
        seen.path(&mut path);
        assert_eq!(path, b"a/b c");
        let queries: Vec<_> = packet.get_option(CoapOption::UriQuery).unwrap().iter().collect();
        assert_eq!(queries, [b"d=e".as_slice(), b"f"]);
    }

    #[test]
    fn answers_are_what_another_codec_reads() {
        let mut room = [0; 64];
        let length = answer(&mut room, Kind::Acknowledgement, CONTENT, 7, b"tok", b"21.5");
        let packet = Packet::from_bytes(&room[..length]).unwrap();
        assert_eq!(packet.header.get_type(), MessageType::Acknowledgement);
        assert_eq!(packet.header.message_id, 7);
        assert_eq!((packet.get_token(), packet.payload.as_slice()), (&b"tok"[..], &b"21.5"[..]));
        assert_eq!(packet.header.code.to_string(), "2.05");
        assert_eq!(answer(&mut room[..8], Kind::Reset, 0, 7, b"", b"too long here"), 0);
    }

    #[test]
    fn what_is_no_message_is_seen() {
        let sound = template(Method::Get, "10.0.0.1", "r1", 0, false);
        assert!(Message::parse(&sound).is_some());
        for cut in 0..12 {
            assert!(Message::parse(&sound[..cut]).is_none(), "{cut}");
        }
        assert!(Message::parse(&[0x80, 0x45, 0, 1]).is_none(), "version 2");
        assert!(Message::parse(&[0x49, 0x45, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]).is_none());
        assert!(Message::parse(&[0x40, 0x25, 0, 1]).is_none(), "a reserved class");
        assert!(Message::parse(&[0x40, 0x45, 0, 1, 0xff]).is_none(), "a marker alone");
        assert!(Message::parse(&[0x40, 0x45, 0, 1, 0xf0]).is_none(), "a reserved nibble");
        assert!(Message::parse(&[0x40, 0x45, 0, 1, 0xd0]).is_none(), "a cut option");
        assert!(Message::parse(&[0x60, 0, 0, 1]).is_some(), "an empty acknowledgement");
    }

    #[test]
    fn any_bytes_are_no_panic_and_no_stricter_than_the_other_codec() {
        let draw = units::Draw::new(1, 2, 3);
        let mut both = 0;
        for i in 0..20_000u64 {
            let long = 4 + (i % 24);
            let mut bytes: Vec<u8> = (0..long)
                .map(|j| (draw.uniform(units::Purpose::Bit, i * 64 + j) * 256.0) as u8)
                .collect();
            bytes[0] = 0x40 | bytes[0] & 0x33;
            let ours = Message::parse(&bytes).is_some();
            let theirs = Packet::from_bytes(&bytes).is_ok();
            // Ours refuses reserved classes and empty markers, too.
            assert!(!ours || theirs, "{bytes:02x?}");
            both += u32::from(ours);
        }
        assert!(both > 500, "{both}");
    }
}
