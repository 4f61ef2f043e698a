//! Linear changes of settings: several at once, each for separate keys.

use crate::{Impairment, Instant};
use units::{Rate, Ratio, Span};

/// A quantity of an impairment that can be interpolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quantity {
    Delay,
    Jitter,
    Loss,
    Corrupt,
    Duplicate,
    Reorder,
    Rate,
}

const QUANTITIES: [(&str, Quantity); 7] = [
    ("delay", Quantity::Delay),
    ("jitter", Quantity::Jitter),
    ("loss", Quantity::Loss),
    ("corrupt", Quantity::Corrupt),
    ("duplicate", Quantity::Duplicate),
    ("reorder", Quantity::Reorder),
    ("rate", Quantity::Rate),
];

/// One quantity in transition.
#[derive(Debug, Clone, Copy)]
struct Ramp {
    quantity: Quantity,
    from: f64,
    begin: Instant,
    end: Instant,
}

/// Final settings of a direction, and the quantities in transition to them.
#[derive(Debug, Clone)]
pub(crate) struct Ramps {
    target: Impairment,
    ramps: Vec<Ramp>,
}

impl Ramps {
    /// Settings without a transition.
    pub fn at_rest(target: Impairment) -> Self {
        Self { target, ramps: Vec::new() }
    }

    /// Settings after all ramps.
    pub fn target(&self) -> &Impairment {
        &self.target
    }

    /// Changes the keys `named` at `now` to their values in `target`. Ramps of other keys
    /// continue. A new change of a key replaces its ramp: it applies the new value, or
    /// starts a ramp at the current value.
    pub fn set<'a>(
        &mut self,
        named: impl Iterator<Item = &'a str>,
        target: Impairment,
        (now, over): (Instant, Span),
    ) {
        let current = self.at(now);
        for name in named {
            let known = QUANTITIES.iter().find(|(known, _)| *known == name);
            let Some(&(_, quantity)) = known else { continue };
            self.ramps.retain(|ramp| ramp.quantity != quantity);
            // An unlimited rate cannot be interpolated.
            let (from, to) = (quantity.of(&current), quantity.of(&target));
            if let (Some(from), Some(_), true) = (from, to, over > Span::ZERO) {
                let end = now.saturating_add(over.as_ns());
                self.ramps.push(Ramp { quantity, from, begin: now, end });
            }
        }
        self.target = target;
    }

    /// Settings in effect at `now`.
    pub fn at(&self, now: Instant) -> Impairment {
        let mut current = self.target.clone();
        for ramp in &self.ramps {
            let Some(to) = ramp.quantity.of(&self.target) else { continue };
            let passed = now.saturating_sub(ramp.begin) as f64;
            let part = passed / ramp.end.saturating_sub(ramp.begin).max(1) as f64;
            if part < 1.0 {
                ramp.quantity.set(&mut current, ramp.from + (to - ramp.from) * part);
            }
        }
        current
    }

    /// Whether all ramps have ended at `now`.
    pub fn are_over(&self, now: Instant) -> bool {
        self.ramps.iter().all(|ramp| now >= ramp.end)
    }

    /// Removes ramps that have ended at `now`; returns whether none is left.
    pub fn settle(&mut self, now: Instant) -> bool {
        self.ramps.retain(|ramp| now < ramp.end);
        self.ramps.is_empty()
    }

    /// Minimum delay of any frame in ns during these ramps.
    pub fn least_delay_ns(&self) -> u64 {
        // Linear changes have their extremes at the ends. The smallest delay with the
        // largest jitter is a lower bound for all combinations.
        let mut least = self.target.clone();
        for ramp in &self.ramps {
            let Some(to) = ramp.quantity.of(&self.target) else { continue };
            let extreme = match ramp.quantity {
                Quantity::Delay => ramp.from.min(to),
                _ => ramp.from.max(to),
            };
            ramp.quantity.set(&mut least, extreme);
        }
        least.least_delay_ns()
    }
}

impl Quantity {
    /// The value in ns, as a share, or in bit/s.
    fn of(self, impairment: &Impairment) -> Option<f64> {
        Some(match self {
            Self::Delay => impairment.delay.as_ns() as f64,
            Self::Jitter => impairment.jitter.as_ns() as f64,
            Self::Loss => impairment.loss.fraction(),
            Self::Corrupt => impairment.corrupt.fraction(),
            Self::Duplicate => impairment.duplicate.fraction(),
            Self::Reorder => impairment.reorder.fraction(),
            Self::Rate => impairment.rate?.bit_s() as f64,
        })
    }

