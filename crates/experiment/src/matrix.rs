//! The matrix: axes, their values, and the resulting cells.

use crate::nearest::advice;
use crate::problem::Problem;
use crate::read::{Fixed, Named, Read, Sink};
use crate::source::Place;
use crate::tree::{Content, Node};
use indexmap::IndexMap;
use record::Cell;
use std::collections::{HashMap, HashSet};

/// Maximum number of cells; more are probably a mistake.
const MAX_CELLS: usize = 4096;

/// Axes of an experiment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Matrix {
    axes: IndexMap<String, (Place, Vec<String>)>,
}

impl Matrix {
    /// Reads the matrix of the file `root`; problems go to `sink`.
    pub fn read(root: &Node, sink: &mut Sink) -> Self {
        let mut matrix = Self::default();
        let Some(node) = root.get("matrix") else { return matrix };
        match &node.content {
            Content::Map(entries) if !entries.is_empty() => {}
            Content::Nothing | Content::Map(_) => {
                let problem = Problem::new("the matrix is empty").at(node.place);
                sink.add(problem.label("add an axis such as `loss: [1 %, 5 %]`, or remove it"));
                return matrix;
            }
            _ => {
                sink.expected("axes such as `loss: [1 %, 5 %]`", node);
                return matrix;
            }
        }
        let axes = Named::<Vec<Fixed<String>>>::read(node, sink).unwrap_or_default();
        for (axis, place, values) in axes.iter() {
            let mut seen: HashMap<&str, Place> = HashMap::new();
            for value in values {
                if seen.insert(&value.value, value.place).is_some() {
                    let text = format!("the axis `{axis}` has the value `{}` twice", value.value);
                    sink.add(Problem::new(text).at(value.place));
                }
            }
            if values.is_empty() {
                let problem = Problem::new(format!("the axis `{axis}` has no values")).at(place);
                sink.add(problem.label("a matrix with an empty axis has no cells; add a value"));
            }
        }
        for name in axes.names() {
            let values = axes.get(name).map_or(&[][..], |values| values);
            let place = axes.iter().find(|(axis, ..)| axis == name).map(|(_, place, _)| place);
            // A value that was reported as a duplicate is no second cell.
            let mut seen = HashSet::new();
            let values = values.iter().map(|value| value.value.clone());
            let values = values.filter(|value| seen.insert(value.clone())).collect();
            matrix.axes.insert(name.clone(), (place.unwrap_or(node.place), values));
        }
        // Before any cell is made: axes multiply, and their product may not even fit a number.
        if matrix.size().is_none_or(|size| size > MAX_CELLS) {
            let problem = Problem::new(format!("the matrix has more than {MAX_CELLS} cells"));
            sink.add(problem.at(node.place).label("split it into several files"));
            // The first cell shows other problems as well.
            matrix.axes.values_mut().for_each(|(_, values)| values.truncate(1));
        }
        matrix.check_folders(node.place, sink);
        matrix
    }

    /// Reports cells that would write into the same folder.
    fn check_folders(&self, place: Place, sink: &mut Sink) {
        let mut folders: HashMap<String, Cell> = HashMap::new();
        for cell in self.cells() {
            if let Some(other) = folders.insert(cell.file_name(), cell.clone()) {
                let text = format!("the cells {other} and {cell} would share one results folder");
                sink.add(Problem::new(text).at(place).label(
                    "use values that differ in letters or \
                                                             digits",
                ));
                return;
            }
        }
    }

    fn size(&self) -> Option<usize> {
        self.axes.values().try_fold(1usize, |size, (_, values)| size.checked_mul(values.len()))
    }

    pub fn has(&self, axis: &str) -> bool {
        self.axes.contains_key(axis)
    }

    /// Names of the axes.
    pub fn axes(&self) -> impl Iterator<Item = &String> + Clone {
        self.axes.keys()
    }

    /// Values of `axis`.
    pub fn values(&self, axis: &str) -> Option<&[String]> {
        self.axes.get(axis).map(|(_, values)| values.as_slice())
    }

    /// Position of the name of `axis` in the file.
    pub fn place(&self, axis: &str) -> Place {
        self.axes.get(axis).map_or(Place::default(), |(place, _)| *place)
    }

    /// All combinations; the last axis changes fastest. Without axes, one empty cell. Axes without
    /// values are skipped, so that other problems are still found.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = vec![Cell::default()];
        for (axis, (_, values)) in self.axes.iter().filter(|(_, (_, values))| !values.is_empty()) {
            let each = cells
                .iter()
                .flat_map(|cell| values.iter().map(|value| cell.clone().with(axis, value)));
            cells = each.collect();
        }
        cells
    }

    /// The same matrix with `value` as the only value of `axis`.
    pub fn with_value(&self, axis: &str, value: &str) -> Result<Self, Problem> {
        self.check(axis, None)?;
        let mut with = self.clone();
        if let Some((_, values)) = with.axes.get_mut(axis) {
            *values = vec![value.to_owned()];
        }
        Ok(with)
    }

    /// Checks that `axis` and `value` exist.
    pub fn check(&self, axis: &str, value: Option<&str>) -> Result<(), Problem> {
        let Some(values) = self.values(axis) else {
            let problem = Problem::new(format!("the matrix has no axis `{axis}`"));
            return Err(problem.label(advice(axis, self.axes())));
        };
        match value.filter(|value| !values.iter().any(|known| known == value)) {
            Some(value) => Err(Problem::new(format!("the axis `{axis}` has no value `{value}`"))
                .label(advice(value, values))),
            None => Ok(()),
        }
    }

    #[cfg(test)]
    pub fn from_pairs<const N: usize>(axes: [(&str, Vec<&str>); N]) -> Self {
        let axes = axes.into_iter().map(|(axis, values)| {
            let values = values.into_iter().map(str::to_owned).collect();
            (axis.to_owned(), (Place::default(), values))
        });
        Self { axes: axes.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_axis_changes_fastest() {
        let matrix = Matrix::from_pairs([("a", vec!["1", "2"]), ("b", vec!["x", "y"])]);
        let cells: Vec<String> = matrix.cells().iter().map(Cell::to_string).collect();
        assert_eq!(cells, ["a=1,b=x", "a=1,b=y", "a=2,b=x", "a=2,b=y"]);
        assert_eq!(matrix.cells()[1].file_name(), "1-y");
        assert_eq!(Matrix::default().cells().len(), 1);
    }

    #[test]
    fn a_folder_has_no_slashes() {
        assert_eq!(Cell::from_iter([("a", "../x y")]).file_name(), ".._x_y");
        assert_eq!(Cell::from_iter([("a", "..")]).file_name(), "run");
    }
}
