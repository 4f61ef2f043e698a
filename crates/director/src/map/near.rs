//! What a map says between the places where something was measured.

use super::{Figures, Point, Quantiles};
use crate::analytic;
use crate::conditions::Conditions;
use crate::model::ModelId;
use crate::targets::Pattern;
use std::collections::BTreeMap;
use std::ops::Range;

/// As many near places are looked at.
const NEAR: usize = 16;
/// Beyond this distance, in doublings, a place says nothing any more.
const FAR: f32 = 6.0;
/// Within which of these there are enough is seen first: to count is faster than to sort.
const REACHES: [f32; 4] = [2.0, 3.0, 4.0, 5.0];
/// Of so many the nearest are taken where a model was measured: not each was at each.
const MOST: usize = 64;
/// A shortfall of delivery smaller than this is as good as none.
const LEAST_SHORT: f64 = 1e-3;
/// Delays, bytes and the shortfall of delivery.
const FIGURES: usize = 5;
const DIMENSIONS: usize = 8;
/// Of which the first are of loss.
const OF_LOSS: usize = 2;

/// The places of a map, and by what each model's figures are off there what arithmetic says, as
/// logarithms.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Index {
    /// A list for each dimension, so that many places are compared at once.
    places: [Vec<f32>; DIMENSIONS],
    numbers: BTreeMap<[u32; DIMENSIONS], usize>,
    off: BTreeMap<ModelId, Vec<Option<[f32; FIGURES]>>>,
}

/// The nearest places to some conditions, the nearest first.
#[derive(Debug, Clone)]
pub struct Near {
    here: Conditions,
    places: Vec<(f32, usize)>,
    /// Whether there are more within reach.
    more: bool,
}

impl Index {
    /// Adds what was measured of a model.
    pub fn add(&mut self, model: ModelId, point: &Point) {
        let (base, seen) = (base(model, &point.at), logarithms(&point.figures));
        let off = std::array::from_fn(|at| (seen[at] - base[at]) as f32);
        let place = point.at.place().map(|value| value as f32);
        let count = self.places[0].len();
        let known = *self.numbers.entry(place.map(f32::to_bits)).or_insert(count);
        let measured = self.off.entry(model).or_default();
        // What was measured there twice counts twice.
        let again = measured.get(known).is_some_and(Option::is_some);
        let number = if again { count } else { known };
        if number == count {
            self.places.iter_mut().zip(place).for_each(|(all, value)| all.push(value));
        }
        measured.resize(measured.len().max(number + 1), None);
        measured[number] = Some(off);
    }

    /// The places near `here`.
    pub fn near(&self, here: &Conditions) -> Near {
        self.nearest(here, self.squares(here), |_| true)
    }

    /// The places near `here`, and those near the same with another loss.
    pub fn near_both(&self, here: &Conditions, loss: f64) -> [Near; 2] {
        let squares = self.squares(here);
        let other = Conditions { loss, ..*here };
        let both = [(*here, squares.clone()), (other, squares)];
        both.map(|(here, squares)| self.nearest(&here, squares, |_| true))
    }

    /// Squares of the distances of all places, by all but the dimensions of loss.
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

    /// The nearest that count, by `squares` without those of loss.
    fn nearest(
        &self,
        here: &Conditions,
        mut squares: Vec<f32>,
        counts: impl Fn(usize) -> bool,
    ) -> Near {
        self.add_squares(&mut squares, here, 0..OF_LOSS);
        let others = squares.iter_mut().enumerate().filter(|(number, _)| !counts(*number));
        others.for_each(|(_, square)| *square = f32::INFINITY);
        // Numbers that are not negative are in the order of their bits: whole numbers, with that
        // of the place in the lower half, are compared faster than pairs.
        let key =
            |(number, square): (u32, &f32)| (u64::from(square.to_bits()) << 32) | u64::from(number);
        let reach = REACHES.into_iter().find(|reach| {
            let near = |square: &f32| u32::from(*square <= reach * reach);
            squares.iter().map(near).sum::<u32>() >= MOST as u32
        });
        let reach = reach.unwrap_or(FAR);
        let within = (0_u32..).zip(&squares).filter(|(_, square)| **square <= reach * reach);
        let mut keys: Vec<u64> = within.map(key).collect();
        let more = keys.len() > MOST || reach < FAR;
        if keys.len() > MOST {
            keys.select_nth_unstable(MOST);
            keys.truncate(MOST);
        }
        keys.sort_unstable();
        let place = |key: u64| (f32::from_bits((key >> 32) as u32).sqrt(), key as u32 as usize);
        Near { here: *here, places: keys.into_iter().map(place).collect(), more }
    }

    /// What arithmetic says of a model, corrected as it is corrected at the nearest places,
    /// weighted by the inverse of their distance's fourth power (Shepard); with how far the
    /// nearest is. Nothing where the model was measured nowhere within reach.
    pub fn predict(&self, model: ModelId, near: &Near) -> Option<(Figures, f64)> {
        let measured = self.off.get(&model)?;
        let known = |number: usize| measured.get(number).copied().flatten();
        let own = |near: &Near| {
            let there = |(far, number): &(f32, usize)| Some((*far, known(*number)?));
            Around::of(near.places.iter().filter_map(there).take(NEAR))
        };
        let mut around = own(near);
        if around.count < NEAR && near.more {
            around = {
                let squares = self.squares(&near.here);
                own(&self.nearest(&near.here, squares, |number| known(number).is_some()))
            };
        }
        let nearest = f64::from(around.nearest?);
        let base = base(model, &near.here);
        let [p50, p90, p99, bytes, short] = std::array::from_fn(|figure| {
            (base[figure] + f64::from(around.off[figure] / around.weight)).exp()
        });
        let (p90, p99) = (p90.max(p50), p99.max(p90).max(p50));
        let delay_ms = Quantiles { p50, p90, p99 };
        let delivery = (1.0 + LEAST_SHORT - short).clamp(0.0, 1.0);
        let figures =
            Figures { delay_ms, delay_interval: None, delivery, bytes, energy: 0.0, messages: 0.0 };
        Some((figures, nearest))
    }
}

/// What is known around some conditions, added up.
#[derive(Default)]
struct Around {
    count: usize,
    nearest: Option<f32>,
    weight: f32,
    off: [f32; FIGURES],
}

impl Around {
    /// Of the distances of places and what is off there, the nearest first.
    fn of(places: impl Iterator<Item = (f32, [f32; FIGURES])>) -> Self {
        let mut around = Self::default();
        for (far, off) in places {
            let weight = 1.0 / (far.powi(4) + 1e-6);
            around.count += 1;
            around.nearest.get_or_insert(far);
            around.weight += weight;
            around.off.iter_mut().zip(off).for_each(|(sum, off)| *sum += weight * off);
        }
        around
    }
}

/// Figures as logarithms: they lie on scales of doublings, as distances do.
fn logarithms(figures: &Figures) -> [f64; FIGURES] {
    let Quantiles { p50, p90, p99 } = figures.delay_ms;
    let short = 1.0 - figures.delivery + LEAST_SHORT;
    [p50, p90, p99, figures.bytes, short].map(|figure| figure.max(1e-9).ln())
}

/// What arithmetic says; where it says nothing, one of everything.
fn base(model: ModelId, at: &Conditions) -> [f64; FIGURES] {
    let said = analytic::predict(model, Pattern::PublishCollect, at);
    said.map_or([0.0; FIGURES], |figures| logarithms(&figures))
}
