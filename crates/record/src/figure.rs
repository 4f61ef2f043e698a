//! The table of figures: one row for each number of a run's summary.
//!
//! [`figures!`] declares the types of `summary.json` and their rows in one place: a field is a key of
//! the file, a name for `expect`, and a line of docs/run-folder.md.

use serde_json::Value;
use std::collections::BTreeMap;

/// One row of the table: a key of an object of `summary.json`.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// The key.
    pub name: &'static str,
    /// Names of the same figure in files of earlier versions.
    pub earlier: &'static [&'static str],
    /// What it is, as in docs/run-folder.md.
    pub meaning: &'static str,
    /// Its unit; empty for a count.
    pub unit: &'static str,
    /// How the figures of several groups or senders become one.
    pub over: Over,
    /// Head of its column in tables.
    pub head: &'static str,
    /// Its column in the table of results, if it has one for groups.
    pub column: Option<Scope>,
    /// Whether the keys of its value are keys of the object that it belongs to.
    flat: bool,
    shape: fn() -> Shape,
}

/// How the figures of several groups or senders become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Their sum.
    Sum,
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// Computed anew from other figures; where that is not possible, their sum.
    Anew,
}

/// The columns of a figure of groups in the table of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// A column for each group that has the figure in any run.
    EachGroup,
    /// One column over all groups.
    AllGroups,
}

/// What a value of `summary.json` is.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// A number.
    Number,
    /// Not a figure: text or a list.
    Other,
    /// An object with these keys.
    Object(&'static [Figure]),
    /// An object with a key for each of several things, such as groups.
    Each {
        /// Whether the keys are numbers, not names.
        numbers: bool,
        /// What each value is.
        of: fn() -> Shape,
    },
}

/// A type of which values of `summary.json` are.
pub trait Part {
    /// What such a value is.
    fn shape() -> Shape {
        Shape::Other
    }

    /// Adds the value of another group or sender. What is not a figure stays as it is.
    fn merge(&mut self, _other: &Self, _over: Over) {}
}

impl Figure {
    /// A count that is summed over groups.
    pub const fn new(name: &'static str, meaning: &'static str, shape: fn() -> Shape) -> Self {
        let name = key(name);
        Self {
            name,
            earlier: &[],
            meaning,
            unit: "",
            over: Over::Sum,
            head: name,
            column: None,
            flat: false,
            shape,
        }
    }

    pub(crate) const fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    pub(crate) const fn over(self, over: Over) -> Self {
        Self { over, ..self }
    }

    pub(crate) const fn head(self, head: &'static str) -> Self {
        Self { head, ..self }
    }

    pub(crate) const fn column(self, scope: Scope, head: &'static str) -> Self {
        Self { column: Some(scope), head, ..self }
    }

    pub(crate) const fn earlier(self, earlier: &'static [&'static str]) -> Self {
        Self { earlier, ..self }
    }

    pub(crate) const fn flat(self) -> Self {
        Self { flat: true, ..self }
    }

    /// Whether it has this name, or had it in an earlier version: experiment files keep working.
    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.earlier.contains(&name)
    }

    /// Its value in an object of a file, of this version or an earlier one.
    pub fn of<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        let names = [self.name].into_iter().chain(self.earlier.iter().copied());
        names.into_iter().find_map(|name| object.get(name))
    }
}

impl Shape {
    /// The keys of an object, with those of its flat parts.
    pub fn rows(self) -> Vec<Figure> {
        let Self::Object(rows) = self else { return Vec::new() };
        let each = rows.iter().flat_map(|row| match row.flat {
            true => (row.shape)().rows(),
            false => vec![*row],
        });
        each.collect()
    }

