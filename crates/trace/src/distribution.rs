//! Distributions of inter-arrival and service times.

use crate::arguments::{Arguments, ParseError};
use statrs::distribution::{ContinuousCDF, Gamma};
use statrs::function::gamma::gamma;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use units::Span;

/// Longest time drawn, 1,000 hours in ns: truncates heavy tails.
const LONGEST_NS: f64 = 3.6e15;

/// A distribution of times, given by its mean. Written as `exponential:300us`,
/// `gamma:mean=5ms,shape=2`, `pareto:mean=5ms,shape=2.5`, `weibull:mean=5ms,shape=0.7`,
/// `uniform:1ms,9ms`, `constant:5ms`, or `measured:FILE` (a time in us on each line).
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    /// A fixed time.
    Constant(Span),
    /// Uniform from the first to the second time.
    Uniform(Span, Span),
    /// Exponential (memoryless) by mean.
    Exponential(Span),
    /// Gamma by mean and shape; shape 1 is exponential, a larger shape is more regular.
    Gamma(Span, f64),
    /// Pareto type I by mean and shape above 1; the variance is infinite up to shape 2.
    Pareto(Span, f64),
    /// Weibull by mean and shape; heavy-tailed below shape 1.
    Weibull(Span, f64),
    /// Empirical: measured times, replayed in order or sampled.
    Measured(Arc<Measured>),
}

/// Measured times, in file order and sorted.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    name: String,
    times_ns: Vec<u64>,
    sorted_ns: Vec<u64>,
}

impl Distribution {
    /// An empirical distribution of times in ns; none if `times_ns` is empty.
    pub fn measured(name: &str, times_ns: Vec<u64>) -> Option<Self> {
        let mut sorted_ns = times_ns.clone();
        sorted_ns.sort_unstable();
        let name = name.to_owned();
        (!times_ns.is_empty())
            .then(|| Self::Measured(Arc::new(Measured { name, times_ns, sorted_ns })))
    }

    /// The `u`-quantile in ns, `u` from 0 to 1. A uniform `u` samples by inversion.
    pub fn quantile_ns(&self, u: f64) -> f64 {
        // Below 1, where unbounded distributions are infinite.
        let u = u.clamp(0.0, 1.0 - f64::EPSILON);
        let ns = |span: &Span| span.as_ns() as f64;
        // By inversion for all of them: one draw gives one time, so that a draw belongs to its
        // position (decision 30).
        let value = match self {
            Self::Constant(time) => ns(time),
            Self::Uniform(low, high) => ns(low) + (ns(high) - ns(low)) * u,
            // `ln_1p` keeps the digits of a small `u`, and so of short times.
            Self::Exponential(mean) => -ns(mean) * (-u).ln_1p(),
            Self::Gamma(mean, shape) => match Gamma::new(*shape, 1.0) {
                Ok(unit) => unit.inverse_cdf(u) * ns(mean) / shape,
                Err(_) => ns(mean),
            },
            // The mean is a m / (a - 1) for shape a and minimum m.
            Self::Pareto(mean, shape) => {
                ns(mean) * (shape - 1.0) / shape * (1.0 - u).powf(-1.0 / shape)
            }
            // The mean is s gamma(1 + 1 / k) for shape k and scale s.
            Self::Weibull(mean, shape) => {
                ns(mean) / gamma(1.0 + 1.0 / shape) * (-(-u).ln_1p()).powf(1.0 / shape)
            }
            Self::Measured(measured) => {
                let last = measured.sorted_ns.len() - 1;
                let at = (u * measured.sorted_ns.len() as f64) as usize;
                measured.sorted_ns[at.min(last)] as f64
            }
        };
        value.clamp(0.0, LONGEST_NS)
    }

    /// The time in ns of draw `index` with uniform random number `u`. Measured times ignore `u`:
    /// they replay in file order and start over after the last.
    pub fn draw_ns(&self, u: f64, index: u64) -> u64 {
        match self {
            Self::Measured(measured) => {
                measured.times_ns[(index % measured.times_ns.len() as u64) as usize]
            }
            _ => self.quantile_ns(u).round() as u64,
        }
    }

