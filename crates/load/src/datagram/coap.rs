//! Handles received CoAP messages: acknowledgements, further blocks, ends of observations.

use super::Sender;
use super::handle::{Handle, Purpose};
use super::interactions::Due;
use super::observers::{self, NotificationOutcome};
use crate::coap::{self, AnswerOptions, BadOption, Exchange, Kind, Message, Next, Step};
use crate::request_queue::SlotTimes;
use crate::socket::{Address, Batch};
use units::{Instant, Span};

impl Sender<'_> {
    /// Handles the message at `i` of a batch.
    pub(super) fn coap(&mut self, into: &Batch, i: usize, now: Instant) {
        let from = into.name(i);
        let message = match Message::parse(into.get(i)) {
            Ok(message) => message,
            Err(malformed) => {
                self.core.outstanding.others.malformed += 1;
                return self.reset(from, malformed.reset);
            }
        };
        let arrived = into.arrived(i, now);
        if !message.is_response() {
            return self.no_response(&message, from, arrived);
        }
        let token = coap::token_number(message.token);
        let handle = token.and_then(|token| Handle::from_token(token, self.nonce));
        let accepted = match handle {
            // The common case: a plain answer.
            Some(handle) if self.is_plain() && !message.has_options() => {
                let code = message.code;
                self.core.outstanding.answered(handle.number(), now, u16::from(code), code >= 0x80);
                true
            }
            Some(handle) => self.response(handle, &message, from, now, arrived),
            None => {
                self.core.outstanding.others.unexpected += 1;
                false
            }
        };
        if message.kind == Kind::Confirmable {
            match accepted {
                true => {
                    self.push(from, |room| coap::empty(room, Kind::Acknowledgement, message.id))
                }
                false => self.reset(from, Some(message.id)),
            }
        }
    }

    /// Whether all outstanding requests need only one answer.
    fn is_plain(&self) -> bool {
        self.interactions.is_empty() && self.observers.is_empty() && !self.observes()
    }

    fn observes(&self) -> bool {
        self.core.settings.coap.observe.is_some()
    }

    /// Rejects a confirmable message (RFC 7252, section 4.2).
    fn reset(&mut self, to: &Address, id: Option<u16>) {
        if let Some(id) = id {
            self.push(to, |room| coap::empty(room, Kind::Reset, id));
        }
    }

    /// Handles an empty message, or a request, which is rejected: a sender is no server.
    fn no_response(&mut self, message: &Message, from: &Address, arrived: Instant) {
        let origin = self.ids.find(message.id, self.core.outstanding.next());
        match (message.kind, origin) {
            (Kind::Reset, Some(handle)) => {
                self.lost(handle, "the target refused a message (CoAP reset)");
            }
            (Kind::Reset, None) => self.core.outstanding.others.unexpected += 1,
            // A separate response follows (section 5.2.2); the interaction no longer counts
            // for NSTART.
            (Kind::Acknowledgement, Some(handle)) if message.code == 0 => {
                let one = self.interactions.acknowledged(handle, Some(message.id));
                let slot = one.and_then(|one| Some((one.target.take()?, one.sent)));
                self.release(slot, arrived);
            }
            _ => {
                self.core.outstanding.others.unexpected += u64::from(message.code != 0);
                if message.kind == Kind::Confirmable {
                    self.reset(from, Some(message.id));
                }
            }
        }
    }

    /// Frees a slot of NSTART.
    fn release(&mut self, slot: Option<(u32, Instant)>, at: Instant) {
        if let (Some((target, sent)), Some(nstart)) = (slot, &mut self.nstart) {
            let at = at.max(sent);
            nstart.release(target, SlotTimes::freed(at, at - sent));
        }
    }

    /// Ends an interaction, if it exists.
    fn close(&mut self, handle: Handle, at: Instant) {
        if let Some(one) = self.interactions.close(handle) {
            self.release(one.target.map(|target| (target, one.sent)), at);
        }
    }

    /// Handles a target that cannot be reached or rejects a message, with the reason.
    pub(super) fn lost(&mut self, handle: Handle, why: &str) {
        let number = handle.number();
        self.core.outstanding.unreachable(number, why);
        self.close(handle, clock::now());
        if handle.purpose() != Purpose::Blocks && self.observers.has(number) {
            self.observers.lost(number);
            self.core.outstanding.explain(why);
        }
    }

    /// Handles a response. Returns whether it is accepted.
    fn response(
        &mut self,
        handle: Handle,
        message: &Message,
        from: &Address,
        now: Instant,
        arrived: Instant,
    ) -> bool {
        let options = match AnswerOptions::read(message) {
            Ok(options) => options,
            Err(BadOption(number)) => {
                self.core.outstanding.others.malformed += 1;
                self.core
                    .outstanding
                    .explain(&format!("an answer with the unknown critical option {number}"));
                return false;
            }
        };
        let number = handle.number();
        if handle.purpose() == Purpose::Operation && self.observers.has(number) {
            return self.notification(number, message, &options, now);
        }
        let (code, carried) = (message.code, message.payload.len());
        let known = self.interactions.get_mut(handle).is_some();
        let expected = known || self.core.outstanding.find_waiting(number).is_some();
        if handle.purpose() != Purpose::Operation && !known {
            // A block of a finished transfer.
            self.core.outstanding.others.unexpected += 1;
            return true;
        }
        if options.observe.is_some() && !expected {
            // A notification after the end of the observation: a reset tells the server to
            // stop (RFC 7641, section 3.6).
            self.core.outstanding.others.unexpected += 1;
            self.reset(from, Some(message.id).filter(|_| message.kind != Kind::Confirmable));
            return false;
        }
        let step = match self.interactions.acknowledged(handle, None) {
            Some(one) => one.exchange.answer(code, &options, carried),
            None if options.block2.is_some_and(|block| block.more) => {
                self.first_block(handle, code, &options, carried)
            }
            None => Step::Done,
        };
        match step {
            Step::Repeat => self.core.outstanding.others.duplicates += 1,
            Step::Send(next) => {
                let handle = self.observed_blocks(handle, code, &options, now);
                self.continue_with(handle, &next, now);
            }
            Step::Done | Step::Failed(_) => {
                let failed = matches!(step, Step::Failed(_));
                if let Step::Failed(why) = step {
                    self.core.outstanding.explain(&format!("block-wise transfer: {why}"));
                }
                self.close(handle, arrived);
                self.observe(handle, code, &options, now);
                let waits = self.core.outstanding.find_waiting(number).is_some();
                if handle.purpose() == Purpose::Operation || waits {
                    self.core.outstanding.answered(
                        number,
                        now,
                        u16::from(code),
                        failed || code >= 0x80,
                    );
                }
            }
        }
        true
    }

    /// Handles the first block of an answer to a request in a single message. The transfer
    /// continues if the answer is still awaited.
    fn first_block(
        &mut self,
        handle: Handle,
        code: u8,
        options: &AnswerOptions,
        carried: usize,
    ) -> Step {
        let Some((template, _, sent)) = self.core.outstanding.find_waiting(handle.number()) else {
            return Step::Done;
        };
        let mut exchange = Exchange::of_answer();
        let step = exchange.answer(code, options, carried);
        if let Step::Send(_) = step {
            let times = (sent, sent + self.core.settings.timeout);
            self.interactions.open(handle, template, exchange, times, None);
        }
        step
    }

    /// Handles the first answer to an observe request: registers the observation if the
    /// target accepted it.
    fn observe(&mut self, handle: Handle, code: u8, options: &AnswerOptions, now: Instant) {
        let Some(span) = self.core.settings.coap.observe else { return };
        let Some((template, series, _)) = self.core.outstanding.find_waiting(handle.number())
        else {
            return;
        };
        let request = self.core.pacer.templates[template as usize].coap.as_deref();
        if handle.purpose() != Purpose::Operation || !request.is_some_and(coap::Request::observes) {
            return;
        }
        match options.observe.filter(|_| code >> 5 == 2) {
            Some(sequence) => {
                let end = now + span;
                let freshness = (sequence, options.max_age);
                self.observers.register(handle.number(), (template, series), now, end, freshness);
            }
            None => self.observers.counts.refused += 1,
        }
    }

    /// The handle for the further blocks of an answer. An observation's blocks need a
    /// separate token (RFC 7959, section 2.6).
    fn observed_blocks(
        &mut self,
        handle: Handle,
        code: u8,
        options: &AnswerOptions,
        now: Instant,
    ) -> Handle {
        if handle.purpose() != Purpose::Operation || options.observe.is_none() {
            return handle;
        }
        self.observe(handle, code, options, now);
        if !self.observers.has(handle.number()) {
            return handle;
        }
        let blocks = Handle::new(Purpose::Blocks, handle.number());
        self.interactions.rename(handle, blocks, now + self.core.settings.timeout);
        blocks
    }

    /// Handles a further answer to an observe request.
    fn notification(
        &mut self,
        number: u64,
        message: &Message,
        options: &AnswerOptions,
        now: Instant,
    ) -> bool {
        let sequence = options.observe.filter(|_| message.code >> 5 == 2);
        let Some(sequence) = sequence else {
            // The observation ends: cancelled by this sender, by an error, or by the
            // target.
            if !self.observers.ended(number) {
                self.core.outstanding.explain("the target ended an observation");
            }
            self.interactions.close(Handle::new(Purpose::Deregistration, number));
            return true;
        };
        let freshness = (sequence, options.max_age);
        let origin = self.observers.origin(number);
        let (Some((template, series)), Some(NotificationOutcome::Fresh(since))) =
            (origin, self.observers.notified(number, now, freshness))
        else {
            return true;
        };
        self.core.outstanding.notified(series, since);
        if options.block2.is_some_and(|block| block.more) {
            // A newer notification replaces one whose blocks are still under way.
            let handle = Handle::new(Purpose::Blocks, number);
            let mut exchange = Exchange::of_answer();
            if let Step::Send(next) = exchange.answer(message.code, options, message.payload.len())
            {
                let times = (now, now + self.core.settings.timeout);
                self.interactions.open(handle, template, exchange, times, None);
                self.continue_with(handle, &next, now);
            }
        }
        true
    }

    /// Sends a further message of an interaction.
    fn continue_with(&mut self, handle: Handle, next: &Next, now: Instant) {
        let Some(one) = self.interactions.get_mut(handle) else { return };
        let template = one.template;
        self.transmit(handle, handle, template, next, None, now);
    }

    /// Sends a message of a template with the token of `token`, and schedules
    /// retransmissions if enabled.
    fn transmit(
        &mut self,
        handle: Handle,
        token: Handle,
        template: u32,
        next: &Next,
        observe: Option<u32>,
        now: Instant,
    ) {
        if self.extra.is_full() {
            self.flush();
        }
        let request = self.core.pacer.templates[template as usize].coap.as_deref();
        let (Some(request), Some(name)) = (request, self.core.targets.name(template)) else {
            return;
        };
        let (id, token) = (self.ids.assign(handle), token.token(self.nonce));
        self.extra.push(name, |room| request.write(room, id, token, next, observe));
        if request.is_confirmable() {
            let bytes = self.extra.get(self.extra.len() - 1);
            self.interactions.transmitted(handle, id, bytes, now);
        }
    }

    /// Handles all timers that are due: retransmissions, timeouts of interactions,
    /// cancellations of observations.
    pub(super) fn expire_interactions(&mut self, now: Instant) {
        while let Some(due) = self.interactions.due(now) {
            match due {
                Due::Again(handle, bytes) => {
                    let one = self.interactions.get_mut(handle).map(|one| one.template);
                    let Some(name) = one.and_then(|template| self.core.targets.name(template))
                    else {
                        continue;
                    };
                    if self.extra.is_full() {
                        let _ = self.extra.send(&self.socket, 0);
                        self.extra.clear();
                    }
                    self.extra.push(name, |room| {
                        let length = bytes.len().min(room.len());
                        room[..length].copy_from_slice(&bytes[..length]);
                        length
                    });
                }
                Due::Unacknowledged(handle) => {
                    self.give_up(handle, now);
                    self.core
                        .outstanding
                        .explain("not acknowledged after the maximum of retransmissions");
                }
                Due::Deadline(handle) => self.give_up(handle, now),
            }
        }
        while let Some(due) = self.observers.due(now, self.core.settings.timeout) {
            let (observers::Due::Deregister(number, _) | observers::Due::Unanswered(number)) = due;
            let handle = Handle::new(Purpose::Deregistration, number);
            self.interactions.close(handle);
            if let observers::Due::Deregister(_, template) = due {
                let times = (now, now + self.core.settings.timeout);
                let exchange = Exchange::of_answer();
                self.interactions.open(handle, template, exchange, times, None);
                let next = Next::first(0, 1);
                self.transmit(handle, Handle::of(number), template, &next, Some(1), now);
            }
        }
        let timeout = self.core.settings.timeout;
        while let Some((waiting, machine_bound)) = self
            .nstart
            .as_mut()
            .and_then(|nstart| nstart.expired(now, timeout.max(Span::from_ns(1))))
        {
            match machine_bound {
                true => self.core.outstanding.too_late(waiting.number),
                false => {
                    self.core.outstanding.no_connection(waiting.number);
                    self.core.outstanding.explain("waited for NSTART longer than the timeout");
                }
            }
        }
        self.flush();
    }

    /// Ends an interaction that got no answer.
    fn give_up(&mut self, handle: Handle, now: Instant) {
        self.close(handle, now);
        if handle.purpose() != Purpose::Deregistration {
            self.core.outstanding.time_out(handle.number());
        }
    }
}
