//! Payloads: seeded bytes of any length, that both sides know.

/// Where the bytes come from: all payloads of a workload are the beginnings of one
/// stream, so that nothing is drawn while it is measured.
#[derive(Debug, Clone)]
pub struct Body(Vec<u8>);

/// Bytes of the exchange's number at the beginning of a payload that has room for it.
pub const NUMBER: usize = 8;
/// In its place in a payload that was made without one.
const NONE: [u8; NUMBER] = [0xff; NUMBER];

impl Body {
    /// The payloads of `seed`, of `longest` bytes at most.
    pub fn new(seed: u64, longest: usize) -> Self {
        Self(units::words(seed).flat_map(u64::to_le_bytes).take(longest).collect())
    }

    /// A payload of `size` bytes, with `number` in its first eight if it is known and
    /// there are as many. Longer ones than the longest are as long as that.
    pub fn message(&self, number: Option<u64>, size: usize) -> Vec<u8> {
        let mut message = self.0[..size.min(self.0.len())].to_vec();
        if let Some(place) = message.first_chunk_mut::<NUMBER>() {
            *place = number.map_or(NONE, u64::to_be_bytes);
        }
        message
    }

    /// The number in a payload of ours, if it has one; nothing if it is none of ours.
    pub fn number(&self, message: &[u8]) -> Option<Option<u64>> {
        let own = self.0.get(..message.len())?;
        let Some((number, rest)) = message.split_first_chunk::<NUMBER>() else {
            return (own == message).then_some(None);
        };
        let known = (*number != NONE).then(|| u64::from_be_bytes(*number));
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
