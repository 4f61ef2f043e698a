//! Interactions that take more than a request and an answer: blocks, retransmission,
//! NSTART. Without I/O: time is a parameter, due actions are results.

use super::handle::Handle;
use crate::coap::Exchange;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use trace::CoapSettings;
use units::{Draw, Instant, Purpose, RandomStream, Span};

/// An interaction under way.
#[derive(Debug)]
pub(crate) struct Interaction {
    /// The template of its request.
    pub template: u32,
    /// The progress of its blocks.
    pub exchange: Exchange,
    /// When its first message was sent.
    pub sent: Instant,
    /// The target whose slot it occupies; only with NSTART.
    pub target: Option<u32>,
    deadline: Instant,
    message: Option<Confirmable>,
}

/// A confirmable message that is not acknowledged yet.
#[derive(Debug)]
struct Confirmable {
    id: u16,
    bytes: Vec<u8>,
    /// The number of retransmissions left.
    left: u32,
    /// The time to the next retransmission; it doubles each time (RFC 7252, section 4.2).
    wait: Span,
}

/// A due action.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Retransmit a message.
    Again(Handle, Vec<u8>),
    /// A message was not acknowledged after the maximum of retransmissions.
    Unacknowledged(Handle),
    /// An interaction has timed out.
    Deadline(Handle),
}

/// All interactions of a sender.
#[derive(Debug)]
pub(crate) struct Interactions {
    open: HashMap<Handle, Interaction>,
    /// Retransmission timers, by handle and message ID.
    timers: BinaryHeap<Reverse<(Instant, Handle, u16)>>,
    /// In the order in which they were set, which is also the order of time. Deadlines of
    /// ended interactions are dropped when they reach the front.
    deadlines: VecDeque<(Instant, Handle)>,
    settings: CoapSettings,
    draws: RandomStream,
    drawn: u64,
    /// The number of retransmissions.
    pub retransmitted: u64,
}

