//! Interpolation between the measured points of a map.

use super::figures::{Figures, Quantiles};
use super::point::Point;
use crate::conditions::Conditions;
use crate::model::ModelId;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::targets::Pattern;
use alloc::collections::BTreeMap;
use core::ops::Range;

/// Number of nearest points used.
const NEIGHBOURS: usize = 16;
/// Points beyond this distance, in doublings, are ignored.
const MAX_DISTANCE: f32 = 6.0;
/// Search radii, tried in order until one has enough points: counting is faster than sorting.
const RADII: [f32; 4] = [2.0, 3.0, 4.0, 5.0];
/// Number of nearest points kept before selection by model: not every model was measured at
/// each point.
const CANDIDATES: usize = 64;
/// A delivery shortfall below this counts as none.
const MIN_SHORTFALL: f64 = 1e-3;
/// Delay quantiles, bytes and delivery shortfall.
const FIGURES: usize = 5;
const DIMENSIONS: usize = 8;
/// The first dimensions describe loss.
const OF_LOSS: usize = 2;

/// The points of a map, and each model's deviation from the analytic prediction there, as
/// logarithms.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Index {
    /// One list per dimension, so that the compiler can vectorise the search.
    places: [Vec<f32>; DIMENSIONS],
    numbers: BTreeMap<[u32; DIMENSIONS], usize>,
    deviation: BTreeMap<ModelId, Vec<Option<[f32; FIGURES]>>>,
}

/// The nearest points to some conditions, nearest first.
#[derive(Debug, Clone)]
pub struct Near {
    here: Conditions,
    places: Vec<(f32, usize)>,
    /// Whether more points are in reach.
    more: bool,
}

impl Index {
    /// Adds a measurement of a model.
    pub fn add(&mut self, model: ModelId, point: &Point) {
        let (base, seen) = (base(model, &point.at), logarithms(&point.figures));
        let deviation = core::array::from_fn(|at| (seen[at] - base[at]) as f32);
        let place = point.at.place().map(|value| value as f32);
        let count = self.places[0].len();
        let known = *self.numbers.entry(place.map(f32::to_bits)).or_insert(count);
        let measured = self.deviation.entry(model).or_default();
        // A repeated measurement becomes a separate point, so it counts twice.
        let again = measured.get(known).is_some_and(Option::is_some);
        let number = if again { count } else { known };
        if number == count {
            self.places.iter_mut().zip(place).for_each(|(all, value)| all.push(value));
        }
        measured.resize(measured.len().max(number + 1), None);
        measured[number] = Some(deviation);
    }

    /// The points near `here`.
    pub fn near(&self, here: &Conditions) -> Near {
        self.nearest(here, self.squares(here), |_| true)
    }

    /// The points near `here`, and those near `here` with another loss.
    pub fn near_both(&self, here: &Conditions, loss: f64) -> [Near; 2] {
        let squares = self.squares(here);
        let other = Conditions { loss, ..*here };
        let both = [(*here, squares.clone()), (other, squares)];
        both.map(|(here, squares)| self.nearest(&here, squares, |_| true))
    }

    /// Squared distances of all points, without the dimensions of loss.
    fn squares(&self, here: &Conditions) -> Vec<f32> {
        let mut squares = vec![0_f32; self.places[0].len()];
        self.add_squares(&mut squares, here, OF_LOSS..DIMENSIONS);
        squares
    }

    fn add_squares(&self, squares: &mut [f32], here: &Conditions, dimensions: Range<usize>) {
        let place = here.place();
        for dimension in dimensions {
            let here = place[dimension] as f32;
            let pairs = squares.iter_mut().zip(&self.places[dimension]);
            pairs.for_each(|(sum, place)| *sum += (place - here) * (place - here));
        }
    }

