//! Reads scalars: texts, numbers, quantities and words of an enumeration.

use crate::nearest::{advice, nearest};
use crate::problem::Problem;
use crate::read::{Read, Sink};
use crate::subnet::Subnet;
use crate::tree::{Content, Node};
use link::{Limit, SignedBytes};
use serde_json::Value;
use units::{
    Attenuation, Bytes, Charge, Current, Distance, PowerLevel, Rate, Ratio, Span, Voltage,
};

/// Text of a scalar; anything else is reported as not being `what`.
fn text<'n>(node: &'n Node, what: &str, sink: &mut Sink) -> Option<&'n str> {
    match &node.content {
        Content::Scalar(text) => Some(text),
        _ => {
            sink.expected(what, node);
            None
        }
    }
}

/// Whether the node is the scalar `word`.
pub(crate) fn scalar_is(node: &Node, word: &str) -> bool {
    matches!(&node.content, Content::Scalar(text) if text.trim() == word)
}

impl Read for String {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        text(node, "a text", sink).map(str::to_owned)
    }

    /// The words of a command line.
    fn as_list(text: &str) -> Option<String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+".contains(c);
        let word = |word: &str| match word.chars().all(plain) && !word.starts_with(['%', '@']) {
            true => word.to_owned(),
            false => format!("'{}'", word.replace('\'', "''")),
        };
        // The quotes of a shell would need its rules.
        let is_simple = !text.contains(['\'', '"', '\\', '$', '|', '>', '<', ';', '&', '`']);
        let words: Vec<String> = match is_simple {
            true => text.split_whitespace().map(word).collect(),
            false => vec!["sh".into(), "-c".into(), format!("'{}'", text.replace('\'', "''"))],
        };
        Some(format!("[{}]", words.join(", ")))
    }
}

impl Read for bool {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        match text(node, "true or false", sink)? {
            // The forms of the core schema (YAML 1.2.2, 10.3.2); `yes` and `on` were those of YAML
            // 1.1.
            "true" | "True" | "TRUE" => Some(true),
            "false" | "False" | "FALSE" => Some(false),
            _ => {
                sink.expected("true or false", node);
                None
            }
        }
    }
}

/// Numbers without a unit.
macro_rules! numbers {
    ($($kind:ty: $what:literal),*) => {$(
        impl Read for $kind {
            fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
                let value = text(node, $what, sink)?.parse().ok();
                if value.is_none() {
                    sink.expected($what, node);
                }
                value
            }
        }
    )*};
}
numbers!(u32: "a whole number from 0 to 4294967295", u64: "a whole number");

impl Read for f64 {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        // Rust parses `inf` and `nan` as numbers; an experiment cannot use them.
        let value =
            text(node, "a number", sink)?.parse().ok().filter(|value: &f64| value.is_finite());
        if value.is_none() {
            sink.expected("a number", node);
        }
        value
    }
}

/// Quantities; their parse errors suggest the correct form.
macro_rules! quantities {
    ($($kind:ty: $what:literal),*) => {$(
        impl Read for $kind {
            fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
                match text(node, $what, sink)?.parse() {
                    Ok(value) => Some(value),
                    Err(error) => {
                        let label = quantity_advice(&error).unwrap_or_else(|| format!("expected {}", $what));
                        sink.add(Problem::new(error.to_string()).at(node.place).label(label));
                        None
                    }
                }
            }
        }
    )*};
}
quantities!(
    Span: "a time such as `20 ms`",
    Bytes: "a size such as `127 B`",
    Rate: "a data rate such as `250 kbit/s`",
    Ratio: "a share such as `30 %`",
    Current: "a current such as `4.6 mA`",
    Voltage: "a voltage such as `3.3 V`",
    Charge: "a charge such as `220 mAh`",
    Distance: "a distance such as `30 m`",
    Attenuation: "an attenuation such as `40.2 dB`",
    PowerLevel: "a power level such as `-85 dBm`"
);

/// A frequency of events, such as `100/s`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Frequency(f64);

impl Frequency {
    /// Time between two events.
    pub fn period(self) -> Span {
        Span::from_ns((1e9 / self.0).round().max(1.0) as u64)
    }
}

impl Read for Frequency {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let what = "a rate of events such as `100/s`";
        let text = text(node, what, sink)?;
        let units = [("/s", 1.0), ("/min", 60.0), ("/h", 3600.0)];
        let found = units.iter().find_map(|(unit, seconds)| {
            let number: f64 = text.trim().strip_suffix(unit)?.trim_end().parse().ok()?;
            Some(number / seconds)
        });
        // From about once a year to a thousand million times per second.
        if let Some(value) = found.filter(|value| (3e-8..=1e9).contains(value)) {
            return Some(Self(value));
        }
        let problem = Problem::new(format!("`{text}` is not a rate of events"));
        sink.add(problem.at(node.place).label("write for example `100/s` or `6/min`"));
        None
    }
}

