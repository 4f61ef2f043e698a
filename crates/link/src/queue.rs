//! Queue of a link and its drop policy.

use crate::codel::{CODEL, Codel, CodelState};
use crate::keys::{Contradictions, Key, Keys, Kind, REMOVE, REMOVE_ONE};
use crate::red::{RED, Red, RedState};
use crate::server::check_rate;
use crate::stage::{ChannelWait, Stage};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use units::{Bytes, Draw, Instant};

/// Queue limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Limit {
    /// Number of frames.
    Frames(u32),
    /// Number of bytes.
    Bytes(Bytes),
}

impl Limit {
    /// Least number of frames: a queue of 0 frames would drop all.
    pub const FEWEST_FRAMES: u32 = 1;
}

impl Default for Limit {
    /// tc-netem's default.
    fn default() -> Self {
        Self::Frames(1000)
    }
}

/// Drop policy, in addition to drops from a full queue.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Discipline {
    /// None.
    #[default]
    DropTail,
    /// By queueing delay.
    Codel(Codel),
    /// By mean queue length.
    Red(Red),
}

/// Queue of a link, in front of its rate.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct QueueSpec {
    /// Excess frames are dropped.
    pub limit: Limit,
    /// Drops of further frames.
    pub discipline: Discipline,
}

impl From<Limit> for QueueSpec {
    fn from(limit: Limit) -> Self {
        Self { limit, ..Self::default() }
    }
}

impl Stage for QueueSpec {
    const KEYS: &'static [Key] = &[
        Key::new(
            "queue",
            Kind::Limit,
            "Queue limit before the rate or the channel, in frames or bytes; further frames are \
             dropped (tail drop). Default: 1000 frames.",
        ),
        Key::new(
            "codel",
            Kind::Map(&CODEL),
            "CoDel (RFC 8289): drops by queueing time. `codel: {}` uses the defaults.",
        ),
        Key::new(
            "red",
            Kind::Map(&RED),
            "Random early detection: drops by the queue's mean length in bytes.",
        ),
    ];
    const ORDER: u8 = 3;
    type Flow = ();

    fn read(keys: &Keys) -> Result<Self, String> {
        let discipline = match (keys.read::<Codel>("codel")?, keys.read::<Red>("red")?) {
            (Some(codel), _) => Discipline::Codel(codel),
            (None, Some(red)) => Discipline::Red(red),
            (None, None) => Discipline::DropTail,
        };
        Ok(Self { limit: keys.read_or_default("queue")?, discipline })
    }

    fn write(&self, keys: &mut Keys) {
        keys.put("queue", &self.limit);
        match &self.discipline {
            Discipline::DropTail => {}
            Discipline::Codel(codel) => keys.insert("codel", codel),
            Discipline::Red(red) => keys.insert("red", red),
        }
    }

    fn check(keys: &Keys, wait: ChannelWait, found: &mut Contradictions) {
        for key in ["queue", "codel", "red"] {
            check_rate(keys, key, wait, found);
        }
        for scheduler in ["grant", "cellular_trace"].into_iter().filter(|key| keys.has(key)) {
            for key in ["codel", "red"].into_iter().filter(|key| keys.has(key)) {
                let text = format!(
                    "`{key}` together with `{scheduler}`, which sets the send times of frames"
                );
                found.add(key, text, "remove it; `queue` limits the queue length");
            }
        }
        let is_empty = match keys.get("queue") {
            Some(Limit::Frames(most)) => most < Limit::FEWEST_FRAMES,
            Some(Limit::Bytes(most)) => most == Bytes::ZERO,
            None => false,
        };
        if is_empty {
            found.add("queue", "a queue of 0 frames drops all frames", "use 1 or more");
        }
        if keys.has("codel") && keys.has("red") {
            let text = "`codel` and `red` together: a queue has only one discipline";
            found.add("codel|red", text, REMOVE_ONE);
        }
        Codel::check(keys, found);
        Red::check(keys, found);
    }

    fn check_longest(keys: &Keys, longest: u64, found: &mut Contradictions) {
        if let Some(Limit::Bytes(bytes)) = keys.get("queue")
            && (1..longest).contains(&bytes.get())
        {
            let text = format!("a frame of {longest} B does not fit into a queue of {bytes}");
            found.add("queue", text, format!("use `{longest} B` or more, or a smaller `mtu`"));
        }
    }

    fn check_netem(keys: &Keys, found: &mut Contradictions) {
        if let Some(Limit::Bytes(_)) = keys.get("queue") {
            found.add("queue", "a queue in bytes", "use a number of frames");
        }
        for (key, what) in [("codel", "CoDel"), ("red", "RED")] {
            if keys.has(key) {
                found.add(key, what, REMOVE);
            }
        }
    }

    /// Text of a queue that frames may have to wait in.
    fn text(&self, is_scheduled: bool) -> Option<String> {
        let limit = match self.limit {
            Limit::Frames(frames) => format!("queue {frames}"),
            Limit::Bytes(bytes) => format!("queue {bytes}"),
        };
        let text = match self.discipline {
            Discipline::DropTail => limit,
            Discipline::Codel(_) => limit + " (CoDel)",
            Discipline::Red(_) => limit + " (RED)",
        };
        is_scheduled.then_some(text)
    }

    /// A queue alone delays nothing.
    fn is_none(&self) -> bool {
        true
    }
}

/// State of a drop policy.
#[derive(Debug, Clone)]
pub(crate) enum DisciplineState {
    DropTail,
    Codel(CodelState),
    Red(RedState),
}

