//! OPC UA with open62541, UA Binary over UA TCP: the sink is a client and reads from the source, a
//! server. One Read of a few variables transfers a payload, divided among them. Each size has
//! separate variables, so the request does not carry the size.

mod client;
mod driver;
mod events;
mod server;
mod status;

pub(super) use driver::driver;
pub(super) use server::server;

use crate::error::Error;
use serde::Deserialize;

/// Namespace of the variables: the first one of the server.
const NAMESPACE: u16 = 1;
/// Requested lifetime of channels and sessions, in ms: a day, so that none is renewed during
/// exchanges.
const LIFETIME_MS: u32 = 24 * 60 * 60 * 1000;

/// Timestamps that the server sends with each value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Timestamps {
    /// Source timestamp.
    #[default]
    Source,
    /// Server timestamp.
    Server,
    /// Both timestamps.
    Both,
    /// No timestamps.
    Neither,
}

/// OPC UA options of the spec.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Options {
    /// Number of variables per payload.
    variables: u32,
    /// Timestamps with each value.
    timestamps: Timestamps,
}

impl Default for Options {
    fn default() -> Self {
        Self { variables: 1, timestamps: Timestamps::default() }
    }
}

/// Maximum number of variables per Read.
const MOST_VARIABLES: u32 = 10;

impl Options {
    fn checked(self) -> Result<Self, Error> {
        match self.variables {
            1..=MOST_VARIABLES => Ok(self),
            n => Err(Error::protocol(
                "use the options of opcua",
                format!("variables is {n}; it must be from 1 to {MOST_VARIABLES}"),
            )),
        }
    }
}

/// Node identifier of a variable: part `part`, from 0, of the payload with the size at index
/// `place`. Identifiers after the first six thousand sizes take three more bytes in a request.
fn identifier(place: usize, variables: u32, part: u32) -> u32 {
    place as u32 * variables + part + 1
}

/// Byte range of `part` in a payload: equal shares, the first ones a byte longer if needed.
fn share(size: usize, variables: u32, part: u32) -> std::ops::Range<usize> {
    let (count, part) = (variables as usize, part as usize);
    let (each, more) = (size / count, size % count);
    let begin = part * each + part.min(more);
    begin..begin + each + usize::from(part < more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_hold_the_whole() {
        for (size, variables) in [(0, 1), (0, 10), (7, 10), (2500, 1), (2503, 10)] {
            let mut end = 0;
            let shares: Vec<_> = (0..variables).map(|part| share(size, variables, part)).collect();
            for share in &shares {
                assert_eq!(share.start, end, "{size} in {variables}");
                end = share.end;
            }
            assert_eq!(end, size);
            let lengths: Vec<_> = shares.iter().map(ExactSizeIterator::len).collect();
            assert!(lengths.iter().max().unwrap() - lengths.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn no_two_variables_have_one_number() {
        let mut all: Vec<u32> = (0..50)
            .flat_map(|place| (0..10).map(move |part| identifier(place, 10, part)))
            .collect();
        all.dedup();
        assert_eq!((all.len(), all[0], all[499]), (500, 1, 500));
    }

    #[test]
    fn refuses_more_variables_than_a_read_holds() {
        let of = |variables| Options { variables, ..Options::default() }.checked();
        assert!(of(10).is_ok());
        for variables in [0, 11] {
            assert!(of(variables).unwrap_err().to_string().contains("from 1 to 10"));
        }
    }
}
