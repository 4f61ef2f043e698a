//! The experiment file as written, for one cell of the matrix: `${axis}` replaced, names not yet
//! resolved.

mod board;
mod capture;
mod defaults;
mod edge;
mod exchange;
mod fault;
mod foreign;
mod group;
mod impairment;
mod load;
mod machine;
mod metric;
mod models;
mod mqtt;
mod network;
mod program_check;
mod routes;
mod stacks;
mod timetable;
mod workload;

pub(crate) use board::{Board, BoardCpu, BoardProfile, BoardRadio, Cpu, cpus};
pub(crate) use capture::Capture;
pub(crate) use defaults::Defaults;
pub(crate) use edge::{Edge, EdgeKeys};
pub(crate) use exchange::{CoapKeys, Exchange, MqttKeys, Payload, Protocol, Sweep};
pub(crate) use fault::Fault;
pub(crate) use foreign::{Foreign, Model as ForeignModel};
pub(crate) use group::{Addressing, Group, Limits, Ready};
pub(crate) use impairment::Impairment;
pub(crate) use load::{Device, Load, Probe, Resources};
pub(crate) use machine::{ConsoleStep, Qemu};
pub(crate) use metric::Metric;
#[cfg(test)]
pub(crate) use mqtt::Reconnect;
pub(crate) use mqtt::{Mqtt, Tls, TlsFiles};
pub(crate) use network::{Cell, Channel, Link, Network, Profile};
pub(crate) use program_check::{OutputExpect, OutputKeys, ProgramExpect};
pub(crate) use routes::Routes;
pub(crate) use stacks::{HttpKeys, OpcuaKeys, QuicKeys};
pub(crate) use timetable::{Change, Directions};
pub(crate) use workload::{Command, Interaction, Model, Workload};

use crate::expect::Expect;
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
    /// Name of the experiment and of its results folder.
    #[schemars(required)]
    pub experiment: Option<Fixed<String>>,
    /// Description, for people.
    #[schemars(rename = "description")]
    pub _description: Option<Fixed<String>>,
    /// Groups of nodes by name. A group of one is a node of that name; the nodes of larger groups
    /// are `name-1`, `name-2` and so on.
    #[schemars(required)]
    pub nodes: Option<Named<Group>>,
    /// Networks by name.
    pub networks: Option<Named<Network>>,
    /// Point-to-point links, each a network that is named after its ends.
    #[schemars(rename = "edges")]
    pub _edges: Option<Vec<Edge>>,
    /// Network profiles by name; a network selects one with `profile`.
    pub profiles: Option<Named<Profile>>,
    /// Values for groups of nodes and links that lack them.
    #[schemars(rename = "defaults")]
    pub _defaults: Option<Defaults>,
    /// Interaction models by name; an interaction selects one with `model`.
    pub models: Option<Named<Model>>,
    /// Workloads of the nodes, in addition to their `run` programs.
    pub workloads: Option<Vec<Workload>>,
    /// Faults injected into nodes' programs during a run.
    pub faults: Option<Vec<Fault>>,
    /// Axes and their values. Every combination is a cell, which runs separately.
    #[schemars(rename = "matrix", with = "Option<Matrix>")]
    pub _matrix: (),
    /// Number of runs of each cell. Default: 1.
    pub repeats: Option<Fixed<u32>>,
    /// Seed of all random draws. Default: 1.
    pub seed: Option<Fixed<u64>>,
    /// Clock of the runs: `real`, this machine's, or `virtual`, that of a guest kernel in which
    /// programs cost no time. Default: `real`.
    pub clock: Option<Fixed<Clock>>,
    /// Duration of the messages. Optional if every interaction has its own duration or count.
    pub duration: Option<At<Span>>,
    /// Maximum wait after the duration for messages in flight. Default: 30 s.
    pub drain: Option<At<Span>>,
    /// Maximum time until all programs are ready. Default: 60 s.
    pub setup_limit: Option<At<Span>>,
    /// Whether the medium, the senders of loads and all other nodes are pinned to separate CPU
    /// cores, if the machine has four or more. Default: false.
    pub affinity: Option<At<bool>>,
    /// Frames to write to `capture.pcapng`. Default: none.
    pub capture: Option<Capture>,
    /// Files and folders that programs open although no command line names them, relative to this
    /// file. Guests with a separate file system (`--cpu N`, capsules) get them too.
    pub files: Option<Vec<Fixed<String>>>,
    /// A file of reference figures to compare the results with, relative to this file.
    pub reference: Option<Fixed<String>>,
    /// Checks of the results after the runs.
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
