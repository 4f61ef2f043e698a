//! Selection of matrix cells.

use crate::matrix::Matrix;
use crate::problem::{Errors, Problem};
use indexmap::IndexMap;
use record::Cell;
use record::selection::AxisValues;
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

    /// Parses `axis=value,axis=value|value`; an axis that is named twice has both values. Words
    /// with special characters are in double quotes: `record::selection`.
    ///
    /// # Errors
    /// A part is not `AXIS=VALUE`, or a quote is not closed.
    pub fn parse(text: &str) -> Result<Self, Errors> {
        let parts = AxisValues::parse_all(text).map_err(|error| {
            Errors::bare(Problem::new(error).label(match text.contains('"') {
                true => {
                    "write for example `model=udp-rr`, or `command=\"a|b\"` with `|`, `,` or `=`"
                }
                false => "write for example `model=udp-rr`",
            }))
        })?;
        let mut only = Self::default();
        for part in parts {
            only.axes.entry(part.axis).or_default().extend(part.values);
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

    #[test]
    fn values_with_separators_are_selected_in_quotes() {
        let matrix = Matrix::from_pairs([
            ("mix=of", vec!["GET=9,POST=1", "a|b", " x", "5\"", "\"q\" \\"]),
            ("network", vec!["ideal", "bad"]),
        ]);
        // A user copies what messages and `thingbed plan` print.
        for cell in matrix.cells() {
            let only = Only::parse(&cell.to_string()).unwrap();
            assert_eq!(only.pick(&matrix).map_err(|p| p.message), Ok(vec![cell]));
        }
        let only = Only::parse(r#""mix=of"="GET=9,POST=1"|"a|b",network=bad"#).unwrap();
        assert_eq!(only.pick(&matrix).map_err(|p| p.message).unwrap().len(), 2);
        let error = Only::parse(r#"network="bad"#).unwrap_err().to_string();
        assert!(
            error.contains("no closing quote") && error.contains(r#"command="a|b""#),
            "{error}"
        );
    }
}
