//! What gateways of devices and of the hub have in common.

use crate::clients::{Action, Clients};
use crate::kept::{Change, Unsaved};
use crate::kept_devices::KEPT;
use crate::message::Message;
use crate::packet::Packet;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

/// Messages to the other end that must stay in order: one batch of each lane is on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Messages of a topic.
    Topic(String),
    /// A subscription.
    Filter(String),
    /// The will of a client.
    Will(String),
    /// What is sent to one member alone.
    Member(u32),
    /// The greeting of a device, and that it is alive.
    Alive,
    /// Which messages of the hub a device has stored.
    Stored,
}

/// What the driver is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Send a packet to a client.
    Send(u64, Packet),
    /// Close a client's connection.
    Close(u64),
    /// Send a frame to the hub, or to some members, and report how it ended.
    Transport {
        /// The lane.
        lane: Lane,
        /// The frame.
        frame: Vec<u8>,
        /// The members; none for the hub.
        members: Vec<u32>,
        /// Whether the other end answers it.
        is_request: bool,
        /// Its lifetime.
        lifetime: Duration,
    },
    /// Report that a lane may try again, after a second.
    Later(Lane),
    /// Tell the operator.
    Log(String),
}

/// How a frame ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// All have it, with the answer of a request.
    Delivered(Vec<u8>),
    /// These members may not have it.
    Lacking(Vec<u32>),
    /// It is not known whether the other end has it, or it will not.
    Lost,
    /// It can never be sent.
    TooLong,
    /// Nothing of it was sent: too many messages are open.
    Full,
    /// A second is over ([`Effect::Later`]).
    Waited,
}

/// One side: a device or the hub.
pub trait Side {
    /// The clients.
    fn clients(&mut self) -> &mut Clients;
    /// The same, to read them.
    fn clients_ref(&self) -> &Clients;
    /// Executes what clients want.
    fn act(&mut self, actions: Vec<Action>) -> Vec<Effect>;
    /// A frame has ended.
    fn ended(&mut self, lane: Lane, how: Ended) -> Vec<Effect>;
    /// A second is over.
    fn tick(&mut self) -> Vec<Effect>;
    /// What is to be stored before messages are acknowledged; then call [`Self::written`].
    fn unsaved(&self) -> Unsaved;
    /// The changes that make all sessions, and what is kept besides them.
    fn all_sessions(&self) -> Vec<Vec<Change>>;
    /// All retained messages, with the time that is left of each.
    fn all_retained(&self) -> BTreeMap<String, Message>;
    /// All is stored: acknowledges what has waited for that.
    fn written(&mut self) -> Vec<Effect>;
}

/// Size of a batch of messages, in bytes: one message may have more.
pub const BATCH: usize = 4_096;
/// Time after which a frame to the other end is sent again.
pub const LIFETIME: Duration = Duration::from_secs(60);

/// Takes the next items that fit into one batch; at least one.
pub fn batch<T>(queue: &mut VecDeque<T>, size: impl Fn(&T) -> usize) -> Vec<T> {
    let (mut taken, mut sum) = (Vec::new(), 0_usize);
    while let Some(next) = queue.front() {
        sum = sum.saturating_add(size(next));
        // A message that is longer than a batch goes alone.
        if sum > BATCH && !taken.is_empty() {
            break;
        }
        taken.extend(queue.pop_front());
    }
    taken
}

/// Numbers of messages that have arrived, of one start of the other end.
#[derive(Debug, Default)]
pub struct Seen {
    start: u32,
    numbers: HashSet<u32>,
    order: VecDeque<u32>,
}

impl Seen {
    /// The start of the other end; returns whether it is a new one.
    pub fn begin(&mut self, start: u32) -> bool {
        let is_new = self.start != start;
        if is_new {
            *self = Self { start, ..Self::default() };
        }
        is_new
    }

    /// That start; 0 if none is known.
    pub fn start(&self) -> u32 {
        self.start
    }

    /// Whether a message is new.
    pub fn insert(&mut self, number: u32) -> bool {
        let is_new = self.numbers.insert(number);
        if is_new {
            self.order.push_back(number);
            if self.order.len() > KEPT
                && let Some(oldest) = self.order.pop_front()
            {
                self.numbers.remove(&oldest);
            }
        }
        is_new
    }
}
