//! A session's member: the leaf endpoint.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
mod event;
mod filters;
mod handshakes;
mod joining;
mod leaving;
mod presence;
mod receipts;
mod received;
mod reports;
mod stored;
mod topics;
mod uplink;

pub use self::event::MemberEvent;
use self::filters::Filters;
use self::handshakes::{Handshakes, Link};
use self::leaving::Leaving;
use self::received::{ReceivedMessage, forget};
use self::reports::Reports;
use super::{Security, SessionError};
use crate::carrier::{self, MemberCarrier};
use crate::downlink::Receipts;
use crate::envelope::{self, Data, Echo, FromMember, lifetime};
use crate::handshake;
use crate::keys::{Psk, Root};
use crate::message_map::MessageMap;
use crate::model::{ModelId, Models};
use crate::rng::{Rng, Seed};
use crate::switch::MessageId;
use crate::uplink::{Lane, Stored, Uplink};
use crate::window::Window;
use crate::{Instant, Span};
use alloc::collections::{BTreeMap, VecDeque};

/// Number of answers kept for retransmission: as many as a hub has open messages.
const ANSWERS: usize = 1_024;

/// A former model is removed after this idle time.
const LEFT: Span = Span::from_s(30);

/// A model in use.
struct Stage {
    model: ModelId,
    /// The group's keys in this epoch.
    root: Root,
    /// Time of the last datagram on it.
    received_at: Instant,
    carrier: Box<dyn MemberCarrier>,
}

/// The joined session.
struct Joined {
    link: Link,
    epoch: u32,
    stages: BTreeMap<u32, Stage>,
    /// Count of the last multicast probe.
    probes: u32,
    window: Window,
    newest: MessageId,
    open: MessageMap<ReceivedMessage>,
}

/// A session's member: the leaf endpoint.
pub struct Member {
    psk: Option<Psk>,
    models: Models,
    below: usize,
    handshakes: Handshakes,
    joined: Option<Joined>,
    reports: Reports,
    control: VecDeque<Vec<u8>>,
    rng: Rng,
    uplink: Uplink,
    filters: Filters,
    /// Messages that outlast this start, if there is a storage.
    stored: Option<Stored>,
    /// Stored messages of hubs.
    receipts: Receipts,
    leaving: Leaving,
    events: VecDeque<MemberEvent>,
    /// Whether messages of the hub are dropped: the application does not take them.
    holds: bool,
    /// A buffer for the envelopes of a datagram.
    envelopes: Vec<Vec<u8>>,
}

impl Member {
    /// A member without a session. `below` is the header size below a datagram in bytes. Two starts
    /// of a member must not use the same seed.
    ///
    /// # Errors
    /// [`SessionError`] if the key is too short, or there is more than one.
    pub fn new(security: &Security, below: usize, seed: &Seed) -> Result<Self, SessionError> {
        Ok(Self {
            psk: security.of_member()?,
            models: carrier::available().into_iter().collect(),
            below,
            handshakes: Handshakes::default(),
            joined: None,
            reports: Reports::default(),
            control: VecDeque::new(),
            rng: Rng::new(seed),
            uplink: Uplink::default(),
            filters: Filters::default(),
            stored: None,
            receipts: Receipts::default(),
            leaving: Leaving::default(),
            events: VecDeque::new(),
            holds: false,
            envelopes: Vec::new(),
        })
    }

    /// Restricts the member to these of the compiled-in models.
    #[must_use]
    pub fn with_models(mut self, models: Models) -> Self {
        self.models = self.models.and(models);
        self
    }

    /// Adds models of external stacks for which the member has an adapter.
    #[must_use]
    pub fn with_outside(mut self, models: &[ModelId]) -> Self {
        let outside = models.iter().copied().filter(|model| model.is_outside());
        self.models = self.models.or(outside.collect());
        self
    }

    /// Reports to the hub after each interval in which nothing was sent, so that a NAT keeps its
    /// binding; if the hub does not answer several reports, the member begins a handshake. Intervals
    /// below 15 s count as 15 s (RFC 8085, 3.5).
    #[must_use]
    pub fn with_keep_alive(mut self, interval: Span) -> Self {
        self.reports = Reports::with_keep_alive(interval);
        self
    }

    /// Sets whether messages of the hub count as lost, because too many wait for the application.
    pub fn hold(&mut self, holds: bool) {
        self.holds = holds;
    }

