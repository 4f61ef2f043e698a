//! Tables, texts and pages from a run folder.
//!
//! The only input is files, so a report can be generated again years later, on another machine.
//! [`Sweep::read`] reads a sweep folder or a single run; [`terminal`] makes text of it,
//! [`write_html`] a page that works offline. A missing or damaged file does not prevent the report:
//! only its metrics are missing, and a note says so.

mod attribution;
mod axis_values;
mod builds;
mod capture;
mod capture_text;
mod check;
mod clients;
mod columns;
mod compare;
mod comparison;
mod cut;
mod error;
mod exchanges;
mod figures;
mod format;
mod html;
mod intervals;
mod json;
mod junit;
mod links;
mod markdown;
mod messages;
mod panels;
mod plan;
mod program_values;
mod reasons;
mod reference;
mod run;
mod stats;
mod summary;
mod sweep;
mod terminal;
mod usage;

pub use builds::{Builds, CellDifferences, Difference, compare_builds};
pub use capture::Capture;
pub use capture_text::capture_terminal;
pub use check::{Check, CheckStatus};
pub use clients::ClientRow;
pub use compare::{CompareFigure, compare};
pub use comparison::Comparison;
pub use cut::damaged_tables;
pub use error::Error;
pub use exchanges::{Exchanges, MedianInterval, SizeResults};
pub use html::{CHARTS as CHART_LIBRARY, write_capture_html, write_html};
pub use intervals::IntervalRow;
pub use json::json;
pub use junit::junit;
pub use links::LinkRow;
pub use markdown::markdown;
pub use messages::MessageTimes;
pub use plan::{GroupLink, Topology};
pub use program_values::ProgramValueRow;
pub use record::{Cell, Evidence, Reason, Status, Verdict};
pub use reference::{Figure, Reference, ReferenceValue};
pub use run::{Run, run_facts};
pub use stats::Spread;
pub use summary::{Load, ProbeResult, ProgramSamples, Sender, Summary};
pub use sweep::{CellRuns, Sweep};
pub use terminal::terminal;
pub use usage::UsageRow;
