//! Decisions of an earlier run, repeated.

use crate::decisions::Decision;
use crate::flow_decisions::Position;
use crate::{Direction, Flow, Frame};
use std::collections::{HashMap, VecDeque};

/// A decision and its frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// Endpoint of the link.
    pub endpoint: u32,
    /// Direction.
    pub way: Direction,
    /// The frame's flow, and its index there.
    pub position: Position,
    /// Length of the frame in bytes, including the link header.
    pub length: u32,
    /// The decision.
    pub decision: Decision,
    /// How the frame differs from the recorded one, in a replay.
    pub departure: Option<Box<str>>,
}

/// A recorded decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    /// The frame's flow, and its index there.
    pub position: Position,
    /// Length of the frame in bytes, including the link header.
    pub length: u32,
    /// The decision.
    pub decision: Decision,
}

/// The decisions of an earlier run for one direction, by flow.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Replay {
    flows: HashMap<u64, VecDeque<Recorded>>,
}

impl Replay {
    /// `decisions` must be sorted by index within each flow.
    pub fn new(decisions: Vec<Recorded>) -> Self {
        let mut replay = Self::default();
        for decision in decisions {
            replay.flows.entry(decision.position.flow).or_default().push_back(decision);
        }
        replay
    }

    /// The recorded decision for the frame at this position, if any. Indices of a flow must not
    /// decrease between calls.
    pub fn take(&mut self, position: Position) -> Option<Recorded> {
        let flow = self.flows.get_mut(&position.flow)?;
        while flow.pop_front_if(|found| found.position.index < position.index).is_some() {}
        flow.pop_front_if(|found| found.position.index == position.index)
    }

    /// Whether the record of the flow has ended.
    pub fn has_ended(&self, flow: u64) -> bool {
        self.flows.get(&flow).is_none_or(VecDeque::is_empty)
    }
}

/// How `frame` differs from what was `recorded` at its position; `None` if it has the same flow
/// and length. Contents are not compared: identifiers and clocks differ between runs.
pub(crate) fn departure(
    frame: &Frame,
    position: Position,
    recorded: Option<Recorded>,
    has_ended: bool,
) -> Option<Box<str>> {
    let length = frame.len();
    let found = match recorded {
        Some(recorded) if recorded.length as usize == length => return None,
        Some(recorded) => format!("has {length} B, recorded were {} B", recorded.length),
        // A gap in the record: the disk was too slow for it.
        None if !has_ended => return None,
        None => "is not in the record".to_owned(),
    };
    let flow = Flow::of(frame);
    Some(format!("frame {} of the flow {flow} {found}", position.index + 1).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(flow: u64, index: u64, length: u32) -> Recorded {
        Recorded { position: Position { flow, index }, length, decision: Decision::default() }
    }

    #[test]
    fn decisions_are_found_by_flow_and_index() {
        let all = [recorded(1, 0, 60), recorded(2, 0, 70), recorded(1, 3, 80)];
        let mut replay = Replay::new(all.to_vec());
        let mut take = |flow, index| replay.take(Position { flow, index });
        assert_eq!(take(2, 0), Some(all[1]));
        assert_eq!(take(1, 0), Some(all[0]));
        assert_eq!((take(1, 1), take(3, 0)), (None, None));
        assert_eq!(take(1, 3), Some(all[2]));
        assert!(replay.has_ended(1) && replay.has_ended(3));
    }

    #[test]
    fn a_frame_that_differs_is_named() {
        let frame = Frame::from(&[0; 60][..]);
        let at = Position { flow: 1, index: 4 };
        let compare = |recorded, ended| departure(&frame, at, recorded, ended);
        assert_eq!(compare(Some(recorded(1, 4, 60)), true), None);
        let text = compare(Some(recorded(1, 4, 98)), false).unwrap();
        assert_eq!(&*text, "frame 5 of the flow EtherType 0x0000 has 60 B, recorded were 98 B");
        assert_eq!(compare(None, false), None, "a gap");
        assert!(compare(None, true).unwrap().ends_with("is not in the record"));
    }
}
