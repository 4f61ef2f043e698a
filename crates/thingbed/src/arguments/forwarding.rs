//! Options of forwarding.

use clap::Args;

/// How frames are forwarded in real time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Args)]
pub struct Forwarding {
    /// Maximum number of threads that forward frames; each network belongs to one [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub threads: Option<u8>,
    /// Busy-wait for 60 us before each frame's release: more exact, uses one CPU per thread
    #[arg(long)]
    pub spin: bool,
}

impl Forwarding {
    /// The maximum number of threads.
    pub fn threads(&self) -> usize {
        self.threads.map_or(1, usize::from)
    }

    /// The first of the options that differs from its default; none if there is none.
    pub fn given(&self) -> Option<&'static str> {
        // `--threads 1` is what virtual time does anyway, so it is not refused there (decision 66).
        let threads = (self.threads() > 1).then_some("--threads");
        threads.or_else(|| self.spin.then_some("--spin"))
    }
}
