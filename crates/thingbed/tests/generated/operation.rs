//! The commands of a user, and their syntax.

use super::model::{Model, NETWORKS};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    Start,
    Stop,
    Restart,
    Kill,
    Pause,
    Resume,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkWay {
    Up,
    Down,
    Both,
}

/// A key of an impairment and its new value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LinkKey {
    /// In ms.
    Delay(f64),
    /// In percent.
    Loss(f64),
    /// In kbit/s; 0 removes the key.
    Rate(u32),
}

/// How a lab ends.
#[derive(Debug, Clone)]
pub enum End {
    Down,
    /// By several `down` at once.
    Downs,
    /// By `down`, while the lab executes another command.
    During(Box<Operation>),
    /// By SIGKILL to its process.
    Crash,
}

/// Nodes are indices in the model; targets are text: a node, a group or a pattern.
#[derive(Debug, Clone)]
pub enum Operation {
    /// A short program run by `exec`, and its exit status.
    Exec {
        node: usize,
    },
    /// A loop run by `exec` that uses a CPU until it is killed.
    Busy {
        node: usize,
    },
    Rest {
        node: usize,
    },
    /// Five pings, and their effect on counters.
    Send {
        from: usize,
        to: usize,
        network: usize,
    },
    /// Copies a file into a node and out of it.
    Copy {
        node: usize,
    },
    /// Fetches a page from a server outside, through the network's gateway.
    Fetch {
        node: usize,
    },
    /// A program that uses 100 MiB of memory.
    Memory {
        node: usize,
    },
    Signal {
        signal: Signal,
        target: String,
    },
    Set {
        target: String,
        cpus: Option<f64>,
        memory: Option<u64>,
        hostname: Option<String>,
        mtu: Option<u32>,
    },
    LinkSet {
        target: String,
        network: Option<usize>,
        way: LinkWay,
        keys: Vec<LinkKey>,
        /// In seconds.
        over: Option<u64>,
    },
    LinkDown {
        target: String,
        network: Option<usize>,
        way: LinkWay,
        down: bool,
    },
    Clone {
        node: usize,
        count: usize,
    },
    Destroy {
        target: String,
    },
    /// A capture in the background.
    Capture {
        node: usize,
    },
    CaptureEnd,
    /// An end of the lab, and then `up`.
    Restart(End),
    /// Several simultaneous commands, as from several terminals. Their order does not affect the
    /// result.
    Together(Vec<Operation>),
    /// Two simultaneous commands for the same node. Their order may decide that one is refused.
    Race(Box<[Operation; 2]>),
    /// A command that must end with this exit status and change nothing.
    Refused {
        words: Vec<String>,
        status: i32,
    },
}

