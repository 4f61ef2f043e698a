//! The report as Markdown, for documents and pull requests.

use crate::check::tally;
use crate::figures::{columns, range};
use crate::{Check, Sweep, format};

/// The verdict, a row per cell, the comparison with the reference, and the expectations.
pub fn markdown(sweep: &Sweep) -> String {
    let mut parts = vec![verdict(sweep), results(sweep)];
    parts.extend(reference(sweep));
    if !sweep.checks.is_empty() {
        let checks = sweep.checks.iter().map(check);
        parts.push(format!("{}.\n\n{}", tally(&sweep.checks), checks.collect::<String>()));
    }
    parts.join("\n")
}

fn verdict(sweep: &Sweep) -> String {
    let status = sweep.status().to_string().to_uppercase();
    let mut text = format!("**{status}** {}: {}\n", plain(sweep.experiment()), sweep.tally());
    for reason in sweep.reasons() {
        let parts = [reason.explanation.clone(), reason.place(sweep.runs.len(), 4)];
        let parts = parts.iter().filter(|part| !part.is_empty());
        let more: String = parts.map(|part| format!(" {}", plain(part))).collect();
        text += &format!("\n- {}: {}.{more}", reason.status, plain(&reason.headline));
    }
    text + "\n"
}

fn results(sweep: &Sweep) -> String {
    let columns = columns(sweep);
    let axes = sweep.axes();
    let mut heads: Vec<String> = axes.iter().map(|axis| plain(axis)).collect();
    heads.push("runs".to_owned());
    heads.extend(columns.iter().map(|column| match &*column.unit {
        "" => plain(&column.head),
        unit => format!("{}, {unit}", plain(&column.head)),
    }));
    let rows =
        sweep.cells().into_iter().map(|cell| {
            let axis = |axis: &&str| plain(cell.cell.get(axis).unwrap_or(format::NONE));
            let mut row: Vec<String> = axes.iter().map(axis).collect();
            row.push(format!("{} {}", cell.runs.len(), cell.status()));
            row.extend(columns.iter().map(|column| {
                with_range(column.texts(cell.spread(|summary| column.figure(summary))))
            }));
            row
        });
    table(&heads, rows)
}

fn reference(sweep: &Sweep) -> Option<String> {
    let reference = sweep.reference.as_ref()?;
    let heads = ["figure", "cell", "measured", "reference", "unit", "measured to reference"]
        .map(str::to_owned);
    let rows = reference.figures.iter().flat_map(|figure| {
        let compared = figure.compare(sweep).into_iter();
        let run = compared.filter(|row| !sweep.matching(&row.cell).runs.is_empty());
        run.map(|row| {
            [
                plain(&figure.name),
                plain(&row.cell.label()),
                with_range(range(row.measured, format::number)),
                row.reference_value.map_or_else(|| format::NONE.to_owned(), format::number),
                plain(&figure.unit),
                figure.difference(&row),
            ]
            .to_vec()
        })
    });
    let text = format!("{}\n\n{}", plain(&reference.source), table(&heads, rows));
    Some(text)
}

fn check(check: &Check) -> String {
    let (label, say) = (check.status.label(), plain(&check.say));
    match plain(&check.text) {
        text if text.is_empty() => format!("- {label}: {say}\n"),
        text => format!("- {label}: {say} ({text})\n"),
    }
}

fn with_range((median, range): (String, Option<String>)) -> String {
    range.map_or(median.clone(), |range| format!("{median} ({range})"))
}

pub(crate) fn table(heads: &[String], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |places: &[String]| format!("| {} |\n", places.join(" | "));
    let rule = line(&heads.iter().map(|_| "---".to_owned()).collect::<Vec<_>>());
    let rows: String = rows.map(|row| line(&row)).collect();
    format!("{}{rule}{rows}", line(heads))
}

/// Escapes Markdown, so that text from files stays within its table cell and makes no markup.
pub(crate) fn plain(text: &str) -> String {
    let mut safe = String::new();
    for c in format::plain(text).chars() {
        // A bar would end the cell; the others begin markup, `<` HTML, `&` an entity, and on GitHub
        // `~` deleted text and `$` a formula.
        if matches!(c, '|' | '*' | '_' | '<' | '>' | '`' | '[' | '\\' | '&' | '~' | '$') {
            safe.push('\\');
        }
        safe.push(c);
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_breaks_no_table() {
        assert_eq!(plain("a|b *c*\n<d>"), "a\\|b \\*c\\* \\<d\\>");
        let rows = [vec!["1".to_owned(), "2".to_owned()]];
        let heads = ["a", "b"].map(str::to_owned);
        assert_eq!(table(&heads, rows.into_iter()), "| a | b |\n| --- | --- |\n| 1 | 2 |\n");
    }
}
