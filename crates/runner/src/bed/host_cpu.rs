//! This host's CPU, for CPU limits: clock frequency and benchmark score.

use crate::error::Error;
use experiment::{Plan, PlannedCpu};
use lab::Member;
use record::HostCpu;
use std::fs;
use units::Frequency;

/// Environment variable with the CoreMark score of one core of this host.
const COREMARK: &str = "THINGBED_COREMARK";

/// Reads the values of this host.
pub(crate) fn read_host_cpu() -> HostCpu {
    let sheet = fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
    let most = sheet.ok().and_then(|khz| khz.trim().parse::<f64>().ok());
    let coremark = std::env::var(COREMARK).ok().and_then(|text| text.trim().parse().ok());
    // A score of 0 would allow infinitely many CPUs.
    let coremark = coremark.filter(|score: &f64| score.is_finite() && *score > 0.0);
    // The kernel reports kHz. Virtual machines often lack this file.
    let (clock, clock_from) = match most.and_then(|khz| Frequency::from_hertz(khz * 1e3)) {
        Some(clock) => (Some(clock), "cpufreq, maximum"),
        None => {
            let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
            (clock_of(&info), "/proc/cpuinfo")
        }
    };
    HostCpu { clock, clock_from: clock_from.to_owned(), coremark }
}

/// The number of CPUs that equals `cpu` on this host.
pub(crate) fn cpus(host: &HostCpu, cpu: PlannedCpu) -> Result<f64, String> {
    let cpus = match cpu {
        PlannedCpu::Clock(requested) => {
            let clock = host.clock.filter(|clock| clock.hertz() > 0.0);
            let clock = clock.ok_or(
                "the clock frequency of this machine is unknown: neither cpufreq nor \
                 /proc/cpuinfo has it\n  use `cpus` for the limit instead",
            )?;
            requested.hertz() / clock.hertz()
        }
        PlannedCpu::Coremark(requested) => {
            let score = host.coremark.ok_or_else(|| {
                format!(
                    "the benchmark score of this machine is unknown\n  run CoreMark on one \
                     core and pass its iterations per second: {COREMARK}=30000 thingbed run \
                     ..."
                )
            })?;
            requested / score
        }
    };
    // The kernel's minimum quota is 1 ms of its period of 100 ms.
    match cpus < 0.01 {
        true => Err(format!(
            "it would be {cpus:.5} CPUs on this machine, and the kernel's minimum \
                         is 0.01"
        )),
        false => Ok(cpus),
    }
}

/// Sets in `members` the limits that the plan gives by clock or benchmark. Returns whether
/// there were any.
pub(crate) fn limit(host: &HostCpu, plan: &Plan, members: &mut [Member]) -> Result<bool, Error> {
    let mut any = false;
    for (node, member) in plan.nodes.iter().zip(members) {
        let Some(cpu) = node.limits.cpu else { continue };
        let cpus = self::cpus(host, cpu);
        let cpus = cpus.map_err(|why| Error::HostCpu { node: node.name.clone(), cpu, why })?;
        member.limits.cpus = Some(cpus);
        any = true;
    }
    Ok(any)
}

/// The highest clock frequency of any CPU in `/proc/cpuinfo`.
fn clock_of(info: &str) -> Option<Frequency> {
    // The present clocks, which fall while CPUs are idle: the highest is nearest to the maximum.
    let lines = info.lines().filter(|line| line.starts_with("cpu MHz"));
    let clocks = lines.filter_map(|line| line.split_once(':')?.1.trim().parse::<f64>().ok());
    Frequency::from_hertz(
        clocks.fold(None, |most: Option<f64>, mhz| Some(most.map_or(mhz, |most| most.max(mhz))))?
            * 1e6,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_and_a_benchmark_become_shares_of_this_host() {
        let clock = clock_of("cpu MHz\t\t: 1000.0\nmodel name : X\ncpu MHz : 2000.0\n");
        let host = HostCpu { clock, clock_from: String::new(), coremark: Some(10_000.0) };
        assert_eq!(cpus(&host, PlannedCpu::Clock("200 MHz".parse().unwrap())), Ok(0.1));
        assert_eq!(cpus(&host, PlannedCpu::Coremark(500.0)), Ok(0.05));
        let little = cpus(&host, PlannedCpu::Coremark(50.0)).unwrap_err();
        assert!(little.contains("0.00500 CPUs"), "{little}");
        let unknown = HostCpu { clock: clock_of(""), clock_from: String::new(), coremark: None };
        let why = cpus(&unknown, PlannedCpu::Coremark(500.0)).unwrap_err();
        assert!(why.contains(COREMARK), "{why}");
        assert!(cpus(&unknown, PlannedCpu::Clock("1 GHz".parse().unwrap())).is_err());
    }
}
