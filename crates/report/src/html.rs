//! The report as a self-contained HTML page that works offline.
//!
//! Tables are plain HTML and readable without JavaScript. Charts are options for the chart library:
//! JSON in the page, drawn on load. Text from files always goes through [`escape::escape`] or into that
//! JSON.

mod capture;
mod chart;
mod clients;
mod delay;
mod escape;
mod exchange;
mod explore;
mod intervals;
mod links;
mod load;
mod over_time;
mod page;
mod probe;
mod program;
mod reference;
mod results;
mod runs;
mod table;
mod topology;
mod usage;
mod verdict;
mod wire;

use crate::panels::Panels;
use crate::{Capture, Error, Sweep};
pub use page::CHARTS;
use page::{Page, View};
use std::path::Path;

/// Writes the report of a sweep as one HTML file.
///
/// Reads the tables of one run at a time. The page lists files that cannot be read.
///
/// # Errors
/// If the page cannot be written.
pub fn write_html(sweep: &Sweep, path: &Path) -> Result<(), Error> {
    save(&page(sweep), path)
}

/// Writes the analysis of a capture as one HTML file.
///
/// # Errors
/// If the page cannot be written.
pub fn write_capture_html(capture: &Capture, title: &str, path: &Path) -> Result<(), Error> {
    save(&capture::page(capture, title), path)
}

/// Writes a page. A killed process or a full disk leaves the earlier file, never a part of the new
/// one.
fn save(text: &str, path: &Path) -> Result<(), Error> {
    // The user may name a device or a link, e.g. /dev/stdout.
    let written = match std::fs::symlink_metadata(path) {
        // A draft is renamed over the target, which would replace the device by a file.
        Ok(old) if !old.is_file() => std::fs::write(path, text),
        _ => journal::write(path, text),
    };
    written.map_err(|source| Error::Write { path: path.to_owned(), source })
}

fn page(sweep: &Sweep) -> String {
    let cells = sweep.cells();
    // Panels once for all sections, so that a cell has the same colour in each of them.
    let view = View { sweep, panels: Panels::of(sweep, &cells), cells };
    let mut page = Page::new(sweep.all_notes());
    // Results first, evidence after them (decision 91).
    results::section(&mut page, &view);
    verdict::checks(&mut page, &view);
    explore::section(&mut page, &view);
    over_time::section(&mut page, &view);
    reference::section(&mut page, &view);
    delay::section(&mut page, &view);
    exchange::section(&mut page, &view);
    load::section(&mut page, &view);
    program::section(&mut page, &view);
    probe::section(&mut page, &view);
    wire::section(&mut page, &view);
    usage::section(&mut page, &view);
    clients::section(&mut page, &view);
    links::section(&mut page, &view);
    topology::section(&mut page, &view);
    verdict::section(&mut page, &view);
    runs::section(&mut page, &view);
    let banner = verdict::banner(sweep);
    let facts = runs::headline(sweep);
    page.finish(sweep.experiment(), &facts, &banner, "the run folder")
}
