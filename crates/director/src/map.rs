//! The performance map: how models did under which conditions.

use crate::analytic;
use crate::conditions::Conditions;
use crate::model::ModelId;
use crate::targets::Pattern;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// The form of the file that this reads and writes.
const FORM: u32 = 1;

/// What a figure was in most cases.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    /// The median.
    pub p50: f64,
    /// What nine tenths did not exceed.
    pub p90: f64,
    /// What 99 of 100 did not exceed.
    pub p99: f64,
}

/// How a model did.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// From when a message was meant to be sent until it (and its answer, where there is
    /// one) was there, in ms.
    pub delay_ms: Quantiles,
    /// Between what they were in repeats, where there were some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_interval: Option<(Quantiles, Quantiles)>,
    /// The share of messages that arrived, 0 to 1.
    pub delivery: f64,
    /// Bytes on the wire for each message and member.
    pub bytes: f64,
    /// Energy for each message and member, in J; 0 where nobody measured it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub energy: f64,
    /// How many messages this rests on.
    pub messages: f64,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Figures {
    /// The figures of a model that was measured several times in one place: means, and for
    /// the delay the least and the greatest. `runs` is not empty.
    pub fn of_repeats(runs: &[Self]) -> Self {
        let count = runs.len().max(1) as f64;
        let mean = |of: &dyn Fn(&Self) -> f64| runs.iter().map(of).sum::<f64>() / count;
        let fold = |start: f64, with: fn(f64, f64) -> f64| {
            let all = |of: &dyn Fn(&Self) -> f64| runs.iter().map(of).fold(start, with);
            Quantiles {
                p50: all(&|run| run.delay_ms.p50),
                p90: all(&|run| run.delay_ms.p90),
                p99: all(&|run| run.delay_ms.p99),
            }
        };
        Self {
            delay_ms: Quantiles {
                p50: mean(&|run| run.delay_ms.p50),
                p90: mean(&|run| run.delay_ms.p90),
                p99: mean(&|run| run.delay_ms.p99),
            },
            delay_interval: (runs.len() > 1)
                .then(|| (fold(f64::INFINITY, f64::min), fold(0.0, f64::max))),
            delivery: mean(&|run| run.delivery),
            bytes: mean(&|run| run.bytes),
            energy: mean(&|run| run.energy),
            messages: runs.iter().map(|run| run.messages).sum(),
        }
    }
}

/// A place of the map.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Where it is.
    pub at: Conditions,
    /// How the model did there.
    pub figures: Figures,
}

/// Why a map cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// It is no JSON, or not of this form.
    #[error("this is no performance map: {0}")]
    Form(#[from] serde_json::Error),
    /// It is of a later form.
    #[error("this performance map is of form {0}; this version reads form {FORM}")]
    Later(u32),
    /// A figure is none.
    #[error("a point of {0} has a figure that is no number from 0 on")]
    Figure(ModelId),
}

/// How models did under which conditions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PerformanceMap {
    form: u32,
    points: BTreeMap<ModelId, Vec<Point>>,
    /// The points as they are looked for.
    #[serde(skip)]
    known: BTreeMap<ModelId, Vec<Known>>,
}

/// As many near points are looked at.
const NEAR: usize = 16;
/// Beyond this distance, in doublings, a point says nothing any more.
const FAR: f64 = 6.0;

impl PerformanceMap {
    /// A map without points.
    pub fn new() -> Self {
        Self { form: FORM, points: BTreeMap::new(), known: BTreeMap::new() }
    }

    /// The map that the library brings along: its own models over a grid of networks, in
    /// virtual time (`docs/director.md` says how it was made). Empty without the feature `map`.
    pub fn shipped() -> Arc<Self> {
        static MAP: OnceLock<Arc<PerformanceMap>> = OnceLock::new();
        #[cfg(feature = "map")]
        let read = || Self::from_json(include_str!("../map.json")).unwrap_or_else(|_| Self::new());
        #[cfg(not(feature = "map"))]
        let read = Self::new;
        MAP.get_or_init(|| Arc::new(read())).clone()
    }

