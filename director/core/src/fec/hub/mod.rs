//! The hub of `multicast-fec`.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
mod apart;
mod over;
mod rate;
mod receive;

use super::code::{Encoder, Refused, symbol_size};
use super::frame::Frame;
use super::passage::Delivered;
use super::plan::{FecSettings, ResponseKind, Schedule};
use super::sending::{Arrivals, Awaited, COPIES, Sending, Shape, Unreachable};
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

/// The hub of a multicast group.
#[derive(Debug)]
pub struct FecHub {
    settings: FecSettings,
    own: Keys,
    members: Vec<Checker>,
    sending: BTreeMap<MessageId, Sending>,
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
    /// Queued control frames: to all members, or to one by unicast.
    control: VecDeque<(Option<u16>, Frame<'static>)>,
    newest: MessageId,
    pace: Pace,
    events: Vec<HubEvent>,
    /// Members, and received and lost symbols of their answers.
    seen: Vec<(MemberId, u32, u32)>,
    /// Round-trip samples.
    trips: Vec<(MemberId, Span)>,
    /// What is known as delivered, and the rates at which messages were.
    delivered: Delivered,
    trains: Vec<Train>,
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
            control: VecDeque::new(),
            newest: 0,
            pace: Pace::new(settings.rate_bit_s, settings.below),
            events: Vec::new(),
            seen: Vec::new(),
            trips: Vec::new(),
            delivered: Delivered::default(),
            trains: Vec::new(),
        }
    }

    /// Sets the sending rate in bit/s, also of slots of messages that follow.
    pub fn pace(&mut self, rate_bit_s: f64) {
        self.settings.rate_bit_s = rate_bit_s;
        self.pace.set_rate(rate_bit_s);
    }

    /// The parameters; changes do not affect the symbols of messages in flight.
    pub fn settings(&mut self) -> &mut FecSettings {
        &mut self.settings
    }

    /// Sends a message to these members. All have slots if it goes to at least half of the group.
    ///
    /// # Errors
    /// [`Refused`] if the message is too long, or frames are too small.
    pub fn send(
        &mut self,
        message: MessageId,
        bytes: &[u8],
        response: ResponseKind,
        to: &[MemberId],
        until: Option<Instant>,
    ) -> Result<(), Refused> {
        let room = self.settings.symbol(Schedule::LENGTH + bytes.len(), self.own.code_len());
        let (_, symbol) = room;
        if symbol == 0 {
            return Err(Refused::Small(self.settings.datagram));
        }
        let members = self.members.len();
        let known =
            |member: &MemberId| u16::try_from(*member).ok().filter(|m| usize::from(*m) < members);
        let fresh = |member: u16| {
            let loss = self.apart.get(&member).copied();
            (member, Awaited { loss, ..Awaited::default() })
        };
        let awaited: BTreeMap<u16, Awaited> = to.iter().filter_map(known).map(fresh).collect();
        if let Some(sending) = self.sending.get_mut(&message) {
            // The message is in flight to others: a new receiver gets symbols of the same
            // encoding, and is asked at once.
            for (member, fresh) in awaited {
                sending.awaited.entry(member).or_insert_with(|| {
                    sending.only = None;
                    fresh
                });
            }
            let enough = self.settings.frames_for(sending.encoder.symbols());
            sending.more = sending.more.max(enough);
            return Ok(());
        }
        // A single receiver answers at once; a minority of the group is asked in turn.
        let only = awaited.keys().next().copied().filter(|_| awaited.len() == 1);
        let schedule = self.schedule_for(response, awaited.len());
        let slot = Span::from_us(schedule.slot_us.into());
        // A message number has one encoding: symbols of two do not combine.
        let schedule = *self.schedules.entry(message).or_insert(schedule);
        if self.schedules.len() > REMEMBERED * 8 {
            self.schedules.pop_first();
        }
        let whole = [&schedule.encode()[..], bytes].concat();
        let symbol = symbol_size(whole.len(), symbol);
        let encoder = Encoder::new(whole, symbol)?;
        let settings = only.map_or(self.settings, |only| self.settings_of(only));
        let least = settings.first_burst(encoder.symbols(), awaited.len());
        let left = settings.worthwhile_frames(encoder.symbols(), least, 1.0);
        let sending = Sending {
            encoder,
            response,
            slot,
            extra_symbols: schedule.more,
            next: 0,
            left,
            more: 0,
            only,
            burst: left,
            over_at: Instant::START,
            sent_at: Instant::START,
            repaired: false,
            awaited,
            responded: Vec::new(),
            reached: false,
            slots_at: None,
            passage: None,
            turn: 0,
            ask_at: Instant::START,
            until,
            arrivals: Arrivals::default(),
        };
        self.newest = self.newest.max(message);
        self.sending.insert(message, sending);
        self.send_ahead(message);
        Ok(())
    }

    /// Waits no longer for what these members lack of a message.
    pub fn withdraw(&mut self, message: MessageId, members: &[MemberId]) {
        if let Some(sending) = self.sending.get_mut(&message) {
            let lacks = |member: &u16| !members.contains(&MemberId::from(*member));
            sending.awaited.retain(|member, _| lacks(member));
        }
    }

    /// How `awaited` members respond: the length of their slots, and the symbols beyond the
    /// message's own that they may need.
    fn schedule_for(&self, response: ResponseKind, awaited: usize) -> Schedule {
        let code = self.answer_code();
        let slotted = 2 * awaited >= self.members.len();
        let count = u16::try_from(awaited).unwrap_or(u16::MAX);
        let answers = response == ResponseKind::Answers;
        let more = if answers { self.settings.extra_frames(count, code) } else { 0 };
        let slot = match awaited {
            // A slot of 0 us means none.
            _ if slotted => self.settings.slot(response, more, code).max(AT_ONCE),
            1 => AT_ONCE,
            _ => Span::ZERO,
        };
        Schedule {
            response,
            slot_us: u32::try_from(slot.as_ns().div_ceil(1_000)).unwrap_or(u32::MAX),
            loss: (self.settings.loss.clamp(0.0, 1.0) * 255.0).round() as u8,
            more,
        }
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
        self.pace.sent(bytes.len(), now);
        (Some((to.map(MemberId::from), bytes)), Some(self.pace.next_at()))
    }

    fn shape(&self) -> Shape {
        let awaited = self.sending.values().map(|sending| sending.awaited.len()).sum();
        let codes = (self.own.code_len(), self.answer_code());
        Shape { settings: self.settings, code: codes.0, answer_code: codes.1, awaited }
    }

    /// The next symbol of the oldest message that has one, to all members or by unicast.
    fn symbol(&mut self, now: Instant) -> Option<(Option<u16>, Frame<'static>)> {
        let shape = self.shape();
        let next = |(id, sending): (&MessageId, &mut Sending)| {
            let only = sending.only;
            sending.symbol(*id, &shape, now).map(|frame| (*id, only, frame))
        };
        let mut begun = self.sending.iter_mut().filter(|(_, sending)| sending.next > 0);
        let to_all = begun.find_map(next).or_else(|| {
            let message = self.next_to_begin(&shape, now)?;
            next((&message, self.sending.get_mut(&message)?))
        });
        if let Some((message, only, frame)) = to_all {
            self.passes(message, &frame, now);
            return Some((only, frame));
        }
        let mut sending = self.sending.iter_mut();
        let (member, frame) = sending.find_map(|(id, sending)| sending.unicast(*id))?;
        Some((Some(member), frame))
    }

    /// The message to begin next.
    fn next_to_begin(&self, shape: &Shape, now: Instant) -> Option<MessageId> {
        let waiting = || self.sending.iter().filter(|(_, sending)| sending.is_unbegun());
        let needed = now + waiting().next()?.1.needs(shape);
        let next = first_in_time(waiting().map(|(_, sending)| sending.until), needed)?;
        waiting().nth(next).map(|(message, _)| *message)
    }

    /// Requests late answers.
    fn ask(&mut self, now: Instant) {
        let shape = self.shape();
        for (message, sending) in &mut self.sending {
            let requests = sending.ask(&shape, now);
            if requests.is_empty() {
                continue;
            }
            let asked: Vec<u16> = requests.iter().map(|request| request.member).collect();
            // If no member responds, multicast is probably blocked: probe a few by unicast.
            let no_response = sending.no_response();
            let (unanswered, room) = if no_response {
                (0, (2 * BLOCKED_AFTER as usize).saturating_sub(self.unreachable.len()))
            } else {
                (UNREACHABLE_AFTER, usize::MAX)
            };
            let silent = |member: &&u16| {
                sending
                    .awaited
                    .get(*member)
                    .is_some_and(|a| a.unanswered > unanswered && !a.responded)
            };
            if sending.only.is_none() {
                for member in asked.iter().filter(silent).take(room) {
                    self.unreachable.entry(*member).or_default();
                }
            }
            let request = |unicast| {
                let (turn, requests) = (sending.turn, requests.clone());
                Frame::Request { message: *message as u16, turn, requests, unicast }
            };
            self.control.extend(core::iter::repeat_n((sending.only, request(false)), COPIES));
            // Unicast copies follow the multicast ones: a member that only gets these receives
            // no multicast.
            let unreachable =
                asked.into_iter().filter(|member| self.unreachable.contains_key(member));
            if sending.only.is_none() {
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
        times.flatten().min()
    }

    /// Events since the last call.
    pub fn take_events(&mut self) -> Vec<HubEvent> {
        core::mem::take(&mut self.events)
    }

    /// Members, and received and lost symbols of their answers since the last call.
    pub fn take_seen(&mut self) -> Vec<(MemberId, u32, u32)> {
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
