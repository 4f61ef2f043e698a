//! Payloads with a message number.

use crate::error::Error;
use std::path::Path;

/// Placeholder of the message number in a payload file.
pub const MARKER: &[u8] = b"##########";

/// A payload with a placeholder for the message number; all messages have the same length.
#[derive(Debug)]
pub struct Template {
    bytes: Vec<u8>,
    place: usize,
}

impl Template {
    /// Reads a payload file. Without a placeholder, a ten-digit suffix is added.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let error = |why: String| Error::Payload { path: path.into(), why };
        let bytes = input::read(path, input::MAX_TEXT).map_err(|source| {
            error(format!("{source}; payload and reply_payload must name readable files"))
        })?;
        Self::new(bytes).map_err(error)
    }

    fn new(mut bytes: Vec<u8>) -> Result<Self, String> {
        let mut places = bytes.windows(MARKER.len()).enumerate().filter(|(_, w)| *w == MARKER);
        let first = places.next().map(|(place, _)| place);
        if places.next().is_some() {
            return Err(
                "it has two places for the message number; keep exactly one run of exactly \
                        ten #"
                    .into(),
            );
        }
        let place = first.unwrap_or_else(|| {
            bytes.extend_from_slice(MARKER);
            bytes.len() - MARKER.len()
        });
        Ok(Self { bytes, place })
    }

    /// The payload with `number` filled in.
    pub fn numbered(&mut self, number: u64) -> &[u8] {
        let mut rest = number;
        for digit in self.bytes[self.place..self.place + MARKER.len()].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        &self.bytes
    }

    /// The number in `message`, if it matches this template.
    pub fn number(&self, message: &[u8]) -> Option<u64> {
        if message.len() != self.bytes.len() {
            return None;
        }
        let end = self.place + MARKER.len();
        // The length alone would take messages of others for this workload's.
        if message[..self.place] != self.bytes[..self.place] || message[end..] != self.bytes[end..]
        {
            return None;
        }
        message[self.place..end].iter().try_fold(0, |number, digit| {
            digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0'))
        })
    }

    /// Message length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn puts_the_number_in_its_place_and_finds_it() {
        let mut template = Template::new(b"<id>##########</id>".to_vec()).unwrap();
        assert_eq!(template.numbered(42), b"<id>0000000042</id>");
        assert_eq!(template.numbered(record::spec::MAX_MESSAGE), b"<id>9999999999</id>");
        assert_eq!(template.number(b"<id>0000000599</id>"), Some(599));
        assert_eq!(template.number(b"<id>00000x0599</id>"), None);
        assert_eq!(template.number(b"<id>0000000599</id> "), None);
        assert_eq!(template.number(b"<no>0000000599</no>"), None);
        assert_eq!(template.number(b"<id>0000000599</no>"), None);
    }

    #[test]
    fn appends_the_number_without_a_marker() {
        let mut template = Template::new(b"hello ".to_vec()).unwrap();
        assert_eq!(template.numbered(7), b"hello 0000000007");
        assert_eq!((template.bytes(), template.number(b"hello 0000000007")), (16, Some(7)));
    }

    #[test]
    fn refuses_two_places() {
        assert!(Template::new(b"########## ##########".to_vec()).is_err());
        assert!(Template::new(b"###########".to_vec()).is_err());
    }

    #[test]
    fn names_a_missing_file() {
        let error = Template::load(Path::new("/nowhere/price.xml")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/price.xml") && error.contains("No such file"), "{error}");
    }

    #[test]
    fn the_event_state_payload_is_as_large_as_the_paper_says() {
        let path =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/payloads/event-state.xml");
        let template = Template::load(Path::new(path)).unwrap();
        assert_eq!(template.bytes(), 1699);
        // Without a placeholder, the template would have grown by a suffix.
        assert!(template.place < 1689);
    }
    use proptest::prelude::*;

    proptest! {
        /// A number is found again, and in no message of another length.
        #[test]
        fn each_number_is_found_again(
            before in prop::collection::vec(any::<u8>(), 0..20),
            after in prop::collection::vec(prop::sample::select(&b"a<0\xff"[..]), 0..20),
            numbers in prop::collection::vec(0..=record::spec::MAX_MESSAGE, 1..5),
        ) {
            prop_assume!(before.last() != Some(&b'#') && !before.windows(10).any(|w| w == MARKER));
            let text = [&before[..], MARKER, &after].concat();
            let mut template = Template::new(text).unwrap();
            for number in numbers {
                let message = template.numbered(number).to_vec();
                prop_assert_eq!(template.number(&message), Some(number));
                prop_assert!(message.starts_with(&before) && message.ends_with(&after));
                prop_assert_eq!(template.number(&message[1..]), None);
            }
        }
    }
}
