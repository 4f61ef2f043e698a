//! The experiment file as written, for one cell of the matrix: `${axis}` replaced, names not yet
//! resolved.

mod board;
mod broker;
mod capture;
mod defaults;
mod edge;
mod exchange;
mod fault;
mod foreign;
mod group;
mod impairment;
mod layer2;
mod load;
mod machine;
mod metric;
mod models;
mod mqtt;
mod network;
mod position;
mod program_check;
mod radio;
mod radio_channel;
mod routes;
mod stacks;
mod timetable;
mod workload;

pub(crate) use board::{Board, BoardCpu, BoardProfile, BoardRadio, Cpu, cpus};
pub(crate) use broker::Broker;
pub(crate) use capture::Capture;
pub(crate) use defaults::Defaults;
pub(crate) use edge::{Edge, EdgeKeys};
pub(crate) use exchange::{CoapKeys, Exchange, MqttKeys, Payload, Protocol, Sweep};
pub(crate) use fault::Fault;
pub(crate) use foreign::{Foreign, Model as ForeignModel};
pub(crate) use group::{Addressing, Group, Limits, Ready};
pub(crate) use impairment::Impairment;
pub(crate) use layer2::{Bridge, Vlans};
pub(crate) use load::{Device, Load, Probe, Resources};
pub(crate) use machine::{ConsoleStep, Qemu};
pub(crate) use metric::Metric;
#[cfg(test)]
pub(crate) use mqtt::Reconnect;
pub(crate) use mqtt::{Mqtt, Tls, TlsFiles};
pub(crate) use network::{Cell, Channel, Link, Network, Profile};
pub(crate) use position::Positions;
pub(crate) use program_check::{ExitStatus, OutputExpect, OutputKeys, ProgramExpect};
pub(crate) use radio::ServiceKeys;
pub(crate) use radio_channel::{Carried, MacAddresses};
pub(crate) use routes::Routes;
pub(crate) use stacks::{HttpKeys, OpcuaKeys, QuicKeys};
pub(crate) use timetable::{Change, Directions};
pub(crate) use workload::{Command, Interaction, Model, Workload};

use crate::expect::Expect;
use crate::limits::ONE;
use crate::matrix::Matrix;
use crate::read::{At, Fields, Fixed, Named, Read, Sink};
use crate::tree::Node;
use record::Clock;
use schemars::JsonSchema;
use units::Span;

/// An experiment for Thingbed: nodes, networks between them, and workloads.
///
/// Any value may be `${axis}`, which the matrix fills; inside `{ }` or `[ ]` it needs quotes. Every
/// quantity carries its unit.
#[derive(Debug, JsonSchema)]
#[schemars(title = "Thingbed experiment", deny_unknown_fields)]
pub(crate) struct File {
    /// Name of the experiment and of its results folder: letters, digits, `-`, `_`, `.`; not
    /// starting with `.`; at most 100 characters.
    #[schemars(required)]
    pub experiment: Option<Fixed<String>>,
    /// Description for readers.
    #[schemars(rename = "description")]
    pub _description: Option<Fixed<String>>,
    /// Groups of nodes by name. A group of one is a node of that name; the nodes of larger groups
    /// are `name-1`, `name-2` and so on.
    #[schemars(required)]
    pub nodes: Option<Named<Group>>,
    /// Networks by name.
    pub networks: Option<Named<Network>>,
    /// Links between two nodes, each a network that is named after its ends. Values: list of edges.
    #[schemars(rename = "edges")]
    pub _edges: Option<Vec<Edge>>,
    /// Link impairments and channels by name; a network selects one with `profile`.
    pub profiles: Option<Named<Profile>>,
    /// Values for all groups of nodes and all links that lack them.
    #[schemars(rename = "defaults")]
    pub _defaults: Option<Defaults>,
    /// Interaction models by name; an interaction selects one with `model`.
    pub models: Option<Named<Model>>,
    /// Traffic and programs on the nodes, in addition to the nodes' own programs (`run`).
    pub workloads: Option<Vec<Workload>>,
    /// Faults injected into programs during a run.
    pub faults: Option<Vec<Fault>>,
    /// Axes and their values. Every combination is a cell, which runs separately. Values: map of
    /// lists of texts.
    #[schemars(rename = "matrix", with = "Option<Matrix>")]
    pub _matrix: (),
    /// Number of runs of each cell. Range: 1 or more. Default: 1.
    #[schemars(extend("minimum" = ONE))]
    pub repeats: Option<Fixed<u32>>,
    /// Seed of all random streams. Default: 1.
    pub seed: Option<Fixed<u64>>,
    /// Clock of the runs: `real`, this machine's, or `virtual`, that of a guest kernel in which
    /// programs cost no time. `--clock` takes precedence. Default: `real`.
    pub clock: Option<Fixed<Clock>>,
    /// How long messages are sent. Required if there are only commands, or if an interaction and
    /// its model both lack `duration` and `count`. Range: above 0.
    pub duration: Option<At<Span>>,
    /// Longest wait after that for outstanding messages. Default: 30 s.
    pub drain: Option<At<Span>>,
    /// Time limit for the interactions' programs to become ready. Default: 60 s;
    /// 300 s with `qemu`.
    pub setup_limit: Option<At<Span>>,
    /// CPU pinning on a machine with four cores or more: the host, the medium, the senders of loads
    /// and all other nodes have separate cores. Default: false.
    pub affinity: Option<At<bool>>,
    /// Frames to write to `capture.pcapng`.
    pub capture: Option<Capture>,
    /// Files and folders that programs open but that no command line names, relative to the experiment file.
    /// A guest with a separate file system (`--cpu N`, capsules) gets them too. Values: list of
    /// paths.
    pub files: Option<Vec<Fixed<String>>>,
    /// File of reference figures, which the report shows next to the measured ones; relative to the
    /// experiment file. Values: path.
    pub reference: Option<Fixed<String>>,
    /// Expectations about the results.
    pub expect: Option<Vec<Expect>>,
}

impl Read for File {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "an experiment", sink)?;
        let file = Self {
            experiment: fields.required("experiment"),
            _description: fields.optional("description"),
            nodes: fields.required("nodes"),
            networks: fields.optional("networks"),
            _edges: fields.optional("edges"),
            profiles: fields.optional("profiles"),
            _defaults: fields.optional("defaults"),
            models: fields.optional("models"),
            workloads: fields.optional("workloads"),
            faults: fields.optional("faults"),
            // `experiment::read` has read it already, before the matrix is expanded; here the key
            // is only accepted.
            _matrix: fields.known("matrix"),
            repeats: fields.optional("repeats"),
            seed: fields.optional("seed"),
            clock: fields.optional("clock"),
            duration: fields.optional("duration"),
            drain: fields.optional("drain"),
            setup_limit: fields.optional("setup_limit"),
            affinity: fields.optional("affinity"),
            capture: fields.optional("capture"),
            files: fields.optional("files"),
            reference: fields.optional("reference"),
            expect: fields.optional("expect"),
        };
        fields.finish();
        Some(file)
    }
}
