//! Compares links with their configuration: how far chance and the machine may make them deviate,
//! and which links deviate more.

use crate::chain::ChainBound;
use crate::chance::{Losses, mean_tolerance};
use crate::links::LinkRow;
use link::{Impairment, Loss, Scheduler};
use std::collections::HashMap;
use std::sync::Arc;
use units::Bytes;

/// Probability that chance alone makes any interval of a valid run deviate: one valid run in a
/// thousand is reported as suspect.
pub const FALSE_ALARMS: f64 = 1e-3;
/// Tolerated change of a mean delay by forwarding lateness, as a fraction of the configured delay:
/// the verdict's first limit.
const LATENESS: f64 = 0.05;
/// Minimum tolerance of a mean delay: 0.5 ms is not noticeable at any delay.
const LEAST_MS: f64 = 0.5;
/// Reference for the lateness of frames that are forwarded at once, which have no delay to compare
/// with: the median round trip, but at least 20 ms, that of a local network. There 1 ms (5 %) is
/// noticeable, and with 10 ms more (50 %) it is no longer local.
pub(crate) const LOCAL_NS: f64 = 20_000_000.0;
/// Lateness of a single frame on a link without a delay, in ms, from which the verdict is suspect;
/// on a delayed link that is its delay.
const ONE_MS: f64 = LOCAL_NS / 1e6;
/// Rates are exact except for rounding to nanoseconds.
const RATE: f64 = 0.001;

/// A deviation of a link from its configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Deviation {
    /// The link and direction, or the group of links.
    pub link: String,
    /// Start, in seconds since offset 0.
    pub from_s: f64,
    /// End.
    pub to_s: f64,
    /// `delay`, `loss` or `rate`.
    pub quantity: &'static str,
    /// Configured value, in `unit`.
    pub configured: f64,
    /// Measured value, in `unit`.
    pub measured: f64,
    /// Tolerated difference, in `unit`.
    pub tolerance: f64,
    /// `ms`, `%` or `bit/s`.
    pub unit: &'static str,
}

/// Tolerances for the links of one run. With more intervals, the largest chance deviation among
/// them grows; so each test gets its share of [`FALSE_ALARMS`] (Bonferroni's correction).
#[derive(Debug)]
pub struct Tolerances {
    /// Two-sided significance level of a single test.
    alpha: f64,
    chains: HashMap<String, Arc<ChainBound>>,
}

/// Counts the tests of a run, interval by interval.
#[derive(Debug, Default)]
pub struct Tests {
    count: usize,
    chains: HashMap<String, Arc<ChainBound>>,
}

impl Tests {
    /// Adds an interval.
    pub fn add(&mut self, row: &LinkRow) {
        self.count += tests(row);
        if let Some((key, make)) = chain(&row.configured) {
            self.chains.entry(key).or_insert_with(|| Arc::new(make()));
        }
    }

    /// The tolerances of a run with these intervals.
    pub fn tolerances(self) -> Tolerances {
        // There are at most as many groups as intervals with a loss.
        let alpha = FALSE_ALARMS / (2 * self.count).max(1) as f64;
        Tolerances { alpha, chains: self.chains }
    }
}

impl Tolerances {
    /// The tolerances of a run with these intervals.
    pub fn of(intervals: &[LinkRow]) -> Self {
        let mut tests = Tests::default();
        intervals.iter().for_each(|row| tests.add(row));
        tests.tolerances()
    }

    /// Tolerance of a row's mean delay, in ms: from the configured variation, and from the lateness
    /// that the verdict allows.
    pub fn delay_ms(&self, row: &LinkRow) -> f64 {
        let configured = &row.configured;
        let passed = row.measured.passed.max(1) as f64;
        let delay = configured.delay.mean.as_ms();
        let (deviation, bound) = variation_ms(configured);
        let correlation = configured.delay.correlation.fraction();
        // The number of independent draws with the same variance of the mean.
        let draws = passed * (1.0 - correlation).max(1e-3) / (1.0 + correlation);
        let spread = mean_tolerance(deviation, bound, draws, self.alpha);
        // With few frames, a single late one moves the mean; the verdict judges the lateness of
        // single frames separately. Rounding costs sums of nanoseconds up to 1 ns.
        let one = if delay > 0.0 { delay } else { ONE_MS };
        let one = (one / passed).min(row.lateness_ns() / 1e6 + 1e-6);
        spread + (LATENESS * delay).max(LEAST_MS).max(one)
    }

    /// Tolerance of a row's loss, in percent: the larger distance of the two limits.
    pub fn loss_pct(&self, row: &LinkRow) -> f64 {
        let (of, configured) = (row.measured.at_risk(), row.loss_configured_pct());
        if of == 0 {
            return 100.0;
        }
        let (least, most) = self.losses(row).limits(of, self.alpha);
        let share = |lost: u64| 100.0 * lost as f64 / of as f64;
        (share(most) - configured).max(configured - share(least))
    }

