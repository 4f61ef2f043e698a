//! Tables, texts and pages from a run folder.
//!
//! The only input is files, so a report can be generated again years later, on another machine.
//! [`Sweep::read`] reads a sweep folder or a single run; [`terminal`] makes text of it,
//! [`write_html`] a page that works offline. A missing or damaged file does not prevent the report:
//! only its metrics are missing, and a note says so.

mod attribution;
mod capture;
mod capture_text;
mod cell;
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
mod junit;
mod links;
mod markdown;
mod messages;
mod panels;
mod plan;
mod reasons;
mod reference;
mod run;
mod stats;
mod summary;
mod sweep;
mod terminal;
mod usage;

pub use capture::Capture;
pub use capture_text::capture_terminal;
pub use cell::Cell;
pub use check::{Check, CheckStatus};
pub use clients::ClientRow;
pub use compare::{CompareFigure, compare};
pub use comparison::Comparison;
pub use cut::damaged_tables;
pub use error::Error;
pub use exchanges::{Exchanges, MedianInterval, SizeResults};
pub use html::{write_capture_html, write_html};
pub use intervals::IntervalRow;
pub use junit::junit;
pub use links::LinkRow;
pub use markdown::markdown;
pub use messages::MessageTimes;
pub use plan::{GroupLink, Topology};
pub use record::{Evidence, Reason, Status, Verdict};
pub use reference::{Figure, Reference, ReferenceValue};
pub use run::{Facts, Phase, Run};
pub use stats::Spread;
pub use summary::{Load, ProbeResult, ProgramSamples, Sender, Summary};
pub use sweep::{CellRuns, Sweep};
pub use terminal::terminal;
pub use usage::UsageRow;
