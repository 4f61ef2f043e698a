//! The hub of `multicast-fec`.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
mod apart;
#[cfg(test)]
mod group_of;
mod over;
mod overtaken;
mod rate;
mod receive;
mod send;
mod way;

use self::overtaken::Overtaken;
pub use self::overtaken::Seen;
pub(super) use self::way::Way;
use super::delays::Delays;
use super::frame::Frame;
use super::passage::Delivered;
use super::plan::{FecSettings, ResponseKind, Schedule};
use super::sending::{COPIES, PROBED, Sending, Shape};
use crate::capacity::Train;
use crate::keys::Keys;
use crate::pace::Pace;
use crate::replay::Checker;
use crate::switch::{MemberId, MessageId};
use crate::turn::first_in_time;
use crate::{Instant, Span};
use alloc::collections::{BTreeMap, VecDeque};

/// A datagram, to a member by unicast, or to all (`None`).
pub type Addressed = (Option<MemberId>, Vec<u8>);

/// State changes of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HubEvent {
    /// A member has acknowledged the message.
    Acknowledged {
        /// The message.
        message: MessageId,
        /// The member.
        member: MemberId,
    },
    /// A member has answered the message.
    Answered {
        /// The message.
        message: MessageId,
        /// The member.
        member: MemberId,
        /// The answer.
        bytes: Vec<u8>,
    },
    /// Symbols of a whole answer have not arrived before its last one: a queue may have dropped them.
    Gap {
        /// The member.
        member: MemberId,
    },
    /// A member has requests for its answer, and none of the symbols of the message, more than losses explain:
    /// datagrams of this length may not pass.
    Vanished {
        /// The member.
        member: MemberId,
    },
    /// Multicast does not work: some members report that they receive none, or have the message
    /// only by unicast, and no member has it by multicast.
    MulticastBlocked {
        /// The message.
        message: MessageId,
    },
    /// The message is finished: all members have responded, or its lifetime is over.
    Over {
        /// The message.
        message: MessageId,
        /// The members that have not responded.
        lacking: Vec<MemberId>,
    },
}

/// After this many unanswered multicast requests, a member is addressed by unicast.
const UNREACHABLE_AFTER: u32 = 2;
/// Multicast is considered blocked after this many consecutive members that only unicast
/// reaches.
const BLOCKED_AFTER: u32 = 3;
/// Slot length of a single receiver: it answers at once.
const AT_ONCE: Span = Span::from_us(1);
/// Only the first slots give round-trip samples; later ones can include queueing.
const FIRST: u16 = 8;
/// Number of finished messages whose received answers are still reported.
const REMEMBERED: usize = 16;

/// What is known of a member that multicast does not seem to reach.
#[derive(Debug, Clone, Copy, Default)]
struct Unreachable {
    /// Whether unicast has worked since.
    proved: bool,
    /// Number of messages of which it had received nothing, and no request by multicast.
    missed: u8,
}

/// The hub of a multicast group.
#[derive(Debug)]
pub struct FecHub {
    settings: FecSettings,
    own: Keys,
    members: Vec<Checker>,
    sending: BTreeMap<Way, Sending>,
    /// Schedules of recent messages, for retransmissions.
    schedules: BTreeMap<MessageId, Schedule>,
    /// Finished messages, and the members whose answers had arrived.
    over: VecDeque<(MessageId, Vec<u8>)>,
    /// Members that multicast does not seem to reach.
    unreachable: BTreeMap<u16, Unreachable>,
    /// Members that lose far more than the others, and their loss.
    apart: BTreeMap<u16, f64>,
    /// Number of consecutive members that only unicast reaches.
    no_multicast_count: u32,
    /// How long answers take.
    delays: Delays,
    /// Whether messages to several members go to each of them by unicast: multicast does not work.
    each: bool,
    /// Time on air of a message by unicast and of its answer, in that of the message; 1 or more.
    charge: f64,
    /// When the last frame has arrived.
    heard_at: Instant,
    /// Queued control frames: to all members, or to one by unicast.
    control: VecDeque<(Option<u16>, Frame<'static>)>,
    newest: MessageId,
    pace: Pace,
    /// Pace of the answers of all members: a message begins when those to the messages before it have passed.
    answers: Pace,
    events: Vec<HubEvent>,
    /// Symbols of answers.
    seen: Vec<Seen>,
    /// Answers whose losses are not known yet.
    overtaken: Overtaken,
    /// Round-trip samples.
    trips: Vec<(MemberId, Span)>,
    /// What is known as delivered, and the rates at which messages were.
    delivered: Delivered,
    trains: Vec<Train>,
    /// Members that have reported missing symbols, or whose answer is lost, and when the first symbols of
    /// the message were sent.
    missing: Vec<(MemberId, Instant)>,
    /// When the newest message was sent that each member has begun to answer.
    answered: BTreeMap<u16, Instant>,
}

impl FecHub {
    /// A hub with the keys for its frames and for the frames of each member.
    pub fn new(settings: FecSettings, own: Keys, members: Vec<Keys>) -> Self {
        let count = u16::try_from(members.len()).unwrap_or(u16::MAX);
        Self {
            settings: FecSettings { members: count, ..settings },
            own,
            members: members.into_iter().map(Checker::new).collect(),
            sending: BTreeMap::new(),
            schedules: BTreeMap::new(),
            over: VecDeque::new(),
            unreachable: BTreeMap::new(),
            apart: BTreeMap::new(),
            no_multicast_count: 0,
            delays: Delays::default(),
            each: false,
            charge: 1.0,
            heard_at: Instant::START,
            control: VecDeque::new(),
            newest: 0,
            pace: Pace::new(settings.rate_bit_s, settings.below),
            answers: Pace::new(f64::INFINITY, settings.below),
            events: Vec::new(),
            seen: Vec::new(),
            overtaken: Overtaken::default(),
            trips: Vec::new(),
            delivered: Delivered::default(),
            trains: Vec::new(),
            missing: Vec::new(),
            answered: BTreeMap::new(),
        }
    }

