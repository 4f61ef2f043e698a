//! Rate profiles: rates that change with time.

use crate::arguments::{Arguments, ParseError};
use std::fmt;
use std::str::FromStr;
use units::Span;

/// A rate, such as `100/s`, `6/min` or `1/h`; 0 to 1e9 per second.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Frequency(f64);

/// A rate profile: a rate as a function of time.
#[derive(Debug, Clone, PartialEq)]
pub enum RateProfile {
    /// Each rate with its start time in ns; ascending, the first at 0.
    Step(Vec<(u64, Frequency)>),
    /// A linear change from one rate to another over a time; constant after that.
    Ramp(Frequency, Frequency, Span),
    /// Mean, amplitude (at most the mean) and period.
    Sine(Frequency, Frequency, Span),
}

impl Frequency {
    /// Events per second.
    pub fn per_s(self) -> f64 {
        self.0
    }
}

impl FromStr for Frequency {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a rate; write for example `100/s`, `6/min`, `1/h`");
        let (number, unit) = text.trim().split_once('/').ok_or_else(bad)?;
        let seconds = match unit.trim() {
            "s" => 1.0,
            "min" => 60.0,
            "h" => 3600.0,
            _ => return Err(bad()),
        };
        let value = number.trim().parse::<f64>().map_err(|_| bad())? / seconds;
        if (0.0..=1e9).contains(&value) { Ok(Self(value)) } else { Err(bad()) }
    }
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", self.0)
    }
}

impl RateProfile {
    /// Parses the args of `step:`, `ramp:` and `sine:`.
    pub(crate) fn read(args: &mut Arguments) -> Result<Self, ParseError> {
        let rate = |args: &mut Arguments, key: &str| -> Result<Frequency, ParseError> {
            args.main(key)?.parse().map_err(|why: String| args.error(why))
        };
        match args.kind {
            "step" => Self::read_steps(args),
            "ramp" => {
                let (from, to) = (rate(args, "from")?, rate(args, "to")?);
                let over = args.span("over")?;
                Ok(Self::Ramp(from, to, over))
            }
            _ => {
                let (mean, amplitude) = (rate(args, "mean")?, rate(args, "amplitude")?);
                // Otherwise the rate would be negative at times.
                if amplitude > mean || mean.0 == 0.0 {
                    return Err(args.error("the amplitude is above the mean, or the mean is 0"));
                }
                Ok(Self::Sine(mean, amplitude, args.span("period")?))
            }
        }
    }

    /// Parses `10/s@0s,100/s@30s`.
    fn read_steps(args: &mut Arguments) -> Result<Self, ParseError> {
        let mut steps: Vec<(u64, Frequency)> = Vec::new();
        for part in std::mem::take(&mut args.bare) {
            let (rate, at) = part.split_once('@').ok_or_else(|| {
                args.error(format_args!("`{part}` is not a step; write for example `100/s@30s`"))
            })?;
            let rate = rate.parse().map_err(|why: String| args.error(why))?;
            let at: Span = at.parse().map_err(|error| args.error(error))?;
            if steps.last().is_some_and(|(before, _)| *before >= at.as_ns()) {
                return Err(args.error("steps must be sorted by time"));
            }
            steps.push((at.as_ns(), rate));
        }
        match steps.first() {
            Some((0, _)) => Ok(Self::Step(steps)),
            _ => Err(args.error("the first step must start at 0s, as in `step:10/s@0s,100/s@30s`")),
        }
    }

    /// Expected number of requests from 0 to `t`, in seconds.
    pub(crate) fn expected(&self, t: f64) -> f64 {
        match self {
            Self::Step(steps) => {
                let mut sum = 0.0;
                for (i, (at, rate)) in steps.iter().enumerate() {
                    let from = *at as f64 / 1e9;
                    let to = steps.get(i + 1).map_or(f64::INFINITY, |(next, _)| *next as f64 / 1e9);
                    if t > from {
                        sum += rate.0 * (t.min(to) - from);
                    }
                }
                sum
            }
            Self::Ramp(from, to, over) => {
                let over = over.as_ns() as f64 / 1e9;
                let within = t.min(over);
                from.0 * within
                    + (to.0 - from.0) * within * within / (2.0 * over)
                    + to.0 * (t - within)
            }
            Self::Sine(mean, amplitude, period) => {
                let turn = std::f64::consts::TAU / (period.as_ns() as f64 / 1e9);
                // The integral of mean + amplitude x sin(turn x t).
                mean.0 * t + amplitude.0 / turn * (1.0 - (turn * t).cos())
            }
        }
    }

    /// The maximum rate, per second.
    fn peak(&self) -> f64 {
        match self {
            Self::Step(steps) => steps.iter().map(|(_, rate)| rate.0).fold(0.0, f64::max),
            Self::Ramp(from, to, _) => from.0.max(to.0),
            Self::Sine(mean, amplitude, _) => mean.0 + amplitude.0,
        }
    }

    /// The time in seconds, at least `from`, at which `count` requests are expected; none if they
    /// never are. Bisection works because the expected number never falls.
    pub(crate) fn moment(&self, count: f64, from: f64) -> Option<f64> {
        let peak = self.peak();
        if peak <= 0.0 {
            return None;
        }
        let missing = (count - self.expected(from)).max(0.0);
        let mut low = from;
        // Lower bound: the time at the maximum rate.
        let mut step = (missing / peak).max(1e-9);
        let mut high = from + step;
        while self.expected(high) < count {
            low = high;
            step *= 2.0;
            high += step;
            // No arrival within 1,000 hours: the rate stays at 0.
            if high > 3.6e6 {
                return None;
            }
        }
        // Enough to halve 1,000 hours down to the resolution, 0.1 ns.
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if self.expected(middle) < count {
                low = middle
            } else {
                high = middle
            }
            if high - low < 1e-10 {
                break;
            }
        }
        Some(high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(text: &str) -> RateProfile {
        RateProfile::read(&mut Arguments::read(text)).unwrap()
    }

    #[test]
    fn expected_numbers_are_the_areas_below_the_rates() {
        let step = profile("step:10/s@0s,100/s@30s,0/s@40s");
        assert_eq!(step.expected(30.0), 300.0);
        assert_eq!(step.expected(35.0), 800.0);
        assert_eq!(step.expected(99.0), 1300.0);
        let ramp = profile("ramp:from=0/s,to=100/s,over=10s");
        assert_eq!(ramp.expected(10.0), 500.0);
        assert_eq!(ramp.expected(11.0), 600.0);
        let sine = profile("sine:mean=100/s,amplitude=50/s,period=60s");
        assert!((sine.expected(60.0) - 6000.0).abs() < 1e-6);
        assert!(sine.expected(30.0) > 3900.0);
    }

    #[test]
    fn moments_turn_expected_numbers_round() {
        for text in [
            "step:10/s@0s,0/s@5s,100/s@30s",
            "ramp:from=0/s,to=100/s,over=10s",
            "sine:mean=10/s,amplitude=10/s,period=6s",
        ] {
            let profile = profile(text);
            let mut before = 0.0;
            for count in 1..200 {
                let at = profile.moment(f64::from(count), before).unwrap();
                assert!(at >= before, "{text}");
                assert!((profile.expected(at) - f64::from(count)).abs() < 1e-4, "{text} {count}");
                before = at;
            }
        }
        assert_eq!(profile("step:10/s@0s,0/s@1s").moment(11.0, 0.0), None);
    }
}
