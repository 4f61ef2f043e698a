//! The report as text.

use crate::attribution::Attribution;
use crate::check::{CheckStatus, tally};
use crate::figures::{columns, range};
use crate::{Status, Sweep, format};
use comfy_table::{
    Cell as Place, CellAlignment, Color, ContentArrangement, LineStyle, Table, presets,
};

/// The report as text of at most `width` columns: the verdict, a row per cell, the comparison with
/// the reference, and the expectations.
pub fn terminal(sweep: &Sweep, width: u16, colour: bool) -> String {
    let page = Page { width: width.max(40), colour };
    let mut parts = vec![page.verdict(sweep), page.results(sweep)];
    parts.extend(Attribution::of(sweep).map(|found| page.attribution(&found)));
    parts.extend(page.reference(sweep));
    if !sweep.checks.is_empty() {
        parts.push(page.checks(sweep));
    }
    let notes = sweep.all_notes();
    if !notes.is_empty() {
        let notes: Vec<_> =
            // Six columns: `note: `.
            notes.iter().map(|note| format!("note: {}\n", page.wrap(note, 6))).collect();
        parts.push(notes.concat());
    }
    parts.join("\n")
}

/// Width of the terminal in columns, and whether it has colours.
pub(crate) struct Page {
    pub(crate) width: u16,
    pub(crate) colour: bool,
}

fn colour_of(status: Status) -> (&'static str, Color) {
    match status {
        Status::Valid => ("32", Color::Green),
        Status::Suspect | Status::Unknown => ("33", Color::Yellow),
        Status::Failed | Status::Invalid => ("31", Color::Red),
    }
}

impl Page {
    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn verdict(&self, sweep: &Sweep) -> String {
        let status = sweep.status();
        let word = format!("{} {}", status.sign(), status.to_string().to_uppercase());
        let code = format!("1;{}", colour_of(status).0);
        let name = format::plain(sweep.experiment());
        let mut text = format!("{}  {name}, {}\n", self.paint(&code, &word), sweep.tally());
        for reason in sweep.reasons() {
            let head = self.paint(colour_of(reason.status).0, &format!("{:8}", reason.status));
            text += &format!("  {head} {}\n", self.wrap(&reason.headline, 11));
            // Below the headline, eleven columns from the left.
            for more in [reason.explanation.clone(), reason.place(sweep.runs.len(), 3)] {
                if !more.is_empty() {
                    let more = self.wrap(&more, 11);
                    text += &format!("           {}\n", self.paint("2", &more));
                }
            }
        }
        text
    }

