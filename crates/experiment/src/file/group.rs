//! File format: groups of nodes.

use crate::file::{
    Board, Bridge, ConsoleStep, Cpu, Metric, Positions, ProgramExpect, Qemu, Routes, cpus,
};
use crate::limits::{FEWEST_PROCESSES, LEAST_CPUS, NODES, PORT, port};
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
    /// Number of nodes. Range: 1 or more. Default: 1.
    #[schemars(extend("minimum" = NODES.start(), "maximum" = NODES.end()))]
    pub count: Option<At<u32>>,
    /// Resource limits of each node.
    pub limits: Option<Limits>,
    /// Resources guaranteed to each node when all nodes compete.
    pub reserve: Option<Reserve>,
    /// Board that a node models. Adds joules per message and battery life in days to the results.
    /// Values: name of a board such as `nrf52840`, or its power profile.
    pub board: Option<At<Board>>,
    /// Interface of the host that connects to the node, which is real hardware. Values: name of an
    /// interface.
    pub external: Option<At<String>>,
    /// Character devices of the host for the node, such as `/dev/ttyUSB0`. Values: path, or list of
    /// paths.
    pub device: Option<At<OneOrMore<At<String>>>>,
    /// Offset of the node's monotonic clock ahead of the machine's.
    pub clock_offset: Option<At<Span>>,
    /// CPU cores that the node's programs are pinned to. Values: `1`, `0-3`, or a list of these.
    /// Default: all.
    pub cores: Option<At<OneOrMore<At<String>>>>,
    /// Where the nodes are in the plane, for networks whose channel has `path_loss`. Values: `[x, y]`
    /// such as `[0 m, 30 m]`, or a list with the position of each node.
    pub position: Option<At<Positions>>,
    /// Source of the addresses: `planned`, by the lab; `dhcp`, by a DHCP client on networks with
    /// `dhcp`; or `slaac`, those of IPv6 by router advertisements on networks with `advertise`. They
    /// are the planned ones in all cases. Default: `planned`.
    pub address: Option<At<Addressing>>,
    /// Whether the nodes are routers: they forward packets between their networks. Default: false.
    pub forward: Option<At<bool>>,
    /// Routes in addition to those that the plan computes: the next hop, a node or an address, by
    /// destination, which is `default`, a prefix or an address. `none`: no routes at all. Values:
    /// map of destinations to next hops, or `none`. Default: those of the plan.
    pub routes: Option<At<Routes>>,
    /// Networks that each node joins to one by a bridge: `true` for all that it is attached to, or a
    /// list. Joined networks have the same `subnet`. Values: `true`, or list of networks. Default:
    /// false.
    pub bridge: Option<At<Bridge>>,
    /// Whether the bridge takes part in the spanning tree protocol (STP, IEEE 802.1D), which loops
    /// of bridges need. Its ports forward frames 30 s after they came up. Default: false.
    pub stp: Option<At<bool>>,
    /// Root file system of the node: a folder, or an image, which is an archive of `docker save` or
    /// an OCI layout. Relative to the experiment file. Values: path. Default: the host's files.
    pub root: Option<At<String>>,
    /// Image in an archive with several, by name or by tag alone. Default: the only one.
    pub image: Option<At<String>>,
    /// Platform of the image, if it is not this machine's: QEMU runs the node's programs, such as
    /// those of `linux/arm64` or `linux/arm/v7`. Default: this machine's.
    pub platform: Option<At<String>>,
    /// Maximum size of the unpacked image. Without this key, an image above 256 MiB must also be at
    /// most 100 times as large as its archive. Default: 10 GiB.
    pub root_limit: Option<At<Bytes>>,
    /// Linux capabilities of the node's programs in addition to those of its kind, such as
    /// `SYS_TIME`. Values: name, or list of names.
    pub capabilities: Option<At<OneOrMore<At<String>>>>,
    /// Whether the node's programs have all capabilities and system calls. Then the node does not
    /// protect the host. Default: false.
    pub privileged: Option<At<bool>>,
    /// The node's own program and its arguments. It starts before all workloads and is terminated
    /// after them. With a `root`, `[]` is no program, not even the image's. Default: the image's, or
    /// none.
    pub run: Option<Fixed<Vec<At<String>>>>,
    /// Machine that QEMU emulates and that is the node, in place of programs on this machine's
    /// kernel.
    pub qemu: Option<At<Qemu>>,
    /// Firmware that was built as a program for this system, and its arguments: it is the node,
    /// with a console.
    pub firmware: Option<Fixed<Vec<At<String>>>>,
    /// TAP that the firmware opens for its network stack, such as `zeth`. Without it, the firmware
    /// uses the node's own interfaces. Values: name of an interface.
    pub tap: Option<At<String>>,
    /// Tunnel that the firmware opens in place of a TAP, for IP packets without Ethernet headers, such as
    /// `tun0`. The node routes its packets. Values: name of an interface.
    pub tun: Option<At<String>>,
    /// Ethernet address of the node's first interface, also of real hardware (`external`). Values: Ethernet address. Default: planned.
    pub mac: Option<At<String>>,
    /// What to enter on the machine's console when it starts.
    pub console: Option<At<OneOrMore<ConsoleStep>>>,
    /// Environment variables to add for `run`.
    pub env: Option<Named<At<String>>>,
    /// Readiness check of `run`: other programs start when it is ready. Default: ready when
    /// started; a machine, when all steps of `console` are done, and without steps 2 s after its start.
    pub ready: Option<At<Ready>>,
    /// Nodes whose programs must be ready before this node's program starts. Values: name of a
    /// group or node, or list of names. Default: none, the programs of all nodes start together.
    pub after: Option<At<OneOrMore<At<String>>>>,
    /// Values of `run` that become figures, by name.
    pub metrics: Option<Named<Metric>>,
    /// What `run` must do; otherwise the run is `failed`. With `exit` or `within`, it may end
    /// during the run.
    pub expect: Option<At<ProgramExpect>>,
}

