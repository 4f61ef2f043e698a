//! Timeouts of messages, and the ends of their lifetimes.

use super::ArqSender;
use crate::Instant;
use crate::Span;
use crate::arq::sending::Sending;
use crate::arq::settings::Outcome;
use crate::arq::timeout::MAX_DOUBLED;

impl ArqSender {
    /// On a timeout, sends the last missing chunk, then more with each further timeout: loss bursts
    /// end after a number of frames, not after a time.
    pub(super) fn time_out(&mut self, now: Instant) {
        let (mut bundle, mut probed) = (None, false);
        for (message, sending) in self.sending.iter_mut() {
            if sending.ask_at.is_some_and(|at| at <= now) {
                if core::mem::replace(&mut probed, self.responses.is_silent()) {
                    sending.ask_at = Some(now + self.responses.timeout(sending.tries));
                    continue;
                }
                // The timeout of the next attempt begins when its last chunk is sent.
                sending.ask_at = None;
                sending.tries += 1;
                bundle = bundle.max(sending.bundle.take());
                let sent_at = sending.asked.last().map(|attempt| attempt.asked_at);
                sent_at.into_iter().for_each(|sent_at| self.responses.late(sent_at, now));
                // A path that always loses much has not become slower.
                if self.responses.are_unexplained() {
                    self.late = sent_at.or(self.late);
                }
                // No more than the rate permits in that time: a silent path is probed seldom and slowly.
                let each = self.pace.airtime(sending.chunk(0)).max(Span::from_ns(1));
                let fit = self.responses.timeout(0).as_ns() / each.as_ns();
                // Where nothing comes back, one chunk shows when something does.
                let silent = self.responses.is_silent();
                let most = if silent { 1 } else { 1 << (sending.tries - 1).min(MAX_DOUBLED) };
                let most = most.min(fit.max(1) as usize);
                sending.train = sending.missing;
                for _ in most..sending.missing.len() {
                    sending.train.pop_first();
                }
                self.ready.insert(message, ());
            }
        }
        // The messages of a bundle are late together.
        bundle.into_iter().for_each(|bytes| self.longest.lost(bytes, now));
    }

    pub(super) fn look_again(&self) -> Option<Instant> {
        let sending = self.sending.values();
        sending.flat_map(|sending| [sending.ask_at, sending.until]).flatten().min()
    }

    /// Drops messages whose lifetime is over.
    pub(super) fn expire(&mut self, now: Instant) {
        let over = |sending: &Sending| sending.until.is_some_and(|until| until <= now);
        let (done, ready) = (&mut self.done, &mut self.ready);
        self.sending.retain(|message, sending| {
            let over = over(sending);
            if over {
                ready.remove(message);
            }
            done.extend(over.then_some((message, Outcome::Expired)));
            !over
        });
        self.waiting.retain(|(message, sending)| {
            let over = over(sending);
            done.extend(over.then_some((*message, Outcome::Expired)));
            !over
        });
    }
}
