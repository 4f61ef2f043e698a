//! Addresses of packets.

use std::fmt;
use std::net::Ipv6Addr;

/// An IPv6 address, or an IPv4 address in mapped form (RFC 4291, section 2.5.5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Address {
    /// The address; without its prefix, if that is not known.
    bits: u128,
    /// The number of the 6LoWPAN context whose prefix is not known (RFC 6282, section 3.1.2).
    unknown: Option<u8>,
}

impl Address {
    /// The address with these last bits, behind the unknown prefix of the context `number`.
    pub fn of_unknown_context(number: u8, bits: u128) -> Self {
        Self { bits, unknown: Some(number) }
    }

    /// The number of the context whose prefix is not known.
    pub fn unknown_context(self) -> Option<u8> {
        self.unknown
    }

    /// Its last 64 bits, from which a header in the packet may derive an address.
    pub fn identifier(self) -> u64 {
        self.bits as u64
    }

    /// The address with a port: `10.0.0.1:80`, `[fd00::1]:80`, `[context 3::1]:80`.
    pub fn with_port(self, port: u16) -> String {
        let text = self.to_string();
        if text.contains(':') { format!("[{text}]:{port}") } else { format!("{text}:{port}") }
    }
}

impl From<u128> for Address {
    fn from(bits: u128) -> Self {
        Self { bits, unknown: None }
    }
}

/// `10.0.0.1`, `fd00::1`; with an unknown prefix `context 3::1`, and `ff33:context 3::1` for a group.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Ipv6Addr::from(self.bits);
        match self.unknown {
            None => address.to_canonical().fmt(f),
            Some(number) => {
                let [first, _, _, _, a, b, c, d] = address.segments();
                if address.is_multicast() {
                    write!(f, "{first:x}:")?;
                }
                // It begins with `::`, which takes the place of the unknown bits.
                let identifier = Ipv6Addr::new(0, 0, 0, 0, a, b, c, d);
                write!(f, "context {number}{identifier}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_say_what_is_not_known_of_them() {
        let of = |text: &str| Address::from(u128::from(text.parse::<Ipv6Addr>().unwrap()));
        assert_eq!(of("::ffff:10.0.0.1").with_port(80), "10.0.0.1:80");
        assert_eq!(of("fd00::1").with_port(80), "[fd00::1]:80");
        let unknown = |bits| Address::of_unknown_context(3, bits);
        assert_eq!(unknown(1).with_port(80), "[context 3::1]:80");
        assert_eq!(unknown(0xff_fe00_0007).to_string(), "context 3::ff:fe00:7");
        assert_eq!(unknown(0x280_11ff_fe00_0001).to_string(), "context 3::280:11ff:fe00:1");
        assert_eq!(unknown(0xff33 << 112 | 1).to_string(), "ff33:context 3::1");
        assert_ne!(unknown(1), of("::1"));
    }
}
