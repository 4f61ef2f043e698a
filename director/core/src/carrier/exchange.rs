//! A model between two ends, at one of them.

use super::interface::Flow;
use crate::capacity::{Known, Train};
use crate::keys::Root;
use crate::platform::Arc;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::switch::MessageId;
use crate::{Instant, Span};

/// The result of a received datagram.
#[derive(Debug, Default)]
pub struct Incoming {
    /// Whether the other end has sent it, as far as the model can tell.
    pub genuine: bool,
    /// Completed envelopes.
    pub envelopes: Vec<Vec<u8>>,
    /// A datagram to send back first.
    pub reply: Option<Vec<u8>>,
    /// Received and lost frames that it acknowledges.
    pub frames: (u32, u32),
    /// A round-trip sample, if it gives one.
    pub round_trip: Option<Span>,
    /// The bytes of these frames, if known.
    pub known: Known,
    /// Datagrams that were sent in a row and that it acknowledges.
    pub train: Option<Train>,
}

/// A model between two ends, at one of them.
pub trait Exchange: Send {
    /// Whether it has its own congestion control.
    const CONTROLS: bool = false;
    /// Whether a member measures its path to the hub, and adapts the rate of its answers.
    const ADAPTS: bool = false;
    /// Sends an envelope to the other end.
    ///
    /// # Errors
    /// The reason why the model cannot carry it.
    fn send(
        &mut self,
        number: MessageId,
        sealed: Vec<u8>,
        until: Option<Instant>,
    ) -> Result<(), String>;
    /// Sends an envelope that others of the same hub send too.
    ///
    /// # Errors
    /// The reason why the model cannot carry it.
    fn send_shared(
        &mut self,
        number: MessageId,
        sealed: &Arc<[u8]>,
        until: Option<Instant>,
    ) -> Result<(), String> {
        self.send(number, sealed.to_vec(), until)
    }
    /// Sends no more of a message, as far as the model can.
    fn withdraw(&mut self, _number: MessageId) {}
    /// Handles a datagram from the other end.
    fn receive(&mut self, datagram: &[u8], now: Instant) -> Incoming;
    /// The next datagram at `now`, and the time of the next poll.
    fn poll(&mut self, now: Instant) -> (Option<Vec<u8>>, Option<Instant>);
    /// Adds the messages that have become known as delivered since the last call.
    fn take_delivered(&mut self, delivered: &mut Vec<MessageId>);
    /// Sends only what the other end still requests.
    fn retire(&mut self, now: Instant);
    /// Sets how fast the hub sends.
    fn pace(&mut self, _flow: &Flow) {}
    /// Sending time of the last datagram that was not acknowledged in time, since the last call.
    fn take_timeout(&mut self) -> Option<Instant> {
        None
    }
    /// Sets the keys with the other end: those of its present start.
    fn set_pair(&mut self, _pair: &Root) {}
    /// Sets whether the other end reads bundles.
    fn set_bundles(&mut self, _reads: bool) {}
    /// Its measured sending rate in bit/s, if it measures one.
    fn rate(&self) -> Option<f64> {
        None
    }
}
