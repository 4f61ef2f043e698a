//! The machine of a run, as far as results depend on it.

use record::Machine;
use std::fs;

/// Reads this machine's properties; unreadable ones are empty.
pub(crate) fn machine() -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let cpu = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let memory = read("/proc/meminfo");
    let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib: u64 = total
        .and_then(|value| value.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or_default();
    Machine {
        kernel: format!(
            "{} {}",
            read("/proc/sys/kernel/osrelease").trim(),
            read("/proc/sys/kernel/version").trim()
        ),
        cpu: cpu
            .and_then(|line| line.split_once(':'))
            .map_or_else(String::new, |(_, name)| name.trim().to_owned()),
        cores: std::thread::available_parallelism().map_or(1, Into::into),
        memory_bytes: kib * 1024,
        tcp_congestion: read("/proc/sys/net/ipv4/tcp_congestion_control").trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_and_memory() {
        let machine = machine();
        assert!(machine.cores >= 1 && machine.memory_bytes > 1 << 20);
        assert!(machine.kernel.contains('.'));
    }
}
