//! Values of an axis of the matrix as numbers, to draw figures against it.

/// Units that can be converted into each other: name, kind, and factor to the kind's base unit.
// The units of `units::Span`, `Rate` and `Bytes`, and frequencies of CPUs. Factors are between
// units of one kind only.
const UNITS: [(&str, &str, f64); 21] = [
    ("ns", "time", 1e-9),
    ("us", "time", 1e-6),
    ("ms", "time", 1e-3),
    ("s", "time", 1.0),
    ("min", "time", 60.0),
    ("h", "time", 3600.0),
    ("bit/s", "rate", 1.0),
    ("kbit/s", "rate", 1e3),
    ("Mbit/s", "rate", 1e6),
    ("Gbit/s", "rate", 1e9),
    ("B", "size", 1.0),
    ("kB", "size", 1e3),
    ("MB", "size", 1e6),
    ("GB", "size", 1e9),
    ("KiB", "size", 1024.0),
    ("MiB", "size", 1_048_576.0),
    ("GiB", "size", 1_073_741_824.0),
    ("Hz", "frequency", 1.0),
    ("kHz", "frequency", 1e3),
    ("MHz", "frequency", 1e6),
    ("GHz", "frequency", 1e9),
];

/// The values as numbers in the unit of the first one, with that unit; `None` if one is not a number
/// or their units cannot be converted.
pub(crate) fn numbers(values: &[&str]) -> Option<(Vec<f64>, String)> {
    let parts: Vec<(f64, &str)> = values.iter().map(|text| split(text)).collect::<Option<_>>()?;
    // A zero often has no unit: `0`, `10 ms`, `20 ms`.
    let unit = parts.iter().map(|(_, unit)| *unit).find(|unit| !unit.is_empty()).unwrap_or("");
    let known = |name: &str| UNITS.iter().find(|(unit, ..)| *unit == name);
    let convert = |(value, own): &(f64, &str)| {
        if *own == unit || *value == 0.0 {
            return Some(*value);
        }
        let ((_, from, factor), (_, to, base)) = (known(own)?, known(unit)?);
        // `10 ms` and `10 kB` on one axis are categories.
        (from == to).then_some(value * factor / base)
    };
    Some((parts.iter().map(convert).collect::<Option<_>>()?, unit.to_owned()))
}

/// A number and its unit.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || ".-+eE".contains(c)));
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let value: f64 = number.parse().ok()?;
    // `nan` and `inf` parse as numbers in Rust.
    Some((value, unit.trim())).filter(|(value, _)| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_converted_to_the_unit_of_the_first() {
        let of = |values: &[&str]| numbers(values);
        assert_eq!(of(&["0", "10 ms", "0.5 s"]), Some((vec![0.0, 10.0, 500.0], "ms".to_owned())));
        assert_eq!(of(&["1", "2.5"]), Some((vec![1.0, 2.5], String::new())));
        assert_eq!(of(&["5 %", "10%"]), Some((vec![5.0, 10.0], "%".to_owned())));
        assert_eq!(of(&["3 dBm", "5 dBm"]), Some((vec![3.0, 5.0], "dBm".to_owned())));
    }

    #[test]
    fn words_and_mixed_units_are_no_numbers() {
        for values in [&["mqtt", "coap"][..], &["1 ms", "2 kB"], &["", "1"], &["1", "e"]] {
            assert_eq!(numbers(values), None, "{values:?}");
        }
    }
}
