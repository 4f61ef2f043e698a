//! Formats numbers for people.

/// Placeholder for a missing value.
pub(crate) const NONE: &str = "–";

/// From here on, numbers have an exponent: a double has no more digits to show.
const HUGE: f64 = 1e15;

/// A number with three significant digits from 1 on, with two decimals from 0.1 on and with four below;
/// without exponent, unless it is tiny or huge.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        NONE.to_owned()
    } else if size == 0.0 {
        "0".to_owned()
    } else if value < 0.0 {
        // A minus sign (U+2212), as wide as a plus sign.
        format!("−{}", number(size))
    // All its digits, up to 309, would push the other columns off the screen.
    } else if size >= HUGE {
        format!("{value:.2e}")
    // The bounds are where rounding would give a digit more: 99.95 is shown as 100.
    } else if size >= 99.95 {
        format!("{value:.0}")
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else if size >= 0.0995 {
        format!("{value:.2}")
    } else if size >= 0.000_05 {
        format!("{value:.4}")
    // Not 0.0000: that reads as none.
    } else {
        format!("{value:.1e}")
    }
}

/// A count, or an average of counts.
pub(crate) fn count(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < HUGE { format!("{value:.0}") } else { number(value) }
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

/// Text without control characters, which could send escape sequences to a terminal, break a line
/// or change the order in which text is shown.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if is_steering(c) { ' ' } else { c }).collect()
}

/// Whether a character changes how other text is shown: a control character, a separator of lines,
/// or an override of the direction of writing (Unicode Standard Annex 9, sections 2.1 to 2.4).
pub(crate) fn is_steering(c: char) -> bool {
    let is_direction = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || is_direction || matches!(c, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_are_not_shown_as_none() {
        assert_eq!([0.0, 0.000_2, 0.000_06].map(number), ["0", "0.0002", "0.0001"]);
        assert_eq!([0.000_02, -3.4e-9].map(number), ["2.0e-5", "−3.4e-9"]);
    }

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
        // `valid` would read as `dilav`.
        assert_eq!(plain("\u{202e}dilav\u{2069}\u{2028}x"), " dilav  x");
        assert_eq!(plain("für Ωμέγα 日本 مرحبا 🛰"), "für Ωμέγα 日本 مرحبا 🛰");
    }

    /// The number that a reader sees.
    fn read(text: &str) -> f64 {
        text.replace('−', "-").parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn numbers_of_any_size_are_short_close_and_in_order() {
        let mut before = 0.0;
        // From the smallest double to the largest, in steps of 1 %.
        for step in 0..140_000 {
            let value = 10_f64.powf(-323.0 + f64::from(step) * 0.0045);
            let text = number(value);
            assert!(text.len() <= 15 && !text.is_empty(), "{value:e}: {text}");
            let shown = read(&text);
            assert!(shown >= before, "{value:e}: {shown} after {before}");
            before = shown;
            // A small number has fewer digits, but is never shown as 0.
            let allowed = match value {
                value if value >= 1.0 => 0.005,
                value if value >= 0.1 => 0.05,
                _ => 1.0,
            };
            assert!((shown - value).abs() <= allowed * value && shown > 0.0, "{value:e}: {text}");
            assert_eq!(number(-value), format!("−{text}"));
        }
        assert_eq!([f64::MAX, -1e15].map(number), ["1.80e308", "−1.00e15"]);
        assert_eq!(
            [1e14, 1e15, f64::MAX, f64::NAN].map(count),
            ["100000000000000", "1.00e15", "1.80e308", "–"]
        );
    }

    #[test]
    fn units_change_where_the_number_would_have_a_fourth_digit() {
        for (value, text) in [
            (0.0, "0 B"),
            (999.4, "999 B"),
            (999.6, "1.00 kB"),
            (999_499.0, "999 kB"),
            (999_600.0, "1.00 MB"),
            (999.4e6, "999 MB"),
            (999.6e6, "1.00 GB"),
            (-1_500.0, "−1.50 kB"),
            (f64::NAN, "– B"),
        ] {
            assert_eq!(bytes(value), text, "{value}");
        }
        let times = [(999.4, "999 us"), (999.6, "1.00 ms"), (999_600.0, "1.00 s")];
        times.iter().for_each(|(us, text)| assert_eq!(cpu_us(*us), *text, "{us}"));
        let joule =
            [(0.0, "0 uJ"), (0.99e-6, "0.99 uJ"), (0.9996e-3, "1.00 mJ"), (0.9996, "1.00 J")];
        joule.iter().for_each(|(j, text)| assert_eq!(joules(*j), *text, "{j}"));
        assert_eq!([quantity(999.4, "us"), quantity(999.6, "us")], ["999 us", "1.00 ms"]);
        assert_eq!([quantity(0.0, ""), quantity(-2_000.0, "us")], ["0", "−2.00 ms"]);
    }
}
