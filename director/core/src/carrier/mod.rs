//! The transports of the models. Each is a file or folder that implements two small traits (for
//! hub and member) and has a line in [`hub`] and in [`member`]. A model without multicast only
//! implements an exchange ([`peers`]).
//!
//! A carrier (transport) delivers sealed envelopes to the other side. It does no I/O: its caller
//! passes the time and received datagrams, and sends the datagrams that it returns.

mod arq;
#[cfg(feature = "coap")]
mod coap;
mod fec;
mod outside;
mod peers;
#[cfg(feature = "quic")]
mod quic;
mod udp;

pub use outside::model_of;

use crate::Nanos;
use crate::conditions::Conditions;
use crate::keys::Root;
use crate::model::ModelId;
use crate::switch::{MemberId, MessageId};

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
    /// Round-trip time without queueing, in ns.
    pub round_trip: Nanos,
    /// Size of a sealed answer in bytes, assumed or measured.
    pub answer: usize,
    /// Whether bytes or energy have a target: no extra frames to save time.
    pub efficient: bool,
    /// Random number that seeds random decisions.
    pub seed: u64,
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
    pub until: Option<Nanos>,
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
        /// Number of received frames.
        received: u32,
        /// Number of lost frames.
        lost: u32,
    },
    /// A round-trip sample, in ns.
    RoundTrip(Nanos),
    /// Multicast does not work: members have a message only by unicast.
    MulticastBlocked,
}

/// The hub's side of a transport.
pub trait HubCarrier: Send {
    /// Sends a message to these members.
    ///
    /// # Errors
    /// The reason why the model cannot carry it.
    fn send(&mut self, load: Load<'_>, to: &[MemberId], now: Nanos) -> Result<(), String>;
    /// Handles a datagram of the model.
    fn receive(&mut self, datagram: &[u8], from: Option<MemberId>, now: Nanos);
    /// The next datagram at `now`, and the time of the next poll.
    fn poll(&mut self, now: Nanos) -> (Option<(To, Vec<u8>)>, Option<Nanos>);
    /// Events since the last call.
    fn take(&mut self) -> Vec<CarrierEvent>;
    /// All members have changed to another model, which resends outstanding messages. From now on
    /// the transport only acknowledges to members that do not know yet.
    fn retire(&mut self, now: Nanos);
    /// Updates the network conditions.
    fn adapt(&mut self, _here: &Conditions) {}
}

/// A member's side of a transport.
pub trait MemberCarrier: Send {
    /// Sends the envelope of an answer or acknowledgement to a message of `asked` bytes.
    ///
    /// # Errors
    /// The reason why the model cannot carry it.
    fn answer(
        &mut self,
        number: MessageId,
        asked: usize,
        sealed: &[u8],
        now: Nanos,
    ) -> Result<(), String>;
    /// Handles a datagram of the model; returns completed envelopes.
    fn receive(&mut self, datagram: &[u8], now: Nanos) -> Vec<Vec<u8>>;
    /// The next datagram to the hub at `now`, and the time of the next poll.
    fn poll(&mut self, now: Nanos) -> (Option<Vec<u8>>, Option<Nanos>);
    /// Whether the transport itself acknowledges messages to the hub.
    fn acknowledges(&self) -> bool;
}

/// The hub's transport of a model; `None` if it is not compiled in.
pub fn hub(model: ModelId, params: &Params) -> Option<Box<dyn HubCarrier>> {
    Some(match model {
        ModelId::UdpRequestResponse => udp::hub(params),
        ModelId::UdpArq => arq::hub(params),
        ModelId::MulticastFec => Box::new(fec::Hub::new(params)),
        #[cfg(feature = "coap")]
        ModelId::CoapConfirmable => coap::hub(params, true),
        #[cfg(feature = "coap")]
        ModelId::CoapNonConfirmable => coap::hub(params, false),
        #[cfg(feature = "quic")]
        ModelId::QuicStreams => quic::hub(params, quic::Kind::Streams),
        #[cfg(feature = "quic")]
        ModelId::QuicDatagrams => quic::hub(params, quic::Kind::Datagrams),
        other if other.is_outside() => outside::hub(other, params),
        _ => return None,
    })
}

/// The transport of a model for the member with this number; `None` if it is not compiled in.
pub fn member(model: ModelId, params: &Params, number: u16) -> Option<Box<dyn MemberCarrier>> {
    Some(match model {
        ModelId::UdpRequestResponse => udp::member(params),
        ModelId::UdpArq => arq::member(params, number),
        ModelId::MulticastFec => Box::new(fec::Member::new(params, number)),
        #[cfg(feature = "coap")]
        ModelId::CoapConfirmable => coap::member(params, true),
        #[cfg(feature = "coap")]
        ModelId::CoapNonConfirmable => coap::member(params, false),
        #[cfg(feature = "quic")]
        ModelId::QuicStreams => quic::member(params, quic::Kind::Streams, number),
        #[cfg(feature = "quic")]
        ModelId::QuicDatagrams => quic::member(params, quic::Kind::Datagrams, number),
        other if other.is_outside() => outside::member(other, params),
        _ => return None,
    })
}

/// The compiled-in models, without those of external stacks.
pub fn available() -> Vec<ModelId> {
    vec![
        ModelId::UdpRequestResponse,
        ModelId::UdpArq,
        ModelId::MulticastFec,
        #[cfg(feature = "coap")]
        ModelId::CoapConfirmable,
        #[cfg(feature = "coap")]
        ModelId::CoapNonConfirmable,
        #[cfg(feature = "quic")]
        ModelId::QuicStreams,
        #[cfg(feature = "quic")]
        ModelId::QuicDatagrams,
    ]
}

/// Whether a datagram is a unicast request to a member that multicast does not seem to reach.
pub(crate) fn asks(datagram: &[u8]) -> bool {
    datagram.first() == Some(&crate::fec::REQUEST_UNICAST)
}

/// Whether a datagram belongs to a model, by its first byte.
pub fn is_of(model: ModelId, datagram: &[u8]) -> bool {
    let first = datagram.first().copied().unwrap_or(0);
    match model {
        ModelId::UdpArq => matches!(first & 0x7f, 0x10 | 0x11),
        ModelId::MulticastFec => crate::fec::is_frame(first),
        // CoAP version 1, in the two highest bits.
        ModelId::CoapConfirmable | ModelId::CoapNonConfirmable => first >> 6 == 1,
        ModelId::QuicStreams => first == 0x19,
        ModelId::QuicDatagrams => first == 0x1a,
        other if other.is_outside() => model_of(datagram) == Some(other),
        _ => false,
    }
}