impl Group {
    /// Whether `run: []` says that not even the program of the image starts.
    pub fn is_idle(&self) -> bool {
        self.root.is_some() && self.run.as_ref().is_some_and(|run| run.value.is_empty())
    }

    /// Whether the machines of the group have the interfaces in place of the nodes' kernels.
    pub fn has_own_stack(&self) -> bool {
        self.qemu.is_some() || self.tap.is_some() || self.tun.is_some()
    }
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
            position: fields.optional("position"),
            address: fields.optional("address"),
            forward: fields.optional("forward"),
            routes: fields.optional("routes"),
            bridge: fields.optional("bridge"),
            stp: fields.optional("stp"),
            root: fields.optional("root"),
            image: fields.optional("image"),
            platform: fields.optional("platform"),
            root_limit: fields.optional("root_limit"),
            capabilities: fields.optional("capabilities"),
            privileged: fields.optional("privileged"),
            run: fields.optional("run"),
            qemu: fields.optional("qemu"),
            firmware: fields.optional("firmware"),
            tap: fields.optional("tap"),
            tun: fields.optional("tun"),
            mac: fields.optional("mac"),
            console: fields.optional("console"),
            env: fields.optional("env"),
            ready: fields.optional("ready"),
            after: fields.optional("after"),
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
    /// The nodes make their IPv6 addresses of router advertisements.
    Slaac,
}

impl Word for Addressing {
    const WHAT: &'static str = "a way to assign addresses";
    const WORDS: &'static [(&'static str, Self)] =
        &[("planned", Self::Planned), ("dhcp", Self::Dhcp), ("slaac", Self::Slaac)];
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
    /// Ready when a program in the node listens on this TCP port. Range: 1 to 65535.
    #[schemars(extend("minimum" = PORT.start(), "maximum" = PORT.end()))]
    pub tcp: Option<At<u32>>,
    /// Ready when a program in the node has bound this UDP port. Range: 1 to 65535.
    #[schemars(extend("minimum" = PORT.start(), "maximum" = PORT.end()))]
    pub udp: Option<At<u32>>,
    /// Ready when `run` has printed this text on standard output or standard error.
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
        for at in [&ready.tcp, &ready.udp].into_iter().flatten() {
            port(at, None, sink);
        }
        Some(ready)
    }
}

/// Resource limits of a node.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Limits {
    /// CPU limit for all programs of a node, in CPUs; `0.5` is half of one CPU. Range: 0.01 or
    /// more.
    #[schemars(extend("minimum" = LEAST_CPUS))]
    pub cpus: Option<At<f64>>,
    /// The same limit by CPU speed, in place of `cpus`: `200 MHz` of this host's clock, or `5 % of
    /// esp32`, a share of a board. Values: frequency, or `SHARE of BOARD`.
    pub cpu: Option<At<Cpu>>,
    /// Memory limit for all programs of a node. At the limit the kernel kills a program, and the
    /// run reports `killed: out of memory, limit 64 MiB`. Range: 1 MiB or more.
    pub memory: Option<At<Bytes>>,
    /// Number of processes and threads of a node; when it is reached, a program cannot start
    /// another (`EAGAIN`). Range: 4 or more. Default: 4096, where the machine can limit them.
    #[schemars(extend("minimum" = FEWEST_PROCESSES))]
    pub processes: Option<At<u32>>,
    /// Size of what the node writes to its `root`, and of its `/dev/shm`; both are in memory. When
    /// it is full, writes fail (`ENOSPC`). Range: 1 MiB or more. Default: 64 MiB.
    pub storage: Option<At<Bytes>>,
    /// Size of each log of the programs' output; standard output and standard error of a program
    /// have one each. A longer one loses its middle. Range: 64 KiB or more. Default: 64 MiB.
    pub output: Option<At<Bytes>>,
}

/// Resources reserved for a node.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Reserve {
    /// CPUs guaranteed to the node when all nodes compete. Range: 0.01 or more.
    #[schemars(extend("minimum" = LEAST_CPUS))]
    pub cpus: Option<At<f64>>,
    /// Memory that the kernel reclaims last when the machine runs short.
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
