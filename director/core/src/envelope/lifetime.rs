//! The lifetime of a message in two bytes: a member stops sending an answer that the hub no longer waits for.

use crate::Span;

/// Bytes of a lifetime.
pub const LENGTH: usize = 2;

/// Bits of the mantissa, which are the lowest ones; the exponent of two is above them.
const MANTISSA: u32 = 11;

/// A lifetime in ms as `mantissa << exponent`, not shorter than it is by more than rounding; 0 without one.
pub fn encode(lifetime: Option<Span>) -> [u8; LENGTH] {
    let Some(lifetime) = lifetime else { return [0; 2] };
    let mut ms = lifetime.as_ns().div_ceil(1_000_000).max(1);
    let mut exponent = 0_u16;
    while ms >> MANTISSA > 0 {
        ms = ms.div_ceil(2);
        exponent += 1;
    }
    // 2^64 ns have 45 bits in ms, so the exponent has 34 at most, and 31 have a span of 139 years.
    match exponent {
        ..32 => (exponent << MANTISSA | ms as u16).to_be_bytes(),
        _ => [0; 2],
    }
}

/// The lifetime that `encode` has written.
pub fn decode(bytes: [u8; LENGTH]) -> Option<Span> {
    let both = u16::from_be_bytes(bytes);
    let (ms, exponent) = (u64::from(both & ((1 << MANTISSA) - 1)), both >> MANTISSA);
    let ns = (ms << exponent).saturating_mul(1_000_000);
    (ms > 0).then(|| Span::from_ns(ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_message_may_have_none() {
        assert_eq!((encode(None), decode([0; 2])), ([0; 2], None));
        assert_eq!(decode(encode(Some(Span::from_s(60)))), Some(Span::from_s(60)));
        assert_eq!(decode(encode(Some(Span::ZERO))), Some(Span::from_ms(1)));
    }

    proptest! {
        #[test]
        fn a_lifetime_is_never_shortened_and_hardly_lengthened(ns: u64, bytes: [u8; 2]) {
            let lifetime = Span::from_ns(ns);
            if let Some(read) = decode(encode(Some(lifetime))) {
                prop_assert!(read >= lifetime);
                prop_assert!(read.as_ns() - ns <= 1_000_000 + ns / 512);
            }
            let _ = decode(bytes);
        }
    }
}
