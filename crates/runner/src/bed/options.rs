//! Options of a bed.

use engine::FramePath;
use measure::FullDisk;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Options of a bed.
pub(crate) struct BedOptions<'a> {
    /// A program whose `main` serves as the fork server: the tool itself.
    pub tool: &'a Path,
    /// The program that implements the consoles of machines.
    pub workload: &'a Path,
    /// Working directory of user programs: the experiment file's folder.
    pub home: &'a Path,
    /// The requested frame path; `None` for the best that works.
    pub frame_path: Option<FramePath>,
    /// Maximum number of threads that forward frames.
    pub threads: usize,
    /// Whether they busy-wait shortly before frames are due.
    pub spin: bool,
    /// Whether a run is measured: then the bed keeps the nodes of its plan, and works without a
    /// control socket if it must.
    pub is_measured: bool,
    /// Whether programs' logs are shortened while they run, and not only at the end.
    pub watches_output: bool,
    /// What the run gives up when its disk is full; `None` without a run.
    pub disk: Option<Arc<FullDisk>>,
    /// Set when a user or a control client stops the bed.
    pub interrupted: &'a AtomicBool,
}
