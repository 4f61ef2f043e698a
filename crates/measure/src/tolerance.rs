//! Whether links did what they were configured to do: how far chance and the machine
//! may take them from it, and which went further.

use crate::chain::ChainBound;
use crate::chance::{Losses, mean_tolerance};
use crate::links::LinkRow;
use medium::{GilbertElliott, Impairment, Markov};
use std::collections::HashMap;
use std::sync::Arc;

/// The probability that chance alone makes any interval of a sound run deviate: one run
/// in a thousand is called suspect for it.
pub const FALSE_ALARMS: f64 = 1e-3;
/// The share of a configured delay by which forwarding lateness may change its mean: the
/// verdict's first limit.
const LATENESS: f64 = 0.05;
/// Nobody notices half a millisecond, whatever the delay.
const LEAST_MS: f64 = 0.5;
/// How late the verdict lets a single frame be on a link without a delay, in ms, before
/// it calls the run suspect; with one it is that delay.
const ONE_MS: f64 = crate::evidence::LOCAL_NS / 1e6;
/// Rates are exact but for rounding to nanoseconds.
const RATE: f64 = 0.001;

/// Something that a link did not do as configured.
#[derive(Debug, Clone, PartialEq)]
pub struct Deviation {
    /// Which link and direction, or which group of links.
    pub link: String,
    /// From when, in seconds since offset 0.
    pub from_s: f64,
    /// Until when.
    pub to_s: f64,
    /// `delay`, `loss` or `rate`.
    pub quantity: &'static str,
    /// As configured, in `unit`.
    pub configured: f64,
    /// As measured, in `unit`.
    pub measured: f64,
    /// How far these may be apart, in `unit`.
    pub tolerance: f64,
    /// `ms`, `%` or `bit/s`.
    pub unit: &'static str,
}

/// Tolerances for the links of one run. The more intervals there are, the further one of
/// them may be off by chance, so that each test gets its share of [`FALSE_ALARMS`]
/// (Bonferroni's correction).
#[derive(Debug)]
pub struct Tolerances {
    /// The probability at which a single test fails by chance, two-sided.
    alpha: f64,
    chains: HashMap<String, Arc<ChainBound>>,
}

impl Tolerances {
    /// The tolerances for a run that is judged by these intervals.
    pub fn of(intervals: &[LinkRow]) -> Self {
        let tests: usize = intervals.iter().map(tests).sum();
        // At most as many groups as there are intervals with a loss.
        let alpha = FALSE_ALARMS / (2 * tests).max(1) as f64;
        let mut chains = HashMap::new();
        for row in intervals {
            if let Some((key, make)) = chain(&row.asked) {
                chains.entry(key).or_insert_with(|| Arc::new(make()));
            }
        }
        Self { alpha, chains }
    }

    /// How far the mean delay of a row may be from the configured one, in ms: by the
    /// configured variation, and by the lateness that the verdict allows.
    pub fn delay_ms(&self, row: &LinkRow) -> f64 {
        let asked = &row.asked;
        let passed = row.got.passed.max(1) as f64;
        let delay = asked.delay.as_ms();
        let (deviation, bound) = variation_ms(asked);
        let correlation = asked.correlation.fraction();
        let draws = passed * (1.0 - correlation).max(1e-3) / (1.0 + correlation);
        let spread = mean_tolerance(deviation, bound, draws, self.alpha);
        // Of few frames one that is late moves the mean, and how late one may be is
        // judged by itself. A nanosecond is what rounding takes of sums of nanoseconds.
        let one = if delay > 0.0 { delay } else { ONE_MS };
        let one = (one / passed).min(row.lateness_ns() / 1e6 + 1e-6);
        spread + (LATENESS * delay).max(LEAST_MS).max(one)
    }

    /// How far the share of lost frames of a row may be from the configured one, in
    /// percent: the further of the two limits.
    pub fn loss_pct(&self, row: &LinkRow) -> f64 {
        let (of, asked) = (row.got.at_risk(), row.loss_asked_pct());
        if of == 0 {
            return 100.0;
        }
        let (least, most) = self.losses(row).limits(of, self.alpha);
        let share = |lost: u64| 100.0 * lost as f64 / of as f64;
        (share(most) - asked).max(asked - share(least))
    }

    fn losses(&self, row: &LinkRow) -> Losses {
        let bytes = row.got.bytes as f64 / row.got.frames.max(1) as f64;
        let known = |of: &Impairment| self.chains.get(&chain(of)?.0).cloned();
        Losses::of(&row.asked, bytes, known)
    }

