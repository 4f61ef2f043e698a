//! Messages that members send at any time, and members that leave.

use super::Hub;
use super::lanes::{MemberLane, Unanswered, Uplinks};
use super::memory::Arrived;
use crate::carrier::To;
use crate::keys::Party;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::session::Event;
use crate::switch::{MemberId, MessageId};
use crate::uplink::{
    INTRODUCE, LEAVE, Lane, MAX_BYTES, MEMORY, MESSAGE, MessageFrom, PUBLISH, Path, Publication,
    RECEIPT, REQUEST, STORED, SUBSCRIBE, SenderId, Subscriptions, reply,
};
use crate::{Instant, Span};
use alloc::collections::BTreeMap;

/// Maximum number of messages of a member that the application has not taken or answered.
const MAX_UNANSWERED: usize = 1_024;
/// Maximum number of their bytes. A member has no more than half of it open; some may have ended there.
const MAX_UNANSWERED_BYTES: usize = 2 * MAX_BYTES;

impl Hub {
    /// Handles a datagram of a lane; `frame` claims to be from `member`, whatever its address.
    /// Returns whether it is.
    pub(super) fn handle_uplink(&mut self, member: u16, frame: &[u8], now: Instant) -> bool {
        let here = self.conditions();
        let path = Path {
            datagram: self.config.datagram(),
            below: self.config.below,
            rate_bit_s: here.rate_bit_s,
            round_trip: here.rtt,
            estimated: self.capacity.is_estimated(),
        };
        let from = MemberId::from(member);
        let Some((root, start)) = self.pairings.get(&from).and_then(|own| own.keys()) else {
            return false;
        };
        let lanes = &mut self.uplinks.lanes;
        // A new start has new keys, and has forgotten the messages of the former one.
        if lanes.get(&from).is_none_or(|known| known.start != start) {
            let lane = Lane::new(root, Party::Hub, member, path);
            lanes.insert(from, MemberLane { start, lane, sender: None, open: BTreeMap::new() });
        }
        let Some(own) = lanes.get_mut(&from) else { return false };
        let (genuine, messages) = own.lane.receive(frame, now);
        self.uplinks.agenda.touch(from);
        if genuine {
            self.mark_alive(now);
        }
        for (number, plain) in messages {
            self.take_message(MessageFrom { member: from, start, number }, &plain, now);
        }
        genuine
    }

    fn take_message(&mut self, from: MessageFrom, plain: &[u8], now: Instant) {
        let Some((&[kind, ref ms @ ..], body)) = plain.split_first_chunk::<5>() else { return };
        let until = now + Span::from_ms(u32::from_be_bytes(*ms).into());
        let Some(own) = self.uplinks.lanes.get_mut(&from.member) else { return };
        self.fresh = Some(from.member);
        own.open.retain(|_, open| open.until > now);
        // Some that are refused stay open as well, until their lifetimes end: a member chooses these.
        if own.open.len() >= 2 * MAX_UNANSWERED {
            return;
        }
        let length = body.len();
        let bytes = own.open.values().map(|open| open.length).sum::<usize>() + length;
        let is_full = own.open.len() >= MAX_UNANSWERED || bytes > MAX_UNANSWERED_BYTES;
        let (plain_kind, body, header) = match kind & STORED {
            0 => (kind, body, None),
            _ => match body.split_first_chunk::<10>() {
                Some((header, body)) => (kind & !STORED, body, Some(*header)),
                None => return,
            },
        };
        let publication = if plain_kind == PUBLISH { Publication::decode(body) } else { None };
        // Also one that is refused: only open messages have a reply.
        own.open.insert(from.number, Unanswered { until, length, publication });
        if let Some(header) = header {
            // A refusal might not be true: an earlier sending may have been taken.
            let Some(sender) = own.sender else {
                own.open.remove(&from.number);
                return;
            };
            if !self.is_new(&sender, header, from) {
                return;
            }
        }
        self.hand_over(from, plain_kind, body, is_full, now);
    }

    /// Whether a stored message is new; otherwise its sender gets the reply, if there is one.
    fn is_new(&mut self, sender: &SenderId, header: [u8; 10], from: MessageFrom) -> bool {
        let [number @ .., high, low] = header;
        let back = u16::from_be_bytes([high, low]);
        match self.memory.arrive(sender, u64::from_be_bytes(number), back, from) {
            Arrived::New => return true,
            Arrived::Over(kind, answer) => self.reply_with(from, kind, &answer),
            Arrived::Open | Arrived::Nothing => {}
        }
        false
    }

