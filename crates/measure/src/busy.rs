//! CPU load of the host over time.

use crate::host::HostUse;

/// CPU load of the host, by second.
pub(crate) fn by_second(host: &[HostUse]) -> Vec<f64> {
    let mut seconds = Vec::new();
    let (mut time, mut busy) = (0.0, 0.0);
    for interval in host {
        time += interval.seconds;
        busy += interval.busy * interval.seconds;
        if time >= 0.999 {
            seconds.push(busy / time);
            (time, busy) = (0.0, 0.0);
        }
    }
    // A run shorter than a second is one interval.
    if seconds.is_empty() && time > 0.0 {
        seconds.push(busy / time);
    }
    seconds
}

/// Mean CPU load of the host while messages were in flight; `None` without messages.
pub(crate) fn under_way(host: &[HostUse], spans: &[(u64, u64)]) -> Option<f64> {
    let (mut time, mut busy) = (0.0, 0.0);
    for interval in host {
        let end = interval.at_ns;
        let begin = end.saturating_sub((interval.seconds * 1e9) as u64);
        let overlap: u64 =
            spans.iter().map(|(from, to)| (*to).min(end).saturating_sub((*from).max(begin))).sum();
        time += overlap as f64;
        busy += interval.busy * overlap as f64;
    }
    (time > 0.0).then(|| busy / time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(busy: f64, seconds: f64) -> HostUse {
        HostUse { seconds, busy, ..HostUse::default() }
    }

    #[test]
    fn a_second_is_saturated_by_its_mean() {
        let burst: Vec<_> = (0..20).map(|i| used(if i < 5 { 1.0 } else { 0.1 }, 0.1)).collect();
        let seconds = by_second(&burst);
        assert_eq!(seconds.len(), 2);
        assert!((seconds[0] - 0.55).abs() < 1e-9);
    }

    #[test]
    fn busy_while_under_way_looks_at_those_spans_alone() {
        let host = [
            HostUse { at_ns: 1_000_000_000, ..used(1.0, 1.0) },
            HostUse { at_ns: 2_000_000_000, ..used(0.0, 1.0) },
        ];
        assert_eq!(under_way(&host, &[(0, 500_000_000)]), Some(1.0));
        assert_eq!(under_way(&host, &[(0, 2_000_000_000)]), Some(0.5));
        assert_eq!(under_way(&host, &[]), None);
    }
}
