//! What the session and its transports know of each other.

use crate::analytic::{Case, Prediction};
use crate::capacity::Train;
use crate::conditions::Conditions;
use crate::keys::Root;
use crate::model::{Features, ModelId};
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::rng::Seed;
use crate::switch::{MemberId, MessageId};
use crate::targets::Pattern;
use crate::{Instant, Span};
use alloc::collections::BTreeMap;

/// About what a message has with its envelope, in bytes.
pub(super) const SEALED: f64 = 40.0;
/// Longest message of a stream of QUIC with its envelope, in bytes.
pub(super) const MAX_STREAM: usize = 1 << 20;
pub(super) const MANY: &[Pattern] = &[Pattern::PublishSubscribe, Pattern::PublishCollect];
pub(super) const ALL: &[Pattern] = &[
    Pattern::RequestResponse,
    Pattern::RouterDealer,
    Pattern::PublishSubscribe,
    Pattern::PublishCollect,
];

/// What is known of a model. One that supports one-to-many without multicast sends to each member.
pub struct Model {
    /// Its features.
    pub features: Features,
    /// A similar model, to use its measurements where this one has none.
    pub similar: Option<ModelId>,
    /// Whether it sends repairs before they are requested, if the channel has room, and paces the
    /// answers of all members.
    pub repairs_ahead: bool,
    /// Whether the MTU has room for the model and for messages of this size.
    pub fits: fn(&Conditions) -> bool,
    /// Whether a datagram belongs to it.
    pub owns: fn(&[u8]) -> bool,
    /// Its predicted performance.
    pub predict: fn(&Case<'_>) -> Prediction,
    /// What carries it.
    pub transport: Transport,
}

/// Creates a hub's transport.
pub type MakeHub = fn(&Params) -> Box<dyn HubCarrier>;
/// Creates the transport of the member with this number.
pub type MakeMember = fn(&Params, u16) -> Box<dyn MemberCarrier>;

/// What carries a model.
#[derive(Clone, Copy)]
pub enum Transport {
    /// The session's own datagrams.
    Datagrams(MakeHub, MakeMember),
    /// An external stack. A session has such a model only if it is configured with that stack.
    Stack(MakeHub, MakeMember),
    /// Nothing: not compiled in.
    #[cfg_attr(
        all(feature = "coap", feature = "quic"),
        expect(dead_code, reason = "all are there")
    )]
    Absent,
}

/// Destination of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// The hub.
    Hub,
    /// A member, by unicast.
    Member(MemberId),
    /// All members, by multicast.
    Group,
}

/// Parameters of a transport.
#[derive(Debug, Clone)]
pub struct Params {
    /// The session's keys.
    pub root: Root,
    /// Keys between the hub and the member; at the hub those of members without others.
    pub pair: Root,
    /// The epoch of the model.
    pub epoch: u32,
    /// Number of members.
    pub members: u16,
    /// Maximum datagram size, in bytes.
    pub datagram: usize,
    /// Header bytes on the wire below a datagram.
    pub below: usize,
    /// Data rate of the channel, in bit/s.
    pub rate_bit_s: f64,
    /// Frame loss, 0 to 1.
    pub loss: f64,
    /// Round-trip time without queueing.
    pub round_trip: Span,
    /// Round-trip time with queueing, as measured; at least `round_trip`.
    pub wait: Span,
    /// Whether the data rate is an estimate, not configured.
    pub estimated: bool,
    /// Whether the application answers messages.
    pub answered: bool,
    /// Size of a sealed answer in bytes, assumed or measured.
    pub answer: usize,
    /// Whether bytes or energy have a target: no extra frames to save time.
    pub efficient: bool,
    /// Seed of random decisions.
    pub seed: Seed,
}

/// A message to carry.
#[derive(Debug, Clone, Copy)]
pub struct Load<'a> {
    /// Its number.
    pub number: MessageId,
    /// Its envelope.
    pub sealed: &'a [u8],
    /// Whether members answer it.
    pub answered: bool,
    /// Its expiry time.
    pub until: Option<Instant>,
}

/// An event of a hub's transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CarrierEvent {
    /// A member has received a message.
    Delivered(MemberId, MessageId),
    /// An envelope has arrived; it contains its sender.
    Envelope(Vec<u8>),
    /// Received and lost frames.
    Frames {
        /// The member at the other end.
        member: MemberId,
        /// Number of received frames.
        received: u32,
        /// Number of lost frames.
        lost: u32,
        /// When these were noticed ([`Self::Gap`], or now).
        noticed: Instant,
    },
    /// Frames of a member have not arrived before later ones: a queue may have dropped them. How many are lost is
    /// known later.
    Gap(MemberId),
    /// A round-trip sample of a member.
    RoundTrip(MemberId, Span),
    /// Datagrams that were sent in a row have been acknowledged.
    Train(Train),
    /// A member lacks frames of a message that was sent to it at this time, or its answer to that was lost.
    Missing(MemberId, Instant),
    /// A datagram that was sent to a member at this time has not been acknowledged in time.
    Timeout(MemberId, Instant),
    /// A member receives short datagrams, and none of those of a message: longer ones may not pass.
    Vanished(MemberId),
    /// Multicast does not work: members have a message only by unicast.
    MulticastBlocked,
}

