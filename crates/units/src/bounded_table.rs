//! A table of limited size that several owners share: for keys that nodes or peers choose.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hash};

/// Part of the table that one eviction frees: each eviction looks at all entries, so it must make
/// room for many.
const EVICTED_PART: usize = 8;

/// A map with a maximum number of entries, each of which belongs to an owner, such as the port that
/// a frame came from. A full table evicts the least recently used entries of the owners with the
/// most entries: an owner that invents keys loses its own entries, and an owner with at most its
/// equal share of the table loses none.
///
/// Evictions depend only on the order of calls, not on the hasher.
#[derive(Clone)]
pub struct BoundedTable<K, V, S = RandomState> {
    entries: HashMap<K, Entry<V>, S>,
    /// Owners with entries or evictions.
    owners: HashMap<u32, Owner, S>,
    capacity: usize,
    /// Number of accesses so far.
    uses: u64,
}

#[derive(Debug, Clone)]
struct Entry<V> {
    value: V,
    owner: u32,
    /// Number of the latest access.
    used: u64,
}

/// An entry that may be evicted.
struct Candidate<K> {
    used: u64,
    owner: u32,
    key: K,
}

#[derive(Debug, Clone, Copy, Default)]
struct Owner {
    entries: usize,
    evicted: u64,
}

impl<K, V, S> fmt::Debug for BoundedTable<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BoundedTable({} of {} entries)", self.entries.len(), self.capacity)
    }
}

impl<K: Copy + Eq + Hash, V, S: BuildHasher + Default> BoundedTable<K, V, S> {
    /// An empty table for at most `capacity` entries, at least 1.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Self { entries: HashMap::default(), owners: HashMap::default(), capacity, uses: 0 }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of entries that were evicted from `owner` so far.
    pub fn evicted(&self, owner: u32) -> u64 {
        self.owners.get(&owner).map_or(0, |owner| owner.evicted)
    }

    /// The owners that lost entries by eviction, and how many each lost, in no order.
    pub fn evictions(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.owners
            .iter()
            .map(|(owner, of)| (*owner, of.evicted))
            .filter(|(_, evicted)| *evicted > 0)
    }

