//! The performance map: measured performance of models by network and traffic conditions.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
mod compact;
mod figures;
mod near;
mod point;

pub use figures::{Figures, Quantiles};
pub use near::Near;
pub use point::Point;

use self::near::Index;
use crate::conditions::Conditions;
use crate::model::ModelId;
use crate::platform::Arc;
use alloc::collections::BTreeMap;
use serde::{Deserialize, Serialize};

/// Version of the file format that this code reads and writes.
const FORMAT: u32 = 1;

/// Error while reading a map.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// Not JSON, or not a performance map.
    #[error("this is not a performance map: {0}")]
    Form(#[from] serde_json::Error),
    /// The format is not the one that this version reads.
    #[error("this performance map has format {0}; this version reads format {FORMAT}")]
    Later(u32),
    /// Not a map in the compact form of this version.
    #[error("these bytes are not a performance map in the compact form that this version reads")]
    Compact,
    /// The compact form has room for less.
    #[error("the compact form has room for 65,535 conditions, and as many points of a model")]
    TooLarge,
    /// A figure is out of range.
    #[error("a point of {0} has an invalid figure: use numbers >= 0, and shares from 0 to 1")]
    Figure(ModelId),
}

/// Measured performance of models by conditions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PerformanceMap {
    form: u32,
    points: BTreeMap<ModelId, Vec<Point>>,
    /// Search index over the points.
    #[serde(skip)]
    index: Index,
}

impl PerformanceMap {
    /// A map without points.
    pub fn new() -> Self {
        Self { form: FORMAT, points: BTreeMap::new(), index: Index::default() }
    }

    /// The built-in map: the library's own models over a grid of networks, measured in virtual
    /// time (`docs/director.md` describes how). Empty without the feature `map`.
    pub fn shipped() -> Arc<Self> {
        #[cfg(feature = "map")]
        let read =
            || Self::from_bytes(include_bytes!("../../map.bin")).unwrap_or_else(|_| Self::new());
        #[cfg(not(feature = "map"))]
        let read = Self::new;
        #[cfg(feature = "std")]
        {
            static MAP: std::sync::OnceLock<Arc<PerformanceMap>> = std::sync::OnceLock::new();
            MAP.get_or_init(|| Arc::new(read())).clone()
        }
        #[cfg(not(feature = "std"))]
        Arc::new(read())
    }

    /// Reads a map from JSON.
    ///
    /// # Errors
    /// [`MapError`] if the text is not a map, has another format, or has an invalid figure.
    pub fn from_json(text: &str) -> Result<Self, MapError> {
        let mut map: Self = serde_json::from_str(text)?;
        if map.form != FORMAT {
            return Err(MapError::Later(map.form));
        }
        for (model, points) in &map.points {
            if points.iter().any(|point| !point.is_valid()) {
                return Err(MapError::Figure(*model));
            }
            points.iter().for_each(|point| map.index.add(*model, point));
        }
        Ok(map)
    }

    /// Writes the map as JSON.
    pub fn to_json(&self) -> String {
        // One line per point.
        let text = serde_json::to_string(self).unwrap_or_default();
        text.replace("{\"at\"", "\n{\"at\"")
    }

    /// Adds a point.
    pub fn add(&mut self, model: ModelId, point: Point) {
        self.index.add(model, &point);
        self.points.entry(model).or_default().push(point);
    }

    /// The points of a model.
    pub fn points(&self, model: ModelId) -> &[Point] {
        self.points.get(&model).map_or(&[], Vec::as_slice)
    }

    /// The models with points.
    pub fn models(&self) -> impl Iterator<Item = ModelId> {
        self.points.keys().copied()
    }

    /// The points near `here`, as input of [`predict`](Self::predict).
    pub fn near(&self, here: &Conditions) -> Near {
        self.index.near(here)
    }

    /// The points near `here`, and those near `here` with another loss.
    pub fn near_both(&self, here: &Conditions, loss: f64) -> [Near; 2] {
        self.index.near_both(here, loss)
    }