impl Read for SignedBytes {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let text = text(node, "a size such as `24 B` or `-14 B`", sink)?;
        match text.parse() {
            Ok(size) => Some(size),
            Err(error) => {
                let problem = Problem::new(error).at(node.place);
                sink.add(problem.label("expected a size such as `24 B` or `-14 B`"));
                None
            }
        }
    }
}

impl Read for Limit {
    /// A bare number counts frames; a number with a unit is a size.
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let what = "a number of frames such as `1000`, or a size such as `64 kB`";
        let text = text(node, what, sink)?;
        if let Ok(frames) = text.parse() {
            return Some(Self::Frames(frames));
        }
        match text.parse() {
            Ok(bytes) => Some(Self::Bytes(bytes)),
            Err(error) => {
                let problem = Problem::new(error.to_string()).at(node.place);
                sink.add(problem.label(format!("expected {what}")));
                None
            }
        }
    }
}

/// Suggests the probable meaning of an invalid quantity.
fn quantity_advice(error: &units::ParseError) -> Option<String> {
    match error {
        units::ParseError::UnknownUnit { unit, known, .. } => unit_advice(unit, known),
        // Many tools write a share as a fraction: 0.3 is 30 % here.
        units::ParseError::MissingUnit { text, example } if example.ends_with('%') => {
            let fraction = text.trim().parse().ok().filter(|share| (0.0..=1.0).contains(share));
            // Rounded to a millionth of a percent: 0.07 x 100 is 7.000000000000001 in binary.
            let percent = |share: f64| (share * 1e8).round() / 1e6;
            fraction.map(|share| format!("a share of {share} is `{} %`", percent(share)))
        }
        _ => None,
    }
}

/// Suggests the probable meaning of an unknown unit.
fn unit_advice(unit: &str, known: &str) -> Option<String> {
    // Units as common elsewhere, and as used here.
    let conventions = [
        ("sec", "s"),
        ("secs", "s"),
        ("seconds", "s"),
        ("m", "min"),
        ("minutes", "min"),
        ("µs", "us"),
        ("msec", "ms"),
        ("kbps", "kbit/s"),
        ("Mbps", "Mbit/s"),
        ("Gbps", "Gbit/s"),
        ("bps", "bit/s"),
        ("kb/s", "kbit/s"),
        ("Mb/s", "Mbit/s"),
        ("percent", "%"),
        ("K", "KiB"),
        ("M", "MiB"),
        ("G", "GiB"),
    ];
    let known: Vec<&str> = known.split(", ").collect();
    let convention = conventions.iter().find(|(is, _)| *is == unit).map(|(_, should)| *should);
    let suggestion =
        convention.filter(|unit| known.contains(unit)).or_else(|| nearest(unit, known))?;
    Some(format!("did you mean `{suggestion}`?"))
}

impl Read for Subnet {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        match text(node, "a subnet such as `10.0.0.0/16` or `fd00::/64`", sink)?.parse() {
            Ok(subnet) => Some(subnet),
            Err(error) => {
                let problem = Problem::new(error).at(node.place);
                sink.add(problem.label("expected a subnet such as `10.0.0.0/16` or `fd00::/64`"));
                None
            }
        }
    }
}

/// One of a few words.
pub(crate) trait Word: Sized + Copy + 'static {
    /// Name of the enumeration, for errors.
    const WHAT: &'static str;
    /// Each word and its value.
    const WORDS: &'static [(&'static str, Self)];
}

/// Types of `record` that are words.
macro_rules! recorded {
    ($($kind:ident),*) => {$(
        impl Word for record::$kind {
            const WHAT: &'static str = Self::WHAT;
            const WORDS: &'static [(&'static str, Self)] = Self::WORDS;
        }
    )*};
}
recorded!(
    Clock,
    Connection,
    CoapTransport,
    HttpMethod,
    InteractionPattern,
    Method,
    MqttVersion,
    Timestamps
);

/// Reads one of the words of `T`.
pub(crate) fn word<T: Word>(node: &Node, sink: &mut Sink) -> Option<T> {
    let words: Vec<&str> = T::WORDS.iter().map(|(word, _)| *word).collect();
    let given = one_of(node, T::WHAT, &words, sink)?;
    T::WORDS.iter().find(|(word, _)| *word == given).map(|(_, value)| *value)
}

/// Reads the text of a valid `T`.
pub(crate) fn raw<T: Read>(node: &Node, sink: &mut Sink) -> Option<Value> {
    T::read(node, sink)?;
    text(node, "a text", sink).map(Value::from)
}

/// Reads one of these words of `what`.
pub(crate) fn one_of<'w>(
    node: &Node,
    what: &str,
    words: &[&'w str],
    sink: &mut Sink,
) -> Option<&'w str> {
    let given = text(node, what, sink)?;
    let found = words.iter().copied().find(|word| *word == given);
    if found.is_none() {
        let problem = Problem::new(format!("`{given}` is not {what}"))
            .at(node.place)
            .label(advice(given, words));
        let known = format!("known: {}", words.join(", "));
        let problem = if problem.label == known { problem } else { problem.note(known) };
        sink.add(problem);
    }
    found
}
