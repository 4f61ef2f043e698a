//! A link between a node and its network.

use crate::link_pipe::{LinkPipe, Radio};
use crate::states::{States, StatesSpec};
use crate::step::{StampedFrame, Step, TransitFrame};
use crate::{Direction, Frame, Impairment, Replay};
use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use std::sync::Arc;
use units::{Draw, Instant};

/// A link: a pipe in each direction, and the radio whose states both share.
///
/// Pure: it takes frames and times, and returns steps for its caller to execute at their times.
#[derive(Debug, Clone)]
pub struct Link {
    pipes: [LinkPipe; 2],
    radio: Option<Box<Shared>>,
}

/// The radio, and frames to the device that wait until it receives.
#[derive(Debug, Clone)]
struct Shared {
    states: States,
    asleep: VecDeque<TransitFrame>,
}

impl Link {
    /// An idle link with these settings. `number` is its number in a network with this seed, and
    /// selects its random streams.
    pub fn new(
        up: impl Into<Arc<Impairment>>,
        down: impl Into<Arc<Impairment>>,
        radio: Option<StatesSpec>,
        seed: u64,
        number: usize,
    ) -> Self {
        let draw = |direction: Direction| Draw::new(seed, number as u64, direction as u64);
        Self {
            pipes: [
                LinkPipe::new(up, draw(Direction::Up)),
                LinkPipe::new(down, draw(Direction::Down)),
            ],
            radio: radio.map(|spec| {
                Box::new(Shared { states: States::new(spec), asleep: VecDeque::new() })
            }),
        }
    }

    /// The channel behind the link is that of LoRa devices: it decides by the positions of frames, and
    /// takes packets when their transmission begins, to see which of them overlap.
    pub fn share_air(&mut self) {
        self[Direction::Up].expect_changes();
        self.pipes.iter_mut().for_each(LinkPipe::share_air);
    }

    /// Starts impairments at `now`, the origin of outages and traces.
    pub fn begin(&mut self, now: Instant) {
        self.pipes.iter_mut().for_each(|pipe| pipe.begin(now));
    }

    /// Repeats the decisions of an earlier run, up and down, as long as their record lasts.
    pub fn replay(&mut self, recorded: &[Replay; 2]) {
        for (pipe, recorded) in self.pipes.iter_mut().zip(recorded) {
            pipe.replay(recorded.clone());
        }
    }

    /// Ends an interval of settings and counters.
    pub fn end_interval(&mut self, now: Instant) {
        for pipe in &mut self.pipes {
            // Ramps first: an interval has the settings at its end.
            pipe.follow_ramps(now);
            pipe.end_interval(now);
        }
    }

    /// Takes the link down for good, as when its node is removed.
    pub fn detach(&mut self, now: Instant) {
        self.pipes.iter_mut().for_each(|pipe| pipe.set_down(true, now));
    }

    /// The pipes: up, then down.
    pub fn pipes(&self) -> &[LinkPipe; 2] {
        &self.pipes
    }

    /// The pipes, to change them.
    pub fn pipes_mut(&mut self) -> &mut [LinkPipe; 2] {
        &mut self.pipes
    }

    /// Fast path for a frame with a deterministic decision: returns its release time. `None` if
    /// a decision is random, the link is down, or the frame must queue; then call
    /// [`Self::admit`].
    #[inline]
    pub fn pass(&mut self, direction: Direction, frame: &Frame, now: Instant) -> Option<Instant> {
        match self.radio {
            // With a radio, a frame may have to wait until the device receives.
            Some(_) => None,
            None => self[direction].pass(frame, now),
        }
    }

    /// Accepts `frame` (including the link header), which entered the network at `arrived` and
    /// this direction at `now`; endpoint `sender` of the segment sent it. With a `channel`, the
    /// frame then goes to that channel. Times must not decrease between calls of this and
    /// [`Self::turn`].
    pub fn admit(
        &mut self,
        direction: Direction,
        frame: StampedFrame,
        sender: u32,
        now: Instant,
        channel: bool,
        steps: &mut Vec<Step>,
    ) {
        let pipe = &mut self.pipes[direction as usize];
        pipe.admit(frame, sender, now, channel, radio(&mut self.radio, direction), steps);
        if direction == Direction::Up {
            // The device may receive now.
            let waiting = radio(&mut self.radio, Direction::Down);
            let waiting = waiting.filter(|radio| !radio.asleep.is_empty());
            let at = waiting.and_then(|mut radio| pipe.woken_at(&mut radio, now));
            steps.extend(at.map(Step::TurnOther));
        }
    }

    /// Sends the next frame of a direction that waits, as requested by [`Step::Turn`].
    pub fn turn(
        &mut self,
        direction: Direction,
        now: Instant,
        channel: bool,
        steps: &mut Vec<Step>,
    ) {
        let radio = radio(&mut self.radio, direction);
        self.pipes[direction as usize].turn(now, channel, radio, steps);
    }
}

/// The radio for frames in one direction.
fn radio(shared: &mut Option<Box<Shared>>, direction: Direction) -> Option<Radio<'_>> {
    let Shared { states, asleep } = shared.as_deref_mut()?;
    Some(Radio { states, asleep, direction })
}

impl Index<Direction> for Link {
    type Output = LinkPipe;

    fn index(&self, direction: Direction) -> &LinkPipe {
        &self.pipes[direction as usize]
    }
}

impl IndexMut<Direction> for Link {
    fn index_mut(&mut self, direction: Direction) -> &mut LinkPipe {
        &mut self.pipes[direction as usize]
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
