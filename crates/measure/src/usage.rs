//! Resource usage of nodes and host during a run. Its rows are on the disk, not in memory.

use crate::counts::Carried;
use journal::{Spill, Spilled};
use lab::{Reading, Source};
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use units::{Instant, Span};

/// Names of the files in the run folder that have the rows while the run goes on.
const NODES: &str = "usage.csv";
const HOST: &str = "host.csv";
const NODES_HEAD: &str = "node,second,user_ns,system_ns,memory_bytes,memory_peak_bytes,\
    voluntary,involuntary,throttled_ns,disk_read_bytes,disk_written_bytes,\
    tx_frames,tx_bytes,rx_frames,rx_bytes";
const HOST_HEAD: &str = "at_ns,seconds,busy,steal,pressure";

/// Resource usage of one node in one second.
#[derive(Debug, Clone, PartialEq)]
pub struct UsageRow {
    /// The node's name.
    pub node: Arc<str>,
    /// The second since sampling began, from 0.
    pub second: u32,
    /// Its usage in that second; `memory` and `memory_peak` are the values at its end.
    pub used: Reading,
    /// Its traffic in that second.
    pub carried: Carried,
}

/// CPU use of the host in one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HostUse {
    /// End of the interval.
    pub at: Instant,
    /// Its length in seconds.
    pub seconds: f64,
    /// Used fraction of all CPUs' time, 0 to 1.
    pub busy: f64,
    /// Fraction taken by the hypervisor (steal), 0 to 1.
    pub steal: f64,
    /// Fraction of the time in which a runnable task waited for a CPU, 0 to 1; `None` if the kernel
    /// does not report it.
    pub pressure: Option<f64>,
}

/// CPU times of a node over all samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeTotal {
    /// CPU time in user mode and in the kernel.
    pub cpu: Span,
    /// Time in which a limit throttled it.
    pub throttled: Span,
}

/// All samples of a run.
#[derive(Debug, Default)]
pub struct Usage {
    /// Totals of each node, in the order of the sampler's names.
    pub totals: Vec<NodeTotal>,
    /// The cost of sampling.
    pub cost: Cost,
    nodes: Option<Spilled>,
    host: Option<Spilled>,
    /// Whether CPU times are meaningless, as in virtual time with an infinite CPU.
    is_costless: bool,
}

/// Usage that is still being sampled.
#[derive(Debug)]
pub(crate) struct UsageLog {
    totals: Vec<NodeTotal>,
    nodes: Spill,
    host: Spill,
}

impl UsageLog {
    /// Creates the files in `folder`.
    pub fn create(folder: &Path, nodes: usize) -> io::Result<Self> {
        Ok(Self {
            totals: vec![NodeTotal::default(); nodes],
            nodes: Spill::create(&folder.join(NODES), NODES_HEAD)?,
            host: Spill::create(&folder.join(HOST), HOST_HEAD)?,
        })
    }

    /// Adds a row of the node with number `node`.
    pub fn add(&mut self, node: usize, row: &UsageRow) {
        let UsageRow { node: name, second, used, carried } = row;
        let Reading { memory, memory_peak, voluntary, involuntary, .. } = used;
        let Reading { disk_read, disk_written, .. } = used;
        let [user_ns, system_ns, throttled_ns] =
            [used.user, used.system, used.throttled].map(Span::as_ns);
        let ([tx, tx_bytes], [rx, rx_bytes]) = (carried.tx, carried.rx);
        self.totals[node].cpu += used.user + used.system;
        self.totals[node].throttled += used.throttled;
        self.nodes.push(format_args!(
            "{name},{second},{user_ns},{system_ns},{memory},{memory_peak},{voluntary},\
             {involuntary},{throttled_ns},{disk_read},{disk_written},{tx},{tx_bytes},{rx},{rx_bytes}"
        ));
    }

    /// Adds an interval of the host.
    pub fn add_host(&mut self, row: &HostUse) {
        let HostUse { at, seconds, busy, steal, pressure } = row;
        let at_ns = at.as_ns();
        let pressure = pressure.map(|pressure| pressure.to_string()).unwrap_or_default();
        self.host.push(format_args!("{at_ns},{seconds},{busy},{steal},{pressure}"));
    }

    /// Writes the rows to the disk.
    pub fn flush(&mut self) {
        self.nodes.flush();
        self.host.flush();
    }

    /// All samples.
    pub fn end(self, cost: Cost) -> Usage {
        let (nodes, host) = (Some(self.nodes.end()), Some(self.host.end()));
        Usage { totals: self.totals, cost, nodes, host, is_costless: false }
    }
}

impl Usage {
    /// Without CPU times, for runs in which they are meaningless.
    pub fn without_cpu(self) -> Self {
        let totals = vec![NodeTotal::default(); self.totals.len()];
        Self { totals, is_costless: true, host: None, ..self }
    }

