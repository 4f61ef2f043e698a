//! Delay and its variation.

use crate::correlated::Correlated;
use crate::decisions::{Arrival, Decision};
use crate::keys::{Contradictions, Key, Keys, Kind, Model, Quantity, REMOVE, time_text};
use crate::stage::{ChannelWait, Stage};
use crate::{Distribution, Table};
use std::path::Path;
use units::{Draw, Purpose, Ratio, Span};

/// Time from the end of serialisation to delivery.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Delay {
    /// Mean.
    pub mean: Span,
    /// Variation; see [`Distribution`]. A delay is never below 0.
    pub jitter: Span,
    /// Correlation of a frame's variation with that of the previous frame.
    pub correlation: Ratio,
    /// Distribution of the variation.
    pub distribution: Distribution,
    /// Whether a jitter above the mean is permitted; delays that would be negative are 0.
    pub clip: bool,
    /// Whether frames keep their order. If not, jitter reorders frames, as in tc-netem.
    pub keep_order: bool,
}

/// Maximum jitter of netem; the kernel truncates larger values silently.
const NETEM_JITTER: Span = Span::from_ns(i32::MAX as u64);

const TABLE: Model = Model {
    name: "Distribution",
    what: "a distribution",
    doc: "Distribution of a delay's jitter.",
    keys: &[Key::new(
        "table",
        Kind::File,
        "A table from a file in iproute2's `.dist` format, scaled by the jitter.",
    )
    .required()],
};
const WORDS: &[(&str, &str)] = &[
    ("uniform", "Uniform within delay ± jitter."),
    ("normal", "Normal, with the jitter as standard deviation."),
    ("pareto", "tc-netem's Pareto."),
    ("paretonormal", "tc-netem's mixture of normal and Pareto."),
];

impl From<Span> for Delay {
    /// A constant delay.
    fn from(mean: Span) -> Self {
        Self { mean, ..Self::default() }
    }
}

impl Delay {
    /// Long-term mean in ns, with that of the variation.
    pub fn mean_ns(&self) -> f64 {
        self.mean.as_ns() as f64 + self.distribution.mean() * self.jitter.as_ns() as f64
    }

    /// The delay that deviates from the mean by `jitters`.
    fn at(&self, jitters: f64) -> Span {
        let offset = jitters * self.jitter.as_ns() as f64;
        Span::from_ns((self.mean.as_ns() as f64 + offset).max(0.0) as u64)
    }
}