    /// Whether chance explains the loss.
    pub(crate) fn is_likely_loss(&self, row: &LinkRow) -> bool {
        self.losses(row).is_likely(row.measured.lost, row.measured.at_risk(), self.alpha)
    }

    fn losses(&self, row: &LinkRow) -> Losses {
        let bytes = row.measured.bytes as f64 / row.measured.frames.max(1) as f64;
        let known = |of: &Impairment| self.chains.get(&chain(of)?.0).cloned();
        Losses::of(&row.configured, bytes, known)
    }

    /// The deviation of a row from its configuration, if any; `None` for a row whose configuration
    /// changed in the interval.
    pub fn deviation(&self, row: &LinkRow) -> Option<Deviation> {
        if row.changing || row.measured.frames == 0 {
            return None;
        }
        let found = |quantity, configured, measured, tolerance, unit| Deviation {
            link: format!("{}:{} {}", row.node, row.interface, row.direction),
            from_s: row.start_s,
            to_s: row.end_s,
            quantity,
            configured,
            measured,
            tolerance,
            unit,
        };
        let (configured, measured, most) =
            (row.delay_configured_ms(), row.delay_measured_ms(), self.delay_ms(row));
        if (measured - configured).abs() > most
            && !(is_longer(&row.configured) && measured > configured)
        {
            return Some(found("delay", configured, measured, most, "ms"));
        }
        if has_clear_loss(row) && !self.is_likely_loss(row) {
            let (configured, measured) = (row.loss_configured_pct(), row.loss_measured_pct());
            return Some(found("loss", configured, measured, self.loss_pct(row), "%"));
        }
        // With a burst, frames leave faster than the rate; a trace's rate varies.
        let plain = matches!(
            row.configured.transmission.scheduler,
            Some(Scheduler::Rate { burst: Bytes::ZERO, .. })
        );
        let (configured, measured) = (row.rate_configured_bit_s(), row.rate_measured_bit_s());
        // Each frame's time is rounded up to whole nanoseconds.
        let busy = row.measured.busy.as_ns();
        let rounding = configured * row.measured.frames as f64 / busy.max(1) as f64;
        let most = RATE * configured + rounding;
        if plain && busy > 0 && (measured - configured).abs() > most {
            return Some(found("rate", configured, measured, most, "bit/s"));
        }
        None
    }
}

/// Number of tests of a row that depend on chance.
fn tests(row: &LinkRow) -> usize {
    if row.changing || row.measured.frames == 0 {
        return 0;
    }
    let varies = variation_ms(&row.configured).0 > 0.0;
    usize::from(varies) + usize::from(row.configured.mean_loss() > 0.0)
}

/// Standard deviation of a frame's delay and its greatest distance from the mean, in ms.
fn variation_ms(configured: &Impairment) -> (f64, f64) {
    let (shape, jitter) = (&configured.delay.distribution, configured.delay.jitter.as_ms());
    let ends = [shape.least(), shape.most()];
    let furthest = ends.iter().map(|end| (end - shape.mean()).abs()).fold(0.0, f64::max);
    // An undelayed frame differs from the others by the whole delay.
    let moved = configured.reorder.share.fraction();
    let moved = (moved * (1.0 - moved)).sqrt() * configured.delay.mean.as_ms();
    let overtaking = if moved > 0.0 { configured.delay.mean.as_ms() } else { 0.0 };
    ((shape.deviation() * jitter).hypot(moved), furthest * jitter + overtaking)
}

/// Whether delays exceed their mean by design: frames wait for earlier ones, for a slot or for a
/// handover, or variations that would make the delay negative are cut off.
fn is_longer(configured: &Impairment) -> bool {
    let lowest = configured.delay.distribution.least() * configured.delay.jitter.as_ms();
    let waits = configured.delay.keep_order && configured.delay.jitter.as_ns() > 0;
    let waits = waits || configured.slot.0.is_some() || configured.handover.0.is_some();
    waits || configured.delay.mean.as_ms() + lowest < 0.0
}

/// Whether the row's measured loss depends on its configuration alone. Not so for a channel that
/// retransmits, which loses less than each attempt, nor for netem with duplicates, where a frame
/// whose copy is lost still arrives, nor for netem's drops at a full queue, which are counted as
/// losses.
pub(crate) fn has_clear_loss(row: &LinkRow) -> bool {
    let doubtful =
        row.configured.duplicate.share.fraction() > 0.0 || row.configured.rate().is_some();
    !(row.sends_again || row.by_netem && doubtful)
}

/// The cache key and the bound of a loss model with states.
pub(crate) fn chain(configured: &Impairment) -> Option<(String, Box<dyn Fn() -> ChainBound>)> {
    let key = |model: &dyn std::fmt::Debug| format!("{model:?}");
    match configured.loss {
        Loss::Random(_) => None,
        Loss::GilbertElliott(model) => {
            Some((key(&model), Box::new(move || ChainBound::gilbert_elliott(&model))))
        }
        Loss::Markov(model) => Some((key(&model), Box::new(move || ChainBound::markov(&model)))),
    }
}

#[cfg(test)]
#[path = "tolerance_tests.rs"]
mod tests;
