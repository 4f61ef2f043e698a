//! The wire format of messages: sealed data, answers, acknowledgements and control messages.
//! The high nibble of the first byte is 2, the low nibble the kind, so the first byte
//! distinguishes a datagram of the plain model from those of the other models.

use crate::Nanos;
use crate::fec::widen;
use crate::keys::{Party, Root, Scope, Use};
use crate::model::{ModelId, Models};
use crate::switch::{MemberId, MessageId};
use std::net::SocketAddrV4;

const DATA: u8 = 0x21;
const ANSWER: u8 = 0x22;
const ACKNOWLEDGE: u8 = 0x23;
const ASK: u8 = 0x24;
const READY: u8 = 0x25;
const HELLO: u8 = 0x26;
const PROBE: u8 = 0x27;
const CANNOT: u8 = 0x28;

/// Whether the bytes start as an envelope of this version; the content is not checked.
pub fn is_envelope(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(DATA..=CANNOT))
}

/// A message from a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromMember {
    /// The answer to a message.
    Answer(MessageId, Vec<u8>),
    /// The acknowledgement of a message.
    Acknowledge(MessageId),
    /// The member has changed to an epoch; its available models.
    Ready(u32, Models),
    /// The member cannot change to an epoch because it lacks the model; its available models.
    Cannot(u32, Models),
}

/// The member's identity, in the header of its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sender {
    /// Its number.
    pub member: u16,
    /// Random number that the member draws at its start.
    pub incarnation: u32,
}

/// The parameters of an epoch that a hub sends to a member.
#[derive(Debug, Clone, PartialEq)]
pub struct Invitation {
    /// Session number: its start in us since 1970, so that a later session has a larger one.
    pub session: u64,
    /// The epoch.
    pub epoch: u32,
    /// The model of the epoch; `None` for a model of a later version.
    pub model: Option<ModelId>,
    /// The number of the member, and the number of members.
    pub member: (u16, u16),
    /// The multicast group.
    pub group: SocketAddrV4,
    /// Maximum datagram size, in bytes.
    pub datagram: u16,
    /// Data rate of the channel, in bit/s.
    pub rate_bit_s: f32,
    /// Frame loss, in 255ths.
    pub loss: u8,
    /// Round-trip time, in ns.
    pub round_trip: Nanos,
    /// Whether members answer messages; otherwise they acknowledge them.
    pub answered: bool,
    /// Number of the next message.
    pub next: MessageId,
}

/// Reserved: no version has a model with this number.
const NO_MODEL: u8 = u8::MAX;

fn model_number(model: Option<ModelId>) -> u8 {
    model.map_or(NO_MODEL, ModelId::wire)
}

impl Invitation {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(48);
        bytes.extend_from_slice(&self.session.to_be_bytes());
        bytes.extend_from_slice(&self.epoch.to_be_bytes());
        bytes.push(model_number(self.model));
        bytes.extend_from_slice(&self.member.0.to_be_bytes());
        bytes.extend_from_slice(&self.member.1.to_be_bytes());
        bytes.extend_from_slice(&self.group.ip().octets());
        bytes.extend_from_slice(&self.group.port().to_be_bytes());
        bytes.extend_from_slice(&self.datagram.to_be_bytes());
        bytes.extend_from_slice(&self.rate_bit_s.to_be_bytes());
        bytes.push(self.loss);
        let us = u32::try_from(self.round_trip / 1_000).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&us.to_be_bytes());
        bytes.push(self.answered.into());
        bytes.extend_from_slice(&self.next.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let invitation = Self {
            session: u64::from_be_bytes(take(&mut rest)?),
            epoch: u32::from_be_bytes(take(&mut rest)?),
            model: ModelId::from_wire(u8::from_be_bytes(take(&mut rest)?)),
            member: (u16::from_be_bytes(take(&mut rest)?), u16::from_be_bytes(take(&mut rest)?)),
            group: SocketAddrV4::new(
                take::<4>(&mut rest)?.into(),
                u16::from_be_bytes(take(&mut rest)?),
            ),
            datagram: u16::from_be_bytes(take(&mut rest)?),
            rate_bit_s: f32::from_be_bytes(take(&mut rest)?),
            loss: u8::from_be_bytes(take(&mut rest)?),
            round_trip: Nanos::from(u32::from_be_bytes(take(&mut rest)?)) * 1_000,
            answered: take::<1>(&mut rest)? != [0],
            next: u64::from_be_bytes(take(&mut rest)?),
        };
        let (member, members) = invitation.member;
        let valid = invitation.rate_bit_s.is_finite() && invitation.rate_bit_s > 0.0;
        // Later versions append fields, so trailing bytes are ignored.
        (valid && member < members).then_some(invitation)
    }

    /// Seals the invitation for holders of the key. `invites` is the root of session 0, since
    /// members do not know the session yet; `draw` is a random number.
    pub fn seal(&self, invites: &Root, draw: u64) -> Vec<u8> {
        seal_drawn(ASK, (invites, Party::Hub), draw, &self.encode())
    }

    /// Opens an invitation. `None` if it is none, or not authentic.
    pub fn open(invites: &Root, bytes: &[u8]) -> Option<Self> {
        Self::decode(&open_drawn(ASK, (invites, Party::Hub), bytes)?)
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*first)
}

