//! Radio states of a cellular link, in front of its transmission model: RRC idle and
//! connected, UMTS idle, FACH and DCH.
//!
//! One device has one radio, shared by both directions of its link: after a request wakes
//! it, the answer passes at once.
//!
//! 1. A state with `service` carries a frame that arrives: through the model behind it
//!    (`full`), or by itself (`slow`), one frame after another in each direction.
//! 2. A promotion begins if a frame arrives in a state without service, or if the frame
//!    makes its direction's queue exceed the promotion's threshold. That frame and all
//!    frames that arrive by the end of the promotion, in both directions, wait for the end;
//!    the new state then carries them. Slow service completes frames that it has begun.
//! 3. The queue of a direction is what has arrived but is not delivered, including the new
//!    frame, in bytes of IP packets (the frame minus its link header).
//! 4. The radio falls back to the previous state `inactivity` after it entered the state or
//!    delivered the last frame in either direction. A frame that arrives at exactly that
//!    time finds the previous state.
//! 5. No frame overtakes another of its direction.
//! 6. In a state with `reach`, frames to the device wait until it receives, or until it sends.
//! 7. With `half_duplex`, a frame begins after all that the other direction has accepted before.
//!
//! Pure: takes lengths and times, returns times. States are updated when a frame arrives.

mod reach;
mod spec;

#[cfg(test)]
mod tests;

pub use reach::Reach;
pub(crate) use reach::Reachable;
pub use spec::{HalfDuplex, Promotion, Service, Slow, State, StatesSpec};

use self::reach::Past;
use crate::Direction;
use crate::grant::LINK_HEADER;
use std::collections::VecDeque;
use units::{Instant, Span};

/// Frames of one direction in flight.
#[derive(Debug, Clone, Default)]
struct Queue {
    /// Delivery time and bytes of each frame.
    frames: VecDeque<(Instant, u64)>,
    bytes: u64,
    /// Time at which slow service becomes free.
    slow_until: Instant,
    last: Instant,
}

/// The radio of one device.
#[derive(Debug, Clone)]
pub struct States {
    spec: StatesSpec,
    state: usize,
    /// Target state and end of a promotion in progress.
    promotion: Option<(usize, Instant)>,
    /// Time at which the state was entered or the last frame delivered.
    active: Instant,
    /// Ends of the device's frames that no frame to it has followed in a receive window.
    sent: VecDeque<Instant>,
    queues: [Queue; 2],
}

impl States {
    /// A radio that enters its initial state at time 0. `spec` must have passed
    /// [`StatesSpec::check`].
    pub fn new(spec: StatesSpec) -> Self {
        let state = spec.initial.as_ref().and_then(|name| spec.place(name)).unwrap_or(0);
        let (promotion, sent, queues) = (None, VecDeque::new(), Default::default());
        Self { spec, state, promotion, active: Instant::START, sent, queues }
    }

    /// When a frame in this direction that is ready at `now` may go. `now` as for [`Self::send`].
    pub(crate) fn reachable(&mut self, way: Direction, now: Instant) -> Reachable {
        self.settle(now);
        let reach = self.spec.states.get(self.state).and_then(|state| state.reach.as_ref());
        match reach {
            Some(reach) if way == Direction::Down && self.promotion.is_none() => {
                reach.next(Past { active: self.active, sent: &self.sent }, now)
            }
            _ => Reachable::Now,
        }
    }