/// The hub's side of a transport.
pub trait HubCarrier: Send {
    /// Sends a message to these members.
    ///
    /// # Errors
    /// The reason why the model cannot carry it; none of the members gets it.
    fn send(&mut self, load: Load<'_>, to: &[MemberId], now: Instant) -> Result<(), String>;
    /// Sends no more of a message to these members: it has ended without them.
    fn withdraw(&mut self, number: MessageId, members: &[MemberId]);
    /// Whether other members get a message to these members as well.
    fn reaches_all(&self, _to: &[MemberId]) -> bool {
        false
    }
    /// Handles a datagram of the model; returns whether a member has sent it, as far as the model
    /// can tell. Envelopes tell it by themselves.
    fn receive(&mut self, datagram: &[u8], from: Option<MemberId>, now: Instant) -> bool;
    /// The next datagram at `now`, and the time of the next poll.
    fn poll(&mut self, now: Instant) -> (Option<(To, Vec<u8>)>, Option<Instant>);
    /// Adds the events since the last call.
    fn take(&mut self, events: &mut Vec<CarrierEvent>);
    /// All members have changed to another model, which resends outstanding messages. From now on
    /// the transport only acknowledges to members that do not know yet.
    fn retire(&mut self, now: Instant);
    /// Number of messages in an epoch from which on a frame of an early message could pass for one of a
    /// late message.
    fn max_messages(&self) -> u64 {
        u64::MAX
    }

    /// Sets the keys with a member: those of its present start.
    fn set_pair(&mut self, _member: MemberId, _pair: &Root) {}
    /// Updates the network conditions.
    fn adapt(&mut self, _here: &Conditions) {}
    /// Sets whether a member reads bundles.
    fn set_bundles(&mut self, _member: MemberId, _reads: bool) {}
    /// Updates which members lose far more than the others, and their loss, 0 to 1.
    fn set_apart(&mut self, _apart: &BTreeMap<MemberId, f64>) {}
    /// Sets whether multicast works. It does until this is called.
    fn set_multicast(&mut self, _works: bool) {}
    /// Updates the sending rate.
    fn pace(&mut self, _flow: &Flow) {}
}

/// How fast a hub sends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flow {
    /// Data rate, in bit/s.
    pub rate_bit_s: f64,
    /// Time on air that a message and the answer to it take, in that of the message; 1 or more.
    pub charge: f64,
    /// Data rate of the answers of all members together, in bit/s; infinite if members spread them.
    pub answers_bit_s: f64,
    /// Smoothed round-trip time with queueing, if the path was measured.
    pub wait: Option<Span>,
    /// Time that answers may take longer than estimated, before anything was measured.
    pub patience: Span,
}

/// A member's side of a transport.
pub trait MemberCarrier: Send {
    /// Sends the envelope of an answer or acknowledgement to a message of `asked` bytes, until the hub
    /// no longer waits for it.
    ///
    /// # Errors
    /// The reason why the model cannot carry it.
    fn answer(
        &mut self,
        number: MessageId,
        asked: usize,
        sealed: Vec<u8>,
        until: Option<Instant>,
        now: Instant,
    ) -> Result<(), String>;
    /// Handles a datagram of the model; adds completed envelopes.
    fn receive(&mut self, datagram: &[u8], envelopes: &mut Vec<Vec<u8>>, now: Instant);
    /// The next datagram to the hub at `now`, and the time of the next poll.
    fn poll(&mut self, now: Instant) -> (Option<Vec<u8>>, Option<Instant>);
    /// A message whose answer the hub has, once.
    fn next_over(&mut self) -> Option<MessageId> {
        None
    }
    /// Whether the transport itself acknowledges messages to the hub.
    fn acknowledges(&self) -> bool;
    /// Sets the number of the hub's next message when the member enters the epoch.
    fn set_next(&mut self, _next: MessageId) {}

    /// The envelope that [`Self::receive`] has returned was opened as that of message `number`; `None` if it is
    /// not from the hub. A transport that has acknowledged another one takes that back.
    fn opened(&mut self, _number: Option<MessageId>) {}

    /// Updates the round-trip time with queues, as the hub has measured it.
    fn set_round_trip(&mut self, _round_trip: Span) {}
    /// Sets whether the hub reads bundles.
    fn set_bundles(&mut self, _reads: bool) {}
}