    /// Rows by second and node, in order of time.
    pub fn rows(&self) -> impl Iterator<Item = io::Result<UsageRow>> + '_ {
        let of = |row: UsageRow| match self.is_costless {
            true => {
                let used = Reading {
                    user: Span::ZERO,
                    system: Span::ZERO,
                    throttled: Span::ZERO,
                    ..row.used
                };
                UsageRow { used, ..row }
            }
            false => row,
        };
        self.nodes.iter().flat_map(|rows| rows.rows(node_row)).map(move |row| row.map(of))
    }

    /// CPU use of the host by interval, in order of time.
    pub fn host(&self) -> impl Iterator<Item = io::Result<HostUse>> + '_ {
        self.host.iter().flat_map(|rows| rows.rows(host_row))
    }

    /// The names of its files in a run folder, which are needed until its rows are in tables.
    pub fn files() -> [&'static str; 2] {
        [NODES, HOST]
    }
}

impl From<Vec<NodeTotal>> for Usage {
    /// Totals without rows.
    fn from(totals: Vec<NodeTotal>) -> Self {
        Self { totals, ..Self::default() }
    }
}

fn node_row(line: &str) -> Option<UsageRow> {
    let (node, rest) = line.split_once(',')?;
    let mut values = rest.split(',').map(u64::from_str);
    let mut next = || values.next()?.ok();
    let row = UsageRow {
        node: node.into(),
        second: next()?.try_into().ok()?,
        used: Reading {
            user: Span::from_ns(next()?),
            system: Span::from_ns(next()?),
            memory: next()?,
            memory_peak: next()?,
            voluntary: next()?,
            involuntary: next()?,
            throttled: Span::from_ns(next()?),
            disk_read: next()?,
            disk_written: next()?,
        },
        carried: Carried { tx: [next()?, next()?], rx: [next()?, next()?] },
    };
    values.next().is_none().then_some(row)
}

fn host_row(line: &str) -> Option<HostUse> {
    let mut values = line.split(',');
    let at = Instant::from_ns(values.next()?.parse().ok()?);
    let mut next = || values.next()?.parse::<f64>().ok();
    let (seconds, busy, steal) = (next()?, next()?, next()?);
    let pressure = match values.next()? {
        "" => None,
        text => Some(text.parse().ok()?),
    };
    Some(HostUse { at, seconds, busy, steal, pressure })
}

/// The cost of sampling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Source of the nodes' figures.
    pub source: Source,
    /// CPU time of the sampler's thread.
    pub cpu: Span,
    /// Duration of sampling.
    pub wall: Span,
}

impl Default for Cost {
    fn default() -> Self {
        Self { source: Source::Proc, cpu: Span::ZERO, wall: Span::ZERO }
    }
}

impl Cost {
    /// The share of one core that it took, in percent.
    pub fn cpu_pct(&self) -> f64 {
        100.0 * self.cpu.as_ns() as f64 / self.wall.as_ns().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_back_exactly() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = UsageLog::create(dir.path(), 2).unwrap();
        let used = Reading {
            user: Span::from_ns(1),
            system: Span::from_ns(2),
            memory: 3,
            memory_peak: 4,
            voluntary: 5,
            involuntary: 6,
            throttled: Span::from_ns(7),
            disk_read: 8,
            disk_written: u64::MAX,
        };
        let carried = Carried { tx: [1, 60], rx: [2, 90] };
        let row = UsageRow { node: "meter-1".into(), second: 3, used, carried };
        let host = [
            HostUse {
                at: Instant::from_ns(9),
                seconds: 0.1,
                busy: 1.0 / 3.0,
                steal: 0.0,
                pressure: Some(0.25),
            },
            HostUse { at: Instant::from_ns(10), ..HostUse::default() },
        ];
        log.add(1, &row);
        log.add(1, &UsageRow { second: 4, ..row.clone() });
        host.iter().for_each(|row| log.add_host(row));
        let usage = log.end(Cost::default());
        let rows: Vec<UsageRow> = usage.rows().map(Result::unwrap).collect();
        assert_eq!(rows, [row.clone(), UsageRow { second: 4, ..row.clone() }]);
        assert_eq!(usage.host().map(Result::unwrap).collect::<Vec<_>>(), host);
        let total = NodeTotal { cpu: Span::from_ns(6), throttled: Span::from_ns(14) };
        assert_eq!(usage.totals, [NodeTotal::default(), total]);
        let usage = usage.without_cpu();
        let first = usage.rows().next().unwrap().unwrap();
        assert_eq!((first.used.user, first.used.memory, first.carried), (Span::ZERO, 3, carried));
        assert_eq!((usage.totals[1], usage.host().count()), (NodeTotal::default(), 0));
    }
}
