//! Values that arrive together.

use record::event::CollectorSource;

/// Names that the spec does not have, and messages in another format, that are reported.
pub(super) const REPORTED: usize = 20;

/// The values of one page or export.
#[derive(Debug)]
pub(super) struct Batch {
    /// When they arrived, in ns of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Where they came from.
    pub source: CollectorSource,
    /// The number of the page in the spec.
    pub page: Option<u32>,
    /// By the text of the spec.
    pub values: Vec<(String, f64)>,
    /// Names that the spec does not have; of a page, why it was not read.
    pub remarks: Vec<String>,
}