    /// The nearest points that `counts` accepts; `squares` lacks the dimensions of loss.
    fn nearest(
        &self,
        here: &Conditions,
        mut squares: Vec<f32>,
        counts: impl Fn(usize) -> bool,
    ) -> Near {
        self.add_squares(&mut squares, here, 0..OF_LOSS);
        let others = squares.iter_mut().enumerate().filter(|(number, _)| !counts(*number));
        others.for_each(|(_, square)| *square = f32::INFINITY);
        // Non-negative floats sort like their bits, so integers with the bits in the upper and
        // the point's number in the lower half replace pairs: they compare faster.
        let key =
            |(number, square): (u32, &f32)| (u64::from(square.to_bits()) << 32) | u64::from(number);
        let radius = RADII.into_iter().find(|radius| {
            let near = |square: &f32| u32::from(*square <= radius * radius);
            squares.iter().map(near).sum::<u32>() >= CANDIDATES as u32
        });
        let radius = radius.unwrap_or(MAX_DISTANCE);
        let within = (0_u32..).zip(&squares).filter(|(_, square)| **square <= radius * radius);
        let mut keys: Vec<u64> = within.map(key).collect();
        let more = keys.len() > CANDIDATES || radius < MAX_DISTANCE;
        if keys.len() > CANDIDATES {
            keys.select_nth_unstable(CANDIDATES);
            keys.truncate(CANDIDATES);
        }
        keys.sort_unstable();
        let place = |key: u64| (f32::from_bits((key >> 32) as u32).sqrt(), key as u32 as usize);
        Near { here: *here, places: keys.into_iter().map(place).collect(), more }
    }

    /// The analytic prediction, corrected by the deviations at the nearest points, which are
    /// weighted by the inverse fourth power of their distance (Shepard); and the distance of
    /// the nearest. `None` if no measurement of the model is in reach.
    pub fn predict(&self, model: ModelId, near: &Near) -> Option<(Figures, f64)> {
        let measured = self.deviation.get(&model)?;
        let known = |number: usize| measured.get(number).copied().flatten();
        let own = |near: &Near| {
            let there = |(distance, number): &(f32, usize)| Some((*distance, known(*number)?));
            WeightedSum::of(near.places.iter().filter_map(there).take(NEIGHBOURS))
        };
        let mut sum = own(near);
        // The candidates are nearest over all models: of one that was measured elsewhere they have
        // few.
        if sum.count < NEIGHBOURS && near.more {
            sum = {
                let squares = self.squares(&near.here);
                own(&self.nearest(&near.here, squares, |number| known(number).is_some()))
            };
        }
        let nearest = f64::from(sum.nearest?);
        let base = base(model, &near.here);
        let [p50, p90, p99, bytes, short] = core::array::from_fn(|figure| {
            (base[figure] + f64::from(sum.deviation[figure] / sum.weight)).exp()
        });
        let (p90, p99) = (p90.max(p50), p99.max(p90).max(p50));
        let delay_ms = Quantiles { p50, p90, p99 };
        let delivery = (1.0 + MIN_SHORTFALL - short).clamp(0.0, 1.0);
        let figures =
            Figures { delay_ms, delay_interval: None, delivery, bytes, energy: 0.0, messages: 0.0 };
        Some((figures, nearest))
    }
}

/// Weighted sum of deviations around some conditions.
#[derive(Default)]
struct WeightedSum {
    count: usize,
    nearest: Option<f32>,
    weight: f32,
    deviation: [f32; FIGURES],
}

impl WeightedSum {
    /// Sums points given by distance and deviation, nearest first.
    fn of(places: impl Iterator<Item = (f32, [f32; FIGURES])>) -> Self {
        let mut sum = Self::default();
        for (distance, deviation) in places {
            // At a measured point the weight stays finite, and far above all others.
            let weight = 1.0 / (distance.powi(4) + 1e-6);
            sum.count += 1;
            sum.nearest.get_or_insert(distance);
            sum.weight += weight;
            sum.deviation
                .iter_mut()
                .zip(deviation)
                .for_each(|(sum, deviation)| *sum += weight * deviation);
        }
        sum
    }
}

/// Logarithms of the figures: distances are logarithmic, too.
fn logarithms(figures: &Figures) -> [f64; FIGURES] {
    let Quantiles { p50, p90, p99 } = figures.delay_ms;
    let short = 1.0 - figures.delivery + MIN_SHORTFALL;
    [p50, p90, p99, figures.bytes, short].map(|figure| figure.max(1e-9).ln())
}

/// The analytic prediction, or zeros (a factor of 1) without one.
fn base(model: ModelId, at: &Conditions) -> [f64; FIGURES] {
    let predicted = model.predict(Pattern::PublishCollect, at);
    predicted.map_or([0.0; FIGURES], |figures| logarithms(&figures))
}
