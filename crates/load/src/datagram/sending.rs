//! Sends requests that are due, in batches.

use super::handle::Handle;
use super::nstart::Nstart;
use super::{BatchEntry, MAX_SEND, Sender};
use crate::coap::{Exchange, number_request, tag};
use crate::request_feed::Operation;
use crate::request_queue::{SlotTimes, Waiting};
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use trace::Scheme;
use units::Instant;

impl Sender<'_> {
    /// Adds requests whose turn by NSTART has come to the batch.
    fn fill(&mut self) {
        while self.out.len() < MAX_SEND {
            let Some(next) = self.nstart.as_mut().and_then(Nstart::pop) else { break };
            let (target, Waiting { number, intended, operation }, slot) = next;
            self.put(intended, operation, number, Some((number, target, slot)));
        }
    }

    /// Adds one request to the batch.
    pub(super) fn put(
        &mut self,
        intended: Instant,
        operation: Operation,
        number: u64,
        slot: Option<(u64, u32, SlotTimes)>,
    ) {
        let Some(name) = self.core.targets.name(operation.template) else { return };
        let template = &self.core.pacer.templates[operation.template as usize];
        let (scheme, handle) = (self.scheme, Handle::of(number));
        let token = handle.token(self.nonce);
        let id = if scheme == Scheme::Coap { self.ids.assign(handle) } else { 0 };
        self.out.push(name, |room| {
            let length = template.bytes.len().min(room.len());
            room[..length].copy_from_slice(&template.bytes[..length]);
            match scheme {
                Scheme::Coap => {
                    number_request(&mut room[..length], id, token);
                    if template.number_at > 0
                        && let Some(room) = room.get_mut(template.number_at..template.number_at + 4)
                    {
                        room.copy_from_slice(&tag(token));
                    }
                }
                _ => room[..8].copy_from_slice(&token.to_be_bytes()),
            }
            length
        });
        self.entries.push(BatchEntry { intended, operation, slot, id });
    }

    /// Sends the batch. The send time of a request is interpolated within the system call:
    /// each request follows the one before by the minimum time per request so far. If the
    /// CPU was taken away within the call, it is unknown at which request that happened. Returns
    /// whether there was anything to send.
    pub(super) fn send(&mut self) -> bool {
        self.fill();
        let mut from = 0;
        while from < self.out.len() {
            let before = clock::now();
            let result = self.out.send(&self.socket, from);
            let after = clock::now();
            match result {
                Ok(count) => {
                    self.min_send_time =
                        self.min_send_time.min((after - before) / count.max(1) as u64);
                    for i in 0..count {
                        self.note_sent(from + i, before + self.min_send_time * i as u64, false);
                    }
                    from += count;
                    self.core.shared.sent.fetch_add(count as u64, Relaxed);
                }
                Err(error) => from += self.not_taken(&error, from, before),
            }
        }
        self.out.clear();
        self.entries.clear();
        from > 0
    }

    /// Records that the request at `i` of the batch was sent, or that the kernel `refused`
    /// it. Returns its number.
    fn note_sent(&mut self, i: usize, sent: Instant, refused: bool) -> u64 {
        let answers = refused || self.core.settings.answers || self.scheme == Scheme::Coap;
        let BatchEntry { intended, operation, slot, id } = self.entries[i];
        let number = match (slot, &mut self.nstart) {
            (Some((number, target, slot)), Some(nstart)) => {
                let wait = nstart.wait(target, &slot, intended, sent);
                self.core.outstanding.dequeued(number, sent, wait, answers);
                self.core.shared.lag.store((sent - (intended + wait)).as_ns(), Relaxed);
                number
            }
            _ => self.core.outstanding.sent(operation, intended, sent, answers),
        };
        let request = self.core.pacer.templates[operation.template as usize].coap.as_deref();
        let Some(request) = request else { return number };
        let repeats = request.is_confirmable() && self.core.settings.coap.max_retransmit > 0;
        if repeats || request.is_blockwise() || slot.is_some() {
            let exchange = Exchange::new(request.body(), request.block());
            let (handle, times) = (Handle::of(number), (sent, sent + self.core.settings.timeout));
            let target = slot.map(|(_, target, _)| target);
            self.interactions.open(handle, operation.template, exchange, times, target);
            if repeats {
                self.interactions.transmitted(handle, id, self.out.get(i), sent);
            }
        }
        number
    }

    /// Handles a rejected send at index `at`. Returns the number of requests that it
    /// settles.
    fn not_taken(&mut self, error: &io::Error, at: usize, now: Instant) -> usize {
        match error.kind() {
            // The buffer is full, or an earlier request's error was pending.
            io::ErrorKind::WouldBlock => {
                self.receive();
                return 0;
            }
            io::ErrorKind::Interrupted => return 0,
            _ if self.take_rejected() > 0 => return 0,
            _ => {}
        }
        // ECONNREFUSED may belong to the answers received just before.
        if error.raw_os_error() == Some(libc::ECONNREFUSED) {
            return 0;
        }
        let number = self.note_sent(at, now, true);
        self.lost(Handle::of(number), &format!("the kernel rejected a datagram: {error}"));
        1
    }
}
