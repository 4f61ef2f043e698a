//! Values by their rank, in constant memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Most values in memory, 8 MB.
const IN_MEMORY: usize = 1 << 20;
/// Bytes of a value in the file.
const BYTES: usize = 8;
/// Values that are read at once.
const CHUNK: usize = 8_192;
/// Bits of a value that one pass over a series decides.
const DIGIT: u32 = 16;
/// Values of these bits.
const DIGITS: usize = 1 << DIGIT;

/// Series of values by a key. When there are many values, they go to a file without a name in
/// blocks, each of one series. Values that a full disk does not take stay in memory.
#[derive(Debug)]
pub struct OrderStatistics<K> {
    folder: PathBuf,
    series: BTreeMap<K, Series>,
    /// Number of values in memory.
    held: usize,
    /// Number of values that may come before the next attempt to write.
    most: usize,
    /// Number of values in memory at which that is.
    next: usize,
    /// `None` before it is needed, and if it cannot be created.
    file: Option<File>,
    /// Number of values in the file.
    stored: u64,
}

/// The values of a key.
#[derive(Debug, Default)]
struct Series {
    count: u64,
    values: Vec<f64>,
    blocks: Vec<Block>,
}

/// Values in the file: number of the first one, and how many.
#[derive(Debug, Clone, Copy)]
struct Block {
    first: u64,
    count: usize,
}

/// The values with one rank in common digits.
struct Candidates {
    /// Their leading digits.
    prefix: u64,
    /// The rank among them.
    rank: u64,
}

impl<K: Ord> OrderStatistics<K> {
    /// No values, with their file in `folder`.
    pub fn new(folder: &Path) -> Self {
        Self::with_limit(folder, IN_MEMORY)
    }

    fn with_limit(folder: &Path, most: usize) -> Self {
        let (series, folder) = (BTreeMap::new(), folder.to_owned());
        Self { folder, series, held: 0, most, next: most, file: None, stored: 0 }
    }

    /// Adds a value to the series of `key`.
    pub fn push(&mut self, key: K, value: f64) {
        let series = self.series.entry(key).or_default();
        series.count += 1;
        series.values.push(value);
        self.held += 1;
        if self.held >= self.next {
            self.spill();
        }
    }

    /// The keys with values, in order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.series.keys()
    }

    /// Number of values of a key.
    pub fn count(&self, key: &K) -> u64 {
        self.series.get(key).map_or(0, |series| series.count)
    }

    /// The values of a key with these ranks, from 0 for the least one in total order. A rank beyond
    /// the greatest is that of the greatest; none without values.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn ranks(&self, key: &K, ranks: &[u64]) -> io::Result<Vec<f64>> {
        let Some(series) = self.series.get(key) else { return Ok(Vec::new()) };
        let ranks = ranks.iter().map(|rank| (*rank).min(series.count - 1));
        if series.blocks.is_empty() {
            let mut values = series.values.clone();
            values.sort_unstable_by(f64::total_cmp);
            return Ok(ranks.map(|rank| values[rank as usize]).collect());
        }
        let mut found: Vec<_> = ranks.map(|rank| Candidates { prefix: 0, rank }).collect();
        for shift in (0..u64::BITS).step_by(DIGIT as usize).rev() {
            self.narrow(series, &mut found, shift)?;
        }
        Ok(found.into_iter().map(|found| value(found.prefix)).collect())
    }

    /// Decides the digit of all candidates that begins at bit `shift`.
    fn narrow(&self, series: &Series, found: &mut [Candidates], shift: u32) -> io::Result<()> {
        // No shift by all bits: before the first pass all values have one prefix.
        let prefix = |key: u64| key.checked_shr(shift + DIGIT).unwrap_or(0);
        let mut counts: BTreeMap<u64, Vec<u64>> =
            found.iter().map(|found| (found.prefix, vec![0; DIGITS])).collect();
        self.each(series, |value| {
            let key = key(value);
            if let Some(counts) = counts.get_mut(&prefix(key)) {
                counts[(key >> shift) as usize % DIGITS] += 1;
            }
        })?;
        for found in found {
            let mut digit = 0;
            for count in &counts[&found.prefix] {
                if found.rank < *count || digit == DIGITS as u64 - 1 {
                    break;
                }
                found.rank -= count;
                digit += 1;
            }
            found.prefix = (found.prefix << DIGIT) | digit;
        }
        Ok(())
    }

    /// Passes each value of a series to `take`.
    fn each(&self, series: &Series, mut take: impl FnMut(f64)) -> io::Result<()> {
        series.values.iter().for_each(|value| take(*value));
        let Some(file) = &self.file else { return Ok(()) };
        let mut bytes = vec![0; CHUNK * BYTES];
        for block in &series.blocks {
            for begin in (0..block.count).step_by(CHUNK) {
                let bytes = &mut bytes[..CHUNK.min(block.count - begin) * BYTES];
                file.read_exact_at(bytes, (block.first + begin as u64) * BYTES as u64)?;
                let values = bytes.as_chunks().0.iter();
                values.for_each(|bytes| take(f64::from_ne_bytes(*bytes)));
            }
        }
        Ok(())
    }

    /// Writes all values in memory to the file.
    fn spill(&mut self) {
        if self.file.is_none() {
            self.file = journal::nameless(&self.folder).ok();
        }
        let mut bytes = Vec::new();
        for series in self.series.values_mut().filter(|series| !series.values.is_empty()) {
            bytes.clear();
            bytes.extend(series.values.iter().flat_map(|value| value.to_ne_bytes()));
            let at = self.stored * BYTES as u64;
            let file = self.file.as_ref();
            if file.is_none_or(|file| file.write_all_at(&bytes, at).is_err()) {
                break;
            }
            let block = Block { first: self.stored, count: series.values.len() };
            series.blocks.push(block);
            self.stored += block.count as u64;
            self.held -= block.count;
            series.values = Vec::new();
        }
        // Not 0 on a full disk, which is not tried again for each value.
        self.next = self.held + self.most;
    }
}

