//! CoAP over UDP (RFC 7252, section 3).

use crate::messages::Messages;
use crate::parser::Shares;

/// Counts the message in a datagram of `length` bytes. Returns its shares of header and
/// payload, or None if it is no CoAP message.
pub(crate) fn take(data: &[u8], length: u32, messages: &mut Messages) -> Option<Shares> {
    let [first, code, _, _, rest @ ..] = data else { return None };
    let token = usize::from(first & 15);
    // Version 1, and a token of at most 8 bytes: longer ones are reserved (section 3).
    if first >> 6 != 1 || token > 8 {
        return None;
    }
    messages.coap_types[usize::from(first >> 4 & 3)] += 1;
    messages.coap_codes[usize::from(*code)] += 1;
    messages.all += 1;
    let payload = rest.get(token..).and_then(payload).map_or(0, |at| {
        // Bytes that the capture has cut off belong to the payload.
        u64::from(length).saturating_sub((4 + token + at) as u64)
    });
    Some(Shares { messaging: u64::from(length) - payload, payload })
}

/// The offset of the payload after the options; None without payload, or if the options contradict the
/// format (section 3.1).
fn payload(options: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let head = *options.get(at)?;
        at += 1;
        if head == 0xff {
            return Some(at);
        }
        let (delta, length) = (head >> 4, usize::from(head & 15));
        // Reserved: what follows is no option, so it is not known where the payload begins.
        if delta == RESERVED || head & 15 == RESERVED {
            return None;
        }
        // The extension bytes of the delta precede those of the length (section 3.1).
        at += extra(delta);
        let extended = options.get(at..at + extra(head & 15))?;
        at += extended.len();
        at += match extended {
            [] => length,
            [one] => 13 + usize::from(*one),
            [a, b, ..] => 269 + usize::from(u16::from_be_bytes([*a, *b])),
        };
    }
}

/// The value of a nibble that only the payload marker has.
const RESERVED: u8 = 15;

/// The number of extension bytes of a four-bit value.
fn extra(nibble: u8) -> usize {
    match nibble {
        13 => 1,
        14 => 2,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The payload of a message with these options, of which each has its bytes as in RFC 7252,
    /// section 3.1.
    fn payload_of(options: &[u8]) -> Option<u64> {
        let message = [b"\x40\x02\0\x01", options].concat();
        let shares = take(&message, message.len() as u32, &mut Messages::default())?;
        assert_eq!(shares.messaging + shares.payload, message.len() as u64);
        Some(shares.payload)
    }

    #[test]
    fn options_of_all_lengths_precede_the_payload() {
        let of = |head: &[u8], value: usize| [head, &vec![0xff; value], b"\xffpay"].concat();
        for (option, value) in [
            (&[0xb0][..], 0),
            (&[0xbc], 12),
            // A length of 13 to 268 has one more byte, a longer one two.
            (&[0xbd, 0], 13),
            (&[0xbd, 255], 268),
            (&[0xbe, 0, 0], 269),
            (&[0xbe, 1, 0], 525),
            // The bytes of the delta precede those of the length.
            (&[0xd1, 0xff], 1),
            (&[0xe2, 0xff, 0xff], 2),
            (&[0xdd, 7, 1], 14),
            (&[0xee, 7, 7, 0, 2], 271),
            (&[0xde, 7, 0, 1], 270),
            (&[0xed, 7, 7, 3], 16),
        ] {
            assert_eq!(payload_of(&of(option, value)), Some(3), "{option:x?}");
            // Without the payload there is none, although values have the byte of the marker.
            let whole = of(option, value);
            assert_eq!(payload_of(&whole[..whole.len() - 4]), Some(0), "{option:x?}");
            for cut in 0..whole.len() {
                assert!(
                    payload_of(&whole[..cut]).is_some_and(|bytes| bytes < 3),
                    "{option:x?} {cut}"
                );
            }
        }
    }

    #[test]
    fn reserved_options_have_no_payload_behind_them() {
        for options in [b"\xf1x\xffpay", b"\x1fx\xffpay", b"\xf0x\xffpay"] {
            assert_eq!(payload_of(options), Some(0), "{options:x?}");
        }
    }

    #[test]
    fn a_message_and_what_is_none() {
        let mut messages = Messages::default();
        // A confirmable GET with a two-byte token, one option, and a payload.
        let message = b"\x42\x01\x12\x34ab\xb3abc\xffpay";
        let shares = take(message, message.len() as u32, &mut messages);
        assert_eq!(shares, Some(Shares { messaging: 11, payload: 3 }));
        assert_eq!(take(b"\x40\x00\x12\x34", 4, &mut messages).unwrap().payload, 0);
        assert_eq!(take(b"\x4f\x00\x12\x34", 4, &mut messages), None);
        assert_eq!(take(b"\x40\x00", 2, &mut messages), None);
        assert_eq!((messages.coap_types[0], messages.coap_codes[1]), (2, 1));
    }
}
