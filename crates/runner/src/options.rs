//! Options of a run.

use engine::FramePath;
use experiment::{Clock, Cpu};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Options of a run.
#[derive(Debug)]
pub struct Options<'a> {
    /// A program whose `main` serves as the fork server: the tool itself.
    pub tool: &'a Path,
    /// The program that implements the interaction models.
    pub workload: &'a Path,
    /// Working directory of user programs: the experiment file's folder.
    pub home: &'a Path,
    /// The requested frame path; `None` for the best that works.
    pub frame_path: Option<FramePath>,
    /// Maximum number of threads that forward frames; each network belongs to one.
    pub threads: usize,
    /// Whether the medium busy-waits shortly before frames are due.
    pub spin: bool,
    /// Whether to write `capture.pcapng` in any case: the frames that the plan selects, or all.
    pub capture: bool,
    /// The folder of the run whose impairment decisions are replayed.
    pub replay: Option<&'a Path>,
    /// Set when the user stops the run; partial results are reported.
    pub interrupted: &'a AtomicBool,
    /// The clock of the run.
    pub clock: Clock,
    /// The CPU model of programs in virtual time.
    pub cpu: Cpu,
    /// The version of the tool.
    pub version: &'a str,
    /// The commit that it was built from; empty if unknown.
    pub commit: &'a str,
}

impl Options<'_> {
    /// Whether programs take no CPU time.
    pub(crate) fn is_costless(&self) -> bool {
        self.clock == Clock::Virtual && self.cpu.is_infinite()
    }
}
