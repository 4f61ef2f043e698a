//! A page under construction, and what its sections are made from.

use super::chart::Chart;
use super::escape::escape;
use super::table::Table;
use crate::panels::Panels;
use crate::{CellRuns, Sweep};
use serde_json::Value;
use std::fmt::Write as _;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const SAVE: &str = include_str!("save.js");
const CELLS: &str = include_str!("cells.js");
/// The script that draws charts, Apache ECharts.
pub const CHARTS: &str = include_str!("../../assets/echarts.simple.min.js");

/// Input of the sections.
pub struct View<'a> {
    pub sweep: &'a Sweep,
    pub cells: Vec<CellRuns<'a>>,
    pub panels: Panels,
}

/// A page under construction.
#[derive(Default)]
pub struct Page {
    pub body: String,
    contents: Vec<(&'static str, &'static str)>,
    charts: Vec<Value>,
    /// The figures of each cell, for the page's script; null without cells.
    pub cells: Value,
    pub notes: Vec<String>,
}

impl Page {
    /// An empty page with these notes.
    pub fn new(notes: Vec<String>) -> Self {
        Self { notes, ..Self::default() }
    }

    /// Starts a section, which ends at the next one.
    pub fn section(&mut self, id: &'static str, title: &'static str) {
        self.open_section(id, title, "");
    }

    /// Like `section`; the page's script folds it until the reader opens it.
    pub fn folded_section(&mut self, id: &'static str, title: &'static str) {
        self.open_section(id, title, " class=\"fold\"");
    }

    fn open_section(&mut self, id: &'static str, title: &'static str, class: &str) {
        // Each section but the first ends the one before it.
        if !self.contents.is_empty() {
            self.body += "</section>\n";
        }
        self.contents.push((id, title));
        let _ = writeln!(self.body, "<section id=\"{id}\"{class}><h2>{title}</h2>");
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p class=\"say\">{}</p>", escape(text));
    }

    /// Adds a heading within a section.
    pub fn heading(&mut self, text: &str) {
        let _ = writeln!(self.body, "<h3>{}</h3>", escape(text));
    }

    pub fn table(&mut self, table: &Table) {
        self.body += &table.to_html();
    }

    /// Adds a collapsed table.
    pub fn collapsed_table(&mut self, title: &str, table: &Table) {
        let title = escape(title);
        let table = table.to_html();
        let _ = writeln!(self.body, "<details><summary>{title}</summary>{table}</details>");
    }

    /// Adds a chart, with the name of its panel above it.
    pub fn chart(&mut self, title: &str, chart: Chart) {
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
             tabindex=\"0\" aria-label=\"{label}\" style=\"height:{}px\"></div></figure>",
            chart.height
        );
        self.charts.push(chart.into_json());
    }

    /// Starts a row of charts, with their colour key above.
    pub fn begin_charts(&mut self, key: &[(String, &str)]) {
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

    pub fn end_charts(&mut self) {
        self.body += "</div>\n";
    }

    pub fn note(&mut self, note: String) {
        // A file that several sections read is noted once.
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The whole page; `facts` and `banner` are HTML.
    pub fn finish(mut self, title: &str, facts: &str, banner: &str, from: &str) -> String {
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
        let cells = json_in_page(&self.cells);
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <meta name=\"color-scheme\" content=\"light dark\">\
             <title>{title} · Thingbed report</title>\n<style>{STYLE}</style>\
             <noscript><style>.plot,.key{{display:none}}</style></noscript></head>\n<body>\
             <header><h1>{title}</h1><p class=\"facts\">{facts}</p>{banner}{notes}</header>\n\
             <nav aria-label=\"Contents\">{contents}</nav>\n<main>\n<div id=\"filter\"></div>\n\
             {body}</main>\n<footer>Generated by Thingbed from \
             {from} only. Charts by Apache ECharts, Copyright 2017-2024 The Apache Software \
             Foundation, Apache License 2.0.</footer>\n\
             <script type=\"application/json\" id=\"charts\">{charts}</script>\n\
             <script type=\"application/json\" id=\"cells\">{cells}</script>\n\
             <script>{CHARTS}</script>\n<script>{SCRIPT}{SAVE}{CELLS}</script>\n</body></html>\n"
        )
    }
}

fn notes(notes: &[String]) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let items: String = notes.iter().map(|note| format!("<li>{}</li>", escape(note))).collect();
    // A long list would push the results off the screen.
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

/// Escapes JSON for a script element: nothing in it can end the element.
fn json_in_page(value: &Value) -> String {
    let text = value.to_string();
    // `</script` ends the element anywhere in the text, and `<!--` changes how it is read (HTML,
    // restrictions for contents of script elements).
    let text = text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    // U+2028 and U+2029 end a line in JavaScript before ES2019.
    text.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_data_cannot_end_its_element() {
        let hostile = "</script><b onclick='x'>\"&";
        let json = json_in_page(&Value::String(hostile.to_owned()));
        assert!(!json.contains('<') && !json.contains('>'));
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), hostile);
    }

    #[test]
    fn what_is_embedded_does_not_end_its_element() {
        assert!(
            !CHARTS.contains("</script") && ![SCRIPT, SAVE, CELLS].concat().contains("</script")
        );
        assert!(!STYLE.contains("</style"));
    }
}
