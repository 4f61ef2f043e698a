//! Queue of a link and its drop policy.

use crate::Instant;
use crate::codel::{Codel, CodelState};
use crate::red::{Red, RedState};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use units::{Bytes, Draw};

/// Queue limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Limit {
    /// Number of frames.
    Frames(u32),
    /// Number of bytes.
    Bytes(Bytes),
}

impl Default for Limit {
    /// tc-netem's default.
    fn default() -> Self {
        Self::Frames(1000)
    }
}

/// Drop policy, in addition to drops from a full queue.
#[derive(Debug, Clone)]
pub(crate) enum Discipline {
    DropTail,
    Codel(CodelState),
    Red(RedState),
}

/// A first-in, first-out queue.
#[derive(Debug, Clone)]
pub(crate) struct Queue<T> {
    limit: Limit,
    discipline: Discipline,
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
    pub fn new(limit: Limit, codel: Option<Codel>, red: Option<Red>) -> Self {
        let discipline = match (codel, red) {
            (Some(codel), _) => Discipline::Codel(CodelState::new(codel)),
            (None, Some(red)) => Discipline::Red(RedState::new(red)),
            (None, None) => Discipline::DropTail,
        };
        Self { limit, discipline, items: VecDeque::new(), bytes: 0 }
    }

    /// Applies another limit and discipline; queued items stay.
    pub fn change(&mut self, limit: Limit, codel: Option<Codel>, red: Option<Red>) {
        let Self { limit: new, discipline, .. } = Self::new(limit, codel, red);
        (self.limit, self.discipline) = (new, discipline);
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Queues an item of `len` bytes, unless the queue is full or RED drops it. `index` is
    /// its number on the link. `in_service` is the length of the item in transmission,
    /// which counts towards the limit.
    pub fn push(
        &mut self,
        item: T,
        len: usize,
        now: Instant,
        (draw, index): (Draw, u64),
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
        let early = match &mut self.discipline {
            Discipline::Red(red) => red.drops(self.bytes, now, draw, index),
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
            let waited = now.saturating_sub(next.since);
            let drops = match &mut self.discipline {
                Discipline::Codel(codel) => codel.drops(waited, self.bytes, next.len.into(), now),
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
                if let Discipline::Codel(codel) = &mut self.discipline {
                    codel.empty();
                }
            }
        }
        if let Discipline::Red(red) = &mut self.discipline
            && self.items.is_empty()
        {
            red.idle(now);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(index: u64) -> (Draw, u64) {
        (Draw::new(7, 1, 0), index)
    }

    #[test]
    fn a_limit_in_frames_counts_the_one_on_the_wire() {
        let mut queue = Queue::new(Limit::Frames(2), None, None);
        assert_eq!(queue.push('a', 100, 0, place(0), Some(100)), Ok(()));
        assert_eq!(queue.push('b', 100, 0, place(1), Some(100)), Err('b'));
        assert_eq!(queue.push('b', 100, 0, place(1), None), Ok(()));
        let mut dropped = Vec::new();
        assert_eq!(
            [queue.pop(5, &mut dropped), queue.pop(5, &mut dropped)],
            [Some('a'), Some('b')]
        );
        assert_eq!((queue.pop(5, &mut dropped), dropped.len()), (None, 0));
    }

    #[test]
    fn a_limit_in_bytes_lets_small_frames_where_large_ones_do_not_fit() {
        let mut queue = Queue::new(Limit::Bytes(Bytes::new(1000)), None, None);
        assert_eq!(queue.push('a', 900, 0, place(0), None), Ok(()));
        assert_eq!(queue.push('b', 200, 0, place(1), None), Err('b'));
        assert_eq!(queue.push('c', 100, 0, place(2), None), Ok(()));
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
