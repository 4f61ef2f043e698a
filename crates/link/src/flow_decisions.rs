//! Random decisions of one direction, flow by flow.

use crate::decisions::{Arrival, Decision};
use crate::impairment::Decider;
use crate::{Flow, Frame, Impairment};
use rustc_hash::FxBuildHasher;
use std::sync::Arc;
use units::{BoundedTable, Draw, Instant};

/// Flows of a direction that are remembered, about 300 kB. Beyond, the senders with the most flows
/// lose those that were idle for longest: a node that invents addresses neither fills the memory
/// nor changes the decisions about other nodes' frames.
const MAX_FLOWS: usize = 4_096;
/// Distance of the indices of flows that begin after evictions, which keeps those that were
/// forgotten and come back from repeating their decisions.
const EPOCH_BITS: u32 = 32;

/// A frame's position: its flow, and its index in the flow. Random decisions belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// [`Flow::id`].
    pub flow: u64,
    /// 0 for the flow's first frame after impairments begin. If flows of its sender were forgotten
    /// before, their number times 2^32.
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
    /// By [`Flow::id`]; owned by the sending endpoints.
    flows: BoundedTable<u64, FlowState, FxBuildHasher>,
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
            flows: BoundedTable::new(MAX_FLOWS),
        }
    }

    /// Applies these settings to the frames from now on. The state of a flow's model continues,
    /// unless the model is replaced.
    pub fn change(&mut self, config: &Impairment) {
        self.stateless = Decider::new(config);
        let had_state = std::mem::replace(&mut self.has_state, config.has_state());
        if had_state && !self.has_state {
            // A model with state that comes back later must not continue an old state.
            self.flows.values_mut().for_each(|flow| flow.decider = None);
        }
    }

    /// Whether earlier frames influence decisions.
    pub fn has_state(&self) -> bool {
        self.has_state
    }

    /// Takes the next position of the flow of `frame`, which endpoint `sender` of the segment sent.
    pub fn position(&mut self, frame: &Frame, sender: u32) -> Position {
        let flow = Flow::of(frame).id();
        if let Some(state) = self.flows.get_mut(&flow) {
            return state.next_position(flow);
        }
        self.flows.insert(sender, flow, FlowState::default());
        // After the insertion: it may forget flows of this sender.
        let next = self.flows.evicted(sender) << EPOCH_BITS;
        match self.flows.get_mut(&flow) {
            Some(state) => {
                state.next = next;
                state.next_position(flow)
            }
            None => Position { flow, index: next },
        }
    }

    /// The senders whose flows were forgotten, and how many of each.
    pub fn forgotten(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.flows.evictions()
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
        let Some(state) = self.flows.get_mut(&flow) else { return &mut self.stateless };
        let fresh = || Box::new((Arc::clone(config), Decider::new(config)));
        let (before, decider) = &mut **state.decider.get_or_insert_with(fresh);
        // Settings change for all flows at once; each flow takes them over at its next frame.
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
    use crate::test_times::at;
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
            let position = flows.position(&frame, 0);
            (position, flows.decide(&config, position, &frame, at(0)).lost)
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

    /// Frames to this many addresses, one each.
    fn flood(addresses: std::ops::Range<u32>) -> impl Iterator<Item = Frame> {
        addresses.map(|n| {
            let [_, b, c, d] = n.to_be_bytes();
            frame([11, b, c, d], 80)
        })
    }

    #[test]
    fn the_number_of_flows_is_limited_and_none_repeats_its_decisions() {
        let mut flows = FlowDecisions::new(&random(), Draw::new(7, 1, 0));
        let first: Vec<Position> =
            flood(0..20_000).map(|frame| flows.position(&frame, 3)).collect();
        assert!(flows.flows.len() <= MAX_FLOWS);
        let forgotten = 20_000 - flows.flows.len() as u64;
        assert_eq!(flows.forgotten().collect::<Vec<_>>(), [(3, forgotten)]);
        assert!(first[..MAX_FLOWS].iter().all(|position| position.index == 0));
        // The first flow comes back: it begins again, at a place that it did not have before.
        let again = flows.position(&frame([11, 0, 0, 0], 80), 3);
        assert_eq!((again.flow, again.index >> EPOCH_BITS), (first[0].flow, forgotten));
    }

    /// What failed before: a node that sends to many addresses took the places of all others,
    /// whose frames then shared one flow.
    #[test]
    fn a_node_with_many_flows_does_not_change_decisions_about_others() {
        let own = || frame([10, 0, 0, 2], 80);
        for config in [random, bursts] {
            let config = Arc::new(config());
            let decide = |flows: &mut FlowDecisions, frame: &Frame, sender| {
                let position = flows.position(frame, sender);
                (position, flows.decide(&config, position, frame, at(0)).lost)
            };
            let mut alone = FlowDecisions::new(&config, Draw::new(7, 1, 0));
            let mut flooded = alone.clone();
            let mut hostile = flood(0..30_000);
            for _ in 0..30 {
                // Also a flow that begins in the middle of the flood.
                hostile.by_ref().take(1_000).for_each(|frame| {
                    decide(&mut flooded, &frame, 1);
                });
                assert_eq!(decide(&mut flooded, &own(), 0), decide(&mut alone, &own(), 0));
            }
        }
    }

    #[test]
    fn the_same_frames_get_the_same_decisions_after_evictions() {
        let run = || {
            let twice = flood(0..9_000).chain(flood(0..9_000));
            lost(bursts(), twice)
        };
        assert_eq!(run(), run());
    }
}
