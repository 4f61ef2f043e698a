//! The wire format of messages: sealed data, answers, acknowledgements and control messages.
//! The high nibble of the first byte is 2 or 3, the low nibble the kind, so the first byte
//! distinguishes a datagram of the plain model from those of the other models.
//!
//! The hub's messages to all are sealed with keys of the epoch's group secret. All else is sealed
//! with keys of the handshake between the hub and one start of a member.

mod data;
mod echo;
pub mod lifetime;
mod members;

pub use self::data::{
    DATA_OVERHEAD, Data, epoch_of_data, open_data, seal_data, seal_stored, seal_topic,
};
pub use self::echo::Echo;
use crate::Span;
use crate::keys::{Party, Root, Scope, Use};
use crate::model::{ModelId, Models};
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::signature::PublicKey;
use crate::switch::MessageId;
use crate::window::widen;

const DATA: u8 = 0x21;
const ANSWER: u8 = 0x22;
const ACKNOWLEDGE: u8 = 0x23;
const ASK: u8 = 0x24;
const READY: u8 = 0x25;
const PROBE: u8 = 0x27;
const CANNOT: u8 = 0x28;
const ALIVE: u8 = 0x2d;
const CHOSEN: u8 = 0x2e;
const TOPIC: u8 = 0x2f;
const STORED: u8 = 0x30;

/// Whether the bytes start as an envelope of this version; the content is not checked.
pub fn is_envelope(bytes: &[u8]) -> bool {
    // The range includes 0x26, a hello: hubs test for it first, and at a member it opens as
    // nothing.
    matches!(bytes.first().copied(), Some(DATA..=CANNOT | ALIVE | CHOSEN | TOPIC | STORED))
}

/// A message from a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromMember {
    /// The answer to a message.
    Answer(MessageId, Vec<u8>),
    /// The acknowledgement of a message.
    Acknowledge(MessageId),
    /// The member has changed to the epoch; its available models, and what it answers. The first
    /// number counts the member's control messages.
    Ready(u32, Models, Echo),
    /// The member cannot change to the epoch because it lacks the model; its available models.
    Cannot(u32, Models),
    /// The member is still in the epoch, and waits for an invitation as a sign of life of the hub;
    /// its available models, and the length in bytes of the longest datagram with messages of the
    /// member that the hub seems not to receive, or 0.
    Alive(u32, Models, u16),
}

impl FromMember {
    /// The count of a control message.
    pub(crate) fn count(&self) -> Option<u32> {
        match self {
            Self::Ready(count, ..) | Self::Cannot(count, _) | Self::Alive(count, ..) => {
                Some(*count)
            }
            Self::Answer(..) | Self::Acknowledge(_) => None,
        }
    }
}

/// The parameters of an epoch that a hub sends to a member.
#[derive(Debug, Clone, PartialEq)]
pub struct Invitation {
    /// The epoch.
    pub epoch: u32,
    /// The group's secret in the epoch: random, so that only those who are invited can read it.
    pub secret: [u8; 32],
    /// The model of the epoch; `None` for a model of a later version.
    pub model: Option<ModelId>,
    /// Maximum datagram size, in bytes.
    pub datagram: u16,
    /// Data rate of the channel, in bit/s.
    pub rate_bit_s: f32,
    /// Frame loss, in 255ths.
    pub loss: u8,
    /// Round-trip time.
    pub round_trip: Span,
    /// Number of the first message that the member lacks, or of the next one: a start that is new takes none
    /// before it.
    pub next: MessageId,
    /// Whether data rate and round-trip time are estimates that change.
    pub estimated: bool,
    /// Whether the member leaves earlier epochs at once: the others stay there.
    pub apart: bool,
    /// Whether it checks if packets of its size pass: the answer has the same size.
    pub probes: bool,
    /// Whether the hub reads bundles.
    pub bundles: bool,
    /// The key by which members verify the hub's messages, if it signs them.
    pub signer: Option<PublicKey>,
}

/// Bits of an invitation.
const ESTIMATED: u8 = 1;
const APART: u8 = 2;
const PROBES: u8 = 4;
const BUNDLES: u8 = 8;
const SIGNED: u8 = 16;