    /// Sets the sending rate in bit/s, also of slots of messages that follow, the time on air of a
    /// message and its answer, in that of the message; 1 or more, and the rate of all answers together.
    pub fn pace(&mut self, rate_bit_s: f64, charge: f64, answers_bit_s: f64) {
        (self.settings.rate_bit_s, self.charge) = (rate_bit_s, charge);
        self.pace.set_rate(rate_bit_s);
        self.answers.set_rate(answers_bit_s);
    }

    /// The parameters; changes do not affect the symbols of messages in flight.
    pub fn settings(&mut self) -> &mut FecSettings {
        &mut self.settings
    }

    /// The next datagram at `now`, to all members or by unicast, and the time of the next poll.
    pub fn poll(&mut self, now: Instant) -> (Option<Addressed>, Option<Instant>) {
        self.finish(now);
        self.ask(now);
        if self.pace.next_at() > now {
            return (None, Some(self.pace.next_at()));
        }
        let next = self.control.pop_front();
        let Some((to, frame)) = next.or_else(|| self.symbol(now)) else {
            return (None, self.look_again());
        };
        let mut bytes = frame.encode();
        self.own.sign(&mut bytes);
        // By unicast the answer comes while the next members get the message.
        let leaves_room = self.each && matches!(frame, Frame::Down { .. });
        self.pace.charge(bytes.len(), if leaves_room { self.charge } else { 1.0 }, now);
        (Some((to.map(MemberId::from), bytes)), Some(self.pace.next_at()))
    }

    fn shape(&self) -> Shape {
        let awaited = self.sending.values().map(|sending| sending.awaited.len()).sum();
        let asked =
            |(way, sending): &(&Way, &Sending)| way.only.is_some() && sending.slots_at.is_some();
        let singly = if self.each { self.sending.iter().filter(asked).count() } else { 0 };
        Shape {
            settings: self.settings,
            code: self.own.code_len(),
            added: self.added(),
            awaited,
            singly: singly as u64,
            heard_at: self.heard_at,
            delay: self.delays.least(),
        }
    }

    /// The next symbol of the oldest message that has one, to all members or by unicast.
    fn symbol(&mut self, now: Instant) -> Option<(Option<u16>, Frame<'static>)> {
        let shape = self.shape();
        let next = |(way, sending): (&Way, &mut Sending)| {
            sending.symbol(*way, &shape, now).map(|frame| (*way, frame))
        };
        let mut begun = self.sending.iter_mut().filter(|(_, sending)| sending.next > 0);
        let to_all = begun.find_map(next).or_else(|| {
            let way = self.next_to_begin(&shape, now)?;
            let sending = self.sending.get_mut(&way)?;
            if sending.response == ResponseKind::Answers {
                let Shape { settings, added, .. } = shape;
                let frames = settings.answer_frames(sending.extra_symbols, added);
                let all = f64::from(frames) * sending.awaited.len() as f64;
                self.answers.charge(settings.answer_length(added), all, now);
            }
            next((&way, sending))
        });
        if let Some((way, frame)) = to_all {
            self.passes(way, &frame, now);
            return Some((way.only, frame));
        }
        let mut sending = self.sending.iter_mut();
        let (member, frame) = sending.find_map(|(way, sending)| sending.unicast(way.message))?;
        Some((Some(member), frame))
    }

