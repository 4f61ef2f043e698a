//! Messages of the hub: to all members of an epoch, or to chosen ones.

use super::{CHOSEN, DATA, members, take, widen_epoch, widen_number};
use crate::keys::{Party, Root, Scope, Use};
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
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
    let keys = group.recent(Scope::new(Use::Message, epoch, Party::Hub));
    let mut sealed = vec![if chosen.is_some() { CHOSEN } else { DATA }];
    sealed.extend_from_slice(&(epoch as u16).to_be_bytes());
    sealed.extend_from_slice(&(number as u32).to_be_bytes());
    match chosen {
        None => sealed.extend(keys.seal(number, bytes)),
        Some(members) => {
            let content = [&members::encode(members)[..], bytes].concat();
            sealed.extend(keys.seal(for_chosen(number), &content));
        }
    }
    sealed
}

/// The seal number of a message to chosen members; it differs from that of the message to all, whose
/// content would be read in another way.
fn for_chosen(number: MessageId) -> u64 {
    1 << 63 | number
}

/// The content of a message from the hub after its kind, and whether it is for chosen members.
fn data(bytes: &[u8]) -> Option<(bool, &[u8])> {
    match bytes.split_first()? {
        (&DATA, rest) => Some((false, rest)),
        (&CHOSEN, rest) => Some((true, rest)),
        _ => None,
    }
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
    bytes: &[u8],
) -> Option<Data> {
    let (is_chosen, rest) = data(bytes)?;
    let mut rest = rest.strip_prefix(&(epoch as u16).to_be_bytes())?;
    let number = widen_number(u32::from_be_bytes(take(&mut rest)?), near);
    let keys = group.recent(Scope::new(Use::Message, epoch, Party::Hub));
    if !is_chosen {
        return Some(Data { number, bytes: Some(keys.open(number, rest)?) });
    }
    let content = keys.open(for_chosen(number), rest)?;
    let mut rest = &content[..];
    let is_mine = members::take_contains(&mut rest, member)?;
    Some(Data { number, bytes: is_mine.then(|| rest.to_vec()) })
}