/// Reserved: no version has a model with this number.
const NO_MODEL: u8 = u8::MAX;

fn model_number(model: Option<ModelId>) -> u8 {
    model.map_or(NO_MODEL, ModelId::wire)
}

impl Invitation {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(56);
        bytes.extend_from_slice(&self.epoch.to_be_bytes());
        bytes.extend_from_slice(&self.secret);
        bytes.push(model_number(self.model));
        bytes.extend_from_slice(&self.datagram.to_be_bytes());
        bytes.extend_from_slice(&self.rate_bit_s.to_be_bytes());
        bytes.push(self.loss);
        let us = u32::try_from(self.round_trip.as_ns() / 1_000).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&us.to_be_bytes());
        bytes.extend_from_slice(&self.next.to_be_bytes());
        let bits = [
            (self.estimated, ESTIMATED),
            (self.apart, APART),
            (self.probes, PROBES),
            (self.bundles, BUNDLES),
            (self.signer.is_some(), SIGNED),
        ];
        bytes.push(bits.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum());
        bytes.extend(self.signer.into_iter().flatten());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let mut invitation = Self {
            epoch: u32::from_be_bytes(take(&mut rest)?),
            secret: take(&mut rest)?,
            model: ModelId::from_wire(u8::from_be_bytes(take(&mut rest)?)),
            datagram: u16::from_be_bytes(take(&mut rest)?),
            rate_bit_s: f32::from_be_bytes(take(&mut rest)?),
            loss: u8::from_be_bytes(take(&mut rest)?),
            round_trip: Span::from_us(u32::from_be_bytes(take(&mut rest)?).into()),
            next: u64::from_be_bytes(take(&mut rest)?),
            estimated: false,
            apart: false,
            probes: false,
            bundles: false,
            signer: None,
        };
        // Earlier versions end here.
        let [bits] = take(&mut rest).unwrap_or([0]);
        (invitation.estimated, invitation.apart) = (bits & ESTIMATED != 0, bits & APART != 0);
        (invitation.probes, invitation.bundles) = (bits & PROBES != 0, bits & BUNDLES != 0);
        if bits & SIGNED != 0 {
            invitation.signer = Some(take(&mut rest)?);
        }
        // Later versions append fields, so trailing bytes are ignored.
        // Times on air are divided by the rate.
        let valid = invitation.rate_bit_s.is_finite() && invitation.rate_bit_s > 0.0;
        valid.then_some(invitation)
    }

    /// Seals the invitation for one start of a member; `count` counts the hub's control messages
    /// to it. The datagram has at least `size` bytes.
    pub fn seal(&self, pair: &Root, count: u32, size: usize) -> Vec<u8> {
        // Epoch 0, because the receiver learns the epoch only from the content.
        let keys = pair.recent(Scope::new(Use::Control, 0, Party::Hub));
        let mut bytes = vec![ASK];
        bytes.extend_from_slice(&count.to_be_bytes());
        let mut content = self.encode();
        let padded = size.saturating_sub(bytes.len() + pair.seal_len());
        content.resize(content.len().max(padded), 0);
        bytes.extend(keys.seal(count.into(), &content));
        bytes
    }

    /// Opens an invitation of the hub at the other end; returns its count too.
    pub fn open(pair: &Root, bytes: &[u8]) -> Option<(u32, Self)> {
        let mut rest = bytes.strip_prefix(&[ASK])?;
        let count = u32::from_be_bytes(take(&mut rest)?);
        let keys = pair.recent(Scope::new(Use::Control, 0, Party::Hub));
        Some((count, Self::decode(&keys.open(count.into(), rest)?)?))
    }
}

/// The count of an invitation; `None` for other datagrams. The content is not checked.
pub fn invitation_count(bytes: &[u8]) -> Option<u32> {
    bytes.strip_prefix(&[ASK])?.first_chunk().map(|count| u32::from_be_bytes(*count))
}

/// Whether a datagram is an invitation; the content is not checked.
pub fn is_invitation(bytes: &[u8]) -> bool {
    bytes.first() == Some(&ASK)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*first)
}

