//! Groups of nodes, as typed.

use crate::file::{Board, Cpu};
use crate::problem::Problem;
use crate::read::{At, Fields, Fixed, Named, OneOrMore, Read, Sink};
use crate::scalar::{Word, word};
use crate::tree::Node;
use schemars::JsonSchema;
use units::{Bytes, Span};

/// Nodes that are alike.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Group {
    /// How many; 1 unless given.
    pub count: Option<At<u32>>,
    /// What each of them may use.
    pub limits: Option<Limits>,
    /// What is kept for each of them, from other nodes.
    pub reserve: Option<Reserve>,
    /// The board that it stands for: one by name, or its figures. Gives joules a
    /// message and days of battery.
    pub board: Option<At<Board>>,
    /// The host's interface behind which it is, as real hardware.
    pub external: Option<At<String>>,
    /// Character devices of the host's that it has, such as `/dev/ttyUSB0`.
    pub device: Option<At<OneOrMore<At<String>>>>,
    /// How far its monotonic clock is ahead of the machine's.
    pub clock_offset: Option<At<Span>>,
    /// The cores that its programs stay on, such as `1` or `0-3`; all unless given.
    pub cores: Option<At<OneOrMore<At<String>>>>,
    /// How it gets its addresses: `planned`, or `dhcp` on networks that have it.
    pub address: Option<At<Addressing>>,
    /// Its root file system in place of the host's: a folder, or an image, which is
    /// an archive of `docker save` or an OCI layout. Relative to this file.
    pub root: Option<At<String>>,
    /// Which image of an archive with several.
    pub image: Option<At<String>>,
    /// The program that each of them is there for, and its arguments; the image's own
    /// unless given. It starts before all workloads and is ended after them.
    pub run: Option<Fixed<Vec<At<String>>>>,
    /// Variables added to the environment of `run`.
    pub env: Option<Named<At<String>>>,
    /// When `run` is ready for others; as soon as it has started unless given.
    pub ready: Option<At<Ready>>,
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
            run: fields.optional("run"),
            env: fields.optional("env"),
            ready: fields.optional("ready"),
        };
        fields.finish();
        Some(group)
    }
}

/// How nodes get their addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Addressing {
    /// The lab sets them.
    Planned,
    /// They ask for them.
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

/// When a node's program is ready: one of these.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Ready {
    /// When somebody in the node listens on this TCP port.
    pub tcp: Option<At<u32>>,
    /// When somebody in the node has bound this UDP port.
    pub udp: Option<At<u32>>,
    /// When its output, or what it says on standard error, holds this text.
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
                sink.add(problem.label("1 to 65535"));
            }
        }
        Some(ready)
    }
}

/// What a node may use of the machine.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Limits {
    /// CPUs' worth of time, such as `0.5`.
    pub cpus: Option<At<f64>>,
    /// The same as a clock frequency, such as `200 MHz` of the host's, or in shares of
    /// a board, such as `5 % of esp32`.
    pub cpu: Option<At<Cpu>>,
    /// Memory of all its processes.
    pub memory: Option<At<Bytes>>,
}

/// What is kept for a node.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Reserve {
    /// CPUs' worth of time that other nodes leave it when all want theirs.
    pub cpus: Option<At<f64>>,
    /// Memory that is taken from it last.
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
        };
        fields.finish();
        Some(limits)
    }
}