    /// The message to begin next, if answers leave room for those to it.
    fn next_to_begin(&self, shape: &Shape, now: Instant) -> Option<Way> {
        if now < self.answers.next_at() {
            return None;
        }
        let waiting = || self.sending.iter().filter(|(_, sending)| sending.is_unbegun());
        let needed = now + waiting().next()?.1.needs(shape);
        let next = first_in_time(waiting().map(|(_, sending)| sending.until), needed)?;
        waiting().nth(next).map(|(way, _)| *way)
    }

    /// Requests late answers.
    fn ask(&mut self, now: Instant) {
        let shape = self.shape();
        for (way, sending) in &mut self.sending {
            let requests = sending.ask(way.only, &shape, now);
            if requests.is_empty() {
                continue;
            }
            let asked: Vec<u16> = requests.iter().map(|request| request.member).collect();
            // If no member responds, multicast is probably blocked: probe a few by unicast.
            let no_response = sending.no_response();
            let (unanswered, room) = if no_response {
                (0, PROBED.saturating_sub(self.unreachable.len()))
            } else {
                (UNREACHABLE_AFTER, usize::MAX)
            };
            let silent = |member: &&u16| {
                sending
                    .awaited
                    .get(*member)
                    .is_some_and(|a| a.unanswered > unanswered && !a.responded)
            };
            if way.only.is_none() {
                for member in asked.iter().filter(silent).take(room) {
                    self.unreachable.entry(*member).or_default();
                }
            }
            let turn = sending.turn;
            let request = |unicast| {
                let requests = requests.clone();
                Frame::Request { message: way.message as u16, turn, requests, unicast }
            };
            self.control.extend(core::iter::repeat_n((way.only, request(false)), COPIES));
            // Unicast copies follow the multicast ones: a member that only gets these receives
            // no multicast.
            let unreachable =
                asked.into_iter().filter(|member| self.unreachable.contains_key(member));
            if way.only.is_none() {
                self.control.extend(unreachable.map(|member| (Some(member), request(true))));
                // A lost request costs such a member a round.
                let apart = requests.iter().map(|request| request.member);
                let apart = apart.filter(|member| {
                    self.apart.contains_key(member) && !self.unreachable.contains_key(member)
                });
                self.control.extend(apart.map(|member| (Some(member), request(false))));
            }
        }
    }

    fn look_again(&self) -> Option<Instant> {
        let sending = self.sending.values();
        let times = sending.flat_map(|sending| {
            let late = sending.awaited.values().map(|awaited| awaited.due).min();
            let ask = late.map(|late| late.max(sending.ask_at));
            [ask.filter(|_| sending.slots_at.is_some()), sending.until]
        });
        let waits = self.sending.values().any(Sending::is_unbegun);
        times.flatten().chain(waits.then(|| self.answers.next_at())).min()
    }

    /// Events since the last call.
    pub fn take_events(&mut self) -> Vec<HubEvent> {
        core::mem::take(&mut self.events)
    }

    /// Received and lost symbols of answers since the last call.
    pub fn take_seen(&mut self, now: Instant) -> Vec<Seen> {
        self.seen.extend(core::iter::from_fn(|| self.overtaken.next(now)));
        core::mem::take(&mut self.seen)
    }

    /// Round-trip samples of members since the last call.
    pub fn take_trips(&mut self) -> Vec<(MemberId, Span)> {
        core::mem::take(&mut self.trips)
    }

    /// Rates at which messages were delivered since the last call.
    pub fn take_trains(&mut self) -> Vec<Train> {
        core::mem::take(&mut self.trains)
    }

    /// Members that have reported since the last call that they lack symbols of a message, or whose answer
    /// has not arrived until its end, and when its first symbols were sent. Each once for each message and
    /// member: further reports are of its repairs.
    pub fn take_missing(&mut self) -> Vec<(MemberId, Instant)> {
        core::mem::take(&mut self.missing)
    }

    /// Drops all messages.
    pub fn clear(&mut self) {
        self.sending.clear();
        self.control.clear();
    }

    /// Whether there is nothing to send.
    pub fn is_idle(&self) -> bool {
        self.sending.is_empty() && self.control.is_empty()
    }
}
