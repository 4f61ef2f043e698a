//! The hub's side of `multicast-fec`.

mod receive;

use super::code::{Encoder, Refused, even};
use super::frame::Frame;
use super::plan::{FecSettings, Schedule, Wanted};
use super::sending::{Awaited, COPIES, Sending, Shape};
use crate::Nanos;
use crate::keys::Keys;
use crate::pace::Pace;
use crate::switch::{MemberId, MessageId};
use std::collections::{BTreeMap, VecDeque};

/// A datagram for all, or for one alone.
pub type Addressed = (Option<MemberId>, Vec<u8>);

/// What became of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HubEvent {
    /// A member has the message.
    Acknowledged {
        /// The message.
        message: MessageId,
        /// Who.
        member: MemberId,
    },
    /// A member's answer is there; it has the message.
    Answered {
        /// The message.
        message: MessageId,
        /// Who.
        member: MemberId,
        /// The answer.
        bytes: Vec<u8>,
    },
    /// Some hear nothing by multicast, or have the message since it went to each of them alone, and
    /// none has it by multicast.
    Unreached {
        /// The message.
        message: MessageId,
    },
    /// Nobody is waited for any more: all are there, or its lifetime is over.
    Over {
        /// The message.
        message: MessageId,
        /// Who is lacking.
        lacking: Vec<MemberId>,
    },
}

/// Asked so often by multicast without a word, a member is spoken to alone.
const DEAF: u32 = 2;
/// So many in a row who have messages only since they went to them alone, or hear nothing else, are
/// no chance.
const UNREACHED: u32 = 3;
/// The slot of who is alone, in ns: none.
const AT_ONCE: Nanos = 1_000;
/// The answers of so many, by their slots, tell round trips.
const FIRST: u16 = 8;
/// Copies of who is done.
const LAST_COPIES: usize = 3;
/// Messages that are over of which it is still said whose answers are there.
const REMEMBERED: usize = 16;

/// The hub of a group.
#[derive(Debug)]
pub struct FecHub {
    settings: FecSettings,
    own: Keys,
    members: Vec<Keys>,
    sending: BTreeMap<MessageId, Sending>,
    /// What went before messages, in case they go again.
    schedules: BTreeMap<MessageId, Schedule>,
    /// Whose answers were there when messages were over.
    over: VecDeque<(MessageId, Vec<u8>)>,
    /// Whom multicast does not seem to reach, and whether it has had a message alone since.
    deaf: BTreeMap<u16, bool>,
    /// How many in a row have had a message only since it went to them alone, or hear nothing else.
    unreached: u32,
    /// What is said to all, or to one whom multicast does not reach.
    control: VecDeque<(Option<u16>, Frame)>,
    newest: MessageId,
    pace: Pace,
    events: Vec<HubEvent>,
    /// Symbols of answers that came, and that did not.
    seen: Vec<(u32, u32)>,
    /// Round trips, in ns.
    trips: Vec<Nanos>,
}

impl FecHub {
    /// A hub with the keys of what it sends, and of what each member does.
    pub fn new(settings: FecSettings, own: Keys, members: Vec<Keys>) -> Self {
        let count = u16::try_from(members.len()).unwrap_or(u16::MAX);
        Self {
            settings: FecSettings { members: count, ..settings },
            own,
            members,
            sending: BTreeMap::new(),
            schedules: BTreeMap::new(),
            over: VecDeque::new(),
            deaf: BTreeMap::new(),
            unreached: 0,
            control: VecDeque::new(),
            newest: 0,
            pace: Pace::new(settings.rate_bit_s, settings.below),
            events: Vec::new(),
            seen: Vec::new(),
            trips: Vec::new(),
        }
    }

    /// How it paces itself from now on; messages that are under way keep their symbols.
    pub fn settings(&mut self) -> &mut FecSettings {
        &mut self.settings
    }

