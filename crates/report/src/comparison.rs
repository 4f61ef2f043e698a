//! Reference values and the measured values, compared.

use crate::reference::{Figure, ReferenceValue};
use crate::{Cell, Spread, Sweep, format};

/// A reference value and the measured value.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The cell.
    pub cell: Cell,
    /// Measured value over the repeats; `None` if not run or not measured.
    pub measured: Option<Spread>,
    /// Reference value.
    pub reference_value: Option<f64>,
}

impl Figure {
    /// Compares the runs with this figure.
    pub fn compare(&self, sweep: &Sweep) -> Vec<Comparison> {
        let compare = |value: &ReferenceValue| Comparison {
            cell: value.cell.clone(),
            measured: self.measured(sweep, &value.cell),
            reference_value: value.value,
        };
        self.values.iter().map(compare).collect()
    }

    fn measured(&self, sweep: &Sweep, cell: &Cell) -> Option<Spread> {
        // A cell of the reference may name some axes only; all runs that match count.
        let spread = |cell: &Cell| sweep.matching(cell).spread(|run| run.metric(&self.metric));
        let measured = spread(cell)?;
        let Some(base) = &self.relative_to else {
            let scale = self.scale.unwrap_or(1.0);
            return Some(measured.map(|value| value * scale));
        };
        let base = spread(&cell.with_all(base))?.median;
        // A difference in percent of zero has no value.
        (base > 0.0).then(|| measured.map(|value| 100.0 * (value / base - 1.0)))
    }

    /// Whether to show a difference instead of a ratio: percentages may be near zero.
    fn by_difference(&self) -> bool {
        self.relative_to.is_some() || self.unit == "%"
    }

    /// Head of the last column of a comparison.
    pub(crate) fn difference_head(&self) -> &'static str {
        if self.by_difference() { "difference" } else { "ratio" }
    }

    /// Difference or ratio of measured value to reference.
    pub(crate) fn difference(&self, row: &Comparison) -> String {
        match (row.measured, row.reference_value) {
            (Some(measured), Some(reference_value)) if self.by_difference() => {
                format!("{} points", format::signed(measured.median - reference_value))
            }
            (Some(measured), Some(reference_value)) if reference_value > 0.0 => {
                format!("{} ×", format::number(measured.median / reference_value))
            }
            _ => format::NONE.to_owned(),
        }
    }
}
