//! Cost of accounting: CPU time of the sampler with 350 sleeping nodes, and with 350 whose programs
//! wake up twenty times per second.

use crate::load::{self, TICK};
use crate::nodes;
use lab::{Link, Meter};
use measure::{Accounting, Sampler};
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

const NODES: usize = 350;
const LOOK: Duration = Duration::from_secs(10);

/// Prints the share of a core for sampling once per second, from control groups and from `/proc`.
pub fn bench() -> Result<(), Box<dyn Error>> {
    println!(
        "accounting of {NODES} nodes\n{:>12} {:>10} {:>14}",
        "programs", "from", "% of a core"
    );
    let folder = std::env::temp_dir().join(format!("thingbed-bench-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let (lab, _taps) = nodes::up(NODES, |_| Vec::new(), Link::Tap)?;
    for programs in ["none", "waking"] {
        if programs == "waking" {
            (0..NODES).try_for_each(|node| load::start(&lab, node, &[TICK]))?;
            std::thread::sleep(Duration::from_secs(2));
        }
        for meter in [lab.meter(), Meter::of_processes(&lab.pids())] {
            let names = (0..NODES).map(|node| format!("node-{node}")).collect();
            let accounting = Accounting::new(vec![(0..NODES).collect()], Vec::new(), None);
            let sampler = Sampler::begin(names, meter, accounting.counts(), &folder)?;
            std::thread::sleep(LOOK);
            let cost = sampler.end().cost;
            println!("{programs:>12} {:>10} {:>14.2}", cost.source.name(), cost.cpu_pct());
        }
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

/// Wakes up twenty times per second, on two threads.
pub fn tick() -> ExitCode {
    let work = || {
        loop {
            std::thread::sleep(Duration::from_millis(50));
            std::hint::black_box((0..1000u64).sum::<u64>());
        }
    };
    std::thread::spawn(work);
    work()
}