/// A number with the total order of the value.
fn key(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | (1 << 63) }
}

/// The value of a [`key`].
fn value(key: u64) -> f64 {
    f64::from_bits(if key >> 63 == 1 { key & !(1 << 63) } else { !key })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any bits as values, from a generator (Marsaglia's xorshift64), also infinite ones and NaN.
    fn any(seed: u64, count: u64) -> Vec<f64> {
        let mut bits = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let next = |number: u64| {
            bits ^= bits << 13;
            bits ^= bits >> 7;
            bits ^= bits << 17;
            match number % 5 {
                // Equal ones, and some that differ in the last digits only.
                0 => (bits % 3) as f64,
                1 => 1e9 + (bits % 100) as f64 * 1e-7,
                _ => f64::from_bits(bits),
            }
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn ranks_are_those_of_a_sorted_list_in_memory_in_the_file_and_on_a_full_disk() {
        let dir = tempfile::tempdir().unwrap();
        for (seed, most) in (1..60).zip([1, 2, 10, 100, 1_000].into_iter().cycle()) {
            let folder = if seed % 4 == 0 { dir.path().join("none") } else { dir.path().into() };
            let mut statistics = OrderStatistics::with_limit(&folder, most);
            let mut sorted: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
            for (number, value) in (0..).zip(any(seed, seed * 5)) {
                statistics.push(number % 3, value);
                sorted.entry(number % 3).or_default().push(value);
            }
            assert!(statistics.keys().eq(sorted.keys()));
            for (key, mut expected) in sorted {
                expected.sort_by(f64::total_cmp);
                let count = expected.len() as u64;
                assert_eq!(statistics.count(&key), count);
                let ranks = [0, count / 2, count - 1, count / 3, count + 5];
                let found = statistics.ranks(&key, &ranks).unwrap();
                let found: Vec<_> = found.into_iter().map(f64::to_bits).collect();
                let of = |rank: u64| expected[rank.min(count - 1) as usize].to_bits();
                assert_eq!(found, ranks.map(of), "{seed}");
            }
        }
    }

    #[test]
    fn a_key_without_values_has_no_ranks() {
        let statistics = OrderStatistics::<u8>::new(Path::new("/nowhere"));
        assert_eq!((statistics.count(&3), statistics.ranks(&3, &[0]).unwrap()), (0, Vec::new()));
    }

    #[test]
    fn values_in_memory_are_limited() {
        let dir = tempfile::tempdir().unwrap();
        let mut statistics = OrderStatistics::with_limit(dir.path(), 100);
        for number in 0..10_000 {
            statistics.push(number % 7, f64::from(number));
            assert!(statistics.held < 100);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the file has a name");
    }
}