impl Stage for Delay {
    const KEYS: &'static [Key] = &[
        Key::new(
            "delay",
            Kind::Time,
            "Mean delay from the end of serialisation to delivery. Default: 0 s.",
        ),
        Key::new(
            "jitter",
            Kind::Time,
            "Jitter: variation of the delay. A jitter above the delay needs `clip: true`. \
             Default: 0 s.",
        ),
        Key::new(
            "correlation",
            Kind::Share,
            "Correlation of a frame's delay variation with the previous frame's. Default: 0 %.",
        ),
        Key::new(
            "distribution",
            Kind::WordOr(WORDS, &TABLE),
            "Distribution of the delay. Default: `uniform`.",
        ),
        Key::new(
            "clip",
            Kind::Flag,
            "Whether negative delays are raised to 0, which makes the mean longer. Without it, a \
             jitter above the delay is an error. Default: false.",
        ),
        Key::new(
            "keep_order",
            Kind::Flag,
            "Whether frames keep their order. Without it, jitter reorders frames. Default: false.",
        ),
    ];
    const ORDER: u8 = 6;
    type Flow = Correlated;

    fn read(keys: &Keys) -> Result<Self, String> {
        let (mean, jitter) = (keys.read_or_default("delay")?, keys.read_or_default("jitter")?);
        Ok(Self {
            mean,
            jitter,
            correlation: keys.read_or_default("correlation")?,
            distribution: keys.read_or_default("distribution")?,
            clip: keys.read_or_default("clip")? || jitter > mean,
            keep_order: keys.read_or_default("keep_order")?,
        })
    }

    fn write(&self, keys: &mut Keys) {
        keys.put("delay", &self.mean);
        keys.put("jitter", &self.jitter);
        keys.put("correlation", &self.correlation);
        keys.put("distribution", &self.distribution);
        keys.put("keep_order", &self.keep_order);
        keys.put("clip", &(self.clip || self.jitter > self.mean));
    }

    fn check(keys: &Keys, _: ChannelWait, found: &mut Contradictions) {
        let delay = keys.get::<Span>("delay").unwrap_or_default();
        let jitter = keys.get::<Span>("jitter").unwrap_or_default();
        if jitter > delay && !keys.get::<bool>("clip").unwrap_or_default() {
            let delay = if delay == Span::ZERO { "0 ms".to_owned() } else { delay.to_string() };
            let text =
                format!("a jitter of {jitter} above the delay of {delay} makes delays negative");
            let fix = "write `clip: true` to set negative delays to 0, which makes the mean longer";
            found.add("jitter", text, fix);
        }
        if keys.has("distribution") && !keys.has("jitter") {
            let text = "a distribution of the `jitter` without a `jitter`";
            found.add("distribution", text, "add a `jitter`, or remove this");
        }
        let text = "a correlation of `jitter` without `jitter`";
        found.add_without(keys, "correlation", "jitter", text);
    }

    fn check_netem(keys: &Keys, found: &mut Contradictions) {
        if keys.get::<Span>("jitter").is_some_and(|jitter| jitter > NETEM_JITTER) {
            found.add("jitter", "a jitter above 2147 ms", "use a shorter one");
        }
        if keys.get("keep_order") == Some(true) {
            found.add("keep_order", "`keep_order` with jitter", REMOVE);
        }
    }

    fn text(&self, _is_scheduled: bool) -> Option<String> {
        if self.is_none() {
            return None;
        }
        let mut text = format!("delay {}", time_text(self.mean));
        if self.jitter != Span::ZERO {
            text += &format!(" +/- {}", time_text(self.jitter));
            text += &match &self.distribution {
                Distribution::Uniform => String::new(),
                Distribution::Normal => " (normal)".to_owned(),
                Distribution::Pareto => " (pareto)".to_owned(),
                Distribution::ParetoNormal => " (paretonormal)".to_owned(),
                Distribution::Table(table) => format!(" ({})", table.file.display()),
            };
            if self.correlation.fraction() > 0.0 {
                text += &format!(" (correlation {})", self.correlation);
            }
            if self.keep_order {
                text += ", order kept";
            }
        }
        Some(text)
    }

    fn is_none(&self) -> bool {
        self.mean == Span::ZERO && self.jitter == Span::ZERO
    }

    fn load(&mut self, base: &Path, found: &mut Contradictions) {
        let Distribution::Table(table) = &self.distribution else { return };
        self.distribution = match Table::read(&base.join(&table.file)) {
            Ok(table) => Distribution::Table(table),
            Err(error) => {
                let fix = "a file in the `.dist` format of iproute2; paths are relative to this \
                           file";
                found.add("distribution.table", error.to_string(), fix);
                Distribution::Uniform
            }
        }
    }

    fn keep_loaded(&mut self, before: &Self) {
        if let (Distribution::Table(table), Distribution::Table(loaded)) =
            (&mut self.distribution, &before.distribution)
            && table.file == loaded.file
        {
            *table = loaded.clone();
        }
    }

    fn quantity(&mut self, key: &str) -> Option<Quantity<'_>> {
        match key {
            "delay" => Some(Quantity::Time(&mut self.mean)),
            "jitter" => Some(Quantity::Time(&mut self.jitter)),
            _ => None,
        }
    }

    fn least_delay(&self) -> Span {
        self.at(self.distribution.least())
    }

    fn is_random(&self) -> bool {
        self.jitter != Span::ZERO
    }

    fn has_state(&self) -> bool {
        self.correlation.fraction() > 0.0
    }

    fn flow(&self) -> Correlated {
        Correlated::new(self.correlation)
    }

    fn change_flow(&self, flow: &mut Correlated, before: &Self) {
        // The state is that of the correlation only, so other changes keep it.
        if self.correlation != before.correlation {
            *flow = self.flow();
        }
    }

    fn decide_delay(&self, flow: &mut Correlated, frame: &Arrival<'_>, decision: &mut Decision) {
        decision.delay = match decision.overtakes {
            true => Span::ZERO,
            false if self.jitter == Span::ZERO => self.mean,
            false => {
                let draws = frame.draw.of(Purpose::Jitter);
                self.at(flow.shaped(&self.distribution, draws, frame.index))
            }
        };
    }

    fn decide_copy(&self, draw: Draw, index: u64, decision: &mut Decision) {
        // Without correlation: a copy must not move the state of its flow.
        decision.delay = match self.jitter {
            Span::ZERO => self.mean,
            _ => self.at(self.distribution.quantile(draw.uniform(Purpose::Jitter, index))),
        };
    }
}