    /// Predicts the performance of `model` near some points, and returns the distance to the
    /// nearest one. The prediction is analytic, corrected by the errors at the sixteen nearest
    /// points. So the map need not be dense: the analytic model covers message and group size.
    /// `None` if the map has no point in reach.
    pub fn predict(&self, model: ModelId, near: &Near) -> Option<(Figures, f64)> {
        self.index.predict(model, near)
    }
}

impl Point {
    fn is_valid(&self) -> bool {
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
    fn the_last_of_more_is_later() {
        let all = Quantiles { p50: 10.0, p90: 30.0, p99: 50.0 };
        let one = all.last_of(1.0);
        assert!((one.p50 - 10.0).abs() + (one.p90 - 30.0).abs() + (one.p99 - 50.0).abs() < 1e-9);
        // Half of the pairs are complete at the 71st percentile of one.
        let two = all.last_of(2.0).p50;
        let requested = 10.0 + 20.0 * (2.0 * 0.292_893_f64).recip().ln() / 5_f64.ln();
        assert!((two - requested).abs() < 1e-3, "{two}, {requested}");
        let twenty = all.last_of(20.0);
        assert!(twenty.p50 > 30.0 && twenty.p50 < twenty.p90 && twenty.p90 <= twenty.p99);
        assert_eq!(all.last_of(1_000.0).p50.round(), 50.0);
    }

    #[test]
    fn to_look_in_two_places_at_once_is_to_look_twice() {
        let map = PerformanceMap::shipped();
        let here = Conditions { loss: 0.01, burst: 3.0, group: 20.0, ..Conditions::default() };
        let both = map.near_both(&here, 0.2);
        let each = [map.near(&here), map.near(&Conditions { loss: 0.2, ..here })];
        for model in map.models() {
            let output =
                |near: &Near| map.predict(model, near).map(|(f, far)| (f.delay_ms.p50, far));
            assert_eq!(both.each_ref().map(output), each.each_ref().map(output), "{model}");
        }
    }

    #[test]
    fn between_two_places_it_is_between_what_they_say() {
        let mut map = PerformanceMap::new();
        let at = |loss| Conditions { loss, ..Conditions::default() };
        map.add(ModelId::UdpArq, Point { at: at(0.0), figures: figures(1.0, 1.0, 100.0) });
        map.add(ModelId::UdpArq, Point { at: at(0.3), figures: figures(9.0, 0.9, 300.0) });
        let (there, distance) = map.predict(ModelId::UdpArq, &map.near(&at(0.3))).unwrap();
        assert!(distance < 1e-9 && (there.delay_ms.p50 - 9.0).abs() < 0.01);
        let (between, distance) = map.predict(ModelId::UdpArq, &map.near(&at(0.01))).unwrap();
        assert!(distance > 1.0 && between.delay_ms.p50 > 1.0 && between.delay_ms.p50 < 9.0);
        assert!(between.delivery > 0.9 && between.delivery < 1.0);
        assert!(map.predict(ModelId::Mqtt, &map.near(&at(0.0))).is_none());
        let far = Conditions { rate_bit_s: 1.0, ..at(0.0) };
        assert!(
            map.predict(ModelId::UdpArq, &map.near(&far)).is_none(),
            "the map does not reach there"
        );
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
            ("\"form\":1", "\"form\":2", "format 2"),
            ("\"delivery\":1.0", "\"delivery\":1.5", "a point of mqtt"),
            ("\"bytes\":100.0", "\"bytes\":-1.0", "a point of mqtt"),
            ("\"mqtt\"", "\"carrier-pigeon\"", "not a performance map"),
        ] {
            let text = map.to_json();
            assert!(text.contains(from), "{text}");
            let error = PerformanceMap::from_json(&text.replacen(from, to, 1)).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        }
        assert!(PerformanceMap::from_json("[1").is_err());
    }
}
