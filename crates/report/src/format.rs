//! Formats numbers for people.

/// Placeholder for a missing value.
pub(crate) const NONE: &str = "–";

/// A number with three significant digits, without exponent.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        NONE.to_owned()
    } else if size == 0.0 {
        "0".to_owned()
    } else if value < 0.0 {
        // A minus sign (U+2212), as wide as a plus sign.
        format!("−{}", number(size))
    // The bounds are where rounding would give a digit more: 99.95 is shown as 100.
    } else if size >= 99.95 {
        format!("{value:.0}")
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else if size >= 0.0995 {
        format!("{value:.2}")
    } else {
        // Below 0.01, these are fewer than three significant digits.
        format!("{value:.4}")
    }
}

/// A count, or an average of counts.
pub(crate) fn count(value: f64) -> String {
    if value.fract() == 0.0 && value.is_finite() { format!("{value:.0}") } else { number(value) }
}

/// A value of evidence with its unit; long times in milliseconds.
pub(crate) fn quantity(value: f64, unit: &str) -> String {
    match unit {
        // Where three digits round up to 1,000 us.
        "us" if value.abs() >= 999.5 => format!("{} ms", number(value / 1e3)),
        // A limit of 0 is `0`, not `0.0000`.
        unit => format!("{} {unit}", count(value)).trim_end().to_owned(),
    }
}

/// A number and a noun: `1 cell`, `3 cells`.
pub(crate) fn things(number: usize, name: &str) -> String {
    format!("{number} {name}{}", if number == 1 { "" } else { "s" })
}

/// An amount of data in decimal units.
pub(crate) fn bytes(value: f64) -> String {
    let (unit, factor) = byte_unit(value.abs());
    format!("{} {unit}", number(value / factor))
}

/// The unit for amounts up to `largest`, and its size in bytes.
pub(crate) fn byte_unit(largest: f64) -> (&'static str, f64) {
    match largest {
        size if size >= 999.5e6 => ("GB", 1e9),
        size if size >= 999.5e3 => ("MB", 1e6),
        size if size >= 999.5 => ("kB", 1e3),
        _ => ("B", 1.0),
    }
}

/// CPU time, given in milliseconds.
pub(crate) fn cpu(ms: f64) -> String {
    if ms >= 999.5 { format!("{} s", number(ms / 1e3)) } else { format!("{} ms", number(ms)) }
}

/// CPU time per message, given in microseconds.
pub(crate) fn cpu_us(us: f64) -> String {
    if us >= 999.5 { cpu(us / 1e3) } else { format!("{} us", number(us)) }
}

/// Energy, given in joules.
pub(crate) fn joules(joules: f64) -> String {
    let (unit, factor) = match joules {
        j if j >= 0.9995 => ("J", 1.0),
        j if j >= 0.9995e-3 => ("mJ", 1e-3),
        _ => ("uJ", 1e-6),
    };
    format!("{} {unit}", number(joules / factor))
}

/// A number with its sign.
pub(crate) fn signed(value: f64) -> String {
    format!("{}{}", if value > 0.0 { "+" } else { "" }, number(value))
}

/// Text without control characters, which could send escape sequences to a terminal or break a
/// line.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_units() {
        let numbers = [0.0, 0.00031, 0.31, 2.184, 46.81, 345.6, 21500.0, -0.5, f64::NAN];
        let texts = numbers.map(number);
        assert_eq!(texts, ["0", "0.0003", "0.31", "2.18", "46.8", "346", "21500", "−0.50", "–"]);
        assert_eq!(bytes(1_424_574.0), "1.42 MB");
        assert_eq!(bytes(999.6), "1.00 kB");
        assert_eq!(cpu(1540.0), "1.54 s");
        assert_eq!(cpu_us(1540.0), "1.54 ms");
        assert_eq!((joules(0.00154), joules(2.0)), ("1.54 mJ".to_owned(), "2.00 J".to_owned()));
        assert_eq!(count(600.0), "600");
        assert_eq!(signed(-3.0), "−3.00");
    }

    #[test]
    fn a_name_cannot_steer_the_terminal() {
        assert_eq!(plain("a\u{1b}[31mb\n"), "a [31mb ");
    }
}
