//! Selection of matrix cells.

use crate::matrix::Matrix;
use crate::problem::{Errors, Problem};
use indexmap::IndexMap;
use record::Cell;
use std::str::FromStr;

/// Selects cells by axis, as in `model=udp-rr|tcp-ps,network=ideal`. Axes that are not named are
/// not restricted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Only {
    axes: IndexMap<String, Vec<String>>,
}

impl Only {
    /// All cells.
    pub fn all() -> Self {
        Self::default()
    }

    /// Parses `axis=value,axis=value|value`; an axis that is named twice has both values.
    pub fn parse(text: &str) -> Result<Self, Errors> {
        let mut only = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let pair = part.split_once('=').map(|(axis, values)| (axis.trim(), values.trim()));
            let Some((axis, values)) = pair.filter(|(axis, v)| !axis.is_empty() && !v.is_empty())
            else {
                let problem = Problem::new(format!("`{part}` is not AXIS=VALUE"));
                return Err(Errors::bare(problem.label("write for example `model=udp-rr`")));
            };
            let known = only.axes.entry(axis.to_owned()).or_default();
            known.extend(values.split('|').map(|value| value.trim().to_owned()));
        }
        Ok(only)
    }

    /// Adds the selection of `other`, as if both were in one text.
    pub fn merge(&mut self, other: Self) {
        for (axis, values) in other.axes {
            self.axes.entry(axis).or_default().extend(values);
        }
    }

    /// The selected cells of `matrix`.
    pub(crate) fn pick(&self, matrix: &Matrix) -> Result<Vec<Cell>, Problem> {
        for (axis, values) in &self.axes {
            // A misspelt value would select no cell, and so run nothing without a word.
            values.iter().try_for_each(|value| matrix.check(axis, Some(value)))?;
        }
        let selected = |cell: &Cell| {
            self.axes.iter().all(|(axis, values)| {
                cell.get(axis).is_some_and(|value| values.iter().any(|v| v == value))
            })
        };
        Ok(matrix.cells().into_iter().filter(selected).collect())
    }
}

impl FromStr for Only {
    type Err = Errors;
    fn from_str(text: &str) -> Result<Self, Errors> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pick(text: &str) -> Result<Vec<String>, String> {
        let matrix = Matrix::from_pairs([
            ("model", vec!["udp-rr", "tcp-rd", "tcp-ps"]),
            ("network", vec!["ideal", "bad"]),
        ]);
        let only = Only::parse(text).map_err(|errors| errors.to_string())?;
        let cells = only.pick(&matrix).map_err(|p| format!("{}; {}", p.message, p.label))?;
        Ok(cells.iter().map(Cell::file_name).collect())
    }

    #[test]
    fn axes_narrow_and_repeated_values_widen() {
        assert_eq!(pick("").unwrap().len(), 6);
        assert_eq!(pick("model=udp-rr,network=ideal").unwrap(), ["udp-rr-ideal"]);
        assert_eq!(pick("model=udp-rr|tcp-ps,network=bad").unwrap(), ["udp-rr-bad", "tcp-ps-bad"]);
        assert_eq!(pick("model=udp-rr, model=tcp-ps").unwrap().len(), 4);
    }

    #[test]
    fn what_the_matrix_has_not_is_refused_with_the_nearest() {
        assert_eq!(
            pick("modle=udp-rr").unwrap_err(),
            "the matrix has no axis `modle`; did you mean `model`?"
        );
        assert_eq!(
            pick("model=udp-r").unwrap_err(),
            "the axis `model` has no value `udp-r`; did you mean `udp-rr`?"
        );
        assert!(pick("ideal").unwrap_err().contains("is not AXIS=VALUE"));
        assert!(pick("=x").unwrap_err().contains("is not AXIS=VALUE"));
    }
}
