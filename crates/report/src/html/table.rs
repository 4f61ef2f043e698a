//! HTML tables, with escaping in one place.

use super::escape::escape;
use crate::Status;
use std::fmt::Write as _;

/// Content of a table cell.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// Text, left-aligned.
    Text(String),
    /// A name, with its meaning below in small type.
    Explained(String, String),
    /// A number, right-aligned, with optional small text below.
    Number(String, Option<String>),
    /// A number in small type.
    Small(String),
    /// A status with its symbol, and text.
    Status(Status, String),
    /// A number with a bar for its share of a limit, 0 to 1.
    Share(String, f64),
}

impl Place {
    /// A number without text below.
    pub(super) fn number(text: impl Into<String>) -> Self {
        Self::Number(text.into(), None)
    }
}

impl From<&str> for Place {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Place {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// A table under construction.
#[derive(Debug, Default)]
pub(super) struct Table {
    heads: Vec<(String, String, bool)>,
    /// The rows, with the cell of each; `None` if it is not of a single cell.
    rows: Vec<(Option<usize>, Vec<Place>)>,
}

impl Table {
    /// A column of text.
    pub(super) fn text(mut self, head: &str) -> Self {
        self.heads.push((head.to_owned(), String::new(), false));
        self
    }

    /// A column of numbers in this unit.
    pub(super) fn numbers(mut self, head: &str, unit: &str) -> Self {
        self.heads.push((head.to_owned(), unit.to_owned(), true));
        self
    }

    /// Adds a row.
    pub(super) fn row(&mut self, row: Vec<Place>) {
        self.rows.push((None, row));
    }

    /// Adds a row of a cell, which the page can hide.
    pub(super) fn row_of(&mut self, cell: usize, row: Vec<Place>) {
        self.rows.push((Some(cell), row));
    }

    /// Whether it has no rows.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// HTML of the table; a wide table scrolls horizontally.
    pub(super) fn to_html(&self) -> String {
        let mut html = String::from("<div class=\"table\"><table><thead><tr>");
        for (head, unit, numeric) in &self.heads {
            let class = if *numeric { " class=\"n\"" } else { "" };
            let unit = if unit.is_empty() {
                String::new()
            } else {
                format!(" <small>{}</small>", escape(unit))
            };
            // Screen readers announce an empty heading.
            let tag = if head.is_empty() { "td" } else { "th scope=\"col\"" };
            // The name without attributes: `td` or `th`.
            let end = &tag[..2];
            let _ = write!(html, "<{tag}{class}>{}{unit}</{end}>", escape(head));
        }
        html += "</tr></thead><tbody>\n";
        for (cell, row) in &self.rows {
            match cell {
                // Writing to a String does not fail.
                Some(cell) => drop(write!(html, "<tr data-cell=\"{cell}\">")),
                None => html += "<tr>",
            }
            for place in row {
                html += &place.to_html();
            }
            html += "</tr>\n";
        }
        html += "</tbody></table></div>\n";
        html
    }
}

impl Place {
    fn to_html(&self) -> String {
        match self {
            // A sentence may wrap, a name may not.
            Self::Text(text) if text.chars().count() > 44 => format!("<td>{}</td>", escape(text)),
            Self::Text(text) => format!("<td class=\"t\">{}</td>", escape(text)),
            Self::Explained(name, meaning) => {
                let (name, meaning) = (escape(name), escape(meaning));
                format!("<td class=\"e\">{name}<small>{meaning}</small></td>")
            }
            Self::Small(text) => format!("<td class=\"n s\">{}</td>", escape(text)),
            Self::Number(text, None) => format!("<td class=\"n\">{}</td>", escape(text)),
            Self::Number(text, Some(below)) => {
                format!("<td class=\"n\">{}<small>{}</small></td>", escape(text), escape(below))
            }
            Self::Status(status, text) => format!("<td>{}</td>", badge(*status, text)),
            Self::Share(text, share) => {
                // From the limit on, the bar is full and changes colour.
                let over = if *share >= 1.0 { " over" } else { "" };
                let width = (share.clamp(0.0, 1.0) * 100.0).round();
                format!(
                    "<td class=\"n\">{}<span class=\"share{over}\"><i style=\"width:{width}%\"></i>\
                     </span></td>",
                    escape(text)
                )
            }
        }
    }
}

/// A status as a coloured word with a symbol.
pub(super) fn badge(status: Status, text: &str) -> String {
    format!("<span class=\"badge {status}\">{} {}</span>", status.sign(), escape(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(place: Place) -> String {
        let mut table = Table::default().text("head");
        table.row(vec![place]);
        let html = table.to_html();
        html.split("<tbody>\n<tr>").nth(1).unwrap().split("</tr>").next().unwrap().to_owned()
    }

    #[test]
    fn names_do_not_wrap_and_sentences_do() {
        assert_eq!(cell("é".repeat(44).into()), format!("<td class=\"t\">{}</td>", "é".repeat(44)));
        assert_eq!(cell("é".repeat(45).into()), format!("<td>{}</td>", "é".repeat(45)));
    }

    #[test]
    fn a_bar_stays_within_its_cell_for_any_share() {
        for (share, width, is_over) in [
            (0.0, "0", false),
            (0.004, "0", false),
            (0.5, "50", false),
            (0.999, "100", false),
            (1.0, "100", true),
            (7e9, "100", true),
            (f64::INFINITY, "100", true),
            (-3.0, "0", false),
        ] {
            let html = cell(Place::Share("x".to_owned(), share));
            assert!(html.contains(&format!("width:{width}%")), "{share}: {html}");
            assert_eq!(html.contains("share over"), is_over, "{share}: {html}");
        }
    }

    #[test]
    fn all_kinds_of_content_are_escaped_and_rows_keep_their_cell() {
        let evil = || "<&\">".to_owned();
        let mut table = Table::default().text(&evil()).numbers(&evil(), &evil()).text("");
        table
            .row_of(7, vec![Place::Explained(evil(), evil()), Place::Number(evil(), Some(evil()))]);
        table.row(vec![Place::Small(evil()), Place::Status(Status::Valid, evil())]);
        table.row(vec![Place::number(evil()), Place::Share(evil(), 0.5)]);
        let html = table.to_html();
        assert_eq!(html.matches("&lt;&amp;&quot;&gt;").count(), 11, "{html}");
        assert!(!html.contains("<&") && html.contains("<tr data-cell=\"7\"><td class=\"e\">"));
        // Screen readers would announce an empty heading.
        assert!(html.contains("<td></td></tr></thead>") && html.matches("<th ").count() == 2);
        assert!(!table.is_empty() && Table::default().text("a").is_empty());
    }
}
