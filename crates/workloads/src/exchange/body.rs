//! Payloads: seeded pseudo-random bytes that both sides can generate.

/// Payload generator. All payloads of a workload are prefixes of one stream, so that none are
/// generated during a measurement.
#[derive(Debug, Clone)]
pub struct Body(Vec<u8>);

/// Bytes of the exchange number at the start of a payload, if it is long enough.
pub const NUMBER: usize = 8;
/// Placeholder in a payload without a number.
const NO_NUMBER: [u8; NUMBER] = [0xff; NUMBER];

impl Body {
    /// Generator for `seed`, with payloads up to `longest` bytes.
    pub fn new(seed: u64, longest: usize) -> Self {
        Self(units::words(seed).flat_map(u64::to_le_bytes).take(longest).collect())
    }

    /// A payload of `size` bytes, limited to `longest`. Its first eight bytes are `number` if it
    /// is known and the payload is long enough.
    pub fn message(&self, number: Option<u64>, size: usize) -> Vec<u8> {
        let mut message = self.0[..size.min(self.0.len())].to_vec();
        if let Some(place) = message.first_chunk_mut::<NUMBER>() {
            *place = number.map_or(NO_NUMBER, u64::to_be_bytes);
        }
        message
    }

    /// The exchange number in a payload of this workload, if it has one; none for a foreign
    /// payload.
    pub fn number(&self, message: &[u8]) -> Option<Option<u64>> {
        let own = self.0.get(..message.len())?;
        // Too short for a number: all bytes are of the stream.
        let Some((number, rest)) = message.split_first_chunk::<NUMBER>() else {
            return (own == message).then_some(None);
        };
        let known = (*number != NO_NUMBER).then(|| u64::from_be_bytes(*number));
        (own[NUMBER..] == *rest).then_some(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_known_again_with_its_number() {
        let body = Body::new(7, 100);
        for (number, size, found) in [
            (Some(5), 100, Some(5)),
            (None, 100, None),
            (Some(5), 8, Some(5)),
            (Some(5), 7, None),
            (Some(5), 0, None),
        ] {
            let message = body.message(number, size);
            assert_eq!(message.len(), size);
            assert_eq!(body.number(&message), Some(found), "{number:?} in {size}");
        }
    }

    #[test]
    fn what_was_changed_or_is_of_another_seed_is_none() {
        let (body, other) = (Body::new(7, 100), Body::new(8, 100));
        let mut message = body.message(Some(1), 100);
        assert_eq!(other.number(&message), None);
        message[99] ^= 1;
        assert_eq!(body.number(&message), None);
        assert_eq!(body.number(&[0; 101]), None);
        assert_eq!(body.number(&[1, 2, 3]), None);
    }
}
