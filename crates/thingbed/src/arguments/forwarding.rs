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

    /// What a user should know who forwards frames of `networks` networks on a machine with `cpus`
    /// CPUs; none if there is nothing.
    pub fn warning(&self, networks: usize, cpus: u32) -> Option<String> {
        let threads = self.threads().min(networks);
        // Forwarding has real-time priority, and wakes up for each frame while frames are few. With
        // a thread on each CPU, programs get what is left: on two CPUs a sixth of the frames of one
        // thread (docs/results/house.md).
        (threads > 1 && threads >= cpus as usize).then(|| {
            format!(
                "{threads} forwarding threads take precedence over the programs, and this machine \
                 has {cpus} CPUs, so programs may get too little CPU time; use --threads {} or less",
                cpus.saturating_sub(1).max(1)
            )
        })
    }

    /// The first of the options that differs from its default; none if there is none.
    pub fn given(&self) -> Option<&'static str> {
        // `--threads 1` is what virtual time does anyway, so it is not refused there (decision 66).
        let threads = (self.threads() > 1).then_some("--threads");
        threads.or_else(|| self.spin.then_some("--spin"))
    }
}

#[cfg(test)]
mod tests {
    use super::Forwarding;

    #[test]
    fn a_thread_for_each_cpu_is_a_warning() {
        let with = |threads| Forwarding { threads: Some(threads), spin: false };
        let text = with(4).warning(2, 2).unwrap();
        assert!(text.starts_with("2 forwarding threads") && text.ends_with("--threads 1 or less"));
        assert!(with(4).warning(4, 4).unwrap().ends_with("--threads 3 or less"));
        // Each network has at most one thread.
        assert_eq!(with(4).warning(1, 2), None);
        assert_eq!(with(2).warning(2, 3), None);
        // There is no fewer than one thread.
        assert_eq!(with(1).warning(5, 1), None);
        assert_eq!(Forwarding::default().warning(5, 1), None);
    }
}