    /// What a row did not do as configured, if anything. A row whose configuration
    /// changed meanwhile has nothing to be compared with.
    pub fn deviation(&self, row: &LinkRow) -> Option<Deviation> {
        if row.changing || row.got.frames == 0 {
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
        let (asked, got, most) = (row.delay_asked_ms(), row.delay_got_ms(), self.delay_ms(row));
        if (got - asked).abs() > most && !(is_longer(&row.asked) && got > asked) {
            return Some(found("delay", asked, got, most, "ms"));
        }
        if has_clear_loss(row)
            && !self.losses(row).is_likely(row.got.lost, row.got.at_risk(), self.alpha)
        {
            let (asked, got) = (row.loss_asked_pct(), row.loss_got_pct());
            return Some(found("loss", asked, got, self.loss_pct(row), "%"));
        }
        let plain = row.asked.rate.is_some() && row.asked.burst.get() == 0;
        let (asked, got) = (row.rate_asked_bit_s(), row.rate_got_bit_s());
        // Each frame's time is rounded up to whole nanoseconds.
        let rounding = asked * row.got.frames as f64 / row.got.busy.max(1) as f64;
        let most = RATE * asked + rounding;
        if plain && row.got.busy > 0 && (got - asked).abs() > most {
            return Some(found("rate", asked, got, most, "bit/s"));
        }
        None
    }

    /// Groups of links with the same configuration, network and direction that lost
    /// together more or less than chance allows. This finds what single intervals of a
    /// few frames cannot show. Losses of models with states are left out: their
    /// intervals depend on each other.
    pub fn group_deviations(&self, intervals: &[LinkRow]) -> Vec<Deviation> {
        let mut groups: Vec<(&LinkRow, LinkRow, u64)> = Vec::new();
        let mut places: HashMap<(&str, &str, *const Impairment), usize> = HashMap::new();
        for row in intervals {
            if row.changing || !has_clear_loss(row) || chain(&row.asked).is_some() {
                continue;
            }
            let key = (row.network.as_str(), row.direction, Arc::as_ptr(&row.asked));
            let place = *places.entry(key).or_insert_with(|| {
                // The same configuration may lie in several places.
                let same = |(first, ..): &(&LinkRow, LinkRow, u64)| {
                    (&first.network, first.direction) == (&row.network, row.direction)
                        && first.asked == row.asked
                };
                groups.iter().position(same).unwrap_or_else(|| {
                    let empty = LinkRow { got: medium::Totals::default(), ..row.clone() };
                    groups.push((row, empty, 0));
                    groups.len() - 1
                })
            });
            let (_, sum, parts) = &mut groups[place];
            sum.got.frames += row.got.frames;
            sum.got.bytes += row.got.bytes;
            sum.got.passed += row.got.passed;
            sum.got.lost += row.got.lost;
            sum.start_s = sum.start_s.min(row.start_s);
            sum.end_s = sum.end_s.max(row.end_s);
            *parts += 1;
        }
        let several = groups.iter().filter(|(_, _, parts)| *parts > 1);
        let off = several.filter_map(|(first, sum, _)| {
            let likely = self.losses(sum).is_likely(sum.got.lost, sum.got.at_risk(), self.alpha);
            (!likely).then(|| Deviation {
                link: format!(
                    "all links of {} configured as {} {}",
                    first.network, first.node, first.direction
                ),
                from_s: sum.start_s,
                to_s: sum.end_s,
                quantity: "loss",
                configured: sum.loss_asked_pct(),
                measured: sum.loss_got_pct(),
                tolerance: self.loss_pct(sum),
                unit: "%",
            })
        });
        off.collect()
    }
}

/// How many tests of a row chance has a part in.
fn tests(row: &LinkRow) -> usize {
    if row.changing || row.got.frames == 0 {
        return 0;
    }
    let varies = variation_ms(&row.asked).0 > 0.0;
    usize::from(varies) + usize::from(row.asked.mean_loss() > 0.0)
}

/// Standard deviation of a frame's delay and the furthest it can be from the mean, in ms.
fn variation_ms(asked: &Impairment) -> (f64, f64) {
    let (shape, jitter) = (&asked.distribution, asked.jitter.as_ms());
    let ends = [
        shape.quantile(0.0),
        shape.quantile(1.0 - f64::EPSILON),
        -4.0 * f64::from(*shape == medium::Distribution::Normal),
    ];
    let furthest = ends.iter().map(|end| (end - shape.mean()).abs()).fold(0.0, f64::max);
    // A frame that is not delayed is as far from the others as the delay is long.
    let moved = asked.reorder.fraction();
    let moved = (moved * (1.0 - moved)).sqrt() * asked.delay.as_ms();
    let overtaking = if moved > 0.0 { asked.delay.as_ms() } else { 0.0 };
    ((shape.deviation() * jitter).hypot(moved), furthest * jitter + overtaking)
}

/// Whether delays are longer than their mean by design: frames wait for those before them
/// or for a slot, or variations below a delay of 0 are cut.
fn is_longer(asked: &Impairment) -> bool {
    let lowest = asked.distribution.quantile(0.0) * asked.jitter.as_ms();
    let waits = asked.keep_order && asked.jitter.as_ns() > 0;
    waits || asked.slot.is_some() || asked.delay.as_ms() + lowest < 0.0
}

/// Whether the losses of a row are those of its configuration alone. A channel that sends
/// again loses less than each attempt does. A frame that netem duplicates and loses still
/// arrives, and its losses are counted together with what finds a queue full.
fn has_clear_loss(row: &LinkRow) -> bool {
    let doubtful = row.asked.duplicate.fraction() > 0.0 || row.asked.rate.is_some();
    !(row.sends_again || row.by_netem && doubtful)
}

/// How a model with states is found again, and its bound.
fn chain(asked: &Impairment) -> Option<(String, Box<dyn Fn() -> ChainBound>)> {
    let key = |model: &dyn std::fmt::Debug| format!("{model:?}");
    match (asked.gilbert_elliott, asked.markov) {
        (Some(model), _) => Some((
            key(&model),
            Box::new(move || ChainBound::gilbert_elliott(&model as &GilbertElliott)),
        )),
        (None, Some(model)) => {
            Some((key(&model), Box::new(move || ChainBound::markov(&model as &Markov))))
        }
        (None, None) => None,
    }
}

#[cfg(test)]
#[path = "tolerance_tests.rs"]
mod tests;
