//! What is known of a member that has not responded completely.

use super::code::Decoder;
use super::plan::FecSettings;
use crate::Instant;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use alloc::borrow::Cow;

/// State of a member that has not responded completely.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    pub answer: Option<Box<Decoder>>,
    /// Largest received symbol number.
    pub greatest: u16,
    /// Time at which its answer should have arrived; it is requested after that.
    pub due: Instant,
    /// Start of its slot, or time of its first request; `None` before.
    pub first_at: Option<Instant>,
    /// The same, or time of its last request.
    pub asked_at: Instant,
    /// Consecutive requests without a response.
    pub unanswered: u32,
    /// Whether any frame has arrived from it.
    pub responded: bool,
    /// Number of `Nack` frames that account for all symbols sent.
    pub nacks: u32,
    /// Whether symbols were sent to it by unicast.
    pub got_unicast: bool,
    /// Whether it has reported that it receives no multicast.
    pub no_multicast: bool,
    /// Remaining symbols to send to it by unicast, because multicast does not reach it.
    pub unicast: u16,
    /// Whether it was sent symbols by unicast before it asked: its response says nothing of
    /// multicast.
    pub ahead: bool,
    /// Its frame loss, if that is far higher than the others'.
    pub loss: Option<f64>,
}

impl Awaited {
    /// Adds a symbol of its answer; returns the answer if it is complete.
    pub fn add(&mut self, symbol: u16, symbols: usize, data: Cow<'_, [u8]>) -> Option<Vec<u8>> {
        if self.answer.as_ref().is_none_or(|answer| !answer.fits(symbols, data.len())) {
            // The shape has changed: the member has restarted.
            self.answer = Decoder::new(symbols, data.len()).ok().map(Box::new);
        }
        self.answer.as_mut()?.add(symbol, data.into_owned())
    }

    /// Number of symbols to request of its answer, which has probably `symbols`; all if `MAX`.
    pub fn requested(&self, settings: &FecSettings, symbols: usize) -> u8 {
        // Request more after unanswered requests: too few symbols, or a lost request.
        let missing = self.answer.as_ref().map(|answer| answer.missing());
        let missing = missing.map(|missing| missing + self.unanswered as usize / 2);
        let number = match self.loss {
            None => missing,
            Some(loss) => {
                let own = FecSettings { loss, ..*settings };
                let lacking = missing.unwrap_or(symbols);
                let sent = own.burst(lacking, 1);
                // The member adds symbols for the loss of the others.
                Some((f64::from(sent) * (1.0 - settings.loss)).round() as usize)
            }
        };
        number.map_or(u8::MAX, |number| number.min(254) as u8)
    }
}