    /// Sends a message to these members; all have slots if most are meant.
    ///
    /// # Errors
    /// When it is too long, or frames have no room.
    pub fn send(
        &mut self,
        message: MessageId,
        bytes: &[u8],
        wanted: Wanted,
        to: &[MemberId],
        until: Option<Nanos>,
    ) -> Result<(), Refused> {
        let code = self.own.code_len();
        let (_, symbol) = self.settings.symbol(Schedule::LENGTH + bytes.len(), code);
        if symbol == 0 {
            return Err(Refused::Small(self.settings.datagram));
        }
        let members = self.members.len();
        let known =
            |member: &MemberId| u16::try_from(*member).ok().filter(|m| usize::from(*m) < members);
        let awaited: BTreeMap<u16, Awaited> =
            to.iter().filter_map(known).map(|member| (member, Awaited::default())).collect();
        if let Some(sending) = self.sending.get_mut(&message) {
            // It is on its way to others: who comes late gets of the same symbols, and is
            // asked at once.
            for (member, fresh) in awaited {
                sending.awaited.entry(member).or_insert_with(|| {
                    sending.only = None;
                    fresh
                });
            }
            let enough = self.settings.enough(sending.encoder.symbols());
            sending.more = sending.more.max(enough);
            return Ok(());
        }
        let slotted = 2 * awaited.len() >= self.members.len();
        let count = u16::try_from(awaited.len()).unwrap_or(u16::MAX);
        let more = if wanted == Wanted::Answers { self.settings.more(count, code) } else { 0 };
        // Who is asked alone has nobody to wait for; some of many are asked in turn.
        let only = awaited.keys().next().copied().filter(|_| count == 1);
        let slot = match only {
            _ if slotted => self.settings.slot(wanted, more, code),
            Some(_) => AT_ONCE,
            None => 0,
        };
        let schedule = Schedule {
            wanted,
            slot_us: u32::try_from(slot / 1_000).unwrap_or(u32::MAX),
            loss: (self.settings.loss.clamp(0.0, 1.0) * 255.0).round() as u8,
            more,
        };
        // Under one number there is one coding: symbols of two would not go together.
        let schedule = *self.schedules.entry(message).or_insert(schedule);
        if self.schedules.len() > REMEMBERED * 8 {
            self.schedules.pop_first();
        }
        let whole = [&schedule.encode()[..], bytes].concat();
        let encoder = Encoder::new(&whole, even(whole.len(), symbol))?;
        let least = self.settings.first_burst(encoder.symbols(), awaited.len());
        let left = self.settings.worth(encoder.symbols(), least, 1.0);
        let sending = Sending {
            encoder,
            wanted,
            slot,
            more_unasked: schedule.more,
            next: 0,
            left,
            more: 0,
            only,
            burst: left,
            over_at: 0,
            repaired: false,
            awaited,
            reached: false,
            slots_at: None,
            turn: 0,
            ask_at: 0,
            until,
        };
        self.newest = self.newest.max(message);
        self.sending.insert(message, sending);
        Ok(())
    }

    /// The next datagram at `now`, if one may go, for all or for one alone; when to look
    /// again.
    pub fn poll(&mut self, now: Nanos) -> (Option<Addressed>, Option<Nanos>) {
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
        Shape { settings: self.settings, code: self.own.code_len() }
    }

    /// A symbol of the oldest message that has some to send, to all or to one alone.
    fn symbol(&mut self, now: Nanos) -> Option<(Option<u16>, Frame)> {
        let shape = self.shape();
        let mut sending = self.sending.iter_mut();
        let to_all = sending.find_map(|(id, sending)| {
            let only = sending.only;
            sending.symbol(*id, &shape, now).map(|frame| (only, frame))
        });
        if let Some(frame) = to_all {
            return Some(frame);
        }
        let mut sending = self.sending.iter_mut();
        let (member, frame) = sending.find_map(|(id, sending)| sending.alone(*id))?;
        Some((Some(member), frame))
    }

