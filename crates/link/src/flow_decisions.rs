//! Random decisions of one direction, flow by flow.

use crate::decisions::{Arrival, Decider, Decision};
use crate::{Flow, Frame, Impairment, Instant};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use units::Draw;

/// Flows of a direction with separate indices. The frames of all further flows share one flow:
/// a node that invents addresses cannot fill the memory.
const MAX_FLOWS: usize = 4_096;
/// The number of that flow.
const OTHERS: u64 = u64::MAX;

/// A frame's position: its flow, and its index in the flow. Random decisions belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// [`Flow::id`].
    pub flow: u64,
    /// 0 for the flow's first frame after impairments begin.
    pub index: u64,
}

impl Position {
    /// A number for the frame that no other frame of its direction has, except by chance.
    pub fn number(self) -> u64 {
        units::mix(self.flow) ^ self.index
    }
}

/// Numbers the frames of each flow, and decides about them.
#[derive(Debug, Clone)]
pub(crate) struct FlowDecisions {
    draw: Draw,
    /// For flows without state.
    stateless: Decider,
    has_state: bool,
    flows: FxHashMap<u64, FlowState>,
}

/// One flow so far.
#[derive(Debug, Clone, Default)]
struct FlowState {
    next: u64,
    /// What decides about it, and by which settings, if earlier frames count.
    decider: Option<Box<(Arc<Impairment>, Decider)>>,
}

impl FlowState {
    fn next_position(&mut self, flow: u64) -> Position {
        let index = self.next;
        self.next += 1;
        Position { flow, index }
    }
}

impl FlowDecisions {
    pub fn new(config: &Impairment, draw: Draw) -> Self {
        Self {
            draw,
            stateless: Decider::new(config),
            has_state: config.has_state(),
            flows: FxHashMap::default(),
        }
    }

    /// Applies these settings to the frames from now on. The state of a flow's model continues,
    /// unless the model is replaced.
    pub fn change(&mut self, config: &Impairment) {
        self.stateless = Decider::new(config);
        let had_state = std::mem::replace(&mut self.has_state, config.has_state());
        if had_state && !self.has_state {
            self.flows.values_mut().for_each(|flow| flow.decider = None);
        }
    }

    /// Whether earlier frames influence decisions.
    pub fn has_state(&self) -> bool {
        self.has_state
    }

    /// Takes the next position of the flow of `frame`.
    pub fn position(&mut self, frame: &Frame) -> Position {
        let flow = Flow::of(frame).id();
        if let Some(state) = self.flows.get_mut(&flow) {
            return state.next_position(flow);
        }
        let flow = if self.flows.len() < MAX_FLOWS { flow } else { OTHERS };
        self.flows.entry(flow).or_default().next_position(flow)
    }

    /// The decision about `frame`, at this position, which arrived at `now`. Call it in the order
    /// of positions.
    pub fn decide(
        &mut self,
        config: &Arc<Impairment>,
        position: Position,
        frame: &Frame,
        now: Instant,
    ) -> Decision {
        let frame =
            Arrival { frame, index: position.index, now, draw: self.draw.of_flow(position.flow) };
        self.decider(config, position.flow).decide(config, &frame)
    }

    /// The decision about a duplicate, independent of the original.
    pub fn decide_copy(&self, config: &Impairment, position: Position) -> Decision {
        config.decide_copy(self.draw.of_flow(position.flow).of_copies(), position.index)
    }

    fn decider(&mut self, config: &Arc<Impairment>, flow: u64) -> &mut Decider {
        if !self.has_state {
            return &mut self.stateless;
        }
        let state = self.flows.entry(flow).or_default();
        let fresh = || Box::new((Arc::clone(config), Decider::new(config)));
        let (before, decider) = &mut **state.decider.get_or_insert_with(fresh);
        if !Arc::ptr_eq(before, config) {
            decider.change(before, config);
            *before = Arc::clone(config);
        }
        decider
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GilbertElliott, Loss};
    use etherparse::PacketBuilder;
    use units::Ratio;

