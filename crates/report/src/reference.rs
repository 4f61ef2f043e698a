//! Figures of others, and ours beside them.

use crate::{Cell, Spread, Sweep, format};
use serde::Deserialize;

/// What ours is held against, from `reference.json`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Reference {
    /// Where the figures come from.
    pub source: String,
    /// The figures.
    pub figures: Vec<Figure>,
}

/// One figure or table of the reference.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Figure {
    /// Its name there.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// The path of ours in a summary.
    pub metric: String,
    /// The unit of both.
    pub unit: String,
    /// What ours is multiplied by to be in that unit; 1 when not given.
    pub scale: Option<f64>,
    /// When given, ours is the percentage by which a cell's figure exceeds that
    /// of the cell with these axes.
    pub relative_to: Option<Cell>,
    /// The values there.
    pub values: Vec<ReferenceValue>,
}

/// One value of the reference.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct ReferenceValue {
    /// The cell it is about; axes not named are any.
    pub cell: Cell,
    /// The value; nothing where the reference has none.
    pub value: Option<f64>,
}

/// A value of the reference with ours.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The cell.
    pub cell: Cell,
    /// Ours, over the repeats; nothing when it was not run or not measured.
    pub ours: Option<Spread>,
    /// Theirs.
    pub theirs: Option<f64>,
}

impl Figure {
    /// Holds the runs against this figure.
    pub fn compare(&self, sweep: &Sweep) -> Vec<Comparison> {
        let compare = |value: &ReferenceValue| Comparison {
            cell: value.cell.clone(),
            ours: self.ours(sweep, &value.cell),
            theirs: value.value,
        };
        self.values.iter().map(compare).collect()
    }

    fn ours(&self, sweep: &Sweep, cell: &Cell) -> Option<Spread> {
        let spread = |cell: &Cell| sweep.matching(cell).spread(|run| run.metric(&self.metric));
        let ours = spread(cell)?;
        let Some(base) = &self.relative_to else {
            let scale = self.scale.unwrap_or(1.0);
            return Some(ours.map(|value| value * scale));
        };
        let base = spread(&cell.with(base))?.median;
        (base > 0.0).then(|| ours.map(|value| 100.0 * (value / base - 1.0)))
    }

    /// Whether a difference or a ratio tells more: percentages may be near zero.
    fn by_difference(&self) -> bool {
        self.relative_to.is_some() || self.unit == "%"
    }

    /// What the last column of a comparison holds.
    pub(crate) fn difference_head(&self) -> &'static str {
        if self.by_difference() { "difference" } else { "ratio" }
    }

    /// How far ours is from theirs.
    pub(crate) fn difference(&self, row: &Comparison) -> String {
        match (row.ours, row.theirs) {
            (Some(ours), Some(theirs)) if self.by_difference() => {
                format!("{} points", format::signed(ours.median - theirs))
            }
            (Some(ours), Some(theirs)) if theirs > 0.0 => {
                format!("{} ×", format::number(ours.median / theirs))
            }
            _ => format::NONE.to_owned(),
        }
    }
}
