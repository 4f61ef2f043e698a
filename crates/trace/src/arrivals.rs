//! Arrival processes: when requests arrive.

use crate::arguments::{Arguments, ParseError};
use crate::distribution::Distribution;
use crate::rate_profile::RateProfile;
use std::str::FromStr;
use units::{Draw, Purpose, Span};

/// An arrival process. Written as a distribution of the inter-arrival time, or as
/// `on-off:on=2s,off=8s,every=10ms`, `step:10/s@0s,100/s@30s`, `ramp:from=10/s,to=100/s,over=60s`,
/// `sine:mean=100/s,amplitude=50/s,period=60s` (these three with `spacing=poisson` or `even`),
/// `burst:every=1h,spread=2s`.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// Independent inter-arrival times from a distribution.
    Between(Distribution),
    /// On-off source: requests with an inter-arrival time of `every` while on, none while off.
    OnOff {
        /// Length of an on period.
        on: Distribution,
        /// Length of an off period.
        off: Distribution,
        /// Inter-arrival time while on.
        every: Distribution,
    },
    /// A time-varying rate; as a Poisson process if true, evenly spaced if false.
    Rate(RateProfile, bool),
    /// Synchronised bursts: all devices send one request at the same moment, or within `spread`
    /// after it.
    Burst {
        /// Time between bursts.
        every: Span,
        /// Length of one burst.
        spread: Span,
    },
}

impl FromStr for Arrivals {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut args = Arguments::read(text);
        let value = match args.kind {
            "on-off" => on_off(&mut args)?,
            "step" | "ramp" | "sine" => {
                let poisson = match args.take("spacing") {
                    // Poisson by default: many independent devices together are close to it.
                    None | Some("poisson") => true,
                    Some("even") => false,
                    Some(_) => return Err(args.error("`spacing` is `poisson` or `even`")),
                };
                Self::Rate(RateProfile::read(&mut args)?, poisson)
            }
            "burst" => {
                let every = args.span("every")?;
                let spread = match args.take("spread").map(str::parse::<Span>) {
                    None => Span::ZERO,
                    Some(Ok(spread)) if spread <= every => spread,
                    Some(Ok(_)) => return Err(args.error("`spread` is longer than `every`")),
                    Some(Err(error)) => return Err(args.error(error)),
                };
                Self::Burst { every, spread }
            }
            "constant" | "uniform" | "exponential" | "gamma" | "pareto" | "weibull"
            | "measured" => {
                let between: Distribution = text.parse()?;
                // All requests would arrive at once, so a trace without a number of requests
                // would never end.
                if between.mean_ns() <= 0.0 {
                    return Err(args.error("the time between requests is 0"));
                }
                return Ok(Self::Between(between));
            }
            _ => {
                return Err(args.error(
                    "unknown arrival process; use on-off, step, ramp, sine, burst, or a \
                     distribution of the time between requests such as `exponential:300us`",
                ));
            }
        };
        args.done(value)
    }
}

/// On periods without a request, on average, from which an on-off source is refused: each one costs
/// time when the trace is made.
const MAX_EMPTY_PERIODS: f64 = 10_000.0;

fn on_off(args: &mut Arguments) -> Result<Arrivals, ParseError> {
    let on = parse_part(args, "on")?;
    let off = parse_part(args, "off")?;
    let every = parse_part(args, "every")?;
    // With a constant interval, each on period begins with a request.
    let empty = if every.is_constant() { 0.0 } else { every.mean_ns() / on.mean_ns() };
    if empty > MAX_EMPTY_PERIODS {
        let between = every.mean_ns() * (1.0 + off.mean_ns() / on.mean_ns()) / 1e9;
        return Err(args.error(format_args!(
            "`every` is {empty:.0} times as long as `on`, so nearly all on periods are without a \
             request; at most {MAX_EMPTY_PERIODS:.0} times are possible. Make `on` and `off` longer, \
             or write `exponential:{between:.0}s`, which looks the same on this scale"
        )));
    }
    Ok(Arrivals::OnOff { on, off, every })
}

/// Parses a time (`2s`) or a distribution with its mean (`exponential 2s`). The separator is a
/// space, because commas and colons are already in use.
fn parse_part(args: &mut Arguments, key: &str) -> Result<Distribution, ParseError> {
    let value = args.main(key)?;
    let text = match value.split_once(' ') {
        Some((kind, mean)) if kind.chars().all(char::is_alphabetic) => format!("{kind}:{mean}"),
        _ => format!("constant:{value}"),
    };
    let distribution: Distribution = text.parse()?;
    if distribution.mean_ns() < 1.0 {
        return Err(args.error(format_args!("`{key}` is 0")));
    }
    Ok(distribution)
}

