//! Who is where on a segment: learnt addresses, members of groups, parts.

use crate::groups::{Groups, group_of};
use rustc_hash::FxHashMap;

/// The places of addresses and groups.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    endpoints: usize,
    /// Asked twice for each frame. Who floods it with made-up addresses slows
    /// nobody: a link accepts its own alone.
    places: FxHashMap<[u8; 6], usize>,
    groups: Groups,
    parts: Option<Vec<u32>>,
    /// Whether multicast goes nowhere.
    deaf: bool,
}

impl Directory {
    /// A directory of so many endpoints that knows nobody's address.
    pub fn new(endpoints: usize) -> Self {
        Self { endpoints, ..Self::default() }
    }

    /// One more endpoint, in the part of those that were in none by name.
    pub fn attach(&mut self) {
        self.endpoints += 1;
        self.parts.iter_mut().for_each(|parts| parts.push(0));
    }

    /// Takes note that `endpoint` has the address `source`.
    pub fn learn(&mut self, source: [u8; 6], endpoint: usize) {
        self.places.insert(source, endpoint);
    }

    /// Takes note of a group report, and says whether it was one.
    pub fn learn_groups(&mut self, frame: &[u8], endpoint: usize) -> bool {
        self.groups.learn(frame, endpoint)
    }

    /// Cuts the segment into parts, by endpoint; nothing makes it whole. Endpoints
    /// that came after the parts were drawn are in part 0.
    pub fn part(&mut self, parts: Option<Vec<u32>>) {
        self.parts = parts.map(|mut parts| {
            parts.resize(self.endpoints.max(parts.len()), 0);
            parts
        });
    }

    /// Passes multicast on, or to nobody any more; broadcast and what is link-local goes on.
    pub fn pass_multicast(&mut self, passes: bool) {
        self.deaf = !passes;
    }

    /// Whether no frame passes between the two.
    pub fn are_parted(&self, one: usize, other: usize) -> bool {
        self.parts.as_ref().is_some_and(|part| part[one] != part[other])
    }

    /// Who gets `frame` from `from`: the place of its address, the members of
    /// its group, or all. In order of index, so that a seed repeats a run.
    pub fn receivers(&self, frame: &[u8], from: usize) -> Receivers {
        let Some((target, _)) = addresses(frame) else { return Receivers::One(None) };
        if let Some(place) = self.places.get(&target) {
            return Receivers::One((*place != from).then_some(*place));
        }
        Receivers::Many(self.others(frame, from).into_iter())
    }

    fn others(&self, frame: &[u8], from: usize) -> Vec<usize> {
        match group_of(frame) {
            // 224.0.0.0/24 is link-local and always flooded (RFC 4541, 2.1.2).
            Some(group) if group[..3] != [224, 0, 0] => {
                if self.deaf {
                    return Vec::new();
                }
                self.groups.members(group).filter(|member| *member != from).collect()
            }
            _ => (0..self.endpoints).filter(|other| *other != from).collect(),
        }
    }
}

/// Who gets a frame: mostly one, and then nothing is allocated.
#[derive(Debug)]
pub(crate) enum Receivers {
    One(Option<usize>),
    Many(std::vec::IntoIter<usize>),
}

impl Iterator for Receivers {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        match self {
            Self::One(one) => one.take(),
            Self::Many(many) => many.next(),
        }
    }
}

/// Destination and source of an Ethernet frame.
pub(crate) fn addresses(frame: &[u8]) -> Option<([u8; 6], [u8; 6])> {
    if frame.len() < 14 {
        return None;
    }
    let target = frame.first_chunk::<6>()?;
    let source = frame.get(6..)?.first_chunk::<6>()?;
    Some((*target, *source))
}
