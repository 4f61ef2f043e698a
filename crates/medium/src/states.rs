//! The states of a cellular radio, in front of what sends: RRC's idle and
//! connected, UMTS's idle, FACH and DCH.
//!
//! One device has one radio, so both directions of its link share it: a request
//! that woke it lets the answer pass at once.
//!
//! 1. A frame that comes to a state with `service` is carried: by what comes
//!    behind (`full`), or by the state itself (`slow`), one frame behind the
//!    other in each direction.
//! 2. A frame that comes to a state without service, or makes more than the
//!    promotion's threshold be queued in its direction, begins a promotion. It
//!    and all that come by the end of it, in both directions, wait for the end
//!    and are then carried by the new state. What slow service had begun with
//!    it finishes.
//! 3. Queued in a direction is what came and has not been delivered, the new
//!    frame included, in bytes of IP packets (the frame less its link header).
//! 4. A state is left for the one before it when `inactivity` has passed since
//!    it was entered or a last frame was delivered, either direction. A frame
//!    that comes at that very moment finds it left.
//! 5. No frame overtakes another of its direction.
//!
//! Pure: lengths and times in, times out; states are caught up with when a
//! frame comes.

mod spec;

#[cfg(test)]
mod tests;

pub use spec::{Promotion, Service, Slow, State, StatesSpec};

use crate::grant::LINK_HEADER;
use crate::{Instant, Way};
use std::collections::VecDeque;

/// What one direction has under way.
#[derive(Debug, Clone, Default)]
struct Queue {
    /// When each frame is delivered, and its bytes.
    frames: VecDeque<(Instant, u64)>,
    bytes: u64,
    /// When slow service has done with what it has.
    slow_until: Instant,
    last: Instant,
}

/// The radio of one device.
#[derive(Debug, Clone)]
pub struct States {
    spec: StatesSpec,
    state: usize,
    /// Where a promotion under way leads, and when it ends.
    promotion: Option<(usize, Instant)>,
    /// When the state was entered or a last frame delivered.
    active: Instant,
    queues: [Queue; 2],
}

impl States {
    /// A radio that enters its initial state at time 0. `spec` is taken to have
    /// passed [`StatesSpec::check`].
    pub fn new(spec: StatesSpec) -> Self {
        let state = spec.initial.as_ref().and_then(|name| spec.place(name)).unwrap_or(0);
        Self { spec, state, promotion: None, active: 0, queues: Default::default() }
    }

    /// When a frame of `len` bytes, link header included, that comes at `now`
    /// has arrived at the other side of the radio. `onward` carries a frame in
    /// full service, such as [`Grant::send`](crate::Grant::send) of its
    /// direction; it is asked in the order of frames, at times that do not
    /// decrease. Nor must `now`, over both directions together.
    pub fn send(
        &mut self,
        way: Way,
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
        let (state, from) = self.promotion.unwrap_or((self.state, now));
        let queue = &mut self.queues[way as usize];
        let arrives = match self.spec.states.get(state).and_then(|state| state.service) {
            Some(Service::Slow { up, down }) => {
                let slow = if way == Way::Up { up } else { down };
                let start = from.max(queue.slow_until);
                queue.slow_until = start.saturating_add(slow.time(bytes).as_ns());
                queue.slow_until
            }
            // A spec that was checked leads to no state without service.
            Some(Service::Full) | None => onward(len, from),
        };
        queue.last = queue.last.max(arrives);
        queue.frames.push_back((queue.last, bytes));
        self.active = self.active.max(queue.last);
        queue.last
    }

    /// The name of the state at `now`; while a promotion is under way, of the
    /// one it leads out of. `now` as for [`Self::send`].
    pub fn state(&mut self, now: Instant) -> &str {
        self.settle(now);
        self.spec.states.get(self.state).map_or("", |state| &state.name)
    }

    /// When a promotion under way ends, if one is.
    pub fn promoted_at(&self) -> Option<Instant> {
        self.promotion.map(|(_, at)| at)
    }

    /// Catches up with promotions and timers up to `now`.
    fn settle(&mut self, now: Instant) {
        if let Some((state, at)) = self.promotion {
            if at > now {
                return;
            }
            (self.state, self.promotion) = (state, None);
            self.active = self.active.max(at);
        }
        while self.state > 0
            && let Some(after) = self.spec.states[self.state].inactivity
            && let left = self.active.saturating_add(after.as_ns())
            && left <= now
        {
            self.state -= 1;
            self.active = left;
        }
    }

    /// The promotion that the queue of `way` begins, if it does.
    fn promote(&self, way: Way, now: Instant) -> Option<(usize, Instant)> {
        let state = self.spec.states.get(self.state)?;
        let promotion = state.promotion.as_ref()?;
        let threshold = if way == Way::Up { promotion.up } else { promotion.down };
        if state.service.is_some() && self.queues[way as usize].bytes <= threshold.get() {
            return None;
        }
        let highest = self.spec.states.len() - 1;
        let to = promotion.to.as_ref().and_then(|name| self.spec.place(name)).unwrap_or(highest);
        Some((to, now.saturating_add(promotion.delay.as_ns())))
    }
}
