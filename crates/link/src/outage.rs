//! Times in which a link carries nothing.

use crate::keys::{Contradictions, Key, Keys, Kind, Model, time_text};
use crate::stage::{ChannelWait, Stage};
use serde::Serialize;
use units::{Draw, Purpose, Span};

/// Outages of a link.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outages(pub Vec<Outage>);

/// When a link is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Outage {
    /// At a time after the start of impairments, for a span. With `every` it repeats: a
    /// flapping link.
    Scheduled {
        /// Start of the first outage.
        at: Span,
        /// Duration of each outage; less than `every`.
        lasts: Span,
        /// Time between the starts of two outages.
        #[serde(skip_serializing_if = "Option::is_none")]
        every: Option<Span>,
    },
    /// Random: up and down times are exponentially distributed.
    Random {
        /// Mean time to failure (MTTF).
        mean_up: Span,
        /// Mean time to repair (MTTR).
        mean_down: Span,
    },
}

impl Outage {
    /// Long-term share of time in which the link is down; 0 for a single outage.
    pub fn share(&self) -> f64 {
        match self {
            Self::Scheduled { every: None, .. } => 0.0,
            Self::Scheduled { lasts, every: Some(every), .. } => {
                lasts.as_ns() as f64 / every.as_ns().max(1) as f64
            }
            Self::Random { mean_up, mean_down } => {
                let (up, down) = (mean_up.as_ns() as f64, mean_down.as_ns() as f64);
                down / (up + down).max(1.0)
            }
        }
    }
}

const OUTAGE: Model = Model {
    name: "Outage",
    what: "an outage",
    doc: "Outages: scheduled by `at` and `lasts`, repeated with `every` for a flapping link; or \
          random\nby `mean_up` and `mean_down`.",
    keys: &[
        Key::new("at", Kind::Time, "Start of the outage, from the start of the impairments."),
        Key::new("lasts", Kind::Time, "Duration of the outage."),
        Key::new(
            "every",
            Kind::Time,
            "Time from the start of one outage to the start of the next, for a flapping link.",
        ),
        Key::new("mean_up", Kind::Time, "Mean time to failure, of random outages."),
        Key::new("mean_down", Kind::Time, "Mean time to repair, of random outages."),
    ],
};

impl Stage for Outages {
    const KEYS: &'static [Key] = &[Key::new(
        "outage",
        Kind::OneOrMore(&OUTAGE),
        "Times in which the link carries nothing, scheduled or random.",
    )];
    const ORDER: u8 = 0;
    type Flow = ();

    fn read(keys: &Keys) -> Result<Self, String> {
        let outages: Vec<Keys> = keys.read_or_default("outage")?;
        outages.iter().map(Outage::read).collect::<Result<_, _>>().map(Self)
    }

    fn write(&self, keys: &mut Keys) {
        keys.put("outage", &self.0);
    }

    fn check(keys: &Keys, _: ChannelWait, found: &mut Contradictions) {
        let outages: Vec<Keys> = keys.get("outage").unwrap_or_default();
        for (number, outage) in outages.iter().enumerate() {
            Outage::check(outage, &format!("outage.{number}"), found);
        }
    }

    fn check_netem(keys: &Keys, found: &mut Contradictions) {
        if keys.has("outage") {
            found.add("outage", "outages of a link", "use a `timetable` with `down`");
        }
    }

    fn text(&self, _is_scheduled: bool) -> Option<String> {
        let texts: Vec<_> = self.0.iter().map(Outage::text).collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }

    fn is_none(&self) -> bool {
        self.0.is_empty()
    }
}

impl Outage {
    fn read(keys: &Keys) -> Result<Self, String> {
        Ok(match (keys.read("mean_up")?, keys.read("mean_down")?) {
            (Some(mean_up), Some(mean_down)) => Self::Random { mean_up, mean_down },
            _ => Self::Scheduled {
                at: keys.require("at")?,
                lasts: keys.require("lasts")?,
                every: keys.read("every")?,
            },
        })
    }

