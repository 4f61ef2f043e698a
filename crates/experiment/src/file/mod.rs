//! The file as typed, one cell of it: `${axis}` replaced, nothing resolved.

mod board;
mod capture;
mod exchange;
mod fault;
mod foreign;
mod group;
mod impairment;
mod load;
mod models;
mod mqtt;
mod network;
mod stacks;
mod timetable;
mod workload;

pub(crate) use board::{Board, BoardCpu, BoardProfile, BoardRadio, Cpu};
pub(crate) use capture::Capture;
pub(crate) use exchange::{CoapKeys, Exchange, MqttKeys, Payload, Protocol, Sweep};
pub(crate) use fault::Fault;
pub(crate) use foreign::{Foreign, Model as ForeignModel};
pub(crate) use group::{Addressing, Group, Limits, Ready};
pub(crate) use impairment::Impairment;
pub(crate) use load::{Device, Load, Probe, Resources};
pub(crate) use models::{Cells, Codel, Gilbert, Markov, Outage, Red, Shape, Slot};
#[cfg(test)]
pub(crate) use mqtt::Reconnect;
pub(crate) use mqtt::{Mqtt, Tls, TlsFiles};
pub(crate) use network::{Cell, Channel, Link, Network, Profile};
pub(crate) use stacks::{HttpKeys, OpcuaKeys, QuicKeys};
pub(crate) use timetable::{Entry, Ways};
pub(crate) use workload::{Command, Interaction, Model, Workload};

use crate::clock::Clock;
use crate::expect::Expect;
use crate::matrix::Matrix;
use crate::read::{At, Fields, Fixed, Named, Read, Sink};
use crate::tree::Node;
use schemars::JsonSchema;
use units::Span;

/// An experiment for Thingbed: which nodes, over which networks, run what.
///
/// Any value may be `${axis}`, which the matrix fills; inside `{ }` or `[ ]` it
/// needs quotes. Every quantity carries its unit.
#[derive(Debug, JsonSchema)]
#[schemars(title = "Thingbed experiment", deny_unknown_fields)]
pub(crate) struct File {
    /// Its name; the folder of its runs is called so.
    #[schemars(required)]
    pub experiment: Option<Fixed<String>>,
    /// What it is about.
    #[schemars(rename = "description")]
    pub _description: Option<Fixed<String>>,
    /// Groups of nodes by name. A group of one is a node of that name, others
    /// are `name-1`, `name-2` and so on.
    #[schemars(required)]
    pub nodes: Option<Named<Group>>,
    /// Networks by name.
    pub networks: Option<Named<Network>>,
    /// What networks do to frames, by name; a network picks one with `profile`.
    pub profiles: Option<Named<Profile>>,
    /// Interaction models by name; an interaction picks one with `model`.
    pub models: Option<Named<Model>>,
    /// What the nodes do beside their own programs.
    pub workloads: Option<Vec<Workload>>,
    /// What befalls nodes' programs, and when.
    pub faults: Option<Vec<Fault>>,
    /// Axes and their values; every combination is a cell, run by itself.
    #[schemars(rename = "matrix", with = "Option<Matrix>")]
    pub _matrix: (),
    /// How often each cell is run; 1 unless given.
    pub repeats: Option<Fixed<u32>>,
    /// The seed of all draws; 1 unless given.
    pub seed: Option<Fixed<u64>>,
    /// The clock of runs: `real`, that of this machine, or `virtual`, that of a guest kernel in
    /// which programs cost no time; real unless given.
    pub clock: Option<Fixed<Clock>>,
    /// How long messages are sent. May be missing if every interaction says how
    /// long or how often.
    pub duration: Option<At<Span>>,
    /// How long to wait after that for what is still on its way; 30 s unless
    /// given.
    pub drain: Option<At<Span>>,
    /// How long the programs may take until all are ready; 60 s unless given.
    pub setup_limit: Option<At<Span>>,
    /// Whether medium, senders of loads, and all other nodes have cores of their own, where
    /// the machine has four or more; false unless given.
    pub affinity: Option<At<bool>>,
    /// Which frames are kept in `capture.pcapng`; none unless given.
    pub capture: Option<Capture>,
    /// Files and folders that programs open although no command line names them, relative to this
    /// file: a guest with files of its own (`--cpu N`, capsules) gets them too.
    pub files: Option<Vec<Fixed<String>>>,
    /// A file of reference figures to compare with, relative to this file.
    pub reference: Option<Fixed<String>>,
    /// What should hold of the results; checked after the runs.
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
            profiles: fields.optional("profiles"),
            models: fields.optional("models"),
            workloads: fields.optional("workloads"),
            faults: fields.optional("faults"),
            // Read before the cells there are, so here it is only known.
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