    /// The value of `key`, which counts as a use of it.
    #[inline]
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let entry = self.entries.get_mut(key)?;
        self.uses += 1;
        entry.used = self.uses;
        Some(&mut entry.value)
    }

    /// The value of `key` and its owner, without counting as a use.
    #[inline]
    pub fn get(&self, key: &K) -> Option<(&V, u32)> {
        self.entries.get(key).map(|entry| (&entry.value, entry.owner))
    }

    /// All values.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.entries.values_mut().map(|entry| &mut entry.value)
    }

    /// Adds or replaces an entry, which then belongs to `owner`. Evicts others from a full table.
    pub fn insert(&mut self, owner: u32, key: K, value: V) -> &mut V {
        // First, so that replacing an entry of a full table evicts none.
        self.remove(&key);
        if self.entries.len() >= self.capacity {
            self.evict();
        }
        self.owners.entry(owner).or_default().entries += 1;
        self.uses += 1;
        let entry = Entry { value, owner, used: self.uses };
        &mut self.entries.entry(key).insert_entry(entry).into_mut().value
    }

    /// Removes an entry.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let Entry { value, owner, .. } = self.entries.remove(key)?;
        if let Some(of) = self.owners.get_mut(&owner) {
            of.entries -= 1;
            // Owners with evictions stay, since their number is reported.
            if of.entries == 0 && of.evicted == 0 {
                self.owners.remove(&owner);
            }
        }
        Some(value)
    }

    /// Removes all entries of `owner`, which do not count as evicted.
    pub fn remove_owner(&mut self, owner: u32) {
        self.entries.retain(|_, entry| entry.owner != owner);
        if let Some(of) = self.owners.get_mut(&owner) {
            of.entries = 0;
        }
    }

    /// Frees a part of the table.
    fn evict(&mut self) {
        let requested = (self.capacity / EVICTED_PART).max(1);
        let level = self.level(requested);
        // Only of owners above the level: a flood does not evict the entries of others (decision
        // 59).
        let large = |entry: &Entry<V>| self.size_of(entry.owner) > level;
        let candidates = self.entries.iter().filter(|(_, entry)| large(entry));
        let mut candidates: Vec<Candidate<K>> = candidates
            .map(|(key, entry)| Candidate { used: entry.used, owner: entry.owner, key: *key })
            .collect();
        // Usually the oldest are enough, and sorting them all would take milliseconds.
        let oldest = requested.min(candidates.len());
        if oldest < candidates.len() {
            candidates.select_nth_unstable_by_key(oldest, |candidate| candidate.used);
        }
        let (first, rest) = candidates.split_at_mut(oldest);
        // The oldest may all belong to owners that reach the level; then younger entries of others
        // follow.
        let missing = self.evict_down_to(level, requested, first);
        if missing > 0 {
            self.evict_down_to(level, missing, rest);
        }
    }

    /// Evicts the oldest of the candidates whose owners are above the level, at most `requested`.
    /// Returns how many are missing.
    fn evict_down_to(
        &mut self,
        level: usize,
        requested: usize,
        candidates: &mut [Candidate<K>],
    ) -> usize {
        candidates.sort_unstable_by_key(|candidate| candidate.used);
        let mut missing = requested;
        for Candidate { owner, key, .. } in candidates {
            if missing == 0 {
                break;
            }
            if let Some(of) = self.owners.get_mut(owner).filter(|of| of.entries > level) {
                of.entries -= 1;
                of.evicted += 1;
                self.entries.remove(key);
                missing -= 1;
            }
        }
        missing
    }

    fn size_of(&self, owner: u32) -> usize {
        self.owners.get(&owner).map_or(0, |owner| owner.entries)
    }

    /// The largest number of entries to which all owners can be cut so that `requested` are freed.
    fn level(&self, requested: usize) -> usize {
        let mut counts: Vec<usize> = self.owners.values().map(|owner| owner.entries).collect();
        counts.sort_unstable_by(|one, other| other.cmp(one));
        let mut sum = 0;
        for (number, count) in counts.iter().enumerate() {
            sum += count;
            let owners = number + 1;
            let next = counts.get(owners).copied().unwrap_or(0);
            // The first owners, cut to what the next one has, free this many.
            if sum - owners * next >= requested {
                return (sum - requested) / owners;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner_of(table: &BoundedTable<u32, ()>, key: u32) -> Option<u32> {
        table.get(&key).map(|(_, owner)| owner)
    }

    #[test]
    fn the_owner_of_most_entries_loses_its_least_recently_used() {
        let mut table = BoundedTable::<u32, ()>::new(16);
        (0..4).for_each(|key| {
            table.insert(7, key, ());
        });
        (100..112).for_each(|key| {
            table.insert(2, key, ());
        });
        table.get_mut(&100);
        table.insert(2, 112, ());
        // An eighth of 16 are the two oldest of owner 2, except the one that was used.
        let left: Vec<u32> = (100..=112).filter(|key| owner_of(&table, *key).is_some()).collect();
        assert_eq!(left, [100, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112]);
        assert!((0..4).all(|key| owner_of(&table, key) == Some(7)), "others keep theirs");
        assert_eq!((table.evicted(2), table.evicted(7), table.evicted(99)), (2, 0, 0));
    }

    #[test]
    fn a_flood_of_keys_is_bounded_and_takes_nothing_from_others() {
        let mut table = BoundedTable::<u32, ()>::new(1_000);
        (0..100).for_each(|key| {
            table.insert(0, key, ());
        });
        for key in 0..200_000 {
            table.insert(1 + key % 2, 1_000 + key, ());
            assert!(table.len() <= 1_000);
        }
        assert!((0..100).all(|key| owner_of(&table, key) == Some(0)));
        assert!(table.entries.capacity() <= 4_000);
        let evicted = table.evicted(1) + table.evicted(2);
        assert_eq!(evicted + table.len() as u64, 200_100);
    }

    #[test]
    fn owners_with_one_entry_each_lose_the_oldest() {
        let mut table = BoundedTable::<u32, ()>::new(8);
        (0..9).for_each(|key| {
            table.insert(key, key, ());
        });
        let left: Vec<u32> = (0..9).filter(|key| owner_of(&table, *key).is_some()).collect();
        assert_eq!(left, [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn the_level_frees_what_is_wanted_from_the_largest() {
        let mut table = BoundedTable::<u32, ()>::new(100);
        let owner = |(number, entries)| (number, Owner { entries, evicted: 0 });
        table.owners = [(0, 10), (1, 40), (2, 30)].map(owner).into_iter().collect();
        assert_eq!(table.level(5), 35);
        assert_eq!(table.level(10), 30);
        assert_eq!(table.level(30), 20);
        assert_eq!(table.level(80), 0);
    }

    #[test]
    fn entries_move_to_another_owner_and_are_removed_with_it() {
        let mut table = BoundedTable::<u32, u8>::new(10);
        table.insert(1, 5, 1);
        *table.insert(2, 5, 2) += 1;
        table.remove_owner(1);
        assert_eq!((table.get(&5), table.len()), (Some((&3, 2)), 1));
        table.remove_owner(2);
        assert!(table.is_empty() && table.owners.values().all(|owner| owner.entries == 0));
        assert_eq!((table.remove(&5), table.evicted(2)), (None, 0));
    }

    #[test]
    fn evictions_do_not_depend_on_the_hasher() {
        let run = || {
            let mut table = BoundedTable::<u32, ()>::new(64);
            (0..5_000).for_each(|key| {
                table.insert(key * key % 5, key * 7 % 501, ());
            });
            let mut left: Vec<u32> = table.entries.keys().copied().collect();
            left.sort_unstable();
            left
        };
        assert_eq!(run(), run(), "each table has other random hash keys");
    }
}
