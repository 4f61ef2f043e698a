//! Ethernet addresses.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An Ethernet address, written `02:00:0a:00:00:01`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl From<IpAddr> for Mac {
    /// Makes a locally administered address. It ends with the IPv4 address, or with a number of
    /// the IPv6 network and the last three bytes of the address.
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => {
                let [a, b, c, d] = address.octets();
                // Bit 1 of the first byte marks a locally administered address (IEEE 802).
                Self([2, 0, a, b, c, d])
            }
            IpAddr::V6(address) => {
                let address = u128::from(address);
                // Different networks of a router have different link addresses.
                let network = address >> 24;
                let number = units::mix(network as u64 ^ (network >> 64) as u64);
                let [_, c, d, e] = (address as u32).to_be_bytes();
                // Bit 7 keeps the addresses apart from those made of IPv4 addresses.
                Self([2, number as u8 | 0x80, (number >> 8) as u8, c, d, e])
            }
        }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let byte = |digits: &str| {
            // The parser of numbers would also accept a sign.
            let fits = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            fits.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
        };
        let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| format!("`{text}` is not an Ethernet address"))
    }
}

impl Serialize for Mac {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Mac {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ethernet_address_ends_with_the_ip_address() {
        let mac = Mac::from(IpAddr::from([10, 0, 1, 44]));
        assert_eq!(mac.to_string(), "02:00:0a:00:01:2c");
        assert_eq!("02:00:0a:00:01:2c".parse(), Ok(mac));
        let of = |text: &str| Mac::from(text.parse::<IpAddr>().unwrap());
        let six = of("fd00::9:a00:12c");
        assert_eq!((six.0[0], &six.0[3..]), (2, &[0, 1, 0x2c][..]));
        assert!(six != of("fd00:1::9:a00:12c") && six != of("fd00::9:a00:12d"));
        assert!("02:00:0a:00:01".parse::<Mac>().is_err());
    }

    #[test]
    fn each_byte_has_two_hexadecimal_digits() {
        for text in [
            "2:0:a:0:1:2c",
            "02:00:0a:00:01:c",
            "02:00:0a:00:01:02c",
            "02:00:0a:00:01:+c",
            "02:00:0a:00:01:-c",
            "02:00:0a:00:01:",
            "02:00:0a:00:01:2c:00",
            "02:00:0a:00:01: c",
            "02-00-0a-00-01-2c",
            "02:00:0a:00:01:\u{e9}",
            "",
        ] {
            assert!(text.parse::<Mac>().is_err(), "{text}");
        }
        assert_eq!("FE:ff:0A:00:01:2c".parse(), Ok(Mac([0xfe, 0xff, 10, 0, 1, 0x2c])));
    }
}