    /// Asks for what should be there.
    fn ask(&mut self, now: Nanos) {
        let shape = self.shape();
        for (message, sending) in &mut self.sending {
            let wants = sending.ask(&shape, now);
            if wants.is_empty() {
                continue;
            }
            let asked: Vec<u16> = wants.iter().map(|want| want.member).collect();
            // Where nobody has said anything, it is hardly by chance: a few tell which it is.
            let nobody = sending.reaches_nobody();
            let (vain, room) = if nobody {
                (0, (2 * UNREACHED as usize).saturating_sub(self.deaf.len()))
            } else {
                (DEAF, usize::MAX)
            };
            let silent = |member: &&u16| {
                sending.awaited.get(*member).is_some_and(|a| a.vain > vain && !a.heard)
            };
            if sending.only.is_none() {
                for member in asked.iter().filter(silent).take(room) {
                    self.deaf.entry(*member).or_default();
                }
            }
            let want = |alone| {
                let (turn, wants) = (sending.turn, wants.clone());
                Frame::Want { message: *message as u16, turn, wants, alone }
            };
            self.control.extend(std::iter::repeat_n((sending.only, want(false)), COPIES));
            // After those to all: who is asked alone and has not heard them hears nothing.
            let deaf = asked.into_iter().filter(|member| self.deaf.contains_key(member));
            if sending.only.is_none() {
                self.control.extend(deaf.map(|member| (Some(member), want(true))));
            }
        }
    }

    /// Ends messages that all have, or whose time is over.
    fn finish(&mut self, now: Nanos) {
        let over = |sending: &Sending| {
            sending.awaited.is_empty() || sending.until.is_some_and(|until| until <= now)
        };
        let done: Vec<MessageId> =
            self.sending.iter().filter(|(_, sending)| over(sending)).map(|(id, _)| *id).collect();
        for message in done {
            let Some(sending) = self.sending.remove(&message) else { continue };
            let mut members = vec![0xff; self.members.len().div_ceil(8)];
            for member in sending.awaited.keys() {
                if let Some(byte) = members.get_mut(usize::from(member / 8)) {
                    *byte &= !(1 << (member % 8));
                }
            }
            let frames = had(message, &members, self.had_room());
            let copies = (0..LAST_COPIES).flat_map(|_| frames.iter().cloned());
            self.control.extend(copies.map(|frame| (sending.only, frame)));
            let lacking = sending.awaited.keys().map(|member| MemberId::from(*member)).collect();
            self.events.push(HubEvent::Over { message, lacking });
            self.over.push_back((message, members));
            if self.over.len() > REMEMBERED {
                self.over.pop_front();
            }
        }
    }

    /// Bytes of members in a frame that says whose answers are there.
    fn had_room(&self) -> usize {
        self.settings.datagram.saturating_sub(5 + self.own.code_len()).max(1)
    }

    fn look_again(&self) -> Option<Nanos> {
        let sending = self.sending.values();
        let times = sending.flat_map(|sending| {
            let late = sending.awaited.values().map(|awaited| awaited.due).min();
            let ask = late.map(|late| late.max(sending.ask_at));
            [ask.filter(|_| sending.slots_at.is_some()), sending.until]
        });
        times.flatten().min()
    }

    /// What became of messages since the last time it was asked.
    pub fn take_events(&mut self) -> Vec<HubEvent> {
        std::mem::take(&mut self.events)
    }

    /// How many symbols of each answer came and how many did not, since the last time.
    pub fn take_seen(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.seen)
    }

    /// The round trips that were seen since the last time, in ns.
    pub fn take_trips(&mut self) -> Vec<Nanos> {
        std::mem::take(&mut self.trips)
    }

    /// Gives up all that it was to send.
    pub fn clear(&mut self) {
        self.sending.clear();
        self.control.clear();
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.sending.is_empty() && self.control.is_empty()
    }
}

/// The frames that say whose answers are there, `room` bytes of members each.
fn had(message: MessageId, members: &[u8], room: usize) -> Vec<Frame> {
    let parts = members.chunks(room).enumerate();
    parts
        .map(|(place, part)| {
            let first = u16::try_from(place * room * 8).unwrap_or(u16::MAX);
            Frame::Had { message: message as u16, first, members: part.to_vec() }
        })
        .collect()
}
