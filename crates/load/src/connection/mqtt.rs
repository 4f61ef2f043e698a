//! MQTT 3.1.1 packets between a publish-only client and a broker.

use crate::template::push_length;

/// A packet from the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// The broker accepted the connection.
    Accepted,
    /// The broker refused the connection, with this return code.
    Refused(u8),
    /// The broker acknowledged the message with this packet identifier.
    Acknowledged(u16),
    /// No packet that a broker sends to such a client.
    Malformed,
}

/// CONNECT with a clean session and no keep alive (MQTT 3.1.1, section 3.1).
pub(crate) fn connect(client: &str) -> Vec<u8> {
    let mut rest = b"\0\x04MQTT\x04\x02\0\0".to_vec();
    rest.extend((client.len() as u16).to_be_bytes());
    rest.extend(client.as_bytes());
    let mut bytes = vec![0x10];
    push_length(&mut bytes, rest.len());
    bytes.extend(rest);
    bytes
}

/// Parses CONNACK and PUBACK (MQTT 3.1.1, sections 3.2 and 3.4), four bytes each. None if
/// there are too few bytes.
pub(crate) fn parse(bytes: &[u8]) -> Option<Found> {
    // The first byte is enough to reject another packet.
    if !matches!(bytes.first()?, 0x20 | 0x40) {
        return Some(Found::Malformed);
    }
    let packet: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
    Some(match packet {
        [0x20, 2, _, 0] => Found::Accepted,
        [0x20, 2, _, code] => Found::Refused(code),
        [0x40, 2, high, low] => Found::Acknowledged(u16::from_be_bytes([high, low])),
        _ => Found::Malformed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_told_from_garbage_and_from_halves() {
        assert_eq!(parse(b"\x20\x02\0\0\x40"), Some(Found::Accepted));
        assert_eq!(parse(b"\x20\x02\0\x05"), Some(Found::Refused(5)));
        assert_eq!(parse(b"\x40\x02\x01\x02"), Some(Found::Acknowledged(258)));
        assert_eq!(parse(b"\x40\x02\x01"), None);
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"H"), Some(Found::Malformed));
        assert_eq!(parse(b"\x20\x03\0\0"), Some(Found::Malformed));
    }

    #[test]
    fn a_client_presents_itself() {
        let bytes = connect("me");
        assert_eq!(bytes, b"\x10\x0e\0\x04MQTT\x04\x02\0\0\0\x02me");
    }
}