    /// A new message of a member.
    fn hand_over(&mut self, from: MessageFrom, kind: u8, body: &[u8], is_full: bool, now: Instant) {
        match kind {
            LEAVE => {
                self.reply_with(from, reply::TAKEN, &[]);
                self.leave_place(from.member, now);
                self.uplinks.over.insert(from.member, from.start);
            }
            MESSAGE | REQUEST if !is_full => {
                let (bytes, answered) = (body.to_vec(), kind == REQUEST);
                self.events.push_back(Event::Message { from, bytes, answered });
            }
            PUBLISH if !is_full && !self.topics.is_full() => match Publication::decode(body) {
                Some(Publication { topic, bytes }) => {
                    self.events.push_back(Event::Published { from, topic, bytes });
                }
                None => self.refuse(from),
            },
            SUBSCRIBE => match Subscriptions::decode(body) {
                Some(list) => {
                    self.topics.subscribe(from, list);
                    self.reply_with(from, reply::TAKEN, &[]);
                }
                None => self.refuse(from),
            },
            INTRODUCE => self.introduce(from, body),
            MEMORY => self.remember(from, body, now),
            RECEIPT => self.receipt(from, body),
            _ => self.refuse(from),
        }
    }

    /// The sender of stored messages says who it is.
    fn introduce(&mut self, from: MessageFrom, body: &[u8]) {
        let (Ok(sender), fresh) = (SenderId::try_from(body), self.rng.bits().to_be_bytes()) else {
            return self.refuse(from);
        };
        let token = self.memory.introduce(sender, from.member, fresh);
        if let Some(own) = self.uplinks.lanes.get_mut(&from.member) {
            own.sender = Some(sender);
        }
        self.reply_with(from, reply::ANSWER, &token);
    }

    /// The application has taken a message without an answer. Call it after the application has
    /// it: the member then learns that.
    pub fn accept(&mut self, message: MessageFrom) {
        self.reply_with(message, reply::TAKEN, &[]);
    }

    /// The application answers a request.
    pub fn answer(&mut self, message: MessageFrom, answer: &[u8]) {
        self.reply_with(message, reply::ANSWER, answer);
    }

    /// The application will not have a message, or does not answer it.
    pub fn refuse(&mut self, message: MessageFrom) {
        self.reply_with(message, reply::REFUSED, &[]);
    }

    /// Each message has one reply: later ones are dropped, and those to former starts.
    pub(super) fn reply_with(&mut self, to: MessageFrom, kind: u8, body: &[u8]) {
        self.settled = None;
        // A stored message may have been sent again since: its last sending waits for the reply.
        let to = self.memory.reply(to, kind, body);
        let own = self.uplinks.lanes.get_mut(&to.member).filter(|own| own.start == to.start);
        let Some(own) = own else { return };
        let Some(Unanswered { until, publication, .. }) = own.open.remove(&to.number) else {
            return;
        };
        if let Some(publication) = publication.filter(|_| kind != reply::REFUSED) {
            self.topics.relay(to.member, publication, until);
        }
        self.uplinks.agenda.touch(to.member);
        let plain = [&[kind], body].concat();
        if own.lane.send(to.number, &plain, Some(until)).is_err() {
            // The answer is too long. The application had the request.
            let _ = own.lane.send(to.number, &[reply::TAKEN], Some(until));
        }
    }

    /// The next datagram of a lane, and the time of the next poll.
    pub(super) fn poll_uplinks(
        &mut self,
        now: Instant,
    ) -> (Option<(To, Vec<u8>)>, Option<Instant>) {
        let Uplinks { lanes, agenda, turn, .. } = &mut self.uplinks;
        agenda.wake(now);
        // In turn, so that a member with long answers does not hold up the others.
        while let Some(member) = agenda.next(*turn) {
            let polled = lanes.get_mut(&member).map(|own| own.lane.poll(now));
            let (datagram, look) = polled.unwrap_or_default();
            if let Some(datagram) = datagram {
                *turn = member + 1;
                return (Some((To::Member(member), datagram)), Some(look.unwrap_or(now)));
            }
            agenda.rest(member, look);
        }
        (None, agenda.wake_at())
    }

    /// Forgets the lane of a member.
    pub(super) fn close_uplink(&mut self, member: MemberId) {
        self.uplinks.lanes.remove(&member);
        self.uplinks.agenda.rest(member, None);
    }

