//! A cell of an experiment's matrix: a value for each axis.

use crate::clock::Cpu;
use crate::selection::quoted;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// Name of the axis that distinguishes runs with several CPU speeds in virtual time.
const CPU_AXIS: &str = "virtual_cpu";

/// A value for each axis, in the order of the file.
///
/// Equality ignores the order.
#[derive(Debug, Clone, Default, Eq)]
pub struct Cell(Vec<(String, String)>);

impl Cell {
    /// The value on this axis.
    pub fn get(&self, axis: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == axis).map(|(_, value)| value.as_str())
    }

    /// The axes and their values, in order.
    pub fn axes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(axis, value)| (axis.as_str(), value.as_str()))
    }

    /// Whether the cell has no axes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this cell has all values of `part`.
    pub fn matches(&self, part: &Self) -> bool {
        part.axes().all(|(axis, value)| self.get(axis) == Some(value))
    }

    /// This cell with `value` on `axis`, appended as last axis if it is new.
    pub fn with(mut self, axis: &str, value: &str) -> Self {
        match self.0.iter_mut().find(|(name, _)| name == axis) {
            Some(place) => value.clone_into(&mut place.1),
            None => self.0.push((axis.to_owned(), value.to_owned())),
        }
        self
    }

    /// This cell with the values of `other`.
    pub fn with_all(&self, other: &Self) -> Self {
        other.axes().fold(self.clone(), |cell, (axis, value)| cell.with(axis, value))
    }

    /// This cell without `axis`.
    pub fn without(&self, axis: &str) -> Self {
        self.axes().filter(|(other, _)| *other != axis).collect()
    }

    /// This cell as run with one of several CPUs in virtual time.
    pub fn with_cpu(&self, cpu: Cpu) -> Self {
        self.clone().with(CPU_AXIS, &cpu.to_string())
    }

    /// The CPU, if the sweep has several.
    pub fn cpu(&self) -> Option<Cpu> {
        self.get(CPU_AXIS)?.parse().ok()
    }

    /// The cell of the experiment's matrix, which has no axis of CPUs.
    pub fn without_cpu(&self) -> Self {
        self.without(CPU_AXIS)
    }

    /// The values as text for tables.
    pub fn label(&self) -> String {
        self.label_without(None)
    }

    /// The values without that of the axis `left_out`, as text for tables.
    pub fn label_without(&self, left_out: Option<&str>) -> String {
        let values: Vec<_> = self
            .axes()
            .filter(|(axis, _)| Some(*axis) != left_out)
            .map(|(_, value)| value)
            .collect();
        if values.is_empty() { "all".to_owned() } else { values.join(" · ") }
    }

    /// The values as a file name, joined by `-`; `run` without axes.
    pub fn file_name(&self) -> String {
        // Without separators of paths: a value is text of the experiment file.
        let safe = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let values = self.axes().map(|(_, value)| value.chars().map(safe).collect());
        let name = values.collect::<Vec<String>>().join("-");
        // `.` and `..` are folders that exist.
        if name.trim_matches('.').is_empty() { "run".to_owned() } else { name }
    }

    /// Name of the folder of one of the cell's runs.
    pub fn folder(&self, repeat: u64) -> String {
        match self.is_empty() {
            true => repeat.to_string(),
            false => format!("{}-{repeat}", self.file_name()),
        }
    }
}

impl<A: Into<String>, V: Into<String>> FromIterator<(A, V)> for Cell {
    fn from_iter<I: IntoIterator<Item = (A, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(axis, value)| (axis.into(), value.into())).collect())
    }
}

impl PartialEq for Cell {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.matches(other)
    }
}

/// Formats the cell as `--only` takes it: `model=tcp,network="a,b"`.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("(no matrix)");
        }
        for (index, (axis, value)) in self.axes().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{}={}", quoted(axis), quoted(value))?;
        }
        Ok(())
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.axes())
    }
}

// The cell of a summary is no figure.
impl crate::Part for Cell {}

impl JsonSchema for Cell {
    fn schema_name() -> Cow<'static, str> {
        "Cell".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, String>::json_schema(generator)
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
                        // Files of other programs may have numbers in place of their text.
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
    fn order_is_kept_and_values_may_be_any_scalar() {
        let cell: Cell = serde_json::from_str(r#"{"z":"a","b":300,"c":true}"#).unwrap();
        assert_eq!(cell.label(), "a · 300 · true");
        assert_eq!(cell.to_string(), "z=a,b=300,c=true");
        assert_eq!(serde_json::to_string(&cell).unwrap(), r#"{"z":"a","b":"300","c":"true"}"#);
        assert!(serde_json::from_str::<Cell>(r#"{"z":[1]}"#).is_err());
    }

    #[test]
    fn a_folder_has_no_characters_that_shells_and_systems_read() {
        let cell: Cell = [("loss", "1 %"), ("path", "a/b")].into_iter().collect();
        assert_eq!(cell.folder(2), "1__-a_b-2");
        assert_eq!(
            (Cell::default().folder(0), Cell::default().label()),
            ("0".into(), "all".into())
        );
        assert_eq!([("a", "..")].into_iter().collect::<Cell>().file_name(), "run");
    }

    #[test]
    fn a_part_matches_and_axes_are_replaced() {
        let cell: Cell = [("model", "tcp"), ("network", "ideal")].into_iter().collect();
        let ideal: Cell = [("network", "ideal")].into_iter().collect();
        assert!(cell.matches(&ideal) && !ideal.matches(&cell));
        let base = cell.with_all(&[("model", "udp")].into_iter().collect());
        assert_eq!(base, [("network", "ideal"), ("model", "udp")].into_iter().collect());
        assert_ne!(base, cell);
    }

    #[test]
    fn the_axis_of_cpus_is_not_of_the_matrix() {
        let cell: Cell = [("model", "tcp")].into_iter().collect();
        let run = cell.with_cpu(Cpu::Mips(500));
        assert_eq!((run.cpu(), run.folder(0).as_str()), (Some(Cpu::Mips(500)), "tcp-0.5-0"));
        assert_eq!((run.without_cpu(), cell.cpu()), (cell, None));
    }
}
