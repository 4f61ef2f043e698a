//! Results of a capacity search.

use super::search::Outcome;
use experiment::Cell;
use serde::Serialize;

/// Result of one value.
#[derive(Debug, Serialize)]
pub(crate) struct TestedValue {
    /// The value as text, as in the experiment.
    pub value: String,
    /// The value as a number.
    #[serde(skip)]
    pub number: u64,
    /// Number of runs.
    pub runs: u32,
    pub valid: u32,
    /// Per target: median of its metric over the trusted runs.
    pub figures: Vec<Option<f64>>,
    pub found: Outcome,
    /// Why runs are not trusted, or failed.
    pub reasons: Vec<String>,
    /// Why the system was overloaded, although the metrics may meet the targets: a queue grew, or a
    /// program failed.
    pub overload: Option<String>,
    /// The smallest growth of a queue that the runs could have shown, as a share of the requests.
    pub visible_growth: f64,
}

/// Result of a search.
#[derive(Debug, Serialize)]
pub(crate) struct Capacities {
    /// The cell without the searched axis.
    pub cell: Cell,
    pub axis: String,
    /// The largest value that meets the targets.
    pub best: Option<String>,
    /// The smallest value that does not, and why.
    pub limit: Option<(String, Outcome)>,
    /// Whether the user interrupted the search.
    pub interrupted: bool,
    /// All tested values, in the order of testing.
    pub tried: Vec<TestedValue>,
}
