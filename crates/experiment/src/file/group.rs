//! File format: groups of nodes.

use crate::file::{Board, ConsoleStep, Cpu, Metric, ProgramExpect, Qemu, Routes, cpus};
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
    /// Whether the node is a router: it forwards packets between its networks. Default: false.
    pub forward: Option<At<bool>>,
    /// Routes in addition to those that the plan computes: the next hop, a node or an address, by
    /// destination, which is `default`, a prefix or an address. `none`: no routes at all.
    pub routes: Option<At<Routes>>,
    /// Root file system of the node in place of the host's: a folder, or an image, which is an
    /// archive of `docker save` or an OCI layout. Relative to this file.
    pub root: Option<At<String>>,
    /// Name of the image, in an archive with several.
    pub image: Option<At<String>>,
    /// Maximum size of the unpacked image. Default: 10 GiB, and above 256 MiB at most 100 times the
    /// archive's size.
    pub root_limit: Option<At<Bytes>>,
    /// Capabilities of the node's programs in addition to those of its kind, such as `SYS_TIME`.
    pub capabilities: Option<At<OneOrMore<At<String>>>>,
    /// Whether the node's programs have all capabilities and system calls. Then the node does not
    /// protect the host from them.
    pub privileged: Option<At<bool>>,
    /// Main program of each node and its arguments. Default: the image's. It starts before all
    /// workloads and is terminated after them.
    pub run: Option<Fixed<Vec<At<String>>>>,
    /// Machine that QEMU emulates and that is the node, in place of programs on this machine's kernel.
    pub qemu: Option<At<Qemu>>,
    /// Firmware that was built as a program for this system, and its arguments: it is the node, with a
    /// console.
    pub firmware: Option<Fixed<Vec<At<String>>>>,
    /// Name of the TAP that the firmware opens as its interface, such as `zeth`. Default: none; it uses
    /// the node's own interfaces.
    pub tap: Option<At<String>>,
    /// Ethernet address of the node on its first network. Default: derived from its address.
    pub mac: Option<At<String>>,
    /// What to enter on the machine's console when it starts.
    pub console: Option<At<OneOrMore<ConsoleStep>>>,
    /// Variables added to the environment of `run`.
    pub env: Option<Named<At<String>>>,
    /// When `run` is ready for others. Default: as soon as it has started.
    pub ready: Option<At<Ready>>,
    /// Values of `run` that become figures, by name.
    pub metrics: Option<Named<Metric>>,
    /// What `run` must do; otherwise the run is `failed`. With `exit` or `within`, it may end.
    pub expect: Option<At<ProgramExpect>>,
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
            forward: fields.optional("forward"),
            routes: fields.optional("routes"),
            root: fields.optional("root"),
            image: fields.optional("image"),
            root_limit: fields.optional("root_limit"),
            capabilities: fields.optional("capabilities"),
            privileged: fields.optional("privileged"),
            run: fields.optional("run"),
            qemu: fields.optional("qemu"),
            firmware: fields.optional("firmware"),
            tap: fields.optional("tap"),
            mac: fields.optional("mac"),
            console: fields.optional("console"),
            env: fields.optional("env"),
            ready: fields.optional("ready"),
            metrics: fields.optional("metrics"),
            expect: fields.optional("expect"),
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
    /// Ready when the machine has printed this text on its console.
    pub console: Option<At<String>>,
}

impl Read for Ready {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "`ready`", sink)?;
        let ready = Self {
            tcp: fields.optional("tcp"),
            udp: fields.optional("udp"),
            log: fields.optional("log"),
            console: fields.optional("console"),
        };
        fields.finish();
        let texts = [&ready.log, &ready.console].map(Option::is_some);
        let given = [ready.tcp.is_some(), ready.udp.is_some(), texts[0], texts[1]];
        let count = given.iter().filter(|given| **given).count();
        if count > 1 || (count == 0 && sink.is_clean()) {
            let problem = Problem::new("`ready` must be one of `tcp`, `udp`, `log` and `console`")
                .at(node.place);
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
    /// Size of each log of programs' output: standard output and standard error of a program have
    /// one each. A longer one loses its middle. Default: 64 MiB.
    pub output: Option<At<Bytes>>,
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
            cpus: cpus(&mut fields),
            cpu: fields.optional("cpu"),
            memory: fields.optional("memory"),
            processes: fields.optional("processes"),
            storage: fields.optional("storage"),
            output: fields.optional("output"),
        };
        fields.finish();
        Some(limits)
    }
}