    /// Arrival time behind the radio of a frame of `len` bytes, including the link header,
    /// that arrives at `now`. `onward` carries a frame in full service, such as
    /// [`Grant::send`](crate::Grant::send) of its direction; it is called in frame order,
    /// with times that do not decrease. `now` must not decrease either, over both
    /// directions together.
    pub fn send(
        &mut self,
        way: Direction,
        len: usize,
        now: Instant,
        onward: &mut dyn FnMut(usize, Instant) -> Instant,
    ) -> Instant {
        self.settle(now);
        let bytes = len.saturating_sub(LINK_HEADER) as u64;
        let queue = &mut self.queues[way as usize];
        while let Some((_, gone)) = queue.frames.pop_front_if(|(at, _)| *at <= now) {
            queue.bytes -= gone;
        }
        queue.bytes += bytes;
        if self.promotion.is_none() {
            self.promotion = self.promote(way, now);
        }
        let (state, mut from) = self.promotion.unwrap_or((self.state, now));
        let other = self.queues[way.opposite() as usize].last;
        // Before the first frame of the other direction, there is nothing to turn around from.
        if let Some(HalfDuplex { guard }) = self.spec.half_duplex.filter(|_| other > Instant::START)
        {
            from = from.max(other + guard);
        }
        if let Some(windows) = self.windows(state) {
            // A device of class A sends again only after its receive windows, or after it has
            // received in one of them (LoRaWAN 1.0.x, 3.3.7).
            self.sent.retain(|end| *end + windows >= now);
            match (way, self.sent.back()) {
                (Direction::Up, Some(end)) => from = from.max(*end + windows),
                (Direction::Up, None) => {}
                (Direction::Down, _) => self.sent.retain(|end| *end > now),
            }
        }
        let queue = &mut self.queues[way as usize];
        let arrives = match self.spec.states.get(state).and_then(|state| state.service) {
            Some(Service::Slow { up, down }) => {
                let slow = if way == Direction::Up { up } else { down };
                let start = from.max(queue.slow_until);
                queue.slow_until = start + slow.time(bytes);
                queue.slow_until
            }
            // In a checked spec, no promotion leads to a state without service.
            Some(Service::Full) | None => onward(len, from),
        };
        // Rule 5: slow service may have kept an earlier frame for longer.
        queue.last = queue.last.max(arrives);
        queue.frames.push_back((queue.last, bytes));
        self.active = self.active.max(queue.last);
        let last = queue.last;
        if way == Direction::Up && self.windows(state).is_some() {
            self.sent.push_back(last);
        }
        last
    }

    /// Time from the end of a frame of the device to its last receive window, in a state with these.
    fn windows(&self, state: usize) -> Option<Span> {
        self.spec.states.get(state)?.reach.as_ref()?.last_window()
    }

    /// Name of the state at `now`; during a promotion, of the state before it. `now` as for
    /// [`Self::send`].
    pub fn state(&mut self, now: Instant) -> &str {
        self.settle(now);
        self.spec.states.get(self.state).map_or("", |state| &state.name)
    }

    /// End of the promotion in progress, if any.
    pub fn promoted_at(&self) -> Option<Instant> {
        self.promotion.map(|(_, at)| at)
    }

    /// Applies promotions and timers up to `now`.
    fn settle(&mut self, now: Instant) {
        if let Some((state, at)) = self.promotion {
            // No inactivity timer runs during a promotion.
            if at > now {
                return;
            }
            (self.state, self.promotion) = (state, None);
            self.active = self.active.max(at);
        }
        while self.state > 0
            && let Some(after) = self.spec.states[self.state].inactivity
            && let left = self.active + after
            && left <= now
        {
            self.state -= 1;
            // The timer of the state below starts here, so one call may fall back several times.
            self.active = left;
        }
    }

    /// The promotion that the queue of `way` begins, if any.
    fn promote(&self, way: Direction, now: Instant) -> Option<(usize, Instant)> {
        let state = self.spec.states.get(self.state)?;
        let promotion = state.promotion.as_ref()?;
        let threshold = if way == Direction::Up { promotion.up } else { promotion.down };
        if state.service.is_some() && self.queues[way as usize].bytes <= threshold.get() {
            return None;
        }
        let highest = self.spec.states.len() - 1;
        let to = promotion.to.as_ref().and_then(|name| self.spec.place(name)).unwrap_or(highest);
        Some((to, now + promotion.delay))
    }
}