/// A multicast probe: asks a member whether multicast reaches it; `count` counts probes.
pub fn seal_probe(group: &Root, epoch: u32, count: u32, member: u16) -> Vec<u8> {
    let keys = group.recent(Scope::new(Use::Control, epoch, Party::Hub));
    let mut bytes = vec![PROBE];
    bytes.extend_from_slice(&(epoch as u16).to_be_bytes());
    bytes.extend_from_slice(&count.to_be_bytes());
    bytes.extend(keys.seal(count.into(), &member.to_be_bytes()));
    bytes
}

/// Opens a probe of this epoch; returns its count and the member that it is for.
pub fn open_probe(group: &Root, epoch: u32, bytes: &[u8]) -> Option<(u32, u16)> {
    let mut rest = bytes.strip_prefix(&[PROBE])?.strip_prefix(&(epoch as u16).to_be_bytes())?;
    let count = u32::from_be_bytes(take(&mut rest)?);
    let keys = group.recent(Scope::new(Use::Control, epoch, Party::Hub));
    let member = keys.open(count.into(), rest)?;
    Some((count, u16::from_be_bytes(member.try_into().ok()?)))
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

/// Seals a message from a member in an epoch, with the keys of its handshake.
pub fn seal_member(pair: &Root, epoch: u32, member: u16, what: &FromMember) -> Vec<u8> {
    seal_padded(pair, epoch, member, what, 0)
}

/// Seals a message from a member; the datagram has at least `size` bytes. Only `Ready` messages can
/// be padded: receivers ignore bytes after their fields.
pub fn seal_padded(
    pair: &Root,
    epoch: u32,
    member: u16,
    what: &FromMember,
    size: usize,
) -> Vec<u8> {
    let ready = |models: &Models, echo: Echo| {
        let mut body = [models.bits(), echo.encode()].map(u16::to_be_bytes).concat();
        body.resize(body.len().max(size.saturating_sub(MEMBER_HEADER + pair.seal_len())), 0);
        body
    };
    let models = |models: &Models| models.bits().to_be_bytes().to_vec();
    let (kind, purpose, number, body) = match what {
        FromMember::Answer(number, bytes) => {
            return seal_answer(pair, epoch, member, *number, bytes);
        }
        FromMember::Acknowledge(number) => (ACKNOWLEDGE, Use::Acknowledgement, *number, Vec::new()),
        FromMember::Ready(count, have, echo) => {
            (READY, Use::Control, u64::from(*count), ready(have, *echo))
        }
        FromMember::Cannot(count, have) => (CANNOT, Use::Control, cannot(*count), models(have)),
        FromMember::Alive(count, have, waits) => {
            let body = [models(have), waits.to_be_bytes().to_vec()].concat();
            (ALIVE, Use::Control, alive(*count), body)
        }
    };
    seal_kind(kind, purpose, pair, epoch, member, number, &body)
}

/// Seals the answer of a member to a message of this number.
pub fn seal_answer(
    pair: &Root,
    epoch: u32,
    member: u16,
    number: MessageId,
    answer: &[u8],
) -> Vec<u8> {
    seal_kind(ANSWER, Use::Message, pair, epoch, member, number, answer)
}

fn seal_kind(
    kind: u8,
    purpose: Use,
    pair: &Root,
    epoch: u32,
    member: u16,
    number: u64,
    body: &[u8],
) -> Vec<u8> {
    let keys = pair.recent(Scope::new(purpose, epoch, Party::Member(member)));
    let [high, rest] = member.to_be_bytes();
    let ([a, b], [c, d, e, f]) = low(epoch, number);
    let head: [u8; MEMBER_HEADER] = [kind, high, rest, a, b, c, d, e, f];
    keys.seal_after(&head, number, &[body])
}

/// The low bits of an epoch and of a number in an envelope.
fn low(epoch: u32, number: u64) -> ([u8; 2], [u8; 4]) {
    ((epoch as u16).to_be_bytes(), (number as u32).to_be_bytes())
}

/// Bytes before the seal of a member's envelope.
const MEMBER_HEADER: usize = 9;

/// Length of the envelope of an answer of `bytes`, in bytes.
pub fn answer_len(pair: &Root, bytes: usize) -> usize {
    MEMBER_HEADER + bytes + pair.seal_len()
}

/// The seal number of `Cannot`; it differs from that of `Ready` with the same count.
fn cannot(count: u32) -> u64 {
    1 << 32 | u64::from(count)
}

/// The seal number of `Alive`.
fn alive(count: u32) -> u64 {
    2 << 32 | u64::from(count)
}

/// The member that a message claims to be from.
pub fn member_of(bytes: &[u8]) -> Option<u16> {
    let (kind, rest) = bytes.split_first()?;
    let member = rest.first_chunk().map(|member| u16::from_be_bytes(*member))?;
    matches!(*kind, ANSWER | ACKNOWLEDGE | READY | CANNOT | ALIVE).then_some(member)
}

/// Opens a message from a member with the keys of its handshake; `epoch` and `near` restore the
/// full epoch and number. Returns the epoch and the message.
pub fn open_member(
    pair: &Root,
    epoch: u32,
    near: MessageId,
    bytes: Vec<u8>,
) -> Option<(u32, FromMember)> {
    let (kind, mut rest) = bytes.split_first()?;
    let kind = *kind;
    let member = u16::from_be_bytes(take(&mut rest)?);
    // A wrong guess of high bits does not open: the seal covers them.
    let epoch = widen_epoch(u16::from_be_bytes(take(&mut rest)?), epoch);
    let low = u32::from_be_bytes(take(&mut rest)?);
    let (purpose, number) = match kind {
        ANSWER => (Use::Message, widen_number(low, near)),
        ACKNOWLEDGE => (Use::Acknowledgement, widen_number(low, near)),
        READY => (Use::Control, u64::from(low)),
        CANNOT => (Use::Control, cannot(low)),
        ALIVE => (Use::Control, alive(low)),
        _ => return None,
    };
    let scope = Scope::new(purpose, epoch, Party::Member(member));
    let head = bytes.len() - rest.len();
    let body = pair.recent(scope).open_after(head, number, bytes)?;
    let what = match kind {
        ANSWER => FromMember::Answer(number, body),
        ACKNOWLEDGE => FromMember::Acknowledge(number),
        READY => FromMember::Ready(low, models(&body), echo(&body)),
        ALIVE => FromMember::Alive(low, models(&body), waits(&body)),
        _ => FromMember::Cannot(low, models(&body)),
    };
    Some((epoch, what))
}

/// What a `Ready` message answers.
fn echo(body: &[u8]) -> Echo {
    let bits = body.get(2..).and_then(<[u8]>::first_chunk);
    bits.map_or(Echo::Unknown, |bits| Echo::decode(u16::from_be_bytes(*bits)))
}

/// What an `Alive` message says of datagrams that the hub may not have received.
fn waits(body: &[u8]) -> u16 {
    let length = body.get(2..).and_then(<[u8]>::first_chunk);
    length.map_or(0, |length| u16::from_be_bytes(*length))
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
        Root::new(b"a secret of a handshake", [9; 16])
    }

    #[test]
    fn what_is_sealed_opens_near_what_is_known_and_not_elsewhere() {
        let number = (3 << 32) + 5;
        let sealed = seal_data(&root(), 70_000, number, None, b"hello");
        assert_eq!(sealed.len(), 5 + DATA_OVERHEAD);
        assert_eq!(epoch_of_data(&sealed, 69_990), Some(70_000));
        let opened = open_data(&root(), 70_000, (3 << 32) - 7, 9, sealed.clone());
        assert_eq!(
            opened,
            Some(Data { number, bytes: Some(b"hello".to_vec()), topic: None, stored: None })
        );
        assert_eq!(
            open_data(&root(), 4_464, number, 9, sealed.clone()),
            None,
            "an epoch 65,536 earlier"
        );
        let mut sealed = seal_data(&root(), 70_000, number, Some(&[3, 9]), b"hello");
        assert_eq!(epoch_of_data(&sealed, 69_990), Some(70_000));
        for (member, bytes) in [(9, Some(b"hello".to_vec())), (4, None)] {
            let opened = open_data(&root(), 70_000, number, member, sealed.clone());
            assert_eq!(opened, Some(Data { number, bytes, topic: None, stored: None }));
        }
        // Nothing makes a message to all of it, nor changes its receivers.
        for at in 0..sealed.len() {
            for bit in 0..8 {
                sealed[at] ^= 1 << bit;
                assert_eq!(open_data(&root(), 70_000, number, 9, sealed.clone()), None, "{at}");
                sealed[at] ^= 1 << bit;
            }
        }
        for what in [
            FromMember::Answer(number, b"reading".to_vec()),
            FromMember::Acknowledge(number),
            FromMember::Ready(3, Models::ALL, Echo::Unknown),
            FromMember::Ready(4, Models::ALL, Echo::of_invitation(5)),
            FromMember::Ready(5, Models::ALL, Echo::of_probe(6)),
            FromMember::Cannot(3, Models::from_bits(5)),
        ] {
            let mut sealed = seal_member(&root(), 70_000, 300, &what);
            assert_eq!(member_of(&sealed), Some(300));
            assert_eq!(open_member(&root(), 70_003, number, sealed.clone()), Some((70_000, what)));
            for at in 0..sealed.len() {
                sealed[at] ^= 1;
                assert_eq!(open_member(&root(), 70_000, number, sealed.clone()), None, "{at}");
                sealed[at] ^= 1;
            }
            // Neither another member nor a restarted one has these keys.
            let other = Root::new(b"a secret of another handshake", [9; 16]);
            assert_eq!(open_member(&other, 70_000, number, sealed.clone()), None);
        }
        let probe = seal_probe(&root(), 70_000, 8, 300);
        assert_eq!(open_probe(&root(), 70_000, &probe), Some((8, 300)));
        assert_eq!(open_probe(&root(), 70_001, &probe), None);
    }

    #[test]
    fn invitations_fit_into_the_smallest_frame_and_are_genuine() {
        let invitation = Invitation {
            epoch: 2,
            secret: [0xd5; 32],
            model: Some(ModelId::MulticastFec),
            datagram: 85,
            rate_bit_s: 250_000.0,
            loss: 76,
            round_trip: Span::from_ms(60),
            estimated: true,
            apart: false,
            probes: false,
            bundles: true,
            signer: None,
            next: 17,
        };
        let sealed = invitation.seal(&root(), 42, 0);
        assert!(sealed.len() <= 85, "{}", sealed.len());
        assert!(!sealed.windows(8).any(|part| part == [0xd5; 8]), "the secret is encrypted");
        assert_eq!(Invitation::open(&root(), &sealed), Some((42, invitation.clone())));
        let other = Root::new(b"a secret of another handshake", [9; 16]);
        assert_eq!(Invitation::open(&other, &sealed), None);
        // A later version has more models and more fields.
        let mut later = invitation.encode();
        later[36] = 200;
        later.extend(b"and more");
        let read = Invitation::decode(&later).unwrap();
        assert_eq!(read, Invitation { model: None, ..invitation.clone() });
        assert_eq!(read.encode()[36], NO_MODEL);
        let signed = Invitation { signer: Some([7; 32]), ..invitation.clone() };
        assert_eq!(
            Invitation::open(&root(), &signed.seal(&root(), 42, 300)),
            Some((42, signed.clone()))
        );
        assert_eq!(Invitation::decode(&signed.encode()[..88]), None, "a key that is cut");
        let invalid = Invitation { rate_bit_s: 0.0, ..invitation };
        assert_eq!(Invitation::open(&root(), &invalid.seal(&root(), 1, 0)), None);
    }

    proptest! {
        #[test]
        fn anything_else_is_none(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            prop_assert!(open_data(&root(), 0, 0, 1, bytes.clone()).is_none());
            prop_assert!(open_member(&root(), 0, 0, bytes.clone()).is_none());
            prop_assert!(open_probe(&root(), 0, &bytes).is_none());
            prop_assert!(Invitation::open(&root(), &bytes).is_none());
            // Without keys any bytes may parse, but nothing may panic.
            let open = Root::insecure([1; 16]);
            let _ = (open_data(&open, 0, 0, 1, bytes.clone()), open_member(&open, 0, 0, bytes.clone()));
            let _ = (Invitation::open(&open, &bytes), open_probe(&open, 0, &bytes));
        }
    }
}