    /// The cumulative distribution function: the share of times up to `ns`, 0 to 1.
    pub fn cdf(&self, ns: f64) -> f64 {
        let of = |span: &Span| span.as_ns() as f64;
        if ns < 0.0 {
            return 0.0;
        }
        match self {
            Self::Constant(time) => f64::from(ns >= of(time)),
            Self::Uniform(low, high) => {
                ((ns - of(low)) / (of(high) - of(low)).max(1.0)).clamp(0.0, 1.0)
            }
            Self::Exponential(mean) => -(-ns / of(mean)).exp_m1(),
            Self::Gamma(mean, shape) => {
                Gamma::new(*shape, 1.0).map_or(1.0, |unit| unit.cdf(ns * shape / of(mean)))
            }
            Self::Pareto(mean, shape) => {
                let least = of(mean) * (shape - 1.0) / shape;
                if ns <= least { 0.0 } else { 1.0 - (least / ns).powf(*shape) }
            }
            Self::Weibull(mean, shape) => {
                let scale = of(mean) / gamma(1.0 + 1.0 / shape);
                -(-(ns / scale).powf(*shape)).exp_m1()
            }
            Self::Measured(measured) => {
                let below = measured.sorted_ns.partition_point(|time| *time as f64 <= ns);
                below as f64 / measured.sorted_ns.len() as f64
            }
        }
    }

    /// The mean in ns.
    pub fn mean_ns(&self) -> f64 {
        match self {
            Self::Constant(mean)
            | Self::Exponential(mean)
            | Self::Gamma(mean, _)
            | Self::Pareto(mean, _)
            | Self::Weibull(mean, _) => mean.as_ns() as f64,
            Self::Uniform(low, high) => (low.as_ns() + high.as_ns()) as f64 / 2.0,
            Self::Measured(measured) => {
                let sum: u128 = measured.times_ns.iter().map(|time| u128::from(*time)).sum();
                sum as f64 / measured.times_ns.len() as f64
            }
        }
    }

    /// Whether the distribution is a fixed time.
    pub fn is_constant(&self) -> bool {
        matches!(self, Self::Constant(_))
    }
}

impl FromStr for Distribution {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        // Before other arguments: a file name may contain commas and `=`.
        if let Some(file) = text.strip_prefix("measured:") {
            return read_measured(file.trim());
        }
        let mut args = Arguments::read(text);
        let value = match args.kind {
            "constant" => match args.main("mean")?.parse() {
                Ok(time) => Self::Constant(time),
                Err(error) => return Err(args.error(error)),
            },
            "uniform" => {
                let read = |value: &str| value.parse::<Span>().map_err(|e| parse_error(text, e));
                let (low, high) = (read(args.main("low")?)?, read(args.main("high")?)?);
                if low > high {
                    return Err(args.error("the lower bound is above the upper bound"));
                }
                Self::Uniform(low, high)
            }
            "exponential" => Self::Exponential(args.span("mean")?),
            "gamma" => Self::Gamma(args.span("mean")?, shape(&mut args, 0.01, 1e6)?),
            "pareto" => Self::Pareto(args.span("mean")?, shape(&mut args, 1.01, 1e6)?),
            "weibull" => Self::Weibull(args.span("mean")?, shape(&mut args, 0.1, 1e3)?),
            _ => {
                return Err(args.error(
                    "unknown distribution; use constant, uniform, exponential, gamma, pareto, \
                     weibull or measured, as in `exponential:300us`",
                ));
            }
        };
        args.done(value)
    }
}

fn parse_error(text: &str, why: impl fmt::Display) -> ParseError {
    ParseError { text: text.to_owned(), why: why.to_string() }
}

fn shape(args: &mut Arguments, least: f64, most: f64) -> Result<f64, ParseError> {
    let shape = args.number("shape")?;
    if (least..=most).contains(&shape) {
        return Ok(shape);
    }
    Err(args.error(format_args!("`shape` must be between {least} and {most}")))
}

/// Reads times in us, one per line; skips empty lines and lines that start with `#`.
fn read_measured(file: &str) -> Result<Distribution, ParseError> {
    let error = |why: String| ParseError { text: format!("measured:{file}"), why };
    let text = input::read_to_string(file.as_ref(), input::MAX_DATA)
        .map_err(|source| error(format!("could not read {file}: {source}")))?;
    let mut times = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.parse::<f64>() {
            Ok(us) if (0.0..=LONGEST_NS / 1e3).contains(&us) => {
                times.push((us * 1e3).round() as u64);
            }
            _ => return Err(error(format!("line {} is not a time in us: `{line}`", at + 1))),
        }
    }
    Distribution::measured(file, times).ok_or_else(|| error(format!("{file} has no times")))
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(time) => write!(f, "constant:{}", compact(time)),
            Self::Uniform(low, high) => write!(f, "uniform:{},{}", compact(low), compact(high)),
            Self::Exponential(mean) => write!(f, "exponential:{}", compact(mean)),
            Self::Gamma(mean, shape) => write!(f, "gamma:mean={},shape={shape}", compact(mean)),
            Self::Pareto(mean, shape) => write!(f, "pareto:mean={},shape={shape}", compact(mean)),
            Self::Weibull(mean, shape) => write!(f, "weibull:mean={},shape={shape}", compact(mean)),
            Self::Measured(measured) => write!(f, "measured:{}", measured.name),
        }
    }
}

