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

/// Namespace of the variables: the first one of the server.
const NAMESPACE: u16 = 1;
/// Requested lifetime of channels and sessions, in ms: a day, so that none is renewed during
/// exchanges.
const LIFETIME_MS: u32 = 24 * 60 * 60 * 1000;

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
}