impl Arrivals {
    /// Arrival times in ns, ascending, for the device that `draw` belongs to. `staggered` shifts a
    /// constant interval by a random phase, so that devices do not all start at once.
    pub fn times(&self, draw: Draw, staggered: bool) -> Times {
        let mut times =
            Times { arrivals: self.clone(), draw, index: 0, turn: 0, at: 0.0, ends: 0.0, sum: 0.0 };
        match self {
            Self::Between(between) if between.is_constant() => {
                // The first request arrives at 0, or at a random phase of the first interval.
                let phase = if staggered { draw.uniform(Purpose::Slot, 0) } else { 0.0 };
                times.at = between.mean_ns() * (phase - 1.0);
            }
            Self::OnOff { every, .. } => {
                times.ends = times.turn(true);
                if every.is_constant() {
                    // The first request is at 0, not one interval later.
                    times.at = -every.mean_ns();
                }
            }
            _ => {}
        }
        times
    }
}

/// Arrival times in ns since the start, ascending; ends when no more requests arrive.
#[derive(Debug, Clone)]
pub struct Times {
    arrivals: Arrivals,
    draw: Draw,
    /// Number of inter-arrival times drawn.
    index: u64,
    /// Number of on and off periods drawn.
    turn: u64,
    /// The last arrival, in ns.
    at: f64,
    /// End of the current on period, in ns.
    ends: f64,
    /// Expected number of requests so far.
    sum: f64,
}

impl Times {
    fn turn(&mut self, on: bool) -> f64 {
        let Arrivals::OnOff { on: long, off, .. } = &self.arrivals else { return 0.0 };
        let uniform = self.draw.uniform(Purpose::State, self.turn);
        self.turn += 1;
        (if on { long } else { off }).quantile_ns(uniform)
    }

    fn uniform(&mut self) -> f64 {
        let uniform = self.draw.uniform(Purpose::Arrival, self.index);
        self.index += 1;
        uniform
    }

    fn on_off(&mut self) -> f64 {
        let Arrivals::OnOff { every, .. } = &self.arrivals else { return 0.0 };
        let every = every.clone();
        let gap = every.quantile_ns(self.uniform());
        self.at += gap;
        while self.at >= self.ends {
            let begins = self.ends + self.turn(false);
            self.ends = begins + self.turn(true);
            // With a constant interval, each on period begins with a request; the rest of the last
            // interval is dropped.
            self.at = begins;
            if !every.is_constant() {
                self.at += every.quantile_ns(self.uniform());
            }
        }
        self.at
    }
}

