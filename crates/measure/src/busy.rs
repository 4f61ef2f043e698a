//! CPU load of the host over time.

use crate::usage::HostUse;
use std::io;
use units::{Instant, Span};

/// A second with more CPU use than this counts as saturated.
/// Decision 7 has this limit.
const SATURATED: f64 = 0.95;

/// CPU use of the host over a run: what a verdict needs of its intervals, in constant memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostLoad {
    /// Seconds so far, and how many of them were saturated.
    pub(crate) seconds: u64,
    pub(crate) saturated: u64,
    /// Length of all intervals in seconds, and the integrals over it.
    length: f64,
    steal: f64,
    pressure: f64,
    has_pressure: bool,
    /// The second that is not over yet: length, and CPU use times length.
    open: [f64; 2],
    /// Time with messages in flight in ns, and CPU use times that.
    in_flight: [f64; 2],
}

impl HostLoad {
    /// Reads the intervals in their order. `spans` are those with messages in flight, in order
    /// and without overlaps.
    ///
    /// # Errors
    /// When an interval cannot be read.
    pub fn of(
        intervals: impl IntoIterator<Item = io::Result<HostUse>>,
        spans: &[(Instant, Instant)],
    ) -> io::Result<Self> {
        let mut load = Self::default();
        for interval in intervals {
            load.add(&interval?, spans);
        }
        // A run shorter than a second is one interval.
        if load.seconds == 0 && load.open[0] > 0.0 {
            load.end_second();
        }
        Ok(load)
    }

    fn add(&mut self, interval: &HostUse, spans: &[(Instant, Instant)]) {
        let HostUse { seconds, busy, steal, pressure, .. } = *interval;
        self.length += seconds;
        self.steal += steal * seconds;
        self.pressure += pressure.unwrap_or(0.0) * seconds;
        self.has_pressure |= pressure.is_some();
        self.open[0] += seconds;
        self.open[1] += busy * seconds;
        // Intervals are not exact: ten of 0.1 s may add up to slightly less than a second.
        if self.open[0] >= 0.999 {
            self.end_second();
        }
        let overlap = overlap(interval, spans).as_ns();
        self.in_flight[0] += overlap as f64;
        self.in_flight[1] += busy * overlap as f64;
    }

    fn end_second(&mut self) {
        let [length, busy] = std::mem::take(&mut self.open);
        self.seconds += 1;
        self.saturated += u64::from(busy / length > SATURATED);
    }

    /// Mean fraction taken by the hypervisor (steal), 0 to 1.
    pub(crate) fn steal(&self) -> f64 {
        self.steal / self.length.max(1e-9)
    }

    /// Mean fraction of the time in which a runnable task waited for a CPU; `None` if the kernel
    /// does not report it.
    pub(crate) fn pressure(&self) -> Option<f64> {
        self.has_pressure.then(|| self.pressure / self.length.max(1e-9))
    }

    /// Mean CPU use while messages were in flight; `None` without messages.
    pub(crate) fn busy_in_flight(&self) -> Option<f64> {
        let [time, busy] = self.in_flight;
        (time > 0.0).then(|| busy / time)
    }
}

/// Time of an interval that is within spans. A run of hours has too many spans to compare
/// each with each.
fn overlap(interval: &HostUse, spans: &[(Instant, Instant)]) -> Span {
    let end = interval.at;
    let begin = end - Span::from_ns((interval.seconds * 1e9) as u64);
    let first = spans.partition_point(|(_, to)| *to <= begin);
    let overlapping = spans[first..].iter().take_while(|(from, _)| *from < end);
    overlapping.map(|(from, to)| (*to).min(end) - (*from).max(begin)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(busy: f64, seconds: f64) -> HostUse {
        HostUse { seconds, busy, ..HostUse::default() }
    }

    fn load(host: &[HostUse], spans: &[(Instant, Instant)]) -> HostLoad {
        HostLoad::of(host.iter().copied().map(Ok), spans).unwrap()
    }

    #[test]
    fn a_second_is_saturated_by_its_mean() {
        let burst: Vec<_> = (0..20).map(|i| used(if i < 5 { 1.0 } else { 0.1 }, 0.1)).collect();
        let of = |host: &[HostUse]| {
            let load = load(host, &[]);
            (load.saturated, load.seconds)
        };
        assert_eq!(of(&burst), (0, 2));
        assert_eq!(of(&[[used(1.0, 0.1); 10], [used(0.9, 0.1); 10]].concat()), (1, 2));
        assert_eq!(of(&[used(1.0, 0.2)]), (1, 1), "a run shorter than a second");
        assert_eq!(of(&[used(0.1, 1.0), used(1.0, 0.2)]), (0, 1), "a rest is no second");
        assert_eq!(of(&[]), (0, 0));
    }

    #[test]
    fn means_are_by_time() {
        let host = [
            HostUse { steal: 0.5, ..used(0.0, 1.0) },
            HostUse { pressure: Some(0.5), ..used(0.0, 3.0) },
        ];
        assert_eq!((load(&host, &[]).steal(), load(&host, &[]).pressure()), (0.125, Some(0.375)));
        let none = load(&host[..1], &[]);
        assert_eq!((none.steal(), none.pressure()), (0.5, None));
        assert_eq!((load(&[], &[]).steal(), load(&[], &[]).pressure()), (0.0, None));
    }

    #[test]
    fn busy_in_flight_looks_at_those_spans_alone() {
        let host = [
            HostUse { at: Instant::from_ns(1_000_000_000), ..used(1.0, 1.0) },
            HostUse { at: Instant::from_ns(2_000_000_000), ..used(0.0, 1.0) },
        ];
        let busy = |spans: &[(u64, u64)]| {
            let at = Instant::from_ns;
            let spans: Vec<_> = spans.iter().map(|(from, to)| (at(*from), at(*to))).collect();
            load(&host, &spans).busy_in_flight()
        };
        assert_eq!(busy(&[(0, 500_000_000)]), Some(1.0));
        assert_eq!(busy(&[(0, 2_000_000_000)]), Some(0.5));
        assert_eq!(busy(&[]), None);
        let spans =
            [(0, 100_000_000), (900_000_000, 1_000_000_000), (1_000_000_000, 1_600_000_000)];
        assert_eq!(busy(&spans), Some(0.25));
    }

    #[test]
    fn an_interval_that_cannot_be_read_is_an_error() {
        let broken = [Ok(used(0.5, 1.0)), Err(io::Error::other("broken"))];
        assert_eq!(HostLoad::of(broken, &[]).unwrap_err().to_string(), "broken");
    }
}