    fn share(percent: f64) -> Ratio {
        Ratio::from_fraction(percent / 100.0).unwrap()
    }

    fn frame(to: [u8; 4], port: u16) -> Frame {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
            .ipv4([10, 0, 0, 1], to, 64)
            .udp(5683, port)
            .write(&mut frame, &[0; 30])
            .unwrap();
        Frame::from(&frame[..])
    }

    fn lost(config: Impairment, frames: impl Iterator<Item = Frame>) -> Vec<(Position, bool)> {
        let config = Arc::new(config);
        let mut flows = FlowDecisions::new(&config, Draw::new(7, 1, 0));
        let decide = |frame: Frame| {
            let position = flows.position(&frame);
            (position, flows.decide(&config, position, &frame, 0).lost)
        };
        frames.map(decide).collect()
    }

    fn random() -> Impairment {
        Impairment { loss: share(30.0).into(), ..Impairment::default() }
    }

    fn bursts() -> Impairment {
        let config = GilbertElliott {
            p: share(10.0),
            r: share(25.0),
            loss_bad: share(100.0),
            loss_good: share(0.0),
        };
        Impairment { loss: Loss::GilbertElliott(config), ..Impairment::default() }
    }

    #[test]
    fn frames_of_other_flows_do_not_change_what_is_lost() {
        let own = || frame([10, 0, 0, 2], 80);
        for config in [random, bursts] {
            let alone = lost(config(), (0..10_000).map(|_| own()));
            // Another flow after each third frame.
            let mixed = (0..10_000).flat_map(|i| {
                let other = (i % 3 == 0).then(|| frame([10, 0, 0, 3], 80));
                std::iter::once(own()).chain(other)
            });
            let mixed = lost(config(), mixed);
            let flow = alone[0].0.flow;
            let of_flow: Vec<_> = mixed.iter().filter(|(at, _)| at.flow == flow).copied().collect();
            assert_eq!(of_flow, alone);
            let others: Vec<bool> =
                mixed.iter().filter(|(at, _)| at.flow != flow).map(|(_, lost)| *lost).collect();
            let same = others.iter().zip(&alone).filter(|(a, (_, b))| *a == b).count();
            assert!(same < others.len(), "flows have separate random numbers");
        }
    }

    /// Bursts: the mean loss of many short flows is that of one long flow.
    #[test]
    fn short_flows_lose_as_many_frames_as_long_ones() {
        let frames = (0..40_000u32).flat_map(|flow| {
            let [_, _, c, d] = flow.to_be_bytes();
            (0..3).map(move |_| frame([10, 1, c, d % 16], 1 + u16::from(d / 16)))
        });
        let all = lost(bursts(), frames.take(3 * 4_000));
        let mean = all.iter().filter(|(_, lost)| *lost).count() as f64 / all.len() as f64;
        // p / (p + r); flows of 3 frames in bursts of 4: an effective sample of 4,000.
        let expected = 10.0 / 35.0;
        let error = 4.0 * (expected * (1.0 - expected) / 4_000.0_f64).sqrt();
        assert!((mean - expected).abs() < error, "{mean}");
    }

    #[test]
    fn the_number_of_flows_is_limited() {
        let frames = (0..20_000u32).map(|n| {
            let [_, b, c, d] = n.to_be_bytes();
            frame([10, b, c, d], 80)
        });
        let config = random();
        let mut flows = FlowDecisions::new(&config, Draw::new(7, 1, 0));
        let last = frames.map(|frame| flows.position(&frame)).last().unwrap();
        assert_eq!((last.flow, last.index), (OTHERS, 20_000 - MAX_FLOWS as u64 - 1));
        assert_eq!(flows.flows.len(), MAX_FLOWS + 1);
    }
}
