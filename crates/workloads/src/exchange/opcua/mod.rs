//! OPC UA: the sink is a client and reads from the source, a server, UA Binary over
//! UA TCP by open62541. One Read of a few variables holds a payload, shared out among
//! them; each size has variables of its own, so that a request says nothing of it.

mod client;
mod driver;
mod events;
mod server;
mod status;

pub(super) use driver::driver;
pub(super) use server::server;

use crate::error::Error;
use serde::Deserialize;

/// The namespace of the variables: the first of a server's own.
const NAMESPACE: u16 = 1;
/// How long channels and sessions are asked to last, in ms: a day, so that none is
/// renewed among exchanges.
const LIFETIME_MS: u32 = 24 * 60 * 60 * 1000;

/// Which times a server sends with each value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Timestamps {
    /// When the value came to be.
    #[default]
    Source,
    /// When the server knew of it.
    Server,
    /// Both.
    Both,
    /// None.
    Neither,
}

/// What can be chosen.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Options {
    /// How many variables hold a payload together.
    variables: u32,
    /// Which times come with each.
    timestamps: Timestamps,
}

impl Default for Options {
    fn default() -> Self {
        Self { variables: 1, timestamps: Timestamps::default() }
    }
}

/// Variables of one Read: from 1 to this many.
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

/// The variable's number in the namespace: `part` from 0 of a payload of the size in
/// this place among all of them. Sizes beyond the first six thousand have numbers
/// that take three bytes more in a request.
fn identifier(place: usize, variables: u32, part: u32) -> u32 {
    place as u32 * variables + part + 1
}

/// The bytes of a payload that `part` holds: as near to equal as they can be, the
/// first ones the longer.
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
