//! A member of a session.

use super::{Security, SessionError};
use crate::Nanos;
use crate::carrier::{self, MemberCarrier, Place};
use crate::chance::Chance;
use crate::envelope::{self, FromMember, Invitation, Sender};
use crate::keys::{Root, ShortKey};
use crate::model::{ModelId, Models};
use crate::switch::MessageId;
use crate::window::Window;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddrV4;

/// What happens at a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberEvent {
    /// It is in a session, whose multicast goes to this group; said with each epoch.
    Joined {
        /// The group.
        group: SocketAddrV4,
        /// The model of the epoch.
        model: ModelId,
    },
    /// A message has come; each comes once.
    Message {
        /// Its number.
        number: MessageId,
        /// The message.
        bytes: Vec<u8>,
    },
}

/// Answers that are kept in case they have to be given again.
const ANSWERS: usize = 64;
/// Numbers of messages that are remembered.
const WINDOW: usize = 1 << 14;
/// So long a member waits before it says again that it is there; doubled up to 32 times.
const HELLO_EVERY: Nanos = 500_000_000;

/// A model that members have left is given up when nothing has come by it for so long.
const LEFT: Nanos = 30_000_000_000;

/// A model in use.
struct Stage {
    model: ModelId,
    /// When something last came by it.
    heard_at: Nanos,
    carrier: Box<dyn MemberCarrier>,
}

/// The session that a member is in.
struct Joined {
    root: Root,
    sender: Sender,
    members: u16,
    epoch: u32,
    answered: bool,
    stages: BTreeMap<u32, Stage>,
    had: Window,
    newest: MessageId,
    open: BTreeMap<MessageId, Heard>,
}

/// A message that has come.
struct Heard {
    /// By which epoch it came last.
    epoch: u32,
    bytes: usize,
    answer: Option<Vec<u8>>,
}

/// A member of a session.
pub struct Member {
    security: Security,
    models: Models,
    invites: Root,
    incarnation: u32,
    below: usize,
    joined: Option<Joined>,
    /// When and how often it said that it is there.
    hello_at: Nanos,
    hellos: u32,
    control: VecDeque<Vec<u8>>,
    chance: Chance,
    events: VecDeque<MemberEvent>,
}

