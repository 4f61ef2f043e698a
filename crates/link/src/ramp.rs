//! Linear changes of settings: several at once, each for separate keys.

use crate::{Impairment, Quantity};
use units::{Instant, Span};

/// One quantity in transition.
#[derive(Debug, Clone)]
struct Ramp {
    key: String,
    from: f64,
    to: f64,
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
        now: Instant,
        over: Span,
    ) {
        let (mut current, mut goal) = (self.at(now), target.clone());
        for name in named {
            self.ramps.retain(|ramp| ramp.key != name);
            let Some(to) = goal.quantity(name).filter(|_| over > Span::ZERO) else { continue };
            let from = match (current.quantity(name), &to) {
                (Some(from), _) => from.get(),
                // An unlimited rate cannot be interpolated.
                (None, Quantity::Rate(_)) => continue,
                // There was no such value: a `loss` in place of a model of bursts starts at 0.
                (None, _) => 0.0,
            };
            let (to, end) = (to.get(), now + over);
            self.ramps.push(Ramp { key: name.to_owned(), from, to, begin: now, end });
        }
        self.target = target;
    }

    /// Settings in effect at `now`.
    pub fn at(&self, now: Instant) -> Impairment {
        let mut current = self.target.clone();
        for ramp in &self.ramps {
            let passed = (now - ramp.begin).as_ns() as f64;
            let part = passed / (ramp.end - ramp.begin).as_ns().max(1) as f64;
            if let Some(quantity) = current.quantity(&ramp.key).filter(|_| part < 1.0) {
                quantity.set(ramp.from + (ramp.to - ramp.from) * part);
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

    /// Minimum delay of any frame during these ramps.
    pub fn least_delay(&self) -> Span {
        // Linear changes have their extremes at the ends. The smallest delay with the
        // largest jitter is a lower bound for all combinations.
        let mut least = self.target.clone();
        for ramp in &self.ramps {
            let extreme = match ramp.key.as_str() {
                "delay" => ramp.from.min(ramp.to),
                _ => ramp.from.max(ramp.to),
            };
            if let Some(quantity) = least.quantity(&ramp.key) {
                quantity.set(extreme);
            }
        }
        least.least_delay()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_times::at;
    use crate::{Delay, Transmission};
    use units::{Rate, Ratio};

    fn span(text: &str) -> Span {
        text.parse().unwrap()
    }

    fn share(text: &str) -> Ratio {
        text.parse().unwrap()
    }

    fn rate(bit_s: u64) -> Rate {
        Rate::from_bit_s(bit_s).unwrap()
    }

    fn start() -> Impairment {
        Impairment {
            delay: span("30 ms").into(),
            loss: share("10 %").into(),
            transmission: rate(1_000_000).into(),
            ..Impairment::default()
        }
    }

    fn over(ns: u64) -> Span {
        Span::from_ns(ns)
    }

    #[test]
    fn all_named_quantities_go_straight_from_one_value_to_the_other() {
        let target = Impairment {
            delay: span("130 ms").into(),
            loss: share("50 %").into(),
            transmission: rate(3_000_000).into(),
            ..start()
        };
        let mut ramps = Ramps::at_rest(start());
        ramps.set(["loss", "delay", "rate"].into_iter(), target.clone(), at(1000), over(1000));
        let half = ramps.at(at(1500));
        assert_eq!(half.delay.mean, span("80 ms"));
        assert!((100.0 * half.mean_loss() - 30.0).abs() < 1e-9);
        assert_eq!(half.rate(), Some(rate(2_000_000)));
        assert_eq!((ramps.at(at(500)), ramps.at(at(9000))), (start(), target));
        assert!(!ramps.settle(at(1999)) && ramps.settle(at(2000)));
    }

    #[test]
    fn a_change_of_another_key_leaves_a_ramp_as_it_is() {
        let mut ramps = Ramps::at_rest(start());
        let longer = Impairment { delay: span("130 ms").into(), ..start() };
        ramps.set(["delay"].into_iter(), longer.clone(), at(0), over(1000));
        let lossy = Impairment { loss: share("90 %").into(), ..longer.clone() };
        ramps.set(["loss"].into_iter(), lossy.clone(), at(500), Span::ZERO);
        assert_eq!(ramps.at(at(500)).loss, lossy.loss);
        assert_eq!(ramps.at(at(750)).delay.mean, span("105 ms"));
        // A ramp of the loss runs in parallel with the first.
        ramps.set(["loss"].into_iter(), longer.clone(), at(600), over(800));
        let both = ramps.at(at(1000));
        assert_eq!(both.delay.mean, span("130 ms"));
        assert!((100.0 * both.mean_loss() - 50.0).abs() < 1e-9);
        assert!(!ramps.settle(at(1000)) && ramps.at(at(1400)) == longer && ramps.settle(at(1400)));
    }

    #[test]
    fn a_change_of_the_same_key_takes_its_place() {
        let mut ramps = Ramps::at_rest(start());
        let longer = Impairment { delay: span("130 ms").into(), ..start() };
        ramps.set(["delay"].into_iter(), longer, at(0), over(1000));
        let short = Impairment { delay: span("5 ms").into(), ..start() };
        ramps.set(["delay"].into_iter(), short.clone(), at(500), over(100));
        assert_eq!(ramps.at(at(500)).delay.mean, span("80 ms"), "from where it is");
        assert_eq!(ramps.at(at(700)), short);
        assert!(ramps.settle(at(700)));
    }

    #[test]
    fn an_unlimited_rate_is_on_no_line() {
        let mut ramps =
            Ramps::at_rest(Impairment { transmission: Transmission::default(), ..start() });
        ramps.set(["rate"].into_iter(), start(), at(0), over(1000));
        assert_eq!(ramps.at(at(1)), start());
        assert!(ramps.settle(at(0)));
    }

    #[test]
    fn the_least_delay_is_below_all_on_the_way() {
        let mut ramps = Ramps::at_rest(start());
        let near = Impairment {
            delay: Delay { mean: span("10 ms"), jitter: span("5 ms"), ..Delay::default() },
            ..start()
        };
        ramps.set(["delay", "jitter"].into_iter(), near, at(0), over(1000));
        let least = ramps.least_delay();
        assert_eq!(least, Span::from_ms(5));
        assert!((0..=1000).all(|now| ramps.at(at(now)).least_delay() >= least));
    }
}
