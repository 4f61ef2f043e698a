//! Names in the folder of a sweep.

/// The only file that depends on this machine and differs each time: options and durations of a sweep
/// in virtual time.
pub(crate) const HOST: &str = "host.json";
/// Prefix of locks and drafts.
pub(crate) const HIDDEN: char = '.';
/// Subfolder for interrupted runs.
pub(crate) const CUT_SHORT: &str = "cut-short";
/// Subfolder for invalid runs that were repeated.
pub(crate) const REJECTED: &str = "rejected";
/// Subfolder for Slurm's scripts, logs and lists of runs.
pub(crate) const SLURM: &str = "slurm";