    /// An empty table with these heads; `true` marks numeric columns.
    pub(crate) fn table(&self, heads: Vec<(String, bool)>) -> Table {
        let mut table = Table::new();
        table.load_style(presets::UTF8_HORIZONTAL_ONLY).force_no_tty();
        table.style_mut().row_separator = LineStyle::none();
        if self.colour {
            // Without it colours disappear with `force_no_tty`.
            table.enforce_styling();
        }
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(self.width);
        let numeric: Vec<bool> = heads.iter().map(|(_, numeric)| *numeric).collect();
        let plain = |head: String| head.lines().map(format::plain).collect::<Vec<_>>().join("\n");
        table.set_header(heads.into_iter().map(|(head, _)| Place::new(plain(head))));
        for (column, numeric) in table.column_iter_mut().zip(numeric) {
            column.set_padding((0, 1));
            if numeric {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }

    /// One table if it fits; else separate ones for messages and bytes, because wrapped numbers are
    /// unreadable.
    fn results(&self, sweep: &Sweep) -> String {
        let all = self.results_of(sweep, |_| true);
        let columns = columns(sweep);
        let has_messages = columns.iter().any(|column| column.messages);
        if usize::from(self.width) >= natural_width(&all) || !has_messages {
            return format!("{all}\n{}", self.how_to_read(sweep, has_messages));
        }
        let messages = self.results_of(sweep, |messages| messages);
        let rest = self.results_of(sweep, |messages| !messages);
        format!("{messages}\n{rest}\n{}", self.how_to_read(sweep, true))
    }

    fn how_to_read(&self, sweep: &Sweep, has_messages: bool) -> String {
        let repeated = sweep.cells().iter().any(|cell| cell.runs.len() > 1);
        let medians = "Medians over the repeats; the range is below. ";
        let medians = if repeated { medians } else { "" };
        let text = match has_messages {
            true => "Times start at the scheduled time of a message; bytes",
            false => "Bytes",
        };
        let text = format!("{medians}{text} are counted on the wire, including Ethernet headers.");
        self.paint("2", &text) + "\n"
    }

    fn results_of(&self, sweep: &Sweep, is_shown: impl Fn(bool) -> bool) -> Table {
        let columns: Vec<_> = columns(sweep).into_iter().filter(|c| is_shown(c.messages)).collect();
        let axes = sweep.axes();
        let mut heads: Vec<_> = axes.iter().map(|axis| ((*axis).to_owned(), false)).collect();
        heads.push(("runs".to_owned(), false));
        heads.extend(columns.iter().map(|column| {
            // Separate lines for the last word and the unit keep the column narrow.
            let head = match format::plain(&column.head).rsplit_once(' ') {
                Some((head, last)) => format!("{head}\n{last}"),
                None => column.head.clone(),
            };
            (if column.unit.is_empty() { head } else { format!("{head}\n{}", column.unit) }, true)
        }));
        let mut table = self.table(heads);
        for cell in sweep.cells() {
            let status = cell.status();
            let mut row: Vec<_> = axes
                .iter()
                .map(|axis| Place::new(format::plain(cell.cell.get(axis).unwrap_or(format::NONE))))
                .collect();
            let runs = format!("{} {}", status.sign(), cell.runs.len());
            row.push(Place::new(runs).fg(colour_of(status).1));
            for column in &columns {
                let (median, range) = column.texts(cell.spread(|run| column.figure(run)));
                let range = range.map(|range| format!("\n{range}")).unwrap_or_default();
                row.push(Place::new(format!("{median}{range}")));
            }
            table.add_row(row);
        }
        table
    }

    /// Metrics that depend on the CPU in virtual time.
    fn attribution(&self, found: &Attribution) -> String {
        let axes = found.axes.iter().map(|axis| (format::plain(axis), false));
        let figures = found.heads.iter().map(|(head, unit)| match unit.is_empty() {
            true => (head.clone(), true),
            false => (format!("{head}\n{unit}"), true),
        });
        let mut table = self.table(axes.chain(figures).collect());
        for (values, marks) in &found.rows {
            let values = values.iter().map(|value| format::plain(value));
            table.add_row(values.chain(marks.iter().map(|mark| mark.text("\n"))).map(Place::new));
        }
        format!("{}\n{table}\n", self.wrap(&found.explanation(), 0))
    }

    fn reference(&self, sweep: &Sweep) -> Option<String> {
        let reference = sweep.reference.as_ref()?;
        let heads =
            ["figure", "cell", "measured", "range", "reference", "unit", "measured to reference"];
        let mut table = self.table(
            heads.iter().enumerate().map(|(i, h)| ((*h).to_owned(), i > 1 && i != 5)).collect(),
        );
        let mut left_out = 0;
        for figure in &reference.figures {
            for (place, row) in figure.compare(sweep).iter().enumerate() {
                if sweep.matching(&row.cell).runs.is_empty() {
                    left_out += 1;
                    continue;
                }
                let (measured, range) = range(row.measured, format::number);
                let reference_value =
                    row.reference_value.map_or_else(|| format::NONE.to_owned(), format::number);
                let name = if place == 0 { format::plain(&figure.name) } else { String::new() };
                table.add_row([
                    name,
                    format::plain(&row.cell.label()),
                    measured,
                    range.unwrap_or_default(),
                    reference_value,
                    format::plain(&figure.unit),
                    figure.difference(row),
                ]);
            }
        }
        let missing = match left_out {
            0 => String::new(),
            1 => "1 value of the reference belongs to a cell that was not run.\n".to_owned(),
            n => format!("{n} values of the reference belong to cells that were not run.\n"),
        };
        let source = self.wrap(&reference.source, 0);
        Some(format!("Comparison with the reference:\n{source}\n{table}\n{missing}"))
    }

    fn checks(&self, sweep: &Sweep) -> String {
        let mut text = format!("Expectations: {}\n", tally(&sweep.checks));
        let not_run = sweep.checks.iter().filter(|check| check.is_not_run()).count();
        for check in sweep.checks.iter().filter(|check| !check.is_not_run()) {
            let code = match check.status {
                CheckStatus::Pass => "32",
                CheckStatus::Fail => "31",
                CheckStatus::NotMeasured => "33",
            };
            // Padded before it is painted: codes of colours have no width but count as letters.
            let label = self.paint(code, &format!("{:6}", check.status.label()));
            text += &format!("  {label} {}\n", self.wrap(&check.say, 9));
            if !check.text.is_empty() {
                text += &format!("         {}\n", self.paint("2", &self.wrap(&check.text, 9)));
            }
        }
        match not_run {
            0 => {}
            1 => text += "  1 expectation belongs to a cell that was not run\n",
            n => text += &format!("  {n} expectations belong to cells that were not run\n"),
        }
        text
    }

    /// Wraps text from files to the width, with further lines indented.
    pub(crate) fn wrap(&self, text: &str, indent: usize) -> String {
        let width = usize::from(self.width).saturating_sub(indent).max(20);
        textwrap::wrap(&format::plain(text), width).join(&format!("\n{}", " ".repeat(indent)))
    }
}

/// Width of a table without wrapping, in columns.
fn natural_width(table: &Table) -> usize {
    let widths = table.column_max_content_widths();
    widths.iter().map(|width| usize::from(*width) + 2).sum()
}
