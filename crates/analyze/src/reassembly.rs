//! Puts the fragments of 6LoWPAN datagrams together (RFC 4944, section 5.3).

use crate::lowpan::DatagramId;
use std::collections::HashMap;

/// The maximum number of datagrams that lack fragments: with 2,047 B of data and 256 fragments each,
/// they take 6 MB at most, whatever the capture contains.
const MAX_OPEN: usize = 1024;
/// How long a datagram waits for its next fragment, in ns: the maximum of RFC 4944, section 5.3.
const TIMEOUT: u64 = 60_000_000_000;
/// All fragments but the last have whole units of this many bytes (section 5.3).
const UNIT: usize = 8;

/// A fragment that was captured whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    pub datagram: DatagramId,
    /// Place of `data` in the uncompressed datagram, in B. Before it, the first fragment has
    /// `offset` bytes of headers.
    pub offset: usize,
    pub data: &'a [u8],
    pub is_first: bool,
}

/// A datagram with all its fragments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Whole<T> {
    /// What came with the first fragment.
    pub first: T,
    /// The uncompressed datagram, with zeros for the headers in front of the first fragment's data.
    pub data: Vec<u8>,
    /// Payload bytes of the later fragments that count.
    pub later: u64,
}

/// What adding a fragment results in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Added<T> {
    /// The datagram that the fragment completed.
    pub whole: Option<Whole<T>>,
    /// The first fragments of datagrams that will not be complete.
    pub abandoned: Vec<T>,
}

/// Datagrams that lack fragments, of all capture points; `T` comes with a first fragment.
#[derive(Debug)]
pub(crate) struct Reassembly<T> {
    open: HashMap<(usize, DatagramId), Open<T>>,
}

#[derive(Debug)]
struct Open<T> {
    data: Vec<u8>,
    /// Begin and end of each fragment.
    parts: Vec<[usize; 2]>,
    first: Option<T>,
    later: u64,
    /// Time of the newest fragment, in ns.
    last: u64,
}

impl<T> Default for Reassembly<T> {
    fn default() -> Self {
        Self { open: HashMap::new() }
    }
}

impl<T> Reassembly<T> {
    /// Adds a fragment that was captured at `point` at the time `at` in ns. `first` comes with a
    /// first fragment; a later one has `later` payload bytes that count.
    pub fn add(
        &mut self,
        point: usize,
        at: u64,
        part: Part<'_>,
        first: Option<T>,
        later: u64,
    ) -> Added<T> {
        let mut abandoned = Vec::new();
        let size = usize::from(part.datagram.size);
        let [start, end] = [part.offset, part.offset.saturating_add(part.data.len())];
        let piece = [if part.is_first { 0 } else { start }, end];
        // The size lies, or the fragment ends within a unit, or it is nothing.
        let is_wrong = end > size || piece[0] == end || (end < size && end % UNIT != 0);
        let key = (point, part.datagram);
        let old = self.open.get(&key).map(|open| {
            let overlap = |[a, b]: &[usize; 2]| *a < piece[1] && piece[0] < *b;
            let known = open.parts.contains(&piece);
            let differs = !known && open.parts.iter().any(overlap);
            (known, differs || at.abs_diff(open.last) > TIMEOUT)
        });
        let is_known = matches!(old, Some((true, false)));
        if is_known && !is_wrong {
            // A copy, such as a retransmission: the first one stays.
            abandoned.extend(first);
            return Added { whole: None, abandoned };
        }
        // A fragment that overlaps another one discards it, and begins anew (section 5.3).
        if is_wrong || matches!(old, Some((_, true))) {
            abandoned.extend(self.open.remove(&key).and_then(|open| open.first));
        }
        if is_wrong {
            abandoned.extend(first);
            return Added { whole: None, abandoned };
        }
        if self.open.len() >= MAX_OPEN && !self.open.contains_key(&key) {
            let idle = self.open.iter().min_by_key(|(_, open)| open.last).map(|(key, _)| *key);
            let idle = idle.and_then(|key| self.open.remove(&key));
            abandoned.extend(idle.and_then(|open| open.first));
        }
        let open = self.open.entry(key).or_insert_with(|| Open {
            data: vec![0; size],
            parts: Vec::new(),
            first: None,
            later: 0,
            last: at,
        });
        open.data[start..end].copy_from_slice(part.data);
        open.parts.push(piece);
        open.last = at;
        open.later += later;
        if part.is_first {
            open.first = first;
        }
        // Parts do not overlap, so their lengths add up.
        let covered: usize = open.parts.iter().map(|[a, b]| b - a).sum();
        let complete = (covered == size).then(|| self.open.remove(&key)).flatten();
        let whole = complete.and_then(|open| {
            Some(Whole { first: open.first?, data: open.data, later: open.later })
        });
        Added { whole, abandoned }
    }

    /// The first fragments of all datagrams that are not complete.
    pub fn finish(&mut self) -> Vec<T> {
        // In the order of time, so that the results are the same each time.
        let mut open: Vec<_> = self.open.drain().collect();
        open.sort_by_key(|((point, datagram), open)| (open.last, *point, datagram.tag));
        open.into_iter().filter_map(|(_, open)| open.first).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(size: u16, tag: u16) -> DatagramId {
        DatagramId { ends: [Some(1), Some(2)], size, tag }
    }

    fn later(size: u16, tag: u16, offset: usize, data: &[u8]) -> Part<'_> {
        Part { datagram: id(size, tag), offset, data, is_first: false }
    }