/// Seals a control message outside of epochs, under a random number.
fn seal_drawn(kind: u8, (root, from): (&Root, Party), draw: u64, body: &[u8]) -> Vec<u8> {
    let keys = root.keys(Scope::new(Use::Control, 0, from));
    let mut bytes = vec![kind];
    bytes.extend_from_slice(&draw.to_be_bytes());
    bytes.extend(keys.seal(draw, body));
    bytes
}

fn open_drawn(kind: u8, (root, from): (&Root, Party), bytes: &[u8]) -> Option<Vec<u8>> {
    let (first, mut rest) = bytes.split_first()?;
    if *first != kind {
        return None;
    }
    let draw = u64::from_be_bytes(take(&mut rest)?);
    root.keys(Scope::new(Use::Control, 0, from)).open(draw, rest)
}

/// The sender of a hello, which has no member number yet; no member has this number.
const UNKNOWN_MEMBER: Party = Party::Member(u16::MAX);

/// A hello: a holder of the key asks to be invited to a session later than `known` (0 if it
/// knows none); `draw` is a random number.
pub fn seal_hello(invites: &Root, draw: u64, known: u64) -> Vec<u8> {
    seal_drawn(HELLO, (invites, UNKNOWN_MEMBER), draw, &known.to_be_bytes())
}

/// Opens a hello; returns the latest session that its sender knows.
pub fn open_hello(invites: &Root, bytes: &[u8]) -> Option<u64> {
    let known = open_drawn(HELLO, (invites, UNKNOWN_MEMBER), bytes)?;
    Some(u64::from_be_bytes(known.try_into().ok()?))
}

/// A multicast probe: asks a member whether multicast reaches it; `draw` is a random number.
pub fn seal_probe(root: &Root, draw: u64, member: u16) -> Vec<u8> {
    seal_drawn(PROBE, (root, Party::Hub), draw, &member.to_be_bytes())
}

/// Opens a probe of this session; returns the member that it is for.
pub fn open_probe(root: &Root, bytes: &[u8]) -> Option<u16> {
    let member = open_drawn(PROBE, (root, Party::Hub), bytes)?;
    Some(u16::from_be_bytes(member.try_into().ok()?))
}

/// Overhead of a hub's envelope with keys, in bytes.
pub const DATA_OVERHEAD: usize = 7 + crate::keys::SEAL;

/// Seals a message from the hub for an epoch.
pub fn seal_data(root: &Root, epoch: u32, number: MessageId, bytes: &[u8]) -> Vec<u8> {
    let keys = root.keys(Scope::new(Use::Message, epoch, Party::Hub));
    let mut sealed = vec![DATA];
    sealed.extend_from_slice(&(epoch as u16).to_be_bytes());
    sealed.extend_from_slice(&(number as u32).to_be_bytes());
    sealed.extend(keys.seal(number, bytes));
    sealed
}