impl Interactions {
    pub fn new(settings: CoapSettings, draw: Draw) -> Self {
        Self {
            open: HashMap::new(),
            timers: BinaryHeap::new(),
            deadlines: VecDeque::new(),
            settings,
            draws: draw.of(Purpose::Retransmission),
            drawn: 0,
            retransmitted: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Begins an interaction, which times out at `deadline`.
    pub fn open(
        &mut self,
        handle: Handle,
        template: u32,
        exchange: Exchange,
        (sent, deadline): (Instant, Instant),
        target: Option<u32>,
    ) {
        let one = Interaction { template, exchange, sent, target, deadline, message: None };
        self.open.insert(handle, one);
        self.deadlines.push_back((deadline, handle));
    }

    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut Interaction> {
        self.open.get_mut(&handle)
    }

    /// Continues an interaction under another handle.
    pub fn rename(&mut self, from: Handle, to: Handle, deadline: Instant) {
        if let Some(interaction) = self.open.remove(&from) {
            self.open.insert(to, Interaction { deadline, ..interaction });
            self.deadlines.push_back((deadline, to));
        }
    }

    /// Ends an interaction.
    pub fn close(&mut self, handle: Handle) -> Option<Interaction> {
        self.open.remove(&handle)
    }

    /// Schedules retransmissions of a confirmable message of an interaction. Does nothing
    /// if retransmission is disabled.
    pub fn transmitted(&mut self, handle: Handle, id: u16, bytes: &[u8], now: Instant) {
        if self.settings.max_retransmit == 0 {
            return;
        }
        let Some(interaction) = self.open.get_mut(&handle) else { return };
        // A random duration from ACK_TIMEOUT to ACK_TIMEOUT times ACK_RANDOM_FACTOR
        // (section 4.2).
        let chance = self.draws.uniform(self.drawn);
        self.drawn += 1;
        let factor = 1.0 + chance * (self.settings.ack_random_factor - 1.0);
        let wait = self.settings.ack_timeout.as_ns() as f64 * factor;
        let wait = Span::from_ns(wait as u64);
        let (bytes, left) = (bytes.to_vec(), self.settings.max_retransmit);
        interaction.message = Some(Confirmable { id, bytes, left, wait });
        self.timers.push(Reverse((now + wait, handle, id)));
    }

    /// Handles an acknowledgement, by an empty message or by the answer. Returns the
    /// interaction, if this message was its last.
    pub fn acknowledged(&mut self, handle: Handle, id: Option<u16>) -> Option<&mut Interaction> {
        let interaction = self.open.get_mut(&handle)?;
        if let (Some(id), Some(message)) = (id, &interaction.message)
            && message.id != id
        {
            return None;
        }
        interaction.message = None;
        Some(interaction)
    }

    /// The next due action, if any.
    pub fn due(&mut self, now: Instant) -> Option<Due> {
        while let Some((at, handle)) = self.deadlines.front().copied() {
            let open = self.open.get(&handle).is_some_and(|one| one.deadline == at);
            if open && at > now {
                break;
            }
            self.deadlines.pop_front();
            if open {
                return Some(Due::Deadline(handle));
            }
        }
        while let Some(Reverse((at, handle, id))) = self.timers.peek().copied() {
            if at > now {
                return None;
            }
            self.timers.pop();
            let Some(interaction) = self.open.get_mut(&handle) else { continue };
            // The timer may belong to an earlier message of the interaction.
            let message = interaction.message.as_mut().filter(|message| message.id == id);
            let Some(message) = message else { continue };
            if message.left == 0 {
                return Some(Due::Unacknowledged(handle));
            }
            message.left -= 1;
            message.wait = message.wait * 2;
            let (next, bytes) = (now + message.wait, message.bytes.clone());
            self.timers.push(Reverse((next, handle, id)));
            self.retransmitted += 1;
            return Some(Due::Again(handle, bytes));
        }
        None
    }

    /// When the next action may be due.
    pub fn next(&self) -> Option<Instant> {
        let timer = self.timers.peek().map(|Reverse((at, ..))| *at);
        timer.into_iter().chain(self.deadlines.front().map(|(at, _)| *at)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Instant {
        Instant::from_ns(seconds * 1_000_000_000)
    }

    fn interactions(max_retransmit: u32) -> Interactions {
        let settings = CoapSettings { max_retransmit, ..CoapSettings::default() };
        Interactions::new(settings, Draw::new(1, 2, 3))
    }

    /// The retransmission times of a message that is never acknowledged, and its final
    /// timeout.
    fn times(interactions: &mut Interactions, number: u64) -> Vec<Instant> {
        let handle = Handle::of(number);
        let exchange = Exchange::new(0, 1_024);
        interactions.open(handle, 0, exchange, (Instant::START, s(1_000)), None);
        interactions.transmitted(handle, 7, b"message", Instant::START);
        let mut times = Vec::new();
        loop {
            let at = interactions.next().unwrap();
            times.push(at);
            match interactions.due(at) {
                Some(Due::Again(_, bytes)) => assert_eq!(bytes, b"message"),
                Some(Due::Unacknowledged(whose)) => {
                    assert_eq!(whose, handle);
                    interactions.close(handle);
                    while interactions.due(s(2_000)).is_some() {}
                    return times;
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn confirmable_messages_are_sent_again_at_doubling_intervals() {
        let mut some = interactions(4);
        let first = times(&mut some, 1);
        // RFC 7252, section 4.8: 2 to 3 s, and four retransmissions; timeout at
        // MAX_TRANSMIT_WAIT, 93 s, at the latest.
        assert_eq!(first.len(), 5);
        assert!((s(2)..=s(3)).contains(&first[0]));
        for (i, at) in first.iter().enumerate() {
            assert_eq!(*at, Instant::START + first[0].since_start() * ((2 << i) - 1), "{first:?}");
        }
        assert!(first[4] <= s(93));
        assert_eq!(some.retransmitted, 4);
        // Other messages have other times; the same seed gives the same times.
        assert_ne!(times(&mut some, 2), first);
        assert_eq!(times(&mut interactions(4), 1), first);
        let settings = CoapSettings {
            max_retransmit: 1,
            ack_timeout: Span::from_ns(10),
            ack_random_factor: 1.0,
            ..CoapSettings::default()
        };
        let last = times(&mut Interactions::new(settings, Draw::new(1, 2, 3)), 1);
        assert_eq!(last, [10, 30].map(Instant::from_ns));
    }

    #[test]
    fn what_is_acknowledged_is_not_sent_again() {
        let mut some = interactions(4);
        let handle = Handle::of(1);
        some.open(handle, 9, Exchange::new(0, 64), (Instant::START, s(50)), None);
        some.transmitted(handle, 7, b"first", Instant::START);
        assert!(some.acknowledged(handle, Some(6)).is_none(), "of another message");
        assert_eq!(some.acknowledged(handle, Some(7)).unwrap().template, 9);
        assert_eq!(some.due(s(49)), None);
        assert_eq!(some.due(s(50)), Some(Due::Deadline(handle)));
        assert_eq!((some.close(handle).unwrap().sent, some.is_empty()), (Instant::START, true));
        // Without retransmission nothing is stored.
        let mut none = interactions(0);
        none.open(handle, 9, Exchange::new(0, 64), (Instant::START, s(50)), None);
        none.transmitted(handle, 7, b"first", Instant::START);
        assert_eq!((none.due(s(49)), none.next()), (None, Some(s(50))));
        // Deadlines of ended interactions do not accumulate.
        none.close(handle);
        for number in 0..10_000 {
            let handle = Handle::of(number);
            none.open(
                handle,
                9,
                Exchange::new(0, 64),
                (Instant::START, s(50) + Span::from_ns(number)),
                None,
            );
            none.close(handle);
            assert_eq!(none.due(Instant::from_ns(number)), None);
        }
        assert!(none.deadlines.is_empty());
        // Another handle has another deadline.
        none.open(handle, 9, Exchange::new(0, 64), (Instant::START, s(60)), None);
        none.rename(handle, Handle::of(2), s(70));
        assert_eq!(none.due(s(69)), None);
        assert_eq!(none.due(s(70)), Some(Due::Deadline(Handle::of(2))));
    }
}