    fn first(size: u16, tag: u16, data: &[u8]) -> Part<'_> {
        Part { is_first: true, ..later(size, tag, 48, data) }
    }

    type Bed = Reassembly<&'static str>;

    #[test]
    fn fragments_in_any_order_and_twice_are_one_datagram() {
        let parts = [first(75, 7, &[1; 8]), later(75, 7, 56, &[2; 16]), later(75, 7, 72, &[3; 3])];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let mut bed = Bed::default();
            let mut wholes = Vec::new();
            for number in order {
                for _copy in 0..2 {
                    let part = parts[number];
                    let bytes = if part.is_first { 0 } else { part.data.len() as u64 };
                    let added = bed.add(0, 5, part, part.is_first.then_some("first"), bytes);
                    wholes.extend(added.whole);
                }
            }
            let data = [&[0; 48][..], &[1; 8], &[2; 16], &[3; 3]].concat();
            assert_eq!(wholes, [Whole { first: "first", data, later: 19 }], "{order:?}");
        }
    }

    #[test]
    fn datagrams_of_others_are_apart() {
        let mut bed = Bed::default();
        let head = first(72, 7, &[1; 8]);
        assert_eq!(bed.add(0, 5, head, Some("a"), 0).whole, None);
        let mut end = later(72, 7, 56, &[2; 16]);
        // At another point, of another tag, size or sender.
        assert_eq!(bed.add(1, 5, end, None, 0).whole, None);
        end.datagram = id(72, 8);
        assert_eq!(bed.add(0, 5, end, None, 0).whole, None);
        end.datagram.ends[0] = None;
        assert_eq!(bed.add(0, 5, end, None, 0).whole, None);
        end.datagram = id(72, 7);
        assert!(bed.add(0, 5, end, None, 0).whole.is_some());
    }

    #[test]
    fn an_overlap_and_a_late_fragment_begin_anew() {
        let mut bed = Bed::default();
        bed.add(0, 5, first(80, 7, &[1; 8]), Some("a"), 0);
        let added = bed.add(0, 5, later(80, 7, 48, &[2; 16]), None, 0);
        assert_eq!(added, Added { whole: None, abandoned: vec!["a"] });
        assert_eq!(bed.add(0, 5, later(80, 7, 64, &[3; 16]), None, 0).whole, None);
        let mut bed = Bed::default();
        bed.add(0, 5, first(64, 7, &[1; 8]), Some("a"), 0);
        let added = bed.add(0, 6 + TIMEOUT, later(64, 7, 56, &[2; 8]), None, 0);
        assert_eq!(added, Added { whole: None, abandoned: vec!["a"] });
    }

    #[test]
    fn sizes_that_lie_are_no_fragments() {
        let wrong = [
            // Behind the end, nothing at all, within a unit, and headers longer than the datagram.
            later(64, 7, 64, &[1; 8]),
            later(64, 7, 48, &[]),
            later(64, 7, 48, &[1; 7]),
            first(40, 7, &[]),
            later(64, 7, usize::MAX, &[1; 8]),
        ];
        for part in wrong {
            let mut bed = Bed::default();
            let added = bed.add(0, 5, part, Some("a"), 0);
            assert_eq!((added.abandoned, bed.open.len()), (vec!["a"], 0), "{part:?}");
        }
    }

    #[test]
    fn what_is_never_finished_takes_a_bounded_place() {
        let mut bed = Bed::default();
        let mut abandoned = 0;
        for tag in 0..3_000 {
            let part = first(2_040, tag, &[1; 8]);
            abandoned += bed.add(0, tag.into(), part, Some("a"), 0).abandoned.len();
            assert!(bed.open.len() <= MAX_OPEN);
        }
        assert_eq!((abandoned, bed.finish().len()), (3_000 - MAX_OPEN, MAX_OPEN));
    }

    proptest! {
        /// Whatever comes: no panic, and each first fragment is of one datagram or abandoned.
        #[test]
        fn first_fragments_are_never_lost(parts in prop::collection::vec(
            (any::<bool>(), 0..3_u16, 0..120_u16, 0..20_usize, 0..40_usize, 0..TIMEOUT), 0..60,
        )) {
            let mut bed = Reassembly::default();
            let (mut begun, mut ended) = (0, 0);
            for (is_first, tag, size, offset, length, at) in parts {
                let data = vec![7; length];
                let datagram = id(size, tag);
                let part = Part { datagram, offset: offset * 8, data: &data, is_first };
                begun += usize::from(is_first);
                let added = bed.add(0, at, part, is_first.then_some(()), 0);
                ended += added.abandoned.len() + usize::from(added.whole.is_some());
                if let Some(whole) = added.whole {
                    prop_assert_eq!(whole.data.len(), usize::from(size));
                }
            }
            prop_assert_eq!(begun, ended + bed.finish().len());
        }
    }
}
