//! A session's member: the leaf endpoint.

use super::{Security, SessionError};
use crate::Nanos;
use crate::carrier::{self, MemberCarrier, Params};
use crate::envelope::{self, FromMember, Invitation, Sender};
use crate::keys::{Root, ShortKey};
use crate::model::{ModelId, Models};
use crate::rng::Rng;
use crate::switch::MessageId;
use crate::window::Window;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddrV4;

/// An event at a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberEvent {
    /// The member has joined a session or one of its epochs; multicast uses this group.
    Joined {
        /// The group.
        group: SocketAddrV4,
        /// The model of the epoch.
        model: ModelId,
    },
    /// A message has arrived; each message is reported once.
    Message {
        /// Its number.
        number: MessageId,
        /// The message.
        bytes: Vec<u8>,
    },
}

/// Number of answers kept for retransmission.
const ANSWERS: usize = 64;
/// Size of the replay window, in messages.
const WINDOW: usize = 1 << 14;
/// Initial interval between hellos; doubled up to a factor of 32.
const HELLO_EVERY: Nanos = 500_000_000;

/// A former model is removed after this idle time.
const LEFT: Nanos = 30_000_000_000;

/// A model in use.
struct Stage {
    model: ModelId,
    /// Time of the last datagram on it.
    received_at: Nanos,
    carrier: Box<dyn MemberCarrier>,
}

/// The joined session.
struct Joined {
    root: Root,
    sender: Sender,
    members: u16,
    epoch: u32,
    answered: bool,
    stages: BTreeMap<u32, Stage>,
    window: Window,
    newest: MessageId,
    open: BTreeMap<MessageId, ReceivedMessage>,
}

/// A received message.
struct ReceivedMessage {
    /// The epoch in which it last arrived.
    epoch: u32,
    bytes: usize,
    answer: Option<Vec<u8>>,
}

/// A session's member: the leaf endpoint.
pub struct Member {
    security: Security,
    models: Models,
    invites: Root,
    incarnation: u32,
    below: usize,
    joined: Option<Joined>,
    /// Time of the next hello, and the number of hellos sent.
    hello_at: Nanos,
    hellos: u32,
    control: VecDeque<Vec<u8>>,
    rng: Rng,
    events: VecDeque<MemberEvent>,
}