    /// Reads a map.
    ///
    /// # Errors
    /// When it is none, is of a later form, or holds what is no figure.
    pub fn from_json(text: &str) -> Result<Self, MapError> {
        let mut map: Self = serde_json::from_str(text)?;
        if map.form != FORM {
            return Err(MapError::Later(map.form));
        }
        for (model, points) in &map.points {
            let known = points.iter().map(|point| Known::of(*model, point)).collect();
            map.known.insert(*model, known);
            if points.iter().any(|point| !point.is_sound()) {
                return Err(MapError::Figure(*model));
            }
        }
        Ok(map)
    }

    /// The map as a file.
    pub fn to_json(&self) -> String {
        // A line for each point.
        let text = serde_json::to_string(self).unwrap_or_default();
        text.replace("{\"at\"", "\n{\"at\"")
    }

    /// Adds a place.
    pub fn add(&mut self, model: ModelId, point: Point) {
        self.known.entry(model).or_default().push(Known::of(model, &point));
        self.points.entry(model).or_default().push(point);
    }

    /// The models that it knows something of.
    pub fn models(&self) -> impl Iterator<Item = ModelId> {
        self.points.keys().copied()
    }

    /// What `model` may be expected to do at `here`: what arithmetic says, corrected as it is
    /// corrected at the sixteen nearest places, weighted by the inverse of their distance's fourth power
    /// (Shepard); with how far the nearest is. So the map need not be dense: of a longer
    /// message or a larger group arithmetic knows what it does to all models. Nothing where
    /// the map has no place within reach.
    pub fn predict(&self, model: ModelId, here: &Conditions) -> Option<(Figures, f64)> {
        let mut near: [Option<(f64, &Known)>; NEAR] = [None; NEAR];
        let place = here.place();
        for known in self.known.get(&model)? {
            let squares = place.iter().zip(known.place).map(|(a, b)| (a - b).powi(2));
            let distance = squares.sum::<f64>().sqrt();
            if distance > FAR {
                continue;
            }
            // The farthest of the near gives way.
            let farthest = near.iter_mut().max_by(|a, b| {
                let far = |slot: &Option<(f64, &Known)>| slot.map_or(f64::MAX, |(far, _)| far);
                far(a).total_cmp(&far(b))
            });
            if let Some(slot) = farthest
                && slot.is_none_or(|(far, _)| distance < far)
            {
                *slot = Some((distance, known));
            }
        }
        let found = || near.iter().flatten();
        let nearest = found().map(|(distance, _)| *distance).fold(f64::MAX, f64::min);
        if nearest == f64::MAX {
            return None;
        }
        let weight = |distance: f64| 1.0 / (distance.powi(4) + 1e-6);
        let all: f64 = found().map(|(distance, _)| weight(*distance)).sum();
        let [p50, p90, p99, bytes, short] = std::array::from_fn(|figure| {
            let off = found().map(|(distance, known)| weight(*distance) * known.off[figure]);
            (base(model, here)[figure] + off.sum::<f64>() / all).exp()
        });
        let (p90, p99) = (p90.max(p50), p99.max(p90).max(p50));
        let delay_ms = Quantiles { p50, p90, p99 };
        let delivery = (1.0 + LEAST_SHORT - short).clamp(0.0, 1.0);
        let figures =
            Figures { delay_ms, delay_interval: None, delivery, bytes, energy: 0.0, messages: 0.0 };
        Some((figures, nearest))
    }
}

/// A point as it is looked for.
#[derive(Debug, Clone, PartialEq)]
struct Known {
    place: [f64; 8],
    /// By what its figures are off what arithmetic says, as logarithms.
    off: [f64; 5],
}

impl Known {
    fn of(model: ModelId, point: &Point) -> Self {
        let (base, seen) = (base(model, &point.at), logarithms(&point.figures));
        Self { place: point.at.place(), off: std::array::from_fn(|at| seen[at] - base[at]) }
    }
}

/// A shortfall of delivery smaller than this is as good as none.
const LEAST_SHORT: f64 = 1e-3;

/// Delays, bytes, and the shortfall of delivery, as logarithms: they lie on scales of
/// doublings, as distances do.
fn logarithms(figures: &Figures) -> [f64; 5] {
    let Quantiles { p50, p90, p99 } = figures.delay_ms;
    let short = 1.0 - figures.delivery + LEAST_SHORT;
    [p50, p90, p99, figures.bytes, short].map(|figure| figure.max(1e-9).ln())
}