    /// A member that had left has proved keys again, and is ready for `epoch`. Returns `false` if
    /// that is not the newest, as the member must change first, or if it was sent before the member left.
    pub(super) fn rejoin(&mut self, member: MemberId, epoch: u32) -> bool {
        let (_, newest) = self.switch.current();
        if !self.uplinks.left.contains(&member) {
            return true;
        }
        // It says nothing more: the session would wait for it for ever.
        let start = self.pairings.get(&member).and_then(|own| own.keys()).map(|(_, start)| start);
        if start.is_some_and(|start| self.uplinks.over.get(&member) == Some(&start)) {
            return false;
        }
        // It would miss the messages of the epoch that the others have.
        if epoch != newest {
            self.invite_queue.push_back(member, newest);
            return false;
        }
        self.uplinks.left.remove(&member);
        self.uplinks.over.remove(&member);
        self.switch.join(member);
        self.absent.insert(member);
        true
    }

    /// Removes a member from the group; its messages end without it.
    pub(super) fn drop_member(&mut self, member: MemberId, now: Instant) {
        self.topics.remove(member);
        self.stored_gone(member);
        self.distances.remove(member);
        self.apart.remove(member);
        self.path_mtu.remove(member);
        self.set_packets();
        self.hellos.retain(|waiting| *waiting != member);
        self.retries.remove(member);
        self.absent.remove(&member);
        // A model that only this member lacked can be chosen again.
        if self.models.remove(&member).is_some() {
            self.update_models();
        }
        // Before `leave`, which forgets what the member has not answered.
        let open: Vec<MessageId> = self.messages.keys().copied().collect();
        let awaited = open.into_iter().filter(|number| self.switch.awaits(*number, member));
        let awaited: Vec<MessageId> = awaited.collect();
        let actions = self.switch.leave(member);
        let _ = self.perform(actions, now);
        for number in awaited {
            self.withdraw(number, &[member]);
            if !self.switch.is_open(number) && self.messages.remove(&number).is_some() {
                self.events.push_back(Event::Over { message: number, lacking: vec![member] });
            }
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::keys::Root;
    use crate::map::PerformanceMap;
    use crate::platform::Arc;
    use crate::rng::Seed;
    use crate::session::{Config, Security};
    use crate::targets::Pattern;

    /// A hub with a lane to member 0.
    fn hub() -> Hub {
        let config = Config::new(Pattern::RequestResponse, Security::InsecureOnPurpose);
        let map = Arc::new(PerformanceMap::new());
        let mut hub = Hub::new(config, map, 1, &Seed::reproducible(1)).unwrap();
        let path = Path {
            datagram: 1_400,
            below: 42,
            rate_bit_s: 1e6,
            round_trip: Span::from_ms(10),
            estimated: false,
        };
        let lane = Lane::new(&Root::insecure([1; 16]), Party::Hub, 0, path);
        // No introduction has this name.
        let own = MemberLane { start: 1, lane, sender: Some([7; 16]), open: BTreeMap::new() };
        hub.uplinks.lanes.insert(0, own);
        hub
    }

    /// What failed before: a member that says that its messages are stored, with lifetimes of weeks, could
    /// fill the hub's memory.
    #[test]
    fn messages_of_a_member_that_wait_for_a_reply_are_limited() {
        let mut hub = hub();
        let plain = [&[MESSAGE | STORED][..], &u32::MAX.to_be_bytes(), &[0; 12]].concat();
        for number in 1..10_000 {
            let from = MessageFrom { member: 0, start: 1, number };
            hub.take_message(from, &plain, Instant::START);
        }
        assert_eq!(hub.uplinks.lanes[&0].open.len(), 2 * MAX_UNANSWERED);
        assert!(hub.take_events().is_empty());
    }

    /// What failed before: a member with a key could fill the hub's memory with long messages that wait
    /// for the application.
    #[test]
    fn bytes_of_a_member_that_wait_for_a_reply_are_limited() {
        let (mut hub, plain) = (hub(), [&[MESSAGE][..], &[0, 1, 0, 0], &[7; 300_000]].concat());
        for number in 1..=100 {
            let from = MessageFrom { member: 0, start: 1, number };
            hub.take_message(from, &plain, Instant::START);
        }
        let waiting = hub.take_events();
        assert_eq!(waiting.len(), MAX_UNANSWERED_BYTES / 300_000);
        // Those that have a reply make room.
        for event in waiting {
            let Event::Message { from, .. } = event else { panic!("{event:?}") };
            hub.accept(from);
        }
        hub.take_message(MessageFrom { member: 0, start: 1, number: 101 }, &plain, Instant::START);
        assert_eq!(hub.take_events().len(), 1);
    }
}
