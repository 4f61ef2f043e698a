//! The filters of all clients: how many have each, by QoS.

use std::collections::HashMap;

/// Filters with the number of sessions that have them, for each QoS. Without it, each filter of a client
/// that goes is looked for in all sessions.
#[derive(Default)]
pub(super) struct Index {
    filters: HashMap<String, [u32; 3]>,
    /// Filters that were looked up.
    #[cfg(test)]
    pub steps: std::cell::Cell<u64>,
}

impl Index {
    fn step(&self) {
        #[cfg(test)]
        self.steps.set(self.steps.get() + 1);
    }

    /// A session has a filter with another QoS than before; `None` without the filter.
    pub fn change(&mut self, filter: &str, before: Option<u8>, now: Option<u8>) {
        self.step();
        if before == now {
            return;
        }
        let counts = match self.filters.get_mut(filter) {
            Some(counts) => counts,
            None => self.filters.entry(filter.to_owned()).or_default(),
        };
        if let Some(count) = before.and_then(|qos| counts.get_mut(usize::from(qos))) {
            *count = count.saturating_sub(1);
        }
        if let Some(count) = now.and_then(|qos| counts.get_mut(usize::from(qos))) {
            *count += 1;
        }
        if *counts == [0; 3] {
            self.filters.remove(filter);
        }
    }

    /// The highest QoS of sessions with this filter; `None` if there are none.
    pub fn highest(&self, filter: &str) -> Option<u8> {
        self.step();
        self.filters.get(filter).and_then(highest)
    }

    /// All filters with their highest QoS.
    pub fn all(&self) -> HashMap<String, u8> {
        let own = |(filter, counts): (&String, &[u32; 3])| Some((filter.clone(), highest(counts)?));
        self.filters.iter().filter_map(own).collect()
    }
}

fn highest(counts: &[u32; 3]) -> Option<u8> {
    (0..3).rev().find(|qos| counts[usize::from(*qos)] > 0)
}
