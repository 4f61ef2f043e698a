//! Paths from which nothing comes back.

use crate::Span;

/// Timeouts in a row from which a path counts as silent.
const SILENT: u32 = 4;
/// Minimum timeout then, which doubles with each further one: the path may have become slower by
/// orders of magnitude (a device leaves its wireless LAN). TCP in Linux never has less.
const MIN_SILENT: Span = Span::from_ms(200);
/// Maximum of it. RFC 6298, 2.5, has 60 s, of which a path that is back after an outage would lose
/// most.
const MAX_SILENT: Span = Span::from_s(10);

/// Whether nothing comes back, after this number of timeouts in a row.
pub fn is_silent(timeouts: u32) -> bool {
    timeouts >= SILENT
}

/// Minimum timeout after this number in a row.
pub fn least_timeout(timeouts: u32) -> Span {
    match timeouts.checked_sub(SILENT) {
        Some(more) => (MIN_SILENT * (1 << more.min(10))).min(MAX_SILENT),
        None => Span::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_of_a_silent_path_double_to_a_limit() {
        let all: Vec<f64> = (0..7).map(|timeouts| least_timeout(timeouts).as_ms()).collect();
        assert_eq!(all, [0.0, 0.0, 0.0, 0.0, 200.0, 400.0, 800.0]);
        assert_eq!(least_timeout(u32::MAX), MAX_SILENT);
        assert!(is_silent(4) && !is_silent(3));
    }
}