    fn check(keys: &Keys, at: &str, found: &mut Contradictions) {
        let first = |names: &[&'static str]| names.iter().copied().find(|name| keys.has(name));
        match (first(&["at", "lasts", "every"]), first(&["mean_up", "mean_down"])) {
            (Some(_), Some(random)) => {
                let text = "an outage is either scheduled or random";
                let fix = "use `at`, `lasts` and `every`, or `mean_up` and `mean_down`";
                found.add(format!("{at}.{random}"), text, fix);
            }
            (None, Some(_)) if !(keys.has("mean_up") && keys.has("mean_down")) => {
                let text = "a random outage needs both `mean_up` and `mean_down`";
                let fix = "they are the mean time to failure and the mean time to repair";
                found.add(at, text, fix);
            }
            (Some(_), None) if !(keys.has("at") && keys.has("lasts")) => {
                found.add(at, "a scheduled outage needs `at` and `lasts`", "add the missing one");
            }
            (None, None) => {
                let fix = "use `at` and `lasts`, or `mean_up` and `mean_down`";
                found.add(at, "an outage without times", fix);
            }
            _ => {}
        }
        let [lasts, every] = ["lasts", "every"].map(|key| keys.get::<Span>(key));
        if let (Some(lasts), Some(every)) = (lasts, every)
            && lasts >= every
        {
            let text = format!("the outage lasts {lasts} of every {every}: the link is never up");
            found.add(format!("{at}.every"), text, "`every` counts from one start to the next");
        }
        for key in ["lasts", "mean_up", "mean_down"] {
            if keys.get::<Span>(key) == Some(Span::ZERO) {
                found.add(format!("{at}.{key}"), "a time of 0", "use more than 0 s");
            }
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Scheduled { at, lasts, every } => {
                let every = every.map(|every| format!(", every {}", time_text(every)));
                let every = every.unwrap_or_default();
                format!("down at {} for {}{every}", time_text(*at), time_text(*lasts))
            }
            Self::Random { mean_up, mean_down } => {
                format!("up {} and down {} on average", time_text(*mean_up), time_text(*mean_down))
            }
        }
    }
}

/// State of one outage over time.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    config: Outage,
    draw: Draw,
    /// Number of the outage within its link: each has separate random numbers.
    number: u64,
    /// For random outages: whether the link is down until `until`, and the number of
    /// changes so far.
    down: bool,
    until: Span,
    changes: u64,
}

impl Gate {
    pub fn new(config: Outage, draw: Draw, number: u64) -> Self {
        // Starts down before time 0, so that the first check draws the first up time.
        Self { config, draw, number, down: true, until: Span::ZERO, changes: 0 }
    }

    /// Whether the link is down `since` after the start of impairments. Times must not
    /// decrease.
    pub fn is_down(&mut self, since: Span) -> bool {
        match self.config {
            Outage::Scheduled { at, lasts, every } => {
                let Some(after) = since.as_ns().checked_sub(at.as_ns()) else { return false };
                let within = every.map_or(after, |every| after % every.as_ns().max(1));
                within < lasts.as_ns()
            }
            Outage::Random { mean_up, mean_down } => {
                while self.until <= since {
                    self.down = !self.down;
                    let mean = if self.down { mean_down } else { mean_up };
                    // Each outage of the link has 2^48 numbers, so that no two share one.
                    let place = (self.number << 48) | self.changes;
                    let u = self.draw.uniform(Purpose::Outage, place);
                    // Inversion of the exponential distribution; 1 - u is above 0, so the logarithm
                    // is finite.
                    let span = -(1.0 - u).ln() * mean.as_ns() as f64;
                    // At least 1 ns, so that the loop ends.
                    self.until += Span::from_ns((span as u64).max(1));
                    self.changes += 1;
                }
                self.down
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn span(s: u64) -> Span {
        Span::from_ns(s * S)
    }

    fn gate(config: Outage) -> Gate {
        Gate::new(config, Draw::new(7, 1, 0), 0)
    }

    fn down(gate: &mut Gate, times: &[u64]) -> Vec<bool> {
        times.iter().map(|since| gate.is_down(Span::from_ns(*since))).collect()
    }

    #[test]
    fn a_scheduled_outage_lasts_its_time() {
        let mut once = gate(Outage::Scheduled { at: span(10), lasts: span(2), every: None });
        let times = [0, 10 * S - 1, 10 * S, 12 * S - 1, 12 * S, 100 * S];
        assert_eq!(down(&mut once, &times), [false, false, true, true, false, false]);
    }

    #[test]
    fn a_flapping_link_comes_and_goes() {
        let every = Some(span(5));
        let mut flaps = gate(Outage::Scheduled { at: span(1), lasts: span(2), every });
        let times = [0, S, 2 * S, 3 * S, 6 * S, 7 * S, 8 * S];
        assert_eq!(down(&mut flaps, &times), [false, true, true, false, true, true, false]);
    }

    #[test]
    fn a_random_outage_has_the_means_asked_for() {
        let config = Outage::Random { mean_up: span(9), mean_down: span(1) };
        let mut random = gate(config);
        let seconds = 1_000_000;
        let states: Vec<_> =
            (0..10 * seconds).map(|t| random.is_down(Span::from_ns(t * S / 10))).collect();
        let share = states.iter().filter(|down| **down).count() as f64 / states.len() as f64;
        // 100,000 down periods: 4 standard errors are 1.7 % of a tenth.
        assert!((share - config.share()).abs() < 0.002, "{share}");
        // Samples are 0.1 s apart and may miss shorter down times: 1 - e^-0.1.
        let ends = states.chunk_by(|a, b| a == b).filter(|run| run[0]).count() as f64;
        assert!((ends / (seconds as f64 / 10.0) - 0.95).abs() < 0.03, "{ends}");
    }
}