/// What arithmetic says; where it says nothing, one of everything.
fn base(model: ModelId, at: &Conditions) -> [f64; 5] {
    let said = analytic::predict(model, Pattern::PublishCollect, at);
    said.map_or([0.0; 5], |figures| logarithms(&figures))
}

impl Point {
    fn is_sound(&self) -> bool {
        let Figures { delay_ms, delivery, bytes, energy, messages, .. } = self.figures;
        let at = &self.at;
        let from_zero = [
            delay_ms.p50,
            delay_ms.p90,
            delay_ms.p99,
            bytes,
            energy,
            messages,
            at.burst,
            at.rate_bit_s,
            at.mtu,
            at.group,
            at.payload,
            at.messages_s,
        ];
        let shares = [delivery, at.loss];
        from_zero.iter().all(|value| value.is_finite() && *value >= 0.0)
            && shares.iter().all(|share| (0.0..=1.0).contains(share))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn figures(ms: f64, delivery: f64, bytes: f64) -> Figures {
        let delay_ms = Quantiles { p50: ms, p90: 2.0 * ms, p99: 4.0 * ms };
        Figures { delay_ms, delay_interval: None, delivery, bytes, energy: 0.0, messages: 1_000.0 }
    }

    #[test]
    fn between_two_places_it_is_between_what_they_say() {
        let mut map = PerformanceMap::new();
        let at = |loss| Conditions { loss, ..Conditions::default() };
        map.add(ModelId::UdpArq, Point { at: at(0.0), figures: figures(1.0, 1.0, 100.0) });
        map.add(ModelId::UdpArq, Point { at: at(0.3), figures: figures(9.0, 0.9, 300.0) });
        let (there, distance) = map.predict(ModelId::UdpArq, &at(0.3)).unwrap();
        assert!(distance < 1e-9 && (there.delay_ms.p50 - 9.0).abs() < 0.01);
        let (between, distance) = map.predict(ModelId::UdpArq, &at(0.01)).unwrap();
        assert!(distance > 1.0 && between.delay_ms.p50 > 1.0 && between.delay_ms.p50 < 9.0);
        assert!(between.delivery > 0.9 && between.delivery < 1.0);
        assert!(map.predict(ModelId::Mqtt, &at(0.0)).is_none());
        let far = Conditions { rate_bit_s: 1.0, ..at(0.0) };
        assert!(map.predict(ModelId::UdpArq, &far).is_none(), "the map does not reach there");
    }

    #[test]
    fn repeats_are_one_place_with_an_interval() {
        let runs = [figures(1.0, 1.0, 100.0), figures(3.0, 0.8, 300.0)];
        let both = Figures::of_repeats(&runs);
        assert_eq!((both.delay_ms.p50, both.delivery, both.bytes), (2.0, 0.9, 200.0));
        let (least, greatest) = both.delay_interval.unwrap();
        assert_eq!((least.p50, greatest.p50, both.messages), (1.0, 3.0, 2_000.0));
        assert_eq!(Figures::of_repeats(&runs[..1]).delay_interval, None);
    }

    #[test]
    fn maps_read_back_and_others_are_refused() {
        let mut map = PerformanceMap::new();
        let point = Point { at: Conditions::default(), figures: figures(1.0, 1.0, 100.0) };
        map.add(ModelId::Mqtt, point);
        assert_eq!(PerformanceMap::from_json(&map.to_json()).unwrap(), map);
        for (from, to, word) in [
            ("\"form\":1", "\"form\":2", "form 2"),
            ("\"delivery\":1.0", "\"delivery\":1.5", "a point of mqtt"),
            ("\"bytes\":100.0", "\"bytes\":-1.0", "a point of mqtt"),
            ("\"mqtt\"", "\"carrier-pigeon\"", "no performance map"),
        ] {
            let text = map.to_json();
            assert!(text.contains(from), "{text}");
            let error = PerformanceMap::from_json(&text.replacen(from, to, 1)).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        }
        assert!(PerformanceMap::from_json("[1").is_err());
    }
}
