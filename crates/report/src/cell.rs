//! A cell of the experiment's matrix: a value for each axis.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use std::fmt;

/// A value for each axis, in the order of the file.
///
/// Equality ignores the order.
#[derive(Debug, Clone, Default)]
pub struct Cell(Vec<(String, String)>);

impl Cell {
    /// A cell of these axes and values.
    pub fn new(axes: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>) -> Self {
        Self(axes.into_iter().map(|(axis, value)| (axis.into(), value.into())).collect())
    }

    /// The value on this axis.
    pub fn get(&self, axis: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == axis).map(|(_, value)| value.as_str())
    }

    /// The axes and their values, in order.
    pub fn axes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(axis, value)| (axis.as_str(), value.as_str()))
    }

    /// Whether this cell has all values of `part`.
    pub fn matches(&self, part: &Self) -> bool {
        part.axes().all(|(axis, value)| self.get(axis) == Some(value))
    }

    /// This cell with the values of `other`.
    pub fn with(&self, other: &Self) -> Self {
        let mut cell = self.clone();
        for (axis, value) in other.axes() {
            match cell.0.iter_mut().find(|(name, _)| name == axis) {
                Some(place) => value.clone_into(&mut place.1),
                None => cell.0.push((axis.to_owned(), value.to_owned())),
            }
        }
        cell
    }

    /// The values without that of the axis `left_out`, as text.
    pub fn label_without(&self, left_out: Option<&str>) -> String {
        let values: Vec<_> = self
            .axes()
            .filter(|(axis, _)| Some(*axis) != left_out)
            .map(|(_, value)| value)
            .collect();
        if values.is_empty() { "all".to_owned() } else { values.join(" · ") }
    }

    /// Name of the cell's run folder.
    pub fn folder(&self, repeat: u64) -> String {
        self.axes().map(|(_, value)| format!("{value}-")).collect::<String>() + &repeat.to_string()
    }
}

impl PartialEq for Cell {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.matches(other)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label_without(None))
    }
}

// Manual implementation: a map would lose the order of the axes, and a value may be any scalar.
impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Axes;
        impl<'de> Visitor<'de> for Axes {
            type Value = Cell;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of axes and scalar values")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Cell, A::Error> {
                let mut axes = Vec::new();
                while let Some((axis, value)) = map.next_entry::<String, serde_json::Value>()? {
                    let text = match value {
                        serde_json::Value::String(text) => text,
                        value @ (serde_json::Value::Number(_) | serde_json::Value::Bool(_)) => {
                            value.to_string()
                        }
                        _ => return Err(A::Error::custom(format!("axis {axis} is not a scalar"))),
                    };
                    axes.push((axis, text));
                }
                Ok(Cell(axes))
            }
        }
        deserializer.deserialize_map(Axes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_and_takes_scalars() {
        let cell: Cell = serde_json::from_str(r#"{"z":"a","b":300,"c":true}"#).unwrap();
        assert_eq!(cell.to_string(), "a · 300 · true");
        assert_eq!(cell.folder(2), "a-300-true-2");
        assert!(serde_json::from_str::<Cell>(r#"{"z":[1]}"#).is_err());
    }

    #[test]
    fn matches_a_part_and_replaces_axes() {
        let cell = Cell::new([("model", "tcp"), ("network", "ideal")]);
        assert!(cell.matches(&Cell::new([("network", "ideal")])));
        let base = cell.with(&Cell::new([("model", "udp")]));
        assert_eq!(base, Cell::new([("network", "ideal"), ("model", "udp")]));
        assert_ne!(base, cell);
    }
}