    /// The keys of an object that lead to figures.
    pub fn names(self) -> Vec<&'static str> {
        let rows = self.rows().into_iter().filter(|row| match (row.shape)() {
            Self::Number => true,
            other => other.first().is_some(),
        });
        rows.map(|row| row.name).collect()
    }

    /// What follows the key `part`, and its row if it is a fixed key.
    fn below(self, part: &str) -> Option<(Self, Option<Figure>)> {
        if let Self::Each { numbers, of } = self {
            let fits = !numbers || part == "*" || part.parse::<u64>().is_ok();
            return fits.then(|| (of(), None));
        }
        let row = self.rows().into_iter().find(|row| row.is_called(part))?;
        Some(((row.shape)(), Some(row)))
    }

    /// The figure at a path, with the unit of the nearest object on the way that has one.
    ///
    /// # Errors
    /// If there is no such figure: the number of parts that exist, and what is there.
    pub fn figure(self, path: &[&str]) -> Result<Figure, (usize, Self)> {
        let (mut here, mut found, mut unit) = (self, None, "");
        for (number, part) in path.iter().enumerate() {
            let (below, row) = here.below(part).ok_or((number, here))?;
            here = below;
            if let Some(row) = row {
                // Statistics such as `p50` have the unit of the time that they are of.
                unit = if row.unit.is_empty() { unit } else { row.unit };
                found = Some(row);
            }
        }
        match (here, found) {
            (Self::Number, Some(row)) => Ok(row.unit(unit)),
            _ => Err((path.len(), here)),
        }
    }

    /// The path of the first figure in this.
    pub fn first(self) -> Option<String> {
        let below = |key: &str, shape: Self| match shape {
            Self::Number => Some(key.to_owned()),
            other => Some(format!("{key}.{}", other.first()?)),
        };
        match self {
            Self::Each { numbers, of } => below(if numbers { "1" } else { "NAME" }, of()),
            other => other.rows().iter().find_map(|row| below(row.name, (row.shape)())),
        }
    }

    /// The number at `path` in a value of a file; `*` stands for all keys and gives their sum, or
    /// the largest or smallest, as the figure's row says.
    pub fn value(self, json: &Value, path: &[&str]) -> Option<f64> {
        let over = self.figure(path).map_or(Over::Sum, |figure| figure.over);
        self.find(json, path, over)
    }

    fn find(self, json: &Value, path: &[&str], over: Over) -> Option<f64> {
        let Some((part, rest)) = path.split_first() else { return json.as_f64() };
        // An unknown key is still looked up: the file may be of another version.
        let (below, row) = self.below(part).unwrap_or((Self::Other, None));
        match (*part, row) {
            (_, Some(row)) => below.find(row.of(json)?, rest, over),
            ("*", None) => {
                let all = json.as_object()?.values();
                reduce(all.filter_map(|value| below.find(value, rest, over)), over)
            }
            // A key of an earlier version, or one of several things.
            (part, None) => below.find(json.get(part)?, rest, over),
        }
    }
}

/// Several figures as one; `None` without any.
pub fn reduce(values: impl Iterator<Item = f64>, over: Over) -> Option<f64> {
    values.reduce(|mut all, value| {
        all.merge(&value, if over == Over::Anew { Over::Sum } else { over });
        all
    })
}