/// Opens a message from the hub; `epoch` and `near` restore the full epoch and number.
pub fn open_data(
    root: &Root,
    (epoch, near): (u32, MessageId),
    bytes: &[u8],
) -> Option<(u32, MessageId, Vec<u8>)> {
    let (kind, mut rest) = bytes.split_first()?;
    if *kind != DATA {
        return None;
    }
    let epoch = widen_epoch(u16::from_be_bytes(take(&mut rest)?), epoch);
    let number = widen_number(u32::from_be_bytes(take(&mut rest)?), near);
    let keys = root.keys(Scope::new(Use::Message, epoch, Party::Hub));
    Some((epoch, number, keys.open(number, rest)?))
}

fn widen_epoch(low: u16, near: u32) -> u32 {
    u32::try_from(widen(low, near.into())).unwrap_or(near)
}

fn widen_number(low: u32, near: MessageId) -> MessageId {
    let base = near & !0xffff_ffff;
    let candidates = [base.checked_sub(1 << 32), Some(base), base.checked_add(1 << 32)];
    let numbers = candidates.into_iter().flatten().map(|base| base | u64::from(low));
    numbers.min_by_key(|number| number.abs_diff(near)).unwrap_or(near)
}

/// Seals a message from a member for an epoch.
pub fn seal_member(root: &Root, epoch: u32, sender: Sender, what: &FromMember) -> Vec<u8> {
    let models = |models: &Models| models.bits().to_be_bytes().to_vec();
    let (kind, purpose, number, body) = match what {
        FromMember::Answer(number, bytes) => (ANSWER, Use::Message, *number, bytes.clone()),
        FromMember::Acknowledge(number) => (ACKNOWLEDGE, Use::Acknowledgement, *number, Vec::new()),
        FromMember::Ready(epoch, have) => (READY, Use::Control, u64::from(*epoch), models(have)),
        FromMember::Cannot(epoch, have) => (CANNOT, Use::Control, cannot(*epoch), models(have)),
    };
    let from = Party::Member(sender.member);
    let scope = Scope { purpose, epoch, from, incarnation: sender.incarnation };
    let mut sealed = vec![kind];
    sealed.extend_from_slice(&sender.member.to_be_bytes());
    sealed.extend_from_slice(&sender.incarnation.to_be_bytes());
    sealed.extend_from_slice(&(epoch as u16).to_be_bytes());
    sealed.extend_from_slice(&(number as u32).to_be_bytes());
    sealed.extend(root.keys(scope).seal(number, &body));
    sealed
}

/// The seal number of `Cannot`; it differs from that of `Ready` for the same epoch.
fn cannot(epoch: u32) -> u64 {
    1 << 32 | u64::from(epoch)
}

/// Opens a message from a member; returns the member and the message.
pub fn open_member(
    root: &Root,
    (epoch, near): (u32, MessageId),
    bytes: &[u8],
) -> Option<(MemberId, FromMember)> {
    let (kind, mut rest) = bytes.split_first()?;
    let member = u16::from_be_bytes(take(&mut rest)?);
    let incarnation = u32::from_be_bytes(take(&mut rest)?);
    let epoch = widen_epoch(u16::from_be_bytes(take(&mut rest)?), epoch);
    let low = u32::from_be_bytes(take(&mut rest)?);
    let (purpose, number) = match *kind {
        ANSWER => (Use::Message, widen_number(low, near)),
        ACKNOWLEDGE => (Use::Acknowledgement, widen_number(low, near)),
        READY => (Use::Control, u64::from(low)),
        CANNOT => (Use::Control, cannot(low)),
        _ => return None,
    };
    let scope = Scope { purpose, epoch, from: Party::Member(member), incarnation };
    let body = root.keys(scope).open(number, rest)?;
    let what = match *kind {
        ANSWER => FromMember::Answer(number, body),
        ACKNOWLEDGE => FromMember::Acknowledge(number),
        READY => FromMember::Ready(low, models(&body)),
        _ => FromMember::Cannot(low, models(&body)),
    };
    Some((MemberId::from(member), what))
}

