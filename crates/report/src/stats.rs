//! Statistics of a report.

/// A metric over the repeats of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The median; the mean of the two middle values for an even number.
    pub median: f64,
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
    /// Number of values.
    pub count: usize,
}

impl Spread {
    /// The spread of these values; ignores NaN. `None` without values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (min, max, count) = (*values.first()?, *values.last()?, values.len());
        // For an odd number both indices are the same.
        let median = f64::midpoint(values[(count - 1) / 2], values[count / 2]);
        Some(Self { median, min, max, count })
    }

    /// Applies an increasing function, such as a change of unit.
    pub fn map(self, f: impl Fn(f64) -> f64) -> Self {
        Self { median: f(self.median), min: f(self.min), max: f(self.max), ..self }
    }
}

/// Maximum number of points of a line in a chart: more only make the page larger.
pub(crate) const POINTS: usize = 300;

/// A cumulative distribution in percent of `total`, thinned to [`POINTS`]. Sorts the values. If
/// `total` exceeds the number of values, the curve ends below 100 %.
pub(crate) fn distribution(values: &mut [f64], total: usize) -> Vec<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let share = |rank: usize| 100.0 * (rank + 1) as f64 / total.max(values.len()) as f64;
    thin(values.len()).into_iter().map(|rank| (values[rank], share(rank))).collect()
}

/// At most [`POINTS`] indices below `len`, evenly spaced, including both ends.
pub(crate) fn thin(len: usize) -> Vec<usize> {
    if len <= POINTS {
        return (0..len).collect();
    }
    // `len - 1` at both places, so that the last point is the last value.
    (0..POINTS).map(|point| point * (len - 1) / (POINTS - 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_of_odd_even_and_none() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]).unwrap().median, 2.0);
        let even = Spread::of([4.0, 1.0, f64::NAN]).unwrap();
        assert_eq!((even.median, even.min, even.max, even.count), (2.5, 1.0, 4.0, 2));
        assert_eq!(Spread::of([f64::NAN]), None);
    }

    /// Numbers of all sizes and signs, in a fixed order.
    fn numbers(count: usize) -> Vec<f64> {
        let mut seed = count as u64 + 1;
        let next = |_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            f64::from((seed >> 32) as i32) * 10_f64.powi((seed >> 20 & 15) as i32 - 8)
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn a_spread_does_not_depend_on_the_order_and_has_half_of_the_values_on_each_side() {
        for count in 1..60 {
            let values = numbers(count);
            let spread = Spread::of(values.iter().copied()).unwrap();
            assert_eq!(Spread::of(values.iter().rev().copied()), Some(spread));
            let below = values.iter().filter(|value| **value < spread.median).count();
            let above = values.iter().filter(|value| **value > spread.median).count();
            assert!(below <= count / 2 && above <= count / 2, "{below} {above} of {count}");
            assert!(values.contains(&spread.min) && values.contains(&spread.max));
            assert!(values.iter().all(|value| (spread.min..=spread.max).contains(value)));
            assert_eq!(spread.count, count);
        }
    }

    #[test]
    fn what_is_no_number_does_not_count() {
        for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Spread::of([wrong]), None);
            let spread = Spread::of([wrong, 5.0, wrong, 3.0]).unwrap();
            assert_eq!((spread.median, spread.min, spread.max, spread.count), (4.0, 3.0, 5.0, 2));
        }
        let equal = Spread::of([7.0; 9]).unwrap();
        assert_eq!((equal.median, equal.min, equal.max), (7.0, 7.0, 7.0));
        // Their sum is beyond the range of a double, their mean is not.
        assert_eq!(Spread::of([f64::MAX, f64::MAX]).unwrap().median, f64::MAX);
    }

    #[test]
    fn thinning_keeps_the_ends_the_order_and_even_steps() {
        for len in (0..2_000).chain([1 << 20, (1 << 20) + 1]) {
            let kept = thin(len);
            assert_eq!(kept.len(), len.min(POINTS));
            assert_eq!(
                (kept.first(), kept.last()),
                ((len > 0).then_some(&0), len.checked_sub(1).as_ref())
            );
            let steps = || kept.windows(2).map(|pair| pair[1] - pair[0]);
            assert!(steps().all(|step| step >= 1), "{len}");
            let (least, most) = (steps().min().unwrap_or(1), steps().max().unwrap_or(1));
            assert!(most - least <= 1, "{len}: {least} to {most}");
        }
    }

    #[test]
    fn a_distribution_rises_to_its_share_and_never_beyond() {
        for (count, total) in [(1, 1), (1, 0), (2, 7), (300, 300), (301, 301), (4_000, 9_000)] {
            let points = distribution(&mut numbers(count), total);
            let share = 100.0 * count as f64 / total.max(count) as f64;
            assert!((points.last().unwrap().1 - share).abs() < 1e-9, "{count} of {total}");
            let rises = |pair: &[(f64, f64)]| pair[0].0 <= pair[1].0 && pair[0].1 < pair[1].1;
            assert!(points.windows(2).all(rises) && points[0].1 > 0.0);
        }
    }

    #[test]
    fn a_distribution_ends_at_the_share_that_came() {
        let mut values: Vec<f64> = (0..5000).map(f64::from).rev().collect();
        let points = distribution(&mut values, 10_000);
        assert_eq!(points.len(), POINTS);
        assert_eq!(points[0], (0.0, 0.01));
        assert_eq!(points[POINTS - 1], (4999.0, 50.0));
        assert!(distribution(&mut [], 10).is_empty());
    }
}
