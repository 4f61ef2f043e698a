//! The report as a self-contained HTML page that works offline.
//!
//! Tables are plain HTML and readable without JavaScript. Charts are options for the chart library:
//! JSON in the page, drawn on load. Text from files always goes through [`escape`] or into that
//! JSON.

mod capture;
mod chart;
mod clients;
mod delay;
mod exchange;
mod intervals;
mod links;
mod load;
mod probe;
mod reference;
mod results;
mod runs;
mod table;
mod topology;
mod usage;
mod verdict;
mod wire;

use crate::panels::Panels;
use crate::{Capture, CellRuns, Error, Sweep};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");
const CHARTS: &str = include_str!("../assets/echarts.simple.min.js");

/// Writes the report of a sweep as one HTML file.
///
/// Reads the tables of one run at a time. The page lists files that cannot be read.
///
/// # Errors
/// If the page cannot be written.
pub fn write_html(sweep: &Sweep, path: &Path) -> Result<(), Error> {
    std::fs::write(path, page(sweep))
        .map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// Writes the analysis of a capture as one HTML file.
///
/// # Errors
/// If the page cannot be written.
pub fn write_capture_html(capture: &Capture, title: &str, path: &Path) -> Result<(), Error> {
    std::fs::write(path, capture::page(capture, title))
        .map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// Input of the sections.
struct View<'a> {
    sweep: &'a Sweep,
    cells: Vec<CellRuns<'a>>,
    panels: Panels,
}

/// A page under construction.
#[derive(Default)]
struct Page {
    body: String,
    contents: Vec<(&'static str, &'static str)>,
    charts: Vec<Value>,
    notes: Vec<String>,
}

fn page(sweep: &Sweep) -> String {
    let cells = sweep.cells();
    let view = View { sweep, panels: Panels::of(sweep, &cells), cells };
    let mut page = Page { notes: sweep.all_notes(), ..Page::default() };
    verdict::section(&mut page, &view);
    results::section(&mut page, &view);
    verdict::checks(&mut page, &view);
    reference::section(&mut page, &view);
    delay::section(&mut page, &view);
    exchange::section(&mut page, &view);
    load::section(&mut page, &view);
    probe::section(&mut page, &view);
    wire::section(&mut page, &view);
    usage::section(&mut page, &view);
    clients::section(&mut page, &view);
    links::section(&mut page, &view);
    topology::section(&mut page, &view);
    runs::section(&mut page, &view);
    let banner = verdict::banner(sweep);
    let facts = runs::headline(sweep);
    page.finish(sweep.experiment(), &facts, &banner, "the run folder")
}

impl Page {
    /// Starts a section, which ends at the next one.
    fn section(&mut self, id: &'static str, title: &'static str) {
        if !self.contents.is_empty() {
            self.body += "</section>\n";
        }
        self.contents.push((id, title));
        let _ = writeln!(self.body, "<section id=\"{id}\"><h2>{title}</h2>");
    }

    /// Adds a paragraph.
    fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p class=\"say\">{}</p>", escape(text));
    }

    /// Adds a heading within a section.
    fn heading(&mut self, text: &str) {
        let _ = writeln!(self.body, "<h3>{}</h3>", escape(text));
    }

    fn table(&mut self, table: &table::Table) {
        self.body += &table.to_html();
    }

    /// Adds a collapsed table.
    fn collapsed_table(&mut self, title: &str, table: &table::Table) {
        let title = escape(title);
        let table = table.to_html();
        let _ = writeln!(self.body, "<details><summary>{title}</summary>{table}</details>");
    }

    /// Adds a chart, with the name of its panel above it.
    fn chart(&mut self, title: &str, chart: chart::Chart) {
        let place = self.charts.len();
        let head = format!(
            "<figcaption>{}<small>{}</small></figcaption>",
            escape(title),
            escape(&chart.values)
        );
        let label = escape(&chart.label);
        let _ = writeln!(
            self.body,
            "<figure>{head}<div class=\"plot\" id=\"chart-{place}\" role=\"img\" \
             aria-label=\"{label}\" style=\"height:{}px\"></div></figure>",
            chart.height
        );
        self.charts.push(chart.into_json());
    }

    /// Starts a row of charts, with their colour key above.
    fn begin_charts(&mut self, key: &[(String, &str)]) {
        if !key.is_empty() {
            self.body += "<p class=\"key\">";
            for (name, colour) in key {
                let name = escape(name);
                let _ =
                    write!(self.body, "<span><i style=\"background:{colour}\"></i>{name}</span>");
            }
            self.body += "</p>\n";
        }
        self.body += "<div class=\"charts\">\n";
    }

    fn end_charts(&mut self) {
        self.body += "</div>\n";
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The whole page; `facts` and `banner` are HTML.
    fn finish(mut self, title: &str, facts: &str, banner: &str, from: &str) -> String {
        self.body += "</section>\n";
        let title = escape(title);
        let contents: String = self
            .contents
            .iter()
            .map(|(id, title)| format!("<a href=\"#{id}\">{title}</a>"))
            .collect();
        let notes = notes(&self.notes);
        let body = &self.body;
        let charts = json_in_page(&Value::Array(self.charts));
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <meta name=\"color-scheme\" content=\"light dark\">\
             <title>{title} · Thingbed report</title>\n<style>{STYLE}</style>\
             <noscript><style>.plot,.key{{display:none}}</style></noscript></head>\n<body>\
             <header><h1>{title}</h1><p class=\"facts\">{facts}</p></header>\n{banner}{notes}\
             <nav>{contents}</nav>\n<main>\n{body}</main>\n<footer>Generated by Thingbed from \
             {from} only. Charts by Apache ECharts, Copyright 2017-2024 The Apache Software \
             Foundation, Apache License 2.0.</footer>\n\
             <script type=\"application/json\" id=\"charts\">{charts}</script>\n\
             <script>{CHARTS}</script>\n<script>{SCRIPT}</script>\n</body></html>\n"
        )
    }
}

fn notes(notes: &[String]) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let items: String = notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
    let open = if notes.len() <= 5 { " open" } else { "" };
    format!(
        "<details class=\"notes\"{open}><summary>{} missing or damaged; the charts that need it \
         are omitted</summary><ul>{items}</ul></details>\n",
        if notes.len() == 1 {
            "1 file is".to_owned()
        } else {
            format!("{} files are", notes.len())
        }
    )
}

/// Escapes text for HTML, including attributes.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Escapes JSON for a script element: nothing in it can end the element.
fn json_in_page(value: &Value) -> String {
    let text = value.to_string();
    let text = text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    text.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_leave_its_place() {
        let hostile = "</script><b onclick='x'>\"&";
        let escaped = "&lt;/script&gt;&lt;b onclick=&#39;x&#39;&gt;&quot;&amp;";
        assert_eq!(escape(hostile), escaped);
        let json = json_in_page(&Value::String(hostile.to_owned()));
        assert!(!json.contains('<') && !json.contains('>'));
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), hostile);
    }

    #[test]
    fn what_is_embedded_does_not_end_its_element() {
        assert!(!CHARTS.contains("</script") && !SCRIPT.contains("</script"));
        assert!(!STYLE.contains("</style"));
    }
}