impl Operation {
    /// Name in the counts.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Exec { .. } => "exec",
            Self::Busy { .. } => "exec, busy loop",
            Self::Rest { .. } => "exec, end of the loop",
            Self::Send { .. } => "exec ping",
            Self::Copy { .. } => "cp",
            Self::Fetch { .. } => "exec, through nat",
            Self::Memory { .. } => "exec, 100 MiB",
            Self::Signal { signal, .. } => signal.word(),
            Self::Set { .. } => "set",
            Self::LinkSet { over: None, .. } => "link set",
            Self::LinkSet { over: Some(_), .. } => "link set --over",
            Self::LinkDown { down: true, .. } => "link down",
            Self::LinkDown { down: false, .. } => "link up",
            Self::Clone { .. } => "clone",
            Self::Destroy { .. } => "destroy",
            Self::Capture { .. } => "capture",
            Self::CaptureEnd => "capture, Ctrl-C",
            Self::Restart(End::Down) => "down and up",
            Self::Restart(End::Downs) => "three down at once, up",
            Self::Restart(End::During(_)) => "down during another command, up",
            Self::Restart(End::Crash) => "kill -9, gc, up",
            Self::Race(_) => "two at once for one node",
            Self::Together(_) => "several at once",
            Self::Refused { .. } => "refused",
        }
    }

    /// The nodes that it changes, for operations that are one command for nodes.
    pub fn nodes(&self, model: &Model) -> Vec<usize> {
        match self {
            Self::Signal { target, .. }
            | Self::Set { target, .. }
            | Self::LinkSet { target, .. }
            | Self::LinkDown { target, .. }
            | Self::Destroy { target } => model.find(target),
            Self::Clone { node, .. } => vec![*node],
            _ => Vec::new(),
        }
    }

    /// The same command for the node with this name only. It keeps no choice of a network, which this
    /// node may lack.
    pub fn of_node(self, node: usize, model: &Model) -> Self {
        let target = model.nodes[node].name.clone();
        match self {
            Self::Signal { signal, .. } => Self::Signal { signal, target },
            Self::Set { cpus, memory, hostname, mtu, .. } => {
                Self::Set { target, cpus, memory, hostname, mtu }
            }
            Self::LinkSet { way, keys, over, .. } => {
                Self::LinkSet { target, network: None, way, keys, over }
            }
            Self::LinkDown { way, down, .. } => Self::LinkDown { target, network: None, way, down },
            Self::Clone { count, .. } => Self::Clone { node, count },
            Self::Destroy { .. } => Self::Destroy { target },
            other => other,
        }
    }

    /// The arguments, for operations that are one Thingbed command; its name comes first.
    pub fn words(&self, model: &Model) -> Vec<String> {
        let name = |node: &usize| model.nodes[*node].name.clone();
        let all = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        match self {
            Self::Signal { signal, target } => all(&[signal.word(), target]),
            Self::Set { target, cpus, memory, hostname, mtu } => {
                let mut words = all(&["set", target]);
                words.extend(cpus.map(|cpus| format!("cpus={cpus}")));
                words.extend(memory.map(|memory| format!("memory={memory}MiB")));
                words.extend(hostname.as_ref().map(|name| format!("hostname={name}")));
                words.extend(mtu.map(|mtu| format!("mtu={mtu}B")));
                words
            }
            Self::LinkSet { target, network, way, keys, over } => {
                let mut words = all(&["link set", target]);
                words.extend(which(*network, *way));
                words.extend(keys.iter().map(|key| match key {
                    LinkKey::Delay(ms) => format!("delay={ms}ms"),
                    LinkKey::Loss(percent) => format!("loss={percent}%"),
                    LinkKey::Rate(0) => "rate=".to_owned(),
                    LinkKey::Rate(rate) => format!("rate={rate}kbit/s"),
                }));
                words.extend(over.iter().flat_map(|over| ["--over".into(), format!("{over}s")]));
                words
            }
            Self::LinkDown { target, network, way, down } => {
                let mut words = all(&[if *down { "link down" } else { "link up" }, target]);
                words.extend(which(*network, *way));
                words
            }
            Self::Clone { node, count } => {
                all(&["clone", &name(node), "--count", &count.to_string()])
            }
            Self::Destroy { target } => all(&["destroy", target]),
            Self::Refused { words, .. } => words.clone(),
            _ => Vec::new(),
        }
    }
}

fn which(network: Option<usize>, way: LinkWay) -> Vec<String> {
    let mut words = Vec::new();
    words.extend(network.iter().flat_map(|n| ["--network".into(), NETWORKS[*n].to_owned()]));
    match way {
        LinkWay::Up => words.extend(["--way".into(), "up".into()]),
        LinkWay::Down => words.extend(["--way".into(), "down".into()]),
        LinkWay::Both => {}
    }
    words
}

impl Signal {
    pub fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart => "restart",
            Self::Kill => "kill",
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }

    /// Whether it needs a program of the node.
    pub fn needs_program(self) -> bool {
        matches!(self, Self::Start | Self::Stop | Self::Restart)
    }
}
