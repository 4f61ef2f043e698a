//! The state of the lab, as the page shows it.

use runner::{LabShown, Occurrence, Reply, Request, Shown};
use serde::Serialize;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Pages and collectors that ask within this time get the same answer, so that they cost a measured run
/// no more than one does.
const FRESH: Duration = Duration::from_millis(800);
/// The lab rests this many times as long as an answer took: thousands of nodes take a while.
const REST: u32 = 10;

/// A node with its counters.
#[derive(Debug, Serialize)]
pub(crate) struct Node {
    pub name: String,
    pub group: String,
    /// `running`, `ended with status 1`, ...; empty without a program.
    pub state: String,
    pub program: String,
    /// Its networks and addresses.
    pub interfaces: Vec<(String, String)>,
    /// Frames and bytes.
    pub sent: [u64; 2],
    /// Frames and bytes.
    pub received: [u64; 2],
    pub cpu_ms: f64,
    pub memory_bytes: u64,
}

/// The state at one moment. Counters are totals since the lab came up.
#[derive(Debug, Serialize, Default)]
pub(crate) struct Snapshot {
    /// Time of the answer, in ms since an arbitrary moment.
    pub at_ms: u64,
    /// `None` before the lab is up, and between two runs.
    pub lab: Option<LabShown>,
    pub nodes: Vec<Node>,
    pub links: Vec<Shown>,
    pub timeline: Vec<Occurrence>,
}

/// Asks a lab for its state.
#[derive(Clone)]
pub(crate) struct Feed {
    pid: u32,
    began: Instant,
    last: Arc<Mutex<Option<Answer>>>,
}

/// The last answer, and until when it counts.
struct Answer {
    until: Instant,
    state: Arc<Snapshot>,
}

impl Feed {
    /// The feed of the lab of process `pid`.
    pub(crate) fn new(pid: u32) -> Self {
        Self { pid, began: Instant::now(), last: Arc::default() }
    }

    /// The state now. Blocks while the lab answers.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        // Held while the lab answers: further callers wait for this answer and do not ask again.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*last
            && Instant::now() < known.until
        {
            return known.state.clone();
        }
        let asked = Instant::now();
        // A lab that does not answer is not up, or ends.
        let state = Arc::new(self.ask().unwrap_or_default());
        let until = Instant::now() + FRESH.max(asked.elapsed() * REST);
        *last = Some(Answer { until, state: state.clone() });
        state
    }

    fn ask(&self) -> io::Result<Snapshot> {
        let ask = |request: &Request| runner::ask(self.pid, request);
        let Reply::Lab(lab) = ask(&Request::Lab {})? else { return Ok(Snapshot::default()) };
        let Reply::Nodes(nodes) = ask(&Request::Nodes { nodes: Vec::new() })? else {
            return Ok(Snapshot::default());
        };
        let Reply::Links(links) = ask(&Request::Show { nodes: Vec::new() })? else {
            return Ok(Snapshot::default());
        };
        let Reply::Timeline(timeline) = ask(&Request::Timeline {})? else {
            return Ok(Snapshot::default());
        };
        let pids: Vec<i32> = nodes.iter().map(|node| node.pid).collect();
        let usage = lab::sample(&pids);
        let nodes = nodes.into_iter().zip(usage).map(|(node, usage)| {
            let (program, state) = node.program.unwrap_or_default();
            let interfaces = node.interfaces.into_iter();
            Node {
                name: node.name,
                group: node.group,
                state,
                program,
                interfaces: interfaces
                    .map(|(_, network, address)| (network, address.to_string()))
                    .collect(),
                sent: node.sent,
                received: node.received,
                cpu_ms: usage.user_ms + usage.system_ms,
                memory_bytes: usage.rss_bytes,
            }
        });
        let at_ms = self.began.elapsed().as_millis() as u64;
        Ok(Snapshot { at_ms, lab: Some(lab), nodes: nodes.collect(), links, timeline })
    }
}