/// The models that a member announces; all if it announces none.
fn models(body: &[u8]) -> Models {
    let bits = body.first_chunk().map(|bits| u16::from_be_bytes(*bits));
    bits.map_or(Models::ALL, Models::from_bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn root() -> Root {
        Root::new(b"a key that both ends have", 99).unwrap()
    }

    #[test]
    fn what_is_sealed_opens_near_what_is_known_and_not_elsewhere() {
        let number = (3 << 32) + 5;
        let sealed = seal_data(&root(), 70_000, number, b"hello");
        assert_eq!(sealed.len(), 5 + DATA_OVERHEAD);
        let opened = open_data(&root(), (69_990, (3 << 32) - 7), &sealed);
        assert_eq!(opened, Some((70_000, number, b"hello".to_vec())));
        assert_eq!(open_data(&root(), (4_000, number), &sealed), None, "another epoch");
        let sender = Sender { member: 300, incarnation: 0xdead_beef };
        for what in [
            FromMember::Answer(number, b"reading".to_vec()),
            FromMember::Acknowledge(number),
            FromMember::Ready(70_001, Models::ALL),
            FromMember::Cannot(70_001, Models::from_bits(5)),
        ] {
            let mut sealed = seal_member(&root(), 70_000, sender, &what);
            assert_eq!(open_member(&root(), (70_000, number), &sealed), Some((300, what)));
            // Neither another member nor a restarted one may pass for this one.
            for at in 0..sealed.len() {
                sealed[at] ^= 1;
                assert_eq!(open_member(&root(), (70_000, number), &sealed), None, "{at}");
                sealed[at] ^= 1;
            }
        }
    }

    #[test]
    fn invitations_fit_into_the_smallest_frame_and_are_genuine() {
        let invites = Root::new(b"a key that both ends have", 0).unwrap();
        let invitation = Invitation {
            session: 1_790_000_000_000_000,
            epoch: 2,
            model: Some(ModelId::MulticastFec),
            member: (299, 300),
            group: "239.1.2.3:5701".parse().unwrap(),
            datagram: 85,
            rate_bit_s: 250_000.0,
            loss: 76,
            round_trip: 60_000_000,
            answered: true,
            next: 17,
        };
        let sealed = invitation.seal(&invites, 42);
        assert!(sealed.len() <= 85, "{}", sealed.len());
        assert_eq!(Invitation::open(&invites, &sealed), Some(invitation.clone()));
        assert_eq!(Invitation::open(&root(), &sealed), None);
        // A later version has more models and more fields.
        let mut later = invitation.encode();
        later[12] = 200;
        later.extend(b"and more");
        let read = Invitation::decode(&later).unwrap();
        assert_eq!(read, Invitation { model: None, ..invitation.clone() });
        assert_eq!(read.encode()[12], NO_MODEL);
        let invalid = Invitation { member: (3, 3), ..invitation };
        assert_eq!(Invitation::open(&invites, &invalid.seal(&invites, 1)), None);
    }

    #[test]
    fn who_says_hello_has_the_key() {
        let invites = Root::new(b"a key that both ends have", 0).unwrap();
        assert_eq!(open_hello(&invites, &seal_hello(&invites, 7, 99)), Some(99));
        assert_eq!(open_hello(&root(), &seal_hello(&invites, 7, 99)), None);
        assert_eq!(open_hello(&invites, &[0x26]), None);
    }

    proptest! {
        #[test]
        fn anything_else_is_none(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            prop_assert!(open_data(&root(), (0, 0), &bytes).is_none());
            prop_assert!(open_member(&root(), (0, 0), &bytes).is_none());
            prop_assert!(Invitation::open(&root(), &bytes).is_none());
            // Without keys any bytes may parse, but nothing may panic.
            let open = Root::insecure(1);
            let _ = (open_data(&open, (0, 0), &bytes), open_member(&open, (0, 0), &bytes));
            let _ = Invitation::open(&open, &bytes);
        }
    }
}
