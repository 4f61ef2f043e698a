//! Layout of cells in charts: one panel per network, one colour per model.

use crate::{CellRuns, Sweep};

/// The axis that divides charts into panels, if there is one.
const NETWORK: &str = "network";

/// The cells of a sweep by panel and series.
#[derive(Debug)]
pub(crate) struct Panels {
    /// The panels in order.
    pub(crate) panels: Vec<Panel>,
    /// The names of the series; the index of a series is its colour everywhere.
    pub(crate) series: Vec<String>,
    /// The axis that divides panels.
    pub(crate) axis: Option<String>,
}

/// One panel.
#[derive(Debug)]
pub(crate) struct Panel {
    /// The value of the dividing axis; empty without one.
    pub(crate) name: String,
    /// Indices of cells in the sweep's list, with the indices of their series.
    pub(crate) cells: Vec<(usize, usize)>,
}

impl Panels {
    /// Lays out cells. With one axis, all cells are in one panel; with more, `network` divides into
    /// panels, else the last axis.
    pub(crate) fn of(sweep: &Sweep, cells: &[CellRuns<'_>]) -> Self {
        let axes = sweep.axes();
        let axis = match axes.as_slice() {
            [] | [_] => None,
            axes if axes.contains(&NETWORK) => Some(NETWORK.to_owned()),
            [.., last] => Some((*last).to_owned()),
        };
        let (mut panels, mut series): (Vec<Panel>, Vec<String>) = (Vec::new(), Vec::new());
        for (place, cell) in cells.iter().enumerate() {
            let label = cell.cell.label_without(axis.as_deref());
            // One colour for a series in all charts of the page.
            let known = series.iter().position(|name| *name == label);
            let colour = known.unwrap_or_else(|| {
                series.push(label);
                series.len() - 1
            });
            let name = axis.as_deref().and_then(|axis| cell.cell.get(axis)).unwrap_or_default();
            match panels.iter_mut().find(|panel| panel.name == name) {
                Some(panel) => panel.cells.push((place, colour)),
                None => panels.push(Panel { name: name.to_owned(), cells: vec![(place, colour)] }),
            }
        }
        Self { panels, series, axis }
    }
}