    /// Handles a datagram from the hub or the group, or a frame of an external stack.
    pub fn receive(&mut self, datagram: &[u8], now: Instant) {
        // A hub that does not answer may have other keys than this member.
        let joined = self.joined.as_ref().filter(|_| !self.reports.is_lost());
        let joined = joined.map(|joined| joined.link.welcome.session);
        if let Some(session) = handshake::announced(datagram) {
            if joined == Some(session) {
                // Only members without keys get it: the hub has none of this start, perhaps no longer.
                self.reports.doubt(now);
            }
            self.handshakes.announced(session, joined, now);
            return;
        }
        if handshake::is_welcome(datagram) {
            self.handshakes.welcomed(datagram, joined, now);
            return;
        }
        if envelope::is_invitation(datagram) {
            self.invitation(datagram, now);
            return;
        }
        if self.joined.is_none() {
            self.handshakes.heard(now);
        }
        if let Some(frame) = Lane::frame(datagram) {
            if self.uplink.receive(frame, now) {
                self.reports.record_arrival();
            }
            self.take_outcomes(now);
            return;
        }
        let Some(joined) = &mut self.joined else { return };
        if envelope::is_envelope(datagram)
            && let Some(count) = joined.probed(datagram)
        {
            joined.ready(self.models, Echo::of_probe(count), 0, &mut self.control);
        }
        if self.holds {
            return;
        }
        if envelope::is_envelope(datagram) {
            // A bare envelope belongs to the plain model; it carries its epoch.
            self.message(datagram.to_vec(), now);
            return;
        }
        let mut whole = core::mem::take(&mut self.envelopes);
        // Frames of external stacks carry no epoch, but their envelopes do: any stage will do.
        let outside = carrier::model_of(datagram);
        let newest = joined.stages.iter().rev().find(|(_, stage)| Some(stage.model) == outside);
        let newest = newest.map(|(epoch, _)| *epoch);
        for (epoch, stage) in &mut joined.stages {
            if carrier::is_of(stage.model, datagram) && newest.is_none_or(|newest| newest == *epoch)
            {
                stage.received_at = now;
                stage.carrier.receive(datagram, &mut whole, now);
                forget(&mut *stage.carrier, &mut joined.open);
            }
        }
        for envelope in whole.drain(..) {
            let number = self.message(envelope, now);
            let stages = self.joined.iter_mut().flat_map(|joined| joined.stages.values_mut());
            stages.for_each(|stage| stage.carrier.opened(number));
        }
        self.envelopes = whole;
    }

    /// Takes a message; returns its number if it is from the hub.
    fn message(&mut self, envelope: Vec<u8>, now: Instant) -> Option<MessageId> {
        let joined = self.joined.as_mut()?;
        let epoch = envelope::epoch_of_data(&envelope, joined.epoch)?;
        let stage = joined.stages.get(&epoch)?;
        let member = joined.link.welcome.member;
        let opened = envelope::open_data(&stage.root, epoch, joined.newest, member, envelope);
        let Data { number, bytes, topic, stored } = opened?;
        // Only after the seal was checked: the newest number restores the high bits of all that
        // follow.
        joined.newest = joined.newest.max(number);
        self.reports.record_arrival();
        let Some(mut bytes) = bytes else { return Some(number) };
        let is_plain = topic.is_none() && stored.is_none();
        let mut until = None;
        if is_plain && joined.link.welcome.answered {
            let lifetime = bytes.first_chunk()?;
            until = lifetime::decode(*lifetime).map(|lifetime| now + lifetime);
            bytes.drain(..lifetime::LENGTH);
        }
        if joined.window.insert(number) {
            // The library answers a message of a topic, and one of the storage: what became of that at the
            // application, the lane says.
            let answer = (!is_plain && joined.link.welcome.answered).then(Vec::new);
            let received = ReceivedMessage { epoch, bytes: bytes.len(), until, answer };
            joined.open.insert(number, received);
            if joined.open.len() > ANSWERS {
                joined.open.pop_first();
            }
            match (topic, stored) {
                (None, None) => self.events.push_back(MemberEvent::Message { number, bytes }),
                // The hub may have the list of before.
                (Some(topic), _) if self.filters.select(&topic) => {
                    self.events.push_back(MemberEvent::Published { topic, bytes });
                }
                (Some(_), _) => {}
                (None, Some(stored)) => {
                    if let Some(store) = joined.link.welcome.store {
                        self.receipts.arrive(store, number, stored, bytes);
                    }
                }
            }
        }
        let Some(received) = joined.open.get_mut(number) else { return Some(number) };
        // The answer goes over the newest model by which the hub has sent it: the hub awaits nothing of
        // those before, whose frames can arrive later.
        let is_answered = received.answer.is_some();
        received.epoch = if is_answered { epoch } else { received.epoch.max(epoch) };
        // A duplicate: the hub lacks the answer, so send it again.
        if is_answered || !joined.link.welcome.answered {
            let _ = joined.send(number, now);
        }
        Some(number)
    }

    /// Answers a message.
    ///
    /// # Errors
    /// [`SessionError`] if the session is over, or no model can carry the answer.
    pub fn answer(
        &mut self,
        number: MessageId,
        bytes: Vec<u8>,
        now: Instant,
    ) -> Result<(), SessionError> {
        let joined = self.joined.as_mut().ok_or(SessionError::Over)?;
        let received = joined.open.get_mut(number).ok_or(SessionError::Over)?;
        // A number is a nonce: another answer under it must not be sealed (decision 63).
        if received.answer.is_some() {
            return Ok(());
        }
        received.answer = Some(bytes);
        joined.send(number, now)
    }