impl Member {
    /// One that is in no session yet. `seed` is to be drawn at random: no two starts of a
    /// member may have the same.
    ///
    /// # Errors
    /// When the key is too short.
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
            chance: Chance::new(seed),
            events: VecDeque::new(),
        })
    }

    /// The same with these models alone, of those that are compiled in.
    #[must_use]
    pub fn with_models(mut self, models: Models) -> Self {
        self.models = self.models.and(models);
        self
    }

    /// The same with means for these models of other stacks, too.
    #[must_use]
    pub fn with_outside(mut self, models: &[ModelId]) -> Self {
        let outside = models.iter().copied().filter(|model| model.is_outside());
        self.models = self.models.or(outside.collect());
        self
    }

    /// Takes a datagram from the hub or the group, or a frame of another stack.
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
            // By itself it is of the plain model, in the epoch that it says.
            self.message(datagram, now);
            return;
        }
        let mut whole = Vec::new();
        // Frames of other stacks say no epoch: envelopes do, and once will do.
        let outside = carrier::model_of(datagram);
        let newest = joined.stages.iter().rev().find(|(_, stage)| Some(stage.model) == outside);
        let newest = newest.map(|(epoch, _)| *epoch);
        for (epoch, stage) in &mut joined.stages {
            if carrier::is_of(stage.model, datagram) && newest.is_none_or(|newest| newest == *epoch)
            {
                stage.heard_at = now;
                whole.extend(stage.carrier.receive(datagram, now));
            }
        }
        for envelope in whole {
            self.message(&envelope, now);
        }
    }

    /// Whether a datagram that came to this member alone should have come by multicast, which
    /// does not reach it: it may help to join the group again.
    pub fn misses_multicast(&self, datagram: &[u8]) -> bool {
        self.joined.as_ref().is_some_and(|joined| joined.members > 1) && carrier::asks(datagram)
    }

    fn invited(&mut self, invitation: &Invitation, now: Nanos) {
        let Ok(root) = self.security.root(invitation.session) else { return };
        // An older session, or an older epoch of this one, has been said again by somebody.
        let known = self.joined.as_ref().map(|joined| (joined.root.session(), joined.epoch));
        let newer = known.is_none_or(|known| known < (invitation.session, invitation.epoch));
        if let Some(known) = known.filter(|known| *known > (invitation.session, invitation.epoch)) {
            // Or its clock has been set back: it hears what number would be late enough.
            if known.0 > invitation.session && self.control.is_empty() {
                let draw = self.chance.bits();
                self.control.push_back(envelope::seal_hello(&self.invites, draw, known.0));
            }
            return;
        }
        let sender = Sender { member: invitation.member.0, incarnation: self.incarnation };
        if newer {
            let place = self.place(invitation, &root);
            let model = invitation.model.filter(|model| self.models.has(*model));
            let stage = model.and_then(|model| {
                let carrier = carrier::member(model, &place, sender.member)?;
                Some(Stage { model, heard_at: now, carrier })
            });
            let Some(stage) = stage else {
                // Of a later version, or not compiled in: the hub takes another.
                let cannot = FromMember::Cannot(invitation.epoch, self.models);
                let said = envelope::seal_member(&root, invitation.epoch, sender, &cannot);
                self.control.push_back(said);
                return;
            };
            self.enter(invitation, root, sender, stage);
        }
        self.ready();
    }

    fn place(&mut self, invitation: &Invitation, root: &Root) -> Place {
        Place {
            root: root.clone(),
            epoch: invitation.epoch,
            members: invitation.member.1,
            datagram: usize::from(invitation.datagram),
            below: self.below,
            rate_bit_s: f64::from(invitation.rate_bit_s),
            loss: f64::from(invitation.loss) / 255.0,
            round_trip: invitation.round_trip,
            answer: 0,
            thrifty: false,
            seed: self.chance.bits(),
        }
    }

    /// Goes over to an epoch, of this session or of a new one.
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
                had: Window::new(WINDOW),
                newest: invitation.next,
                open: BTreeMap::new(),
            }),
        };
        joined.epoch = invitation.epoch;
        let (group, model) = (invitation.group, stage.model);
        joined.stages.insert(invitation.epoch, stage);
        // What is under way on the model before this one still comes and goes.
        while joined.stages.len() > 2 {
            joined.stages.pop_first();
        }
        self.events.push_back(MemberEvent::Joined { group, model });
    }

    /// Says in which epoch it is.
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
        if joined.had.insert(number) {
            let heard = Heard { epoch, bytes: bytes.len(), answer: None };
            joined.open.insert(number, heard);
            if joined.open.len() > ANSWERS {
                joined.open.pop_first();
            }
            self.events.push_back(MemberEvent::Message { number, bytes });
        }
        let Some(heard) = joined.open.get_mut(&number) else { return };
        heard.epoch = epoch;
        // The hub has not heard of it, and asks again.
        let answer = heard.answer.clone();
        if let Some(answer) = answer {
            let _ = joined.give(number, &FromMember::Answer(number, answer), now);
        } else if !joined.answered {
            let _ = joined.give(number, &FromMember::Acknowledge(number), now);
        }
    }

    /// Answers a message.
    ///
    /// # Errors
    /// When the session is over, or no model can carry it.
    pub fn answer(
        &mut self,
        number: MessageId,
        bytes: &[u8],
        now: Nanos,
    ) -> Result<(), SessionError> {
        let joined = self.joined.as_mut().ok_or(SessionError::Over)?;
        let heard = joined.open.get_mut(&number).ok_or(SessionError::Over)?;
        if heard.answer.is_some() {
            return Ok(());
        }
        heard.answer = Some(bytes.to_vec());
        joined.give(number, &FromMember::Answer(number, bytes.to_vec()), now)
    }

    /// The next datagram that goes to the hub at `now`, and when to look again.
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
            let draw = self.chance.bits();
            return (Some(envelope::seal_hello(&self.invites, draw, 0)), Some(self.hello_at));
        };
        let epoch = joined.epoch;
        joined.stages.retain(|known, stage| *known == epoch || now < stage.heard_at + LEFT);
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

    /// What has happened since the last time.
    pub fn take_events(&mut self) -> VecDeque<MemberEvent> {
        std::mem::take(&mut self.events)
    }
}

impl Joined {
    /// Sends to the hub by the model that a message came by, or by the newest.
    fn give(
        &mut self,
        number: MessageId,
        what: &FromMember,
        now: Nanos,
    ) -> Result<(), SessionError> {
        let Heard { epoch, bytes, .. } = self.open.get(&number).ok_or(SessionError::Over)?;
        let epoch = if self.stages.contains_key(epoch) { *epoch } else { self.epoch };
        let stage = self.stages.get_mut(&epoch).ok_or(SessionError::Over)?;
        if matches!(what, FromMember::Acknowledge(_)) && stage.carrier.acknowledges() {
            return Ok(());
        }
        let sealed = envelope::seal_member(&self.root, epoch, self.sender, what);
        let given = stage.carrier.answer(number, *bytes, &sealed, now);
        given.map_err(|why| SessionError::Refused(stage.model, why))
    }
}
