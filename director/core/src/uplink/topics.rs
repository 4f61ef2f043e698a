//! What members' messages about topics contain.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::topic::{MAX_FILTERS, check_filter, check_topic};

/// All subscriptions of a member.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subscriptions {
    /// Counts the changes in a start of the member.
    pub version: u32,
    /// The filters.
    pub filters: Vec<String>,
}

impl Subscriptions {
    /// Version (4), then each filter with its length (2).
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.version.to_be_bytes().to_vec();
        self.filters.iter().for_each(|filter| write(&mut bytes, filter));
        bytes
    }

    /// `None` if there are too many, or one is not valid.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (version, mut rest) = bytes.split_first_chunk()?;
        let mut filters = Vec::new();
        while !rest.is_empty() {
            let filter = take(&mut rest)?;
            check_filter(filter).ok().filter(|()| filters.len() < MAX_FILTERS)?;
            filters.push(filter.to_owned());
        }
        Some(Self { version: u32::from_be_bytes(*version), filters })
    }
}

/// A message of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    /// The topic.
    pub topic: String,
    /// The message.
    pub bytes: Vec<u8>,
}

impl Publication {
    /// The topic with its length (2), then the message.
    pub fn encode(topic: &str, bytes: &[u8]) -> Vec<u8> {
        let mut all = Vec::with_capacity(2 + topic.len() + bytes.len());
        write(&mut all, topic);
        all.extend_from_slice(bytes);
        all
    }

    /// `None` if the topic is not valid.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let topic = take(&mut rest)?;
        check_topic(topic).ok()?;
        Some(Self { topic: topic.to_owned(), bytes: rest.to_vec() })
    }
}

/// Appends a text with its length; sessions have none longer than `MAX_LENGTH`.
fn write(to: &mut Vec<u8>, text: &str) {
    to.extend((text.len() as u16).to_be_bytes());
    to.extend(text.as_bytes());
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let (length, after) = rest.split_first_chunk()?;
    let (text, after) = after.split_at_checked(u16::from_be_bytes(*length).into())?;
    *rest = after;
    core::str::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_read_and_limits_hold() {
        let filters = vec!["a/+".to_owned(), "b/#".to_owned()];
        let own = Subscriptions { version: 7, filters };
        assert_eq!(Subscriptions::decode(&own.encode()), Some(own));
        let list = |filter: &str, count| {
            let own = Subscriptions { version: 1, filters: vec![filter.to_owned(); count] };
            Subscriptions::decode(&own.encode()).is_some()
        };
        assert!(list("a", 64) && !list("a", 65));
        assert!(list(&"a".repeat(256), 1) && !list(&"a".repeat(257), 1));
        assert!(!list("a/#/b", 1) && !list("", 1));
        let sent = Publication::decode(&Publication::encode("a/b", b"7")).unwrap();
        assert_eq!((&sent.topic[..], &sent.bytes[..]), ("a/b", &b"7"[..]));
        assert_eq!(Publication::decode(&Publication::encode("a/+", b"7")), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = (Subscriptions::decode(&bytes), Publication::decode(&bytes));
        }
    }
}