    /// The next datagram to the hub at `now`, and the time of the next poll.
    pub fn poll(&mut self, now: Instant) -> (Option<Vec<u8>>, Option<Instant>) {
        let (datagram, wake) = self.next_datagram(now);
        if datagram.is_some() {
            self.reports.record_sent(now);
        }
        (datagram, wake)
    }

    fn next_datagram(&mut self, now: Instant) -> (Option<Vec<u8>>, Option<Instant>) {
        if let Some(control) = self.control.pop_front() {
            return (Some(control), Some(now));
        }
        if self.has_left() {
            return (None, self.end_in_time(now));
        }
        self.report(now);
        if let Some(control) = self.control.pop_front() {
            return (Some(control), Some(now));
        }
        let mut wake = self.reports.wake().filter(|_| self.joined.is_some());
        let lost = self.joined.is_none() || self.reports.is_lost();
        if lost || self.handshakes.are_wanted() {
            let (hello, next) = self.handshakes.hello(self.psk.as_ref(), &mut self.rng, now);
            if hello.is_some() {
                // Other datagrams of a session may be due now.
                return (hello, Some(if self.joined.is_some() { now } else { next }));
            }
            wake = [wake, Some(next)].into_iter().flatten().min();
        }
        if let Some(joined) = &mut self.joined {
            let epoch = joined.epoch;
            joined.stages.retain(|known, stage| *known == epoch || now < stage.received_at + LEFT);
            for stage in joined.stages.values_mut() {
                let (datagram, look) = stage.carrier.poll(now);
                forget(&mut *stage.carrier, &mut joined.open);
                wake = [wake, look].into_iter().flatten().min();
                if datagram.is_some() {
                    return (datagram, wake);
                }
            }
        }
        self.restore_filters(now);
        self.poll_receipts(now);
        let stored = self.poll_stored(now);
        let (datagram, look) = self.uplink.poll(now);
        self.take_outcomes(now);
        (datagram, [wake, look, stored].into_iter().flatten().min())
    }

    /// Reports to the hub, if it is time.
    fn report(&mut self, now: Instant) {
        let Some(joined) = &mut self.joined else { return };
        if self.uplink.is_stalled(now) {
            self.reports.doubt(now);
        }
        if self.reports.is_due(now) {
            let report =
                joined.link.alive(joined.epoch, self.models, self.uplink.stalled_datagram());
            self.control.push_back(report);
        }
    }

    /// Events since the last call.
    pub fn take_events(&mut self) -> VecDeque<MemberEvent> {
        self.take_stored_outcomes();
        self.take_stored_messages();
        core::mem::take(&mut self.events)
    }
}

impl Joined {
    /// Reports the current epoch to the hub, in a datagram of at least `size` bytes.
    fn ready(&mut self, have: Models, echo: Echo, size: usize, control: &mut VecDeque<Vec<u8>>) {
        control.push_back(self.link.ready(self.epoch, have, echo, size));
    }

    /// The count of a datagram that is a new multicast probe of this member.
    fn probed(&mut self, datagram: &[u8]) -> Option<u32> {
        let open =
            |(epoch, stage): (&u32, &Stage)| envelope::open_probe(&stage.root, *epoch, datagram);
        let (count, member) = self.stages.iter().find_map(open)?;
        // Probes for other members count too, so that a recorded one is never new.
        let new = count > self.probes;
        self.probes = self.probes.max(count);
        (new && member == self.link.welcome.member).then_some(count)
    }

    /// Sends the answer to a message, or an acknowledgement if it has none, over the model of the message, or
    /// over the newest one.
    fn send(&mut self, number: MessageId, now: Instant) -> Result<(), SessionError> {
        let ReceivedMessage { epoch, bytes, until, answer } =
            self.open.get(number).ok_or(SessionError::Over)?;
        if until.is_some_and(|until| until <= now) {
            return Ok(());
        }
        let epoch = if self.stages.contains_key(epoch) { *epoch } else { self.epoch };
        let stage = self.stages.get_mut(&epoch).ok_or(SessionError::Over)?;
        // The transport's frame says the same.
        if answer.is_none() && stage.carrier.acknowledges() {
            return Ok(());
        }
        let (root, member) = (&self.link.root, self.link.welcome.member);
        let sealed = match answer {
            Some(answer) => envelope::seal_answer(root, epoch, member, number, answer),
            None => envelope::seal_member(root, epoch, member, &FromMember::Acknowledge(number)),
        };
        let sent = stage.carrier.answer(number, *bytes, sealed, *until, now);
        sent.map_err(|why| SessionError::Refused(stage.model, why))
    }
}
