//! Models at work. Each is one file, or a folder, with the two sides of a small trait, and a line in
//! [`hub`] and in [`member`]; one that knows no groups is an exchange ([`peers`]) alone.
//!
//! A carrier gets sealed envelopes and sees to it that they come to the other side. It does
//! no I/O: it is given the time and datagrams that came, and says which are to go.

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

/// Where a datagram goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// To the hub.
    Hub,
    /// To a member.
    Member(MemberId),
    /// To all members at once, by multicast.
    Group,
}

/// What a model has to know.
#[derive(Debug, Clone)]
pub struct Place {
    /// The session's keys.
    pub root: Root,
    /// The epoch that the model serves.
    pub epoch: u32,
    /// How many members there are.
    pub members: u16,
    /// Bytes of a datagram at most.
    pub datagram: usize,
    /// Bytes on the wire below a datagram.
    pub below: usize,
    /// What the channel carries, in bit/s.
    pub rate_bit_s: f64,
    /// The share of frames lost, 0 to 1.
    pub loss: f64,
    /// A round trip without waiting, in ns.
    pub round_trip: Nanos,
    /// Bytes of a sealed answer, as far as is known.
    pub answer: usize,
    /// Bytes or energy have a target, so that none are spent to save time.
    pub thrifty: bool,
    /// A number drawn at random, for what chance decides.
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
    /// When it is of no use any more.
    pub until: Option<Nanos>,
}

/// What a hub's carrier has to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Carried {
    /// A member has a message.
    Had(MemberId, MessageId),
    /// An envelope came from somebody; who it is, the envelope says.
    Envelope(Vec<u8>),
    /// Of some frames so many came and so many did not.
    Frames {
        /// Those that came.
        came: u32,
        /// Those that did not.
        lost: u32,
    },
    /// A round trip, in ns.
    RoundTrip(Nanos),
    /// Members have a message, and none of them by multicast.
    Unreached,
}

/// The hub's side of a model.
pub trait HubCarrier: Send {
    /// Takes a message for these members.
    ///
    /// # Errors
    /// When the model cannot carry it; why.
    fn send(&mut self, load: Load<'_>, to: &[MemberId], now: Nanos) -> Result<(), String>;
    /// Takes a datagram of the model.
    fn receive(&mut self, datagram: &[u8], from: Option<MemberId>, now: Nanos);
    /// The next datagram that goes now, and when to look again.
    fn poll(&mut self, now: Nanos) -> (Option<(To, Vec<u8>)>, Option<Nanos>);
    /// What there is to tell since the last time.
    fn take(&mut self) -> Vec<Carried>;
    /// All members have gone over to another model, by which what is under way goes again: from
    /// now on it only says to who does not know it yet what it has heard.
    fn retire(&mut self, now: Nanos);
    /// The network is like this now, as far as is known.
    fn adapt(&mut self, _here: &Conditions) {}
}

/// A member's side of a model.
pub trait MemberCarrier: Send {
    /// Takes the envelope of an answer, or of an acknowledgement, to a message of so many bytes.
    ///
    /// # Errors
    /// When the model cannot carry it; why.
    fn answer(
        &mut self,
        number: MessageId,
        asked: usize,
        sealed: &[u8],
        now: Nanos,
    ) -> Result<(), String>;
    /// Takes a datagram of the model; envelopes that are whole with it.
    fn receive(&mut self, datagram: &[u8], now: Nanos) -> Vec<Vec<u8>>;
    /// The next datagram that goes to the hub now, and when to look again.
    fn poll(&mut self, now: Nanos) -> (Option<Vec<u8>>, Option<Nanos>);
    /// Whether the model itself tells the hub that a message is there.
    fn acknowledges(&self) -> bool;
}

/// The hub's side of a model, if it is compiled in.
pub fn hub(model: ModelId, place: &Place) -> Option<Box<dyn HubCarrier>> {
    Some(match model {
        ModelId::UdpRequestResponse => udp::hub(place),
        ModelId::UdpArq => arq::hub(place),
        ModelId::MulticastFec => Box::new(fec::Hub::new(place)),
        #[cfg(feature = "coap")]
        ModelId::CoapConfirmable => coap::hub(place, true),
        #[cfg(feature = "coap")]
        ModelId::CoapNonConfirmable => coap::hub(place, false),
        #[cfg(feature = "quic")]
        ModelId::QuicStreams => quic::hub(place, quic::Kind::Streams),
        #[cfg(feature = "quic")]
        ModelId::QuicDatagrams => quic::hub(place, quic::Kind::Datagrams),
        other if other.is_outside() => outside::hub(other, place),
        _ => return None,
    })
}

/// The side of the member of this number, if the model is compiled in.
pub fn member(model: ModelId, place: &Place, number: u16) -> Option<Box<dyn MemberCarrier>> {
    Some(match model {
        ModelId::UdpRequestResponse => udp::member(place),
        ModelId::UdpArq => arq::member(place, number),
        ModelId::MulticastFec => Box::new(fec::Member::new(place, number)),
        #[cfg(feature = "coap")]
        ModelId::CoapConfirmable => coap::member(place, true),
        #[cfg(feature = "coap")]
        ModelId::CoapNonConfirmable => coap::member(place, false),
        #[cfg(feature = "quic")]
        ModelId::QuicStreams => quic::member(place, quic::Kind::Streams, number),
        #[cfg(feature = "quic")]
        ModelId::QuicDatagrams => quic::member(place, quic::Kind::Datagrams, number),
        other if other.is_outside() => outside::member(other, place),
        _ => return None,
    })
}

/// The models that are compiled in, and that sessions' own datagrams carry.
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

/// Whether a datagram is one by which a member is asked alone, since multicast does not seem to
/// reach it.
pub(crate) fn asks(datagram: &[u8]) -> bool {
    datagram.first() == Some(&crate::fec::WANT_ALONE)
}

/// Whether a datagram is of a model, by its first byte.
pub fn is_of(model: ModelId, datagram: &[u8]) -> bool {
    let first = datagram.first().copied().unwrap_or(0);
    match model {
        ModelId::UdpArq => matches!(first & 0x7f, 0x10 | 0x11),
        ModelId::MulticastFec => crate::fec::is_frame(first),
        // Version 1 of CoAP, by the two highest bits.
        ModelId::CoapConfirmable | ModelId::CoapNonConfirmable => first >> 6 == 1,
        ModelId::QuicStreams => first == 0x19,
        ModelId::QuicDatagrams => first == 0x1a,
        other if other.is_outside() => model_of(datagram) == Some(other),
        _ => false,
    }
}
