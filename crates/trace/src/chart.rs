//! Text charts for terminals.

const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A sparkline: one bar per value, the maximum a full block; 0 is a space.
pub fn sparks(values: &[f64]) -> String {
    let most = values.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
    values
        .iter()
        .map(|value| {
            if most <= 0.0 || !value.is_finite() || *value <= 0.0 {
                return ' ';
            }
            // Rounded up, so that no value above 0 looks like 0.
            EIGHTHS[((value / most * 8.0).ceil() as usize).clamp(1, 8) - 1]
        })
        .collect()
}

/// A horizontal bar chart with row names and one or two bars per row, for example configured and
/// measured. Shares are 0 to 1; the longest bar is `width` characters long.
pub fn bars(rows: &[(String, f64, Option<f64>)], width: usize) -> String {
    let most = rows
        .iter()
        .flat_map(|(_, one, two)| [*one, two.unwrap_or(0.0)])
        .filter(|share| share.is_finite())
        .fold(0.0, f64::max);
    let names = rows.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
    let bar = |share: f64, sign: char| -> String {
        let long = if most > 0.0 { (share / most * width as f64).round() as usize } else { 0 };
        std::iter::repeat_n(sign, long.min(width)).collect()
    };
    let mut text = String::new();
    for (name, one, two) in rows {
        let pad = names - name.chars().count();
        text += &format!("{}{name} {} {:.1} %\n", " ".repeat(pad), bar(*one, '█'), one * 100.0);
        if let Some(two) = two {
            text += &format!("{} {} {:.1} %\n", " ".repeat(names), bar(*two, '░'), two * 100.0);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_is_full_and_nothing_is_nothing() {
        assert_eq!(sparks(&[0.0, 1.0, 4.0, 8.0]), " ▁▄█");
        assert_eq!(sparks(&[0.0, f64::NAN]), "  ");
        assert_eq!(sparks(&[]), "");
    }

    #[test]
    fn bars_are_as_long_as_their_shares() {
        let rows = [("a".to_owned(), 0.5, None), ("bcd".to_owned(), 0.25, Some(0.125))];
        assert_eq!(bars(&rows, 4), "  a ████ 50.0 %\nbcd ██ 25.0 %\n    ░ 12.5 %\n");
    }
}
