//! Reference values: where they come from, and for which cells they are.

use crate::Cell;
use serde::Deserialize;

/// Reference values from `reference.json`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Reference {
    /// Source of the values.
    pub source: String,
    /// The figures and tables of the source.
    pub figures: Vec<Figure>,
}

/// One figure or table of the reference.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct Figure {
    /// Name in the source, such as `Figure 3`.
    pub name: String,
    /// Title in the source.
    pub title: String,
    /// Path of the measured metric in a summary.
    pub metric: String,
    /// Unit of both values.
    pub unit: String,
    /// Factor that converts the measured metric to `unit`; default 1.
    pub scale: Option<f64>,
    /// If set, the measured value is the difference in percent from the cell with these axes.
    pub relative_to: Option<Cell>,
    /// The reference values.
    pub values: Vec<ReferenceValue>,
}

/// One value of the reference.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct ReferenceValue {
    /// The cell; a missing axis matches any value.
    pub cell: Cell,
    /// The value; `None` if the source has none.
    pub value: Option<f64>,
}