impl Member {
    /// A member without a session. `below` is the header size below a datagram in bytes. `seed`
    /// must be random: two starts of a member must not use the same one.
    ///
    /// # Errors
    /// [`ShortKey`] if the key is too short.
    pub fn new(security: Security, below: usize, seed: u64) -> Result<Self, ShortKey> {
        let invites = security.root(0)?;
        Ok(Self {
            security,
            models: carrier::available().into_iter().collect(),
            invites,
            incarnation: (seed >> 32) as u32 ^ seed as u32,
            below,
            joined: None,
            hello_at: 0,
            hellos: 0,
            control: VecDeque::new(),
            rng: Rng::new(seed),
            events: VecDeque::new(),
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

    /// Handles a datagram from the hub or the group, or a frame of an external stack.
    pub fn receive(&mut self, datagram: &[u8], now: Nanos) {
        if let Some(invitation) = Invitation::open(&self.invites, datagram) {
            self.invited(&invitation, now);
            return;
        }
        let Some(joined) = &mut self.joined else { return };
        if let Some(asked) = envelope::open_probe(&joined.root, datagram) {
            if asked == joined.sender.member {
                self.ready();
            }
            return;
        }
        if envelope::is_envelope(datagram) {
            // A bare envelope belongs to the plain model; it carries its epoch.
            self.message(datagram, now);
            return;
        }
        let mut whole = Vec::new();
        // Frames of external stacks carry no epoch, but their envelopes do: any stage will do.
        let outside = carrier::model_of(datagram);
        let newest = joined.stages.iter().rev().find(|(_, stage)| Some(stage.model) == outside);
        let newest = newest.map(|(epoch, _)| *epoch);
        for (epoch, stage) in &mut joined.stages {
            if carrier::is_of(stage.model, datagram) && newest.is_none_or(|newest| newest == *epoch)
            {
                stage.received_at = now;
                whole.extend(stage.carrier.receive(datagram, now));
            }
        }
        for envelope in whole {
            self.message(&envelope, now);
        }
    }

    /// Whether a unicast datagram should have arrived by multicast, which does not reach this
    /// member. To join the group again may help.
    pub fn misses_multicast(&self, datagram: &[u8]) -> bool {
        self.joined.as_ref().is_some_and(|joined| joined.members > 1) && carrier::asks(datagram)
    }

    fn invited(&mut self, invitation: &Invitation, now: Nanos) {
        let Ok(root) = self.security.root(invitation.session) else { return };
        // Ignore an old session or epoch: either its invitation was replayed, or the hub's clock
        // was set back.
        let known = self.joined.as_ref().map(|joined| (joined.root.session(), joined.epoch));
        let newer = known.is_none_or(|known| known < (invitation.session, invitation.epoch));
        if let Some(known) = known.filter(|known| *known > (invitation.session, invitation.epoch)) {
            // In the second case the hello tells the hub which session number to exceed.
            if known.0 > invitation.session && self.control.is_empty() {
                let draw = self.rng.bits();
                self.control.push_back(envelope::seal_hello(&self.invites, draw, known.0));
            }
            return;
        }
        let sender = Sender { member: invitation.member.0, incarnation: self.incarnation };
        if newer {
            let params = self.params(invitation, &root);
            let model = invitation.model.filter(|model| self.models.has(*model));
            let stage = model.and_then(|model| {
                let carrier = carrier::member(model, &params, sender.member)?;
                Some(Stage { model, received_at: now, carrier })
            });
            let Some(stage) = stage else {
                // A model of a later version or not compiled in: the hub must select another.
                let cannot = FromMember::Cannot(invitation.epoch, self.models);
                let sealed = envelope::seal_member(&root, invitation.epoch, sender, &cannot);
                self.control.push_back(sealed);
                return;
            };
            self.enter(invitation, root, sender, stage);
        }
        self.ready();
    }

    fn params(&mut self, invitation: &Invitation, root: &Root) -> Params {
        Params {
            root: root.clone(),
            epoch: invitation.epoch,
            members: invitation.member.1,
            datagram: usize::from(invitation.datagram),
            below: self.below,
            rate_bit_s: f64::from(invitation.rate_bit_s),
            loss: f64::from(invitation.loss) / 255.0,
            round_trip: invitation.round_trip,
            answer: 0,
            efficient: false,
            seed: self.rng.bits(),
        }
    }

    /// Changes to an epoch, of this session or of a new one.
    fn enter(&mut self, invitation: &Invitation, root: Root, sender: Sender, stage: Stage) {
        let joined = match &mut self.joined {
            Some(joined) if joined.root.session() == invitation.session => joined,
            joined => joined.insert(Joined {
                root,
                sender,
                members: invitation.member.1,
                epoch: invitation.epoch,
                answered: invitation.answered,
                stages: BTreeMap::new(),
                window: Window::new(WINDOW),
                newest: invitation.next,
                open: BTreeMap::new(),
            }),
        };
        joined.epoch = invitation.epoch;
        let (group, model) = (invitation.group, stage.model);
        joined.stages.insert(invitation.epoch, stage);
        // Keep the previous model: it can have messages in flight.
        while joined.stages.len() > 2 {
            joined.stages.pop_first();
        }
        self.events.push_back(MemberEvent::Joined { group, model });
    }

    /// Reports the current epoch to the hub.
    fn ready(&mut self) {
        let Some(joined) = &self.joined else { return };
        let ready = FromMember::Ready(joined.epoch, self.models);
        let sealed = envelope::seal_member(&joined.root, joined.epoch, joined.sender, &ready);
        self.control.push_back(sealed);
    }

    fn message(&mut self, envelope: &[u8], now: Nanos) {
        let Some(joined) = &mut self.joined else { return };
        let near = (joined.epoch, joined.newest);
        let Some((epoch, number, bytes)) = envelope::open_data(&joined.root, near, envelope) else {
            return;
        };
        joined.newest = joined.newest.max(number);
        if joined.window.insert(number) {
            let received = ReceivedMessage { epoch, bytes: bytes.len(), answer: None };
            joined.open.insert(number, received);
            if joined.open.len() > ANSWERS {
                joined.open.pop_first();
            }
            self.events.push_back(MemberEvent::Message { number, bytes });
        }
        let Some(received) = joined.open.get_mut(&number) else { return };
        received.epoch = epoch;
        // A duplicate: the hub lacks the answer, so send it again.
        let answer = received.answer.clone();
        if let Some(answer) = answer {
            let _ = joined.send(number, &FromMember::Answer(number, answer), now);
        } else if !joined.answered {
            let _ = joined.send(number, &FromMember::Acknowledge(number), now);
        }
    }

    /// Answers a message.
    ///
    /// # Errors
    /// [`SessionError`] if the session is over, or no model can carry the answer.
    pub fn answer(
        &mut self,
        number: MessageId,
        bytes: &[u8],
        now: Nanos,
    ) -> Result<(), SessionError> {
        let joined = self.joined.as_mut().ok_or(SessionError::Over)?;
        let received = joined.open.get_mut(&number).ok_or(SessionError::Over)?;
        if received.answer.is_some() {
            return Ok(());
        }
        received.answer = Some(bytes.to_vec());
        joined.send(number, &FromMember::Answer(number, bytes.to_vec()), now)
    }

    /// The next datagram to the hub at `now`, and the time of the next poll.
    pub fn poll(&mut self, now: Nanos) -> (Option<Vec<u8>>, Option<Nanos>) {
        if let Some(ready) = self.control.pop_front() {
            return (Some(ready), Some(now));
        }
        let Some(joined) = &mut self.joined else {
            if now < self.hello_at {
                return (None, Some(self.hello_at));
            }
            self.hello_at = now + (HELLO_EVERY << self.hellos.min(5));
            self.hellos += 1;
            let draw = self.rng.bits();
            return (Some(envelope::seal_hello(&self.invites, draw, 0)), Some(self.hello_at));
        };
        let epoch = joined.epoch;
        joined.stages.retain(|known, stage| *known == epoch || now < stage.received_at + LEFT);
        let mut wake = None;
        for stage in joined.stages.values_mut() {
            let (datagram, look) = stage.carrier.poll(now);
            wake = [wake, look].into_iter().flatten().min();
            if datagram.is_some() {
                return (datagram, wake);
            }
        }
        (None, wake)
    }

    /// Events since the last call.
    pub fn take_events(&mut self) -> VecDeque<MemberEvent> {
        std::mem::take(&mut self.events)
    }
}

impl Joined {
    /// Sends to the hub over the model of the message, or over the newest one.
    fn send(
        &mut self,
        number: MessageId,
        what: &FromMember,
        now: Nanos,
    ) -> Result<(), SessionError> {
        let ReceivedMessage { epoch, bytes, .. } =
            self.open.get(&number).ok_or(SessionError::Over)?;
        let epoch = if self.stages.contains_key(epoch) { *epoch } else { self.epoch };
        let stage = self.stages.get_mut(&epoch).ok_or(SessionError::Over)?;
        if matches!(what, FromMember::Acknowledge(_)) && stage.carrier.acknowledges() {
            return Ok(());
        }
        let sealed = envelope::seal_member(&self.root, epoch, self.sender, what);
        let sent = stage.carrier.answer(number, *bytes, &sealed, now);
        sent.map_err(|why| SessionError::Refused(stage.model, why))
    }
}
