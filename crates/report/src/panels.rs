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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Run, Summary};
    use std::path::Path;

    /// A sweep of these cells, each with its values by axis.
    fn sweep(cells: &[&[(&str, &str)]]) -> Sweep {
        let run = |cell: &&[(&str, &str)]| {
            let cell: serde_json::Map<String, serde_json::Value> =
                cell.iter().map(|(axis, value)| ((*axis).to_owned(), (*value).into())).collect();
            let summary = serde_json::json!({"experiment": "e", "cell": cell}).to_string();
            Run::with_summary(Path::new("r"), Summary::from_json(&summary).unwrap())
        };
        Sweep { runs: cells.iter().map(run).collect(), ..Sweep::default() }
    }

    /// The name of a panel, with its cells and the series of each.
    type Drawn = (String, Vec<(usize, usize)>);

    /// The panels, and the names of the series.
    fn laid_out(cells: &[&[(&str, &str)]]) -> (Vec<Drawn>, Vec<String>) {
        let sweep = sweep(cells);
        let found = Panels::of(&sweep, &sweep.cells());
        let panels = found.panels.into_iter().map(|panel| (panel.name, panel.cells));
        (panels.collect(), found.series)
    }

    #[test]
    fn one_axis_or_none_is_one_panel() {
        let (panels, series) = laid_out(&[&[]]);
        assert_eq!((panels, series.len()), (vec![(String::new(), vec![(0, 0)])], 1));
        let (panels, series) = laid_out(&[&[("loss", "1 %")], &[("loss", "2 %")]]);
        assert_eq!(panels, [(String::new(), vec![(0, 0), (1, 1)])]);
        assert_eq!(series, ["1 %", "2 %"]);
    }

    #[test]
    fn a_series_has_one_colour_in_all_panels() {
        // The second network lacks the first model: its only model keeps its colour.
        let cells: [&[(&str, &str)]; 3] = [
            &[("network", "ideal"), ("model", "udp")],
            &[("network", "ideal"), ("model", "tcp")],
            &[("network", "radio"), ("model", "tcp")],
        ];
        let (panels, series) = laid_out(&cells);
        let expected =
            [("ideal".to_owned(), vec![(0, 0), (1, 1)]), ("radio".to_owned(), vec![(2, 1)])];
        assert_eq!(
            (&panels[..], &series[..]),
            (&expected[..], &["udp".to_owned(), "tcp".into()][..])
        );
    }

    #[test]
    fn without_a_network_the_last_axis_divides() {
        let cells: [&[(&str, &str)]; 4] = [
            &[("model", "udp"), ("loss", "0 %"), ("rate", "1 kbit/s")],
            &[("model", "udp"), ("loss", "0 %"), ("rate", "2 kbit/s")],
            &[("model", "udp"), ("loss", "9 %"), ("rate", "1 kbit/s")],
            // A cell of a part of the matrix that lacks the axis.
            &[("model", "udp"), ("loss", "9 %")],
        ];
        let (panels, series) = laid_out(&cells);
        let names: Vec<&str> = panels.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["1 kbit/s", "2 kbit/s", ""]);
        let drawn: usize = panels.iter().map(|(_, cells)| cells.len()).sum();
        assert_eq!((drawn, series.len()), (4, 2), "each cell once: {panels:?} {series:?}");
        assert_eq!(panels[0].1[1].1, panels[2].1[0].1, "the same model and loss");
    }
}