/// Without a space, so that a shell reads it as one word.
fn compact(span: &Span) -> String {
    span.to_string().replace(' ', "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Draw, Purpose};

    const ALL: [&str; 9] = [
        "constant:5ms",
        "uniform:1ms,9ms",
        "exponential:300us",
        "gamma:mean=5ms,shape=2.5",
        "gamma:mean=5ms,shape=0.3",
        "pareto:mean=5ms,shape=3.5",
        "weibull:mean=5ms,shape=0.7",
        "weibull:mean=5ms,shape=3",
        "gamma:mean=300us,shape=30",
    ];

    fn drawn(distribution: &Distribution, count: u64) -> Vec<f64> {
        let draw = Draw::new(4, 0, 0);
        (0..count).map(|i| distribution.quantile_ns(draw.uniform(Purpose::Arrival, i))).collect()
    }

    #[test]
    fn draws_fit_their_distribution_by_kolmogorov_and_smirnov() {
        for text in ALL.into_iter().filter(|text| !text.starts_with("constant")) {
            let distribution: Distribution = text.parse().unwrap();
            let mut values = drawn(&distribution, 20_000);
            values.sort_by(f64::total_cmp);
            let n = values.len() as f64;
            let distance = values
                .iter()
                .enumerate()
                .map(|(i, x)| {
                    let expected = distribution.cdf(*x);
                    (expected - i as f64 / n).abs().max(((i + 1) as f64 / n - expected).abs())
                })
                .fold(0.0, f64::max);
            // The 99.9 % quantile of the Kolmogorov-Smirnov distance is 1.95 / sqrt(n).
            assert!(distance < 1.95 / n.sqrt(), "{text}: {distance}");
        }
    }

    #[test]
    fn the_fit_would_tell_a_wrong_distribution() {
        let exponential: Distribution = "exponential:5ms".parse().unwrap();
        let gamma: Distribution = "gamma:mean=5ms,shape=1.2".parse().unwrap();
        let values = drawn(&gamma, 20_000);
        let below = values.iter().filter(|x| **x <= 1e6).count() as f64 / 20_000.0;
        assert!((below - exponential.cdf(1e6)).abs() > 1.95 / 20_000f64.sqrt());
    }

    #[test]
    fn means_are_what_was_asked_for() {
        for text in ALL {
            let distribution: Distribution = text.parse().unwrap();
            let mean = drawn(&distribution, 100_000).iter().sum::<f64>() / 100_000.0;
            let expected = distribution.mean_ns();
            assert!((mean / expected - 1.0).abs() < 0.02, "{text}: {mean} for {expected}");
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        for text in ALL {
            assert_eq!(text.parse::<Distribution>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn measured_times_are_replayed_in_their_order_and_drawn_by_size() {
        let measured = Distribution::measured("some", vec![30, 10, 20]).unwrap();
        let replayed: Vec<u64> = (0..4).map(|i| measured.draw_ns(0.5, i)).collect();
        assert_eq!(replayed, [30, 10, 20, 30]);
        assert_eq!(measured.quantile_ns(0.0), 10.0);
        assert_eq!(measured.quantile_ns(0.99), 30.0);
        assert_eq!(measured.cdf(20.0), 2.0 / 3.0);
        assert_eq!(measured.mean_ns(), 20.0);
        assert_eq!(Distribution::measured("none", vec![]), None);
    }

    #[test]
    fn mistakes_say_what_to_write() {
        let why = |text: &str| text.parse::<Distribution>().unwrap_err().to_string();
        assert!(why("exponential:300").contains("has no unit; write for example `300 ms`"));
        assert!(why("exponential").contains("`mean` is missing"));
        assert!(why("exponential:1ms,shape=2").contains("has no `shape`"));
        assert!(why("pareto:mean=1ms,shape=0.5").contains("between 1.01"));
        assert!(why("gamma:mean=1ms,shape=-1").contains("a number above 0"));
        assert!(why("normal:5ms").contains("use constant"));
        assert!(why("constant:1ms,2ms").contains("unexpected value"));
        assert!(why("measured:/nonexistent").contains("could not read"));
        assert!(why("exponential:0ms").contains("is 0"));
    }
}
