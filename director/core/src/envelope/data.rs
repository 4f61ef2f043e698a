//! Messages of the hub: to all members of an epoch, or to chosen ones.

use super::{CHOSEN, DATA, STORED, TOPIC, low, members, take, widen_epoch, widen_number};
use crate::keys::{Party, Root, Scope, Use};
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::store::StoredNumber;
use crate::switch::{MemberId, MessageId};

/// Overhead of a hub's envelope with keys, in bytes.
pub const DATA_OVERHEAD: usize = 7 + crate::keys::SEAL;

/// A message from the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    /// Its number.
    pub number: MessageId,
    /// The message; `None` if it is for other members.
    pub bytes: Option<Vec<u8>>,
    /// Its topic, if it has one.
    pub topic: Option<String>,
    /// Its number in the hub's storage, if it is there.
    pub stored: Option<StoredNumber>,
}

/// Seals a message from the hub for an epoch; `chosen` are its receivers, if not all that get the
/// envelope. All members have the key: it says who hands the message to the application, and does not
/// keep it secret.
pub fn seal_data(
    group: &Root,
    epoch: u32,
    number: MessageId,
    chosen: Option<&[MemberId]>,
    bytes: &[u8],
) -> Vec<u8> {
    match chosen {
        None => seal(DATA, group, epoch, number, &[bytes]),
        Some(members) => seal(CHOSEN, group, epoch, number, &[&members::encode(members), bytes]),
    }
}

/// Seals a message of a topic for the members that have subscribed to it.
pub fn seal_topic(
    group: &Root,
    epoch: u32,
    number: MessageId,
    members: &[MemberId],
    topic: &str,
    bytes: &[u8],
) -> Vec<u8> {
    let length = (topic.len() as u16).to_be_bytes();
    let content = [&members::encode(members)[..], &length, topic.as_bytes(), bytes];
    seal(TOPIC, group, epoch, number, &content)
}

/// Seals a message of the hub's storage for some members.
pub fn seal_stored(
    group: &Root,
    epoch: u32,
    number: MessageId,
    members: &[MemberId],
    stored: StoredNumber,
    bytes: &[u8],
) -> Vec<u8> {
    let (id, back) = (stored.id.to_be_bytes(), stored.back.to_be_bytes());
    let content = [&members::encode(members)[..], &id, &back, bytes];
    seal(STORED, group, epoch, number, &content)
}

fn seal(kind: u8, group: &Root, epoch: u32, number: MessageId, content: &[&[u8]]) -> Vec<u8> {
    let keys = group.recent(Scope::new(Use::Message, epoch, Party::Hub));
    let (([a, b], [c, d, e, f]), sealed) = (low(epoch, number), seal_number(kind, number));
    keys.seal_after(&[kind, a, b, c, d, e, f], sealed, content)
}

/// The seal number of a message. It differs by kind: the content of another kind would be read in
/// another way.
fn seal_number(kind: u8, number: MessageId) -> u64 {
    match kind {
        CHOSEN => 1 << 63 | number,
        TOPIC => 3 << 62 | number,
        STORED => 1 << 62 | number,
        _ => number,
    }
}

/// The kind of a message from the hub, and what follows it.
fn data(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    matches!(*kind, DATA | CHOSEN | TOPIC | STORED).then_some((*kind, rest))
}

fn take_stored(rest: &mut &[u8]) -> Option<StoredNumber> {
    let (id, back) = (u64::from_be_bytes(take(rest)?), u16::from_be_bytes(take(rest)?));
    Some(StoredNumber { id, back })
}

fn take_topic(rest: &mut &[u8]) -> Option<String> {
    let length = u16::from_be_bytes(take(rest)?);
    let (topic, after) = rest.split_at_checked(length.into())?;
    *rest = after;
    Some(core::str::from_utf8(topic).ok()?.to_owned())
}

/// The epoch of a message from the hub, near a known one. Its sender can be anyone.
pub fn epoch_of_data(bytes: &[u8], near: u32) -> Option<u32> {
    let (_, rest) = data(bytes)?;
    Some(widen_epoch(u16::from_be_bytes(*rest.first_chunk()?), near))
}

/// Opens a message of the hub in this epoch at a member; `near` restores the full number.
pub fn open_data(
    group: &Root,
    epoch: u32,
    near: MessageId,
    member: u16,
    bytes: Vec<u8>,
) -> Option<Data> {
    let (kind, rest) = data(&bytes)?;
    let mut rest = rest.strip_prefix(&(epoch as u16).to_be_bytes())?;
    let number = widen_number(u32::from_be_bytes(take(&mut rest)?), near);
    let keys = group.recent(Scope::new(Use::Message, epoch, Party::Hub));
    let head = bytes.len() - rest.len();
    let content = keys.open_after(head, seal_number(kind, number), bytes)?;
    if kind == DATA {
        return Some(Data { number, bytes: Some(content), topic: None, stored: None });
    }
    let mut rest = &content[..];
    let is_mine = members::take_contains(&mut rest, member)?;
    let topic = if kind == TOPIC { Some(take_topic(&mut rest)?) } else { None };
    let stored = if kind == STORED { Some(take_stored(&mut rest)?) } else { None };
    Some(Data { number, bytes: is_mine.then(|| rest.to_vec()), topic, stored })
}