impl Iterator for Times {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let index = self.index;
        let uniform = match &self.arrivals {
            Arrivals::OnOff { .. } => 0.0,
            _ => self.uniform(),
        };
        let at = match &self.arrivals {
            Arrivals::Between(Distribution::Measured(_)) => {
                let Arrivals::Between(between) = &self.arrivals else { return None };
                self.at += between.draw_ns(uniform, index) as f64;
                self.at
            }
            Arrivals::Between(between) => {
                self.at += between.quantile_ns(uniform);
                self.at
            }
            Arrivals::OnOff { .. } => self.on_off(),
            Arrivals::Rate(profile, poisson) => {
                // Time-rescaled Poisson process of rate 1: inverting the expected count gives the
                // rate.
                self.sum += if *poisson { -(-uniform).ln_1p() } else { 1.0 };
                self.at = profile.moment(self.sum, self.at / 1e9)? * 1e9;
                self.at
            }
            Arrivals::Burst { every, spread } => {
                // Bursts do not overlap, since `spread` is at most `every`: times still ascend.
                every.as_ns() as f64 * index as f64 + spread.as_ns() as f64 * uniform
            }
        };
        // Stop at 10,000 hours.
        (at < 3.6e16).then(|| at.max(0.0).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(text: &str, seed: u64) -> Times {
        text.parse::<Arrivals>().unwrap().times(Draw::new(seed, 0, 0), false)
    }

    #[test]
    fn constant_times_begin_at_once_or_are_staggered() {
        let first: Vec<u64> = times("constant:10ms", 1).take(3).collect();
        assert_eq!(first, [0, 10_000_000, 20_000_000]);
        let arrivals: Arrivals = "constant:10ms".parse().unwrap();
        let staggered: Vec<u64> = arrivals.times(Draw::new(1, 0, 0), true).take(2).collect();
        assert!(staggered[0] > 0 && staggered[0] < 10_000_000);
        assert_eq!(staggered[1] - staggered[0], 10_000_000);
    }

    #[test]
    fn times_never_fall_and_the_same_seed_gives_the_same() {
        for text in [
            "exponential:300us",
            "on-off:on=exponential 2s,off=1s,every=exponential 10ms",
            "step:10/s@0s,1000/s@3s",
            "sine:mean=100/s,amplitude=100/s,period=6s",
            "burst:every=1s,spread=1s",
            "pareto:mean=1ms,shape=1.5",
        ] {
            let all: Vec<u64> = times(text, 3).take(2_000).collect();
            assert!(all.is_sorted(), "{text}");
            assert_eq!(all, times(text, 3).take(2_000).collect::<Vec<_>>());
            if !text.starts_with("on-off:on=2s") {
                assert_ne!(all, times(text, 4).take(2_000).collect::<Vec<_>>(), "{text}");
            }
        }
    }

    #[test]
    fn nothing_comes_while_it_is_off() {
        let all: Vec<u64> = times("on-off:on=1s,off=3s,every=100ms", 1)
            .take_while(|t| *t < 12_000_000_000)
            .collect();
        assert!(all.iter().all(|t| t % 4_000_000_000 < 1_000_000_000));
        assert_eq!(all.len(), 30);
    }

    #[test]
    fn rates_come_out_by_count() {
        // A Poisson count: allow five standard deviations.
        let within = |text: &str, from: u64, to: u64, expected: f64| {
            let seen = times(text, 7)
                .take_while(|t| *t < to * 1_000_000_000)
                .filter(|t| *t >= from * 1_000_000_000)
                .count() as f64;
            assert!((seen - expected).abs() < 5.0 * expected.sqrt(), "{text}: {seen}");
        };
        within("step:100/s@0s,1000/s@10s", 0, 10, 1_000.0);
        within("step:100/s@0s,1000/s@10s", 10, 20, 10_000.0);
        within("ramp:from=0/s,to=1000/s,over=20s", 0, 20, 10_000.0);
        within("sine:mean=500/s,amplitude=400/s,period=20s", 0, 10, 5_000.0 + 400.0 * 6.366);
        within("exponential:1ms", 0, 10, 10_000.0);
    }

    #[test]
    fn a_changing_rate_by_chance_is_poisson_when_its_time_is_bent_back() {
        let profile =
            RateProfile::read(&mut Arguments::read("ramp:from=10/s,to=1000/s,over=20s")).unwrap();
        let all: Vec<f64> = times("ramp:from=10/s,to=1000/s,over=20s", 7)
            .take(10_000)
            .map(|t| profile.expected(t as f64 / 1e9))
            .collect();
        let mut gaps: Vec<f64> = all.windows(2).map(|pair| pair[1] - pair[0]).collect();
        gaps.sort_by(f64::total_cmp);
        let n = gaps.len() as f64;
        let distance = gaps
            .iter()
            .enumerate()
            .map(|(i, x)| ((i as f64 + 0.5) / n - (1.0 - (-x).exp())).abs())
            .fold(0.0, f64::max);
        assert!(distance < 1.95 / n.sqrt(), "{distance}");
    }

    #[test]
    fn even_spacing_meets_the_rate_to_one_request() {
        let seen = times("ramp:from=0/s,to=100/s,over=10s,spacing=even", 1)
            .take_while(|t| *t <= 10_000_000_000)
            .count();
        assert!((499..=501).contains(&seen), "{seen}");
        assert_eq!(times("step:10/s@0s,0/s@1s,spacing=even", 1).count(), 10);
    }

    #[test]
    fn bursts_are_at_the_same_moment_for_all() {
        let burst: Arrivals = "burst:every=1h".parse().unwrap();
        let hours = |device| burst.times(Draw::new(1, device, 0), true).take(2).collect::<Vec<_>>();
        assert_eq!(hours(1), [0, 3_600_000_000_000]);
        assert_eq!(hours(1), hours(2));
    }

    #[test]
    fn mistakes_say_what_to_write() {
        let why = |text: &str| text.parse::<Arrivals>().unwrap_err().to_string();
        assert!(why("step:10/s@5s").contains("first step must start at 0s"));
        assert!(why("step:10@0s").contains("is not a rate"));
        assert!(why("sine:mean=1/s,amplitude=2/s,period=1s").contains("above the mean"));
        assert!(why("burst:every=1s,spread=2s").contains("longer than"));
        assert!(why("ramp:from=1/s,to=2/s").contains("`over` is missing"));
        assert!(why("often").contains("unknown arrival process"));
        assert!(why("on-off:on=1s,off=1s,every=0s").contains("is 0"));
        // What failed: it drew 3.6e12 periods before the first request.
        let short = why("on-off:on=1ns,off=3ns,every=exponential 1h");
        assert!(short.contains("exponential:14400s") && short.contains("at most 10000"), "{short}");
        assert_eq!(times("on-off:on=1ns,off=9ns,every=1h", 1).nth(2), Some(20));
        for endless in ["constant:0s", "constant:0.4ns", "uniform:0s,0s", "uniform:low=0s,high=0ns"]
        {
            assert!(why(endless).contains("the time between requests is 0"), "{endless}");
        }
    }
}
