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
