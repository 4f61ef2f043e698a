//! File format: groups of nodes.

use crate::file::{Board, Cpu, Metric};
use crate::problem::Problem;
use crate::read::{At, Fields, Fixed, Named, OneOrMore, Read, Sink};
use crate::scalar::{Word, word};
use crate::tree::Node;
use schemars::JsonSchema;
use units::{Bytes, Span};

/// Identical nodes.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Group {
    /// Number of nodes. Default: 1.
    pub count: Option<At<u32>>,
    /// Resource limits of each node.
    pub limits: Option<Limits>,
    /// Resources reserved for each node, against other nodes.
    pub reserve: Option<Reserve>,
    /// Board that the node emulates: a name, or a profile. Adds joules per message and days of
    /// battery to the results.
    pub board: Option<At<Board>>,
    /// Interface of the host that connects the node, which is real hardware.
    pub external: Option<At<String>>,
    /// Character devices of the host that the node sees, such as `/dev/ttyUSB0`.
    pub device: Option<At<OneOrMore<At<String>>>>,
    /// Offset of the node's monotonic clock ahead of the host's.
    pub clock_offset: Option<At<Span>>,
    /// CPU cores that the node's programs are pinned to, such as `1` or `0-3`. Default: all.
    pub cores: Option<At<OneOrMore<At<String>>>>,
    /// How the node gets its addresses: `planned`, or `dhcp` on networks with a DHCP server.
    pub address: Option<At<Addressing>>,
    /// Root file system of the node in place of the host's: a folder, or an image, which is an
    /// archive of `docker save` or an OCI layout. Relative to this file.
    pub root: Option<At<String>>,
    /// Name of the image, in an archive with several.
    pub image: Option<At<String>>,
    /// Capabilities of the node's programs in addition to those of its kind, such as `SYS_TIME`.
    pub capabilities: Option<At<OneOrMore<At<String>>>>,
    /// Whether the node's programs have all capabilities and system calls. Then the node does not
    /// protect the host from them.
    pub privileged: Option<At<bool>>,
    /// Main program of each node and its arguments. Default: the image's. It starts before all
    /// workloads and is terminated after them.
    pub run: Option<Fixed<Vec<At<String>>>>,
    /// Variables added to the environment of `run`.
    pub env: Option<Named<At<String>>>,
    /// When `run` is ready for others. Default: as soon as it has started.
    pub ready: Option<At<Ready>>,
    /// Values in the output of `run` that become figures, by name.
    pub metrics: Option<Named<Metric>>,
}

impl Read for Group {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "a group of nodes", sink)?;
        let group = Self {
            count: fields.optional("count"),
            limits: fields.optional("limits"),
            reserve: fields.optional("reserve"),
            board: fields.optional("board"),
            external: fields.optional("external"),
            device: fields.optional("device"),
            clock_offset: fields.optional("clock_offset"),
            cores: fields.optional("cores"),
            address: fields.optional("address"),
            root: fields.optional("root"),
            image: fields.optional("image"),
            capabilities: fields.optional("capabilities"),
            privileged: fields.optional("privileged"),
            run: fields.optional("run"),
            env: fields.optional("env"),
            ready: fields.optional("ready"),
            metrics: fields.optional("metrics"),
        };
        fields.finish();
        Some(group)
    }
}

/// How nodes get their addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Addressing {
    /// The lab sets the addresses.
    Planned,
    /// The nodes use DHCP.
    Dhcp,
}

impl Word for Addressing {
    const WHAT: &'static str = "a way to assign addresses";
    const WORDS: &'static [(&'static str, Self)] =
        &[("planned", Self::Planned), ("dhcp", Self::Dhcp)];
}

impl Read for Addressing {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}

/// Condition for a node's program to be ready: one of these.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Ready {
    /// Ready when a process in the node listens on this TCP port.
    pub tcp: Option<At<u32>>,
    /// Ready when a process in the node has bound this UDP port.
    pub udp: Option<At<u32>>,
    /// Ready when standard output or standard error contains this text.
    pub log: Option<At<String>>,
}

impl Read for Ready {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "`ready`", sink)?;
        let ready = Self {
            tcp: fields.optional("tcp"),
            udp: fields.optional("udp"),
            log: fields.optional("log"),
        };
        fields.finish();
        let given = [ready.tcp.is_some(), ready.udp.is_some(), ready.log.is_some()];
        let count = given.iter().filter(|given| **given).count();
        if count > 1 || (count == 0 && sink.is_clean()) {
            let problem =
                Problem::new("`ready` must be one of `tcp`, `udp` and `log`").at(node.place);
            sink.add(problem.label("write for example `{tcp: 1883}`"));
        }
        for port in [&ready.tcp, &ready.udp].into_iter().flatten() {
            if !(1..=65_535).contains(&port.value) {
                let problem =
                    Problem::new(format!("{} is not a port number", port.value)).at(port.place);
                sink.add(problem.label("use 1 to 65535"));
            }
        }
        Some(ready)
    }
}

/// Resource limits of a node.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Limits {
    /// CPU time, in CPUs, such as `0.5`.
    pub cpus: Option<At<f64>>,
    /// CPU time as a clock frequency of the host, such as `200 MHz`, or as a share of a board, such
    /// as `5 % of esp32`.
    pub cpu: Option<At<Cpu>>,
    /// Memory of all its processes.
    pub memory: Option<At<Bytes>>,
    /// Number of processes and threads. Default: 4096, where the machine can limit them.
    pub processes: Option<At<u32>>,
    /// Size of what the node writes to its `root`, and of its `/dev/shm`. Default: 64 MiB.
    pub storage: Option<At<Bytes>>,
}

/// Resources reserved for a node.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Reserve {
    /// CPU time, in CPUs, that the node gets when other nodes compete for it.
    pub cpus: Option<At<f64>>,
    /// Memory that the kernel reclaims last.
    pub memory: Option<At<Bytes>>,
}

impl Read for Reserve {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "reserve", sink)?;
        let reserve = Self { cpus: fields.optional("cpus"), memory: fields.optional("memory") };
        fields.finish();
        Some(reserve)
    }
}

impl Read for Limits {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "limits", sink)?;
        let limits = Self {
            cpus: fields.optional("cpus"),
            cpu: fields.optional("cpu"),
            memory: fields.optional("memory"),
            processes: fields.optional("processes"),
            storage: fields.optional("storage"),
        };
        fields.finish();
        Some(limits)
    }
}