/// The name of a field as a key.
const fn key(name: &'static str) -> &'static str {
    // A field such as `r#loop` has its name without the prefix in files.
    let [b'r', b'#', rest @ ..] = name.as_bytes() else { return name };
    match std::str::from_utf8(rest) {
        Ok(name) => name,
        Err(_) => name,
    }
}

macro_rules! numbers {
    ($($Type:ty: $add:expr),*) => { $(
        impl Part for $Type {
            fn shape() -> Shape {
                Shape::Number
            }

            fn merge(&mut self, other: &Self, over: Over) {
                *self = match over {
                    Over::Sum => $add(*self, *other),
                    Over::Max => (*self).max(*other),
                    Over::Min => (*self).min(*other),
                    Over::Anew => *self,
                };
            }
        }
    )* };
}

numbers!(u64: u64::saturating_add, u32: u32::saturating_add, f64: |a: f64, b: f64| a + b);

impl Part for String {}
impl<T> Part for Vec<T> {}
impl<T, const N: usize> Part for [T; N] {}

impl<T: Part + Clone> Part for Option<T> {
    fn shape() -> Shape {
        T::shape()
    }

    fn merge(&mut self, other: &Self, over: Over) {
        match (self, other) {
            (Some(own), Some(other)) => own.merge(other, over),
            // What is computed anew has no meaning before that.
            (own, Some(other)) if over != Over::Anew => *own = Some(other.clone()),
            _ => {}
        }
    }
}

/// What the keys of an object with a key for each of several things are.
pub trait Key: Ord + Clone {
    /// Whether they are numbers.
    const NUMBERS: bool;
}

impl Key for String {
    const NUMBERS: bool = false;
}

impl Key for u64 {
    const NUMBERS: bool = true;
}

impl<K: Key, T: Part + Clone> Part for BTreeMap<K, T> {
    fn shape() -> Shape {
        Shape::Each { numbers: K::NUMBERS, of: T::shape }
    }

    fn merge(&mut self, other: &Self, over: Over) {
        for (key, value) in other {
            match self.get_mut(key) {
                Some(own) => own.merge(value, over),
                None => drop(self.insert(key.clone(), value.clone())),
            }
        }
    }
}

/// Declares types of `summary.json` with the rows of their figures. After a field's type, `=>` and
/// methods of [`Figure`] give its unit, its sum over groups and its column; without them it is a
/// count, summed. `Type::field` is the row of the field.
macro_rules! figures {
    ($(
        $(#[doc = $about:literal])+
        $(#[derive($Derive:ident)])?
        pub struct $Name:ident {
            $(
                $(#[doc = $doc:literal])+
                $(#[serde($($serde:tt)*)])?
                $field:ident: $Type:ty $(=> $(.$call:ident($($argument:expr),*))+)?,
            )+
        }
    )+) => { $(
        $(#[doc = $about])+
        $(#[derive($Derive)])?
        #[derive(Debug, Clone, Default, PartialEq)]
        #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(default)]
        pub struct $Name {
            $(
                $(#[doc = $doc])+
                $(#[serde($($serde)*)])?
                pub $field: $Type,
            )+
        }

        #[allow(non_upper_case_globals, reason = "a row has the name of its field")]
        impl $Name {
            $(
                $(#[doc = $doc])+
                pub const $field: $crate::Figure = $crate::Figure::new(
                    stringify!($field),
                    concat!($($doc),+),
                    <$Type as $crate::Part>::shape,
                )$($(.$call($($argument),*))+)?;
            )+

            /// All rows.
            pub const FIGURES: &[$crate::Figure] = &[$(Self::$field),+];

            /// Adds the figures of another group or sender, each as its row says.
            pub fn add(&mut self, other: &Self) {
                $($crate::Part::merge(&mut self.$field, &other.$field, Self::$field.over);)+
            }
        }

        impl $crate::Part for $Name {
            fn shape() -> $crate::Shape {
                $crate::Shape::Object(Self::FIGURES)
            }

            fn merge(&mut self, other: &Self, _over: $crate::Over) {
                self.add(other);
            }
        }
    )+ };
}

pub(crate) use figures;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Group, Summary};
    use serde_json::json;

    #[test]
    fn a_value_that_is_null_or_missing_is_none() {
        let file = json!({"messages": {"rtd_ms": {"mean": null, "max": 3}}});
        assert_eq!(Summary::value(&file, "messages.rtd_ms.max"), Some(3.0));
        assert_eq!(Summary::value(&file, "messages.rtd_ms.mean"), None);
        assert_eq!(Summary::value(&file, "messages.sent"), None);
        assert_eq!(Summary::value(&file, "messages.none.mean"), None);
    }

    #[test]
    fn figures_of_earlier_versions_are_found() {
        let file = json!({"messages": {"delivered": 7}, "groups": {"a": {"old": 2}}});
        assert_eq!(Summary::value(&file, "messages.received"), Some(7.0));
        assert_eq!(Summary::value(&file, "groups.a.old"), Some(2.0));
    }

    #[test]
    fn a_star_is_over_all_groups_as_the_row_says() {
        let group =
            |nodes, rss, days| json!({"nodes": nodes, "rss_max_bytes": rss, "battery_days": days});
        let file = json!({"groups": {"a": group(1, 30, 4.0), "b": group(2, 20, 3.0)}});
        assert_eq!(Summary::value(&file, "groups.*.nodes"), Some(3.0));
        assert_eq!(Summary::value(&file, "groups.*.rss_max_bytes"), Some(30.0));
        assert_eq!(Summary::value(&file, "groups.*.battery_days"), Some(3.0));
        assert_eq!(Summary::value(&file, "groups.*.cpu_ms"), None);
    }

    #[test]
    fn groups_add_up_as_their_rows_say() {
        let one = Group { nodes: 1, rss_max_bytes: 5, cpu_ms: Some(1.5), ..Group::default() };
        let mut all = Group::default();
        all.add(&one);
        all.add(&Group {
            nodes: 2,
            rss_max_bytes: 3,
            cpu_us_per_message: Some(1.0),
            ..one.clone()
        });
        assert_eq!((all.nodes, all.rss_max_bytes, all.cpu_ms), (3, 5, Some(3.0)));
        assert_eq!(all.cpu_us_per_message, None);
    }

    #[test]
    fn a_path_has_the_unit_of_its_object() {
        assert_eq!(Summary::figure("messages.rtd_ms.p99").unwrap().unit, "ms");
        assert_eq!(Summary::figure("groups.*.tx_bytes").unwrap().unit, "B");
        assert_eq!(Summary::figure("loads.x.counts.sent").unwrap_err().0, 2);
        assert_eq!(Summary::figure("loads.x.sent").unwrap().name, "sent");
        assert_eq!(Summary::figure("exchanges.x.sizes.big.bytes").unwrap_err().0, 3);
    }

    /// The unit of a figure is the end of its name.
    #[test]
    fn names_end_with_their_unit() {
        let rows =
            [Summary::shape(), crate::Messages::shape(), Group::shape(), crate::Load::shape()];
        for row in rows.into_iter().flat_map(Shape::rows) {
            let end = match row.unit {
                "%" => "pct",
                "B" => "bytes",
                "" | "1/s" | "s" | "us" | "J" => continue,
                unit => unit,
            };
            assert!(row.name.ends_with(end), "{} in {}", row.name, row.unit);
        }
    }
}