    fn set(self, impairment: &mut Impairment, value: f64) {
        let share = Ratio::from_fraction(value.clamp(0.0, 1.0)).unwrap_or_default();
        match self {
            Self::Delay => impairment.delay = Span::from_ns(value as u64),
            Self::Jitter => impairment.jitter = Span::from_ns(value as u64),
            Self::Loss => impairment.loss = share,
            Self::Corrupt => impairment.corrupt = share,
            Self::Duplicate => impairment.duplicate = share,
            Self::Reorder => impairment.reorder = share,
            Self::Rate => impairment.rate = Rate::from_bit_s(value as u64).or(impairment.rate),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Impairment {
        Impairment {
            delay: "30 ms".parse().unwrap(),
            loss: "10 %".parse().unwrap(),
            rate: Rate::from_bit_s(1_000_000),
            ..Impairment::default()
        }
    }

    fn over(ns: u64) -> Span {
        Span::from_ns(ns)
    }

    #[test]
    fn all_named_quantities_go_straight_from_one_value_to_the_other() {
        let target = Impairment {
            delay: "130 ms".parse().unwrap(),
            loss: "50 %".parse().unwrap(),
            rate: Rate::from_bit_s(3_000_000),
            ..start()
        };
        let mut ramps = Ramps::at_rest(start());
        ramps.set(["loss", "delay", "rate"].into_iter(), target.clone(), (1000, over(1000)));
        let half = ramps.at(1500);
        assert_eq!(half.delay, "80 ms".parse().unwrap());
        assert!((half.loss.percent() - 30.0).abs() < 1e-9);
        assert_eq!(half.rate, Rate::from_bit_s(2_000_000));
        assert_eq!((ramps.at(500), ramps.at(9000)), (start(), target));
        assert!(!ramps.settle(1999) && ramps.settle(2000));
    }

    #[test]
    fn a_change_of_another_key_leaves_a_ramp_as_it_is() {
        let mut ramps = Ramps::at_rest(start());
        let longer = Impairment { delay: "130 ms".parse().unwrap(), ..start() };
        ramps.set(["delay"].into_iter(), longer.clone(), (0, over(1000)));
        let lossy = Impairment { loss: "90 %".parse().unwrap(), ..longer.clone() };
        ramps.set(["loss"].into_iter(), lossy.clone(), (500, Span::ZERO));
        assert_eq!(ramps.at(500).loss, lossy.loss);
        assert_eq!(ramps.at(750).delay, "105 ms".parse().unwrap());
        // A ramp of the loss runs in parallel with the first.
        ramps.set(["loss"].into_iter(), longer.clone(), (600, over(800)));
        let both = ramps.at(1000);
        assert_eq!(both.delay, "130 ms".parse().unwrap());
        assert!((both.loss.percent() - 50.0).abs() < 1e-9);
        assert!(!ramps.settle(1000) && ramps.at(1400) == longer && ramps.settle(1400));
    }

    #[test]
    fn a_change_of_the_same_key_takes_its_place() {
        let mut ramps = Ramps::at_rest(start());
        let longer = Impairment { delay: "130 ms".parse().unwrap(), ..start() };
        ramps.set(["delay"].into_iter(), longer, (0, over(1000)));
        let short = Impairment { delay: "5 ms".parse().unwrap(), ..start() };
        ramps.set(["delay"].into_iter(), short.clone(), (500, over(100)));
        assert_eq!(ramps.at(500).delay, "80 ms".parse().unwrap(), "from where it is");
        assert_eq!(ramps.at(700), short);
        assert!(ramps.settle(700));
    }

    #[test]
    fn an_unlimited_rate_is_on_no_line() {
        let mut ramps = Ramps::at_rest(Impairment { rate: None, ..start() });
        ramps.set(["rate"].into_iter(), start(), (0, over(1000)));
        assert_eq!(ramps.at(1), start());
        assert!(ramps.settle(0));
    }

    #[test]
    fn the_least_delay_is_below_all_on_the_way() {
        let mut ramps = Ramps::at_rest(start());
        let near = Impairment {
            delay: "10 ms".parse().unwrap(),
            jitter: "5 ms".parse().unwrap(),
            ..start()
        };
        ramps.set(["delay", "jitter"].into_iter(), near, (0, over(1000)));
        let least = ramps.least_delay_ns();
        assert_eq!(least, 5_000_000);
        assert!((0..=1000).all(|now| ramps.at(now).least_delay_ns() >= least));
    }
}
