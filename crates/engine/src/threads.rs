//! Which thread carries which segment.

use crate::observer::Place;
use crate::spec::SegmentSpec;

/// The thread of each segment. A segment belongs to one thread, because its frames share a switch
/// and channels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Threads {
    of_segment: Vec<usize>,
    count: usize,
}

impl Threads {
    /// Distributes `segments` over at most `limit` threads, at least 1: the segment with the most
    /// endpoints first, each to the thread with the fewest so far.
    pub fn balanced(segments: &[SegmentSpec], limit: usize) -> Self {
        let count = limit.min(segments.len()).max(1);
        let mut load = vec![0; count];
        let mut of_segment = vec![0; segments.len()];
        let mut order: Vec<usize> = (0..segments.len()).collect();
        order.sort_by_key(|segment| std::cmp::Reverse(segments[*segment].endpoints.len()));
        for segment in order {
            let lightest = (0..count).min_by_key(|thread| load[*thread]).unwrap_or(0);
            of_segment[segment] = lightest;
            load[lightest] += segments[segment].endpoints.len().max(1);
        }
        Self { of_segment, count }
    }

    /// Number of threads.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The thread of a segment; the first for a segment that does not exist.
    pub fn of(&self, segment: usize) -> usize {
        self.of_segment.get(segment).copied().unwrap_or(0)
    }

    /// The segments as a thread sees them: those of others have no links, so that a segment has
    /// one index everywhere.
    pub(crate) fn own(&self, thread: usize, segments: &[SegmentSpec]) -> Vec<SegmentSpec> {
        let own = |(segment, spec): (usize, &SegmentSpec)| match self.of(segment) == thread {
            true => spec.clone(),
            false => SegmentSpec::switch(0),
        };
        segments.iter().enumerate().map(own).collect()
    }

    /// The ports of each thread: a list of all ports for each, with `None` for those of other
    /// threads, so that a port has one number everywhere. `places` has the place of each port.
    pub fn split<T>(&self, ports: Vec<T>, places: &[Place]) -> Vec<Vec<Option<T>>> {
        let mut split: Vec<Vec<Option<T>>> = (0..self.count).map(|_| Vec::new()).collect();
        for (port, place) in ports.into_iter().zip(places) {
            split.iter_mut().for_each(|own| own.push(None));
            if let Some(slot) = split[self.of(place.segment)].last_mut() {
                *slot = Some(port);
            }
        }
        split
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Endpoint;

    fn segments(sizes: &[usize]) -> Vec<SegmentSpec> {
        let endpoints = |size: &usize| vec![Endpoint::default(); *size];
        let spec = |size| SegmentSpec { endpoints: endpoints(size), ..SegmentSpec::switch(1) };
        sizes.iter().map(spec).collect()
    }

    #[test]
    fn large_segments_get_a_thread_each_before_small_ones() {
        let threads = |limit| Threads::balanced(&segments(&[2, 9, 3, 8]), limit);
        assert_eq!(threads(2).of_segment, [0, 0, 1, 1]);
        assert_eq!(threads(1).of_segment, [0; 4]);
        assert_eq!(threads(0), threads(1));
        assert_eq!(threads(9).count(), 4, "no thread without a segment");
        assert_eq!(Threads::balanced(&[], 4).count(), 1);
    }

    #[test]
    fn a_port_has_one_number_in_all_threads() {
        let threads = Threads::balanced(&segments(&[2, 1]), 2);
        let place = |segment, endpoint| Place { segment, endpoint };
        let places = [place(0, 0), place(1, 0), place(0, 1)];
        let split = threads.split(vec!['a', 'b', 'c'], &places);
        assert_eq!(split, [vec![Some('a'), None, Some('c')], vec![None, Some('b'), None]]);
    }
}