/// A first-in, first-out queue.
#[derive(Debug, Clone)]
pub(crate) struct Queue<T> {
    limit: Limit,
    discipline: DisciplineState,
    items: VecDeque<Waiting<T>>,
    bytes: u64,
}

#[derive(Debug, Clone)]
struct Waiting<T> {
    item: T,
    len: u32,
    since: Instant,
}

impl<T> Queue<T> {
    pub fn new(spec: QueueSpec) -> Self {
        let discipline = match spec.discipline {
            Discipline::DropTail => DisciplineState::DropTail,
            Discipline::Codel(codel) => DisciplineState::Codel(CodelState::new(codel)),
            Discipline::Red(red) => DisciplineState::Red(RedState::new(red)),
        };
        Self { limit: spec.limit, discipline, items: VecDeque::new(), bytes: 0 }
    }

    /// Applies another limit and discipline; queued items stay.
    pub fn change(&mut self, spec: QueueSpec) {
        // The discipline begins anew, even if only the limit changes.
        let Self { limit, discipline, .. } = Self::new(spec);
        (self.limit, self.discipline) = (limit, discipline);
    }

    /// What waits, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter().map(|waiting| &waiting.item)
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Removes all that waits, and returns how much that was.
    pub fn clear(&mut self) -> usize {
        self.bytes = 0;
        std::mem::take(&mut self.items).len()
    }

    /// Queues an item of `len` bytes, unless the queue is full or RED drops it. `index` is
    /// its number on the link. `in_service` is the length of the item in transmission,
    /// which counts towards the limit.
    pub fn push(
        &mut self,
        item: T,
        len: usize,
        now: Instant,
        draw: Draw,
        index: u64,
        in_service: Option<usize>,
    ) -> Result<(), T> {
        let full = match self.limit {
            Limit::Frames(most) => {
                self.items.len() + usize::from(in_service.is_some()) >= most as usize
            }
            Limit::Bytes(most) => {
                self.bytes + in_service.unwrap_or(0) as u64 + len as u64 > most.get()
            }
        };
        // Also at a full queue: RED's mean and count are of all arrivals.
        let early = match &mut self.discipline {
            DisciplineState::Red(red) => red.drops(self.bytes, now, draw, index),
            _ => false,
        };
        if full || early {
            return Err(item);
        }
        self.bytes += len as u64;
        self.items.push_back(Waiting { item, len: len as u32, since: now });
        Ok(())
    }

    /// The next item to send at `now`. Items that CoDel drops before it go into `dropped`.
    pub fn pop(&mut self, now: Instant, dropped: &mut Vec<T>) -> Option<T> {
        loop {
            let next = self.take(now)?;
            let waited = now - next.since;
            let drops = match &mut self.discipline {
                DisciplineState::Codel(codel) => {
                    codel.drops(waited, self.bytes, next.len.into(), now)
                }
                _ => false,
            };
            if !drops {
                return Some(next.item);
            }
            dropped.push(next.item);
        }
    }

    fn take(&mut self, now: Instant) -> Option<Waiting<T>> {
        let next = self.items.pop_front();
        match &next {
            Some(next) => self.bytes -= u64::from(next.len),
            None => {
                if let DisciplineState::Codel(codel) = &mut self.discipline {
                    // A queue without frames is not above CoDel's target.
                    codel.empty();
                }
            }
        }
        if let DisciplineState::Red(red) = &mut self.discipline
            && self.items.is_empty()
        {
            // RED lowers its mean by the time in which the queue was empty.
            red.idle(now);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_times::at;

    fn draw() -> Draw {
        Draw::new(7, 1, 0)
    }

    #[test]
    fn a_limit_in_frames_counts_the_one_on_the_wire() {
        let mut queue = Queue::new(Limit::Frames(2).into());
        assert_eq!(queue.push('a', 100, at(0), draw(), 0, Some(100)), Ok(()));
        assert_eq!(queue.push('b', 100, at(0), draw(), 1, Some(100)), Err('b'));
        assert_eq!(queue.push('b', 100, at(0), draw(), 1, None), Ok(()));
        let mut dropped = Vec::new();
        assert_eq!(
            [queue.pop(at(5), &mut dropped), queue.pop(at(5), &mut dropped)],
            [Some('a'), Some('b')]
        );
        assert_eq!((queue.pop(at(5), &mut dropped), dropped.len()), (None, 0));
    }

    #[test]
    fn a_limit_in_bytes_lets_small_frames_where_large_ones_do_not_fit() {
        let mut queue = Queue::new(Limit::Bytes(Bytes::new(1000)).into());
        assert_eq!(queue.push('a', 900, at(0), draw(), 0, None), Ok(()));
        assert_eq!(queue.push('b', 200, at(0), draw(), 1, None), Err('b'));
        assert_eq!(queue.push('c', 100, at(0), draw(), 2, None), Ok(()));
        assert_eq!(queue.items.len(), 2);
    }

    #[test]
    fn a_limit_is_written_as_in_the_file() {
        let text = |limit: Limit| serde_json::to_string(&limit).unwrap();
        assert_eq!(text(Limit::Frames(1000)), "1000");
        assert_eq!(text(Limit::Bytes(Bytes::new(64_000))), "\"64000 B\"");
        for limit in [Limit::Frames(7), Limit::Bytes(Bytes::new(7))] {
            assert_eq!(serde_json::from_str::<Limit>(&text(limit)).unwrap(), limit);
        }
    }
}
