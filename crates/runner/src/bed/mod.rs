//! The bed: the nodes and networks of a plan, brought up. `Bed::up` is the only bring-up, of
//! `thingbed up` as of a measured run.
//!
//! A bed forwards frames and answers control clients; its programs are started by a controller,
//! which knows it as an [`environment::Environment`].

mod advertisements;
mod broker;
mod control;
mod counters;
mod design;
mod disk_guard;
pub(crate) mod environment;
pub(crate) mod faults;
mod frame_path;
mod hardware;
mod host_cpu;
pub(crate) mod jobs;
mod leases;
mod live;
mod log;
mod machine;
mod neighbours;
pub(crate) mod netem;
pub(crate) mod nodes;
mod options;
mod output;
pub(crate) mod own_metrics;
mod pinning;
mod ready;
pub(crate) mod roots;
mod running;
mod selection;
mod services;
pub(crate) mod tls;
mod topology;
mod uplink;

pub(crate) use counters::{Settled, backlog_drops};
pub(crate) use design::Design;
pub use frame_path::can_have_ring;
pub(crate) use live::ManualChange;
pub use live::{
    LabShown, LinkTraffic, Links, NodeShown, Occurrence, Reply, Request, Shown, ask, ask_all,
    forget, labs, labs_elsewhere, open,
};
pub use netem::check_backends;
pub(crate) use options::BedOptions;
pub(crate) use output::Shortened;
pub(crate) use roots::emulated;
pub use roots::is_foreign;
pub(crate) use selection::{select, some};
pub(crate) use topology::Topology;
pub use topology::segments;

use self::control::ControlConnection;
use self::disk_guard::DiskGuard;
use self::live::{Awaited, ControlSocket, Inventory, Requests, Shared};
use self::netem::Impairments;
use self::output::Outputs;
use self::pinning::Affinity;
use self::tls::Certificates;
use self::uplink::Uplink;
use crate::error::Error;
use crate::folder::Folder;
use engine::{Engine, FrameBackend, FramePath, Outcome, Refused};
use experiment::Plan;
use lab::Lab;
use measure::{Accounting, Counts, FullDisk};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::{Instant, Span};

/// Busy-wait time before a frame is due: the lateness of a timer.
const SPIN: Span = Span::from_us(60);

/// Nodes and networks of a plan. Dropping it removes everything that it made except the folder of
/// the programs' logs. Fields are dropped in this order.
pub(crate) struct Bed<'a> {
    /// The control socket and the requests from it.
    control: Option<(ControlSocket, Requests)>,
    /// Requests whose effects have not happened yet, with the channels for their replies.
    awaited: Vec<Awaited>,
    /// Nodes whose radios are to be switched off or on.
    power: Vec<(usize, bool)>,
    /// The control connections of programs, by the programs' numbers.
    connections: BTreeMap<usize, ControlConnection>,
    uplinks: Vec<Uplink>,
    engine: Engine<Accounting>,
    refused: Refused,
    impairments: Impairments,
    lab: Lab,
    /// Watches the programs' logs.
    outputs: Outputs,
    /// The keys in it have no use after the bed.
    _certificates: Certificates,
    design: Design,
    inventory: Shared,
    /// Frames and bytes that nodes sent and received.
    counts: Arc<Counts>,
    frame_path: FramePath,
    /// The folder of the run or lab.
    folder: PathBuf,
    /// Time at which the bed came up.
    since: Instant,
    /// Time at which the impairments began.
    begun: Option<Instant>,
    /// Datagrams that each node's sockets had dropped then.
    dropped_before: Vec<u64>,
    /// Set when a new node could not be attached to the medium: port and node numbers differ from
    /// then on.
    is_broken: bool,
    options: BedOptions<'a>,
}

/// What remains of a bed.
pub(crate) struct Remains {
    pub design: Design,
    pub outcome: Outcome<Accounting>,
    pub frame_path: FramePath,
    /// Why resource usage does not come from control groups, if so.
    pub uncounted: Option<String>,
    /// Logs that lost a part.
    pub shortened: Vec<Shortened>,
}

impl<'a> Bed<'a> {
    /// Brings up the nodes and networks of `plan`, with the programs' files in `folder`. No program
    /// runs yet. `observe` returns the accounting of frames for a topology, whose segments it may
    /// change, before anything else exists.
    ///
    /// # Errors
    /// The failed step; nothing of the bed is left then.
    pub fn up(
        plan: &Plan,
        folder: &Folder,
        options: BedOptions<'a>,
        observe: impl FnOnce(&mut Topology) -> Result<Accounting, Error>,
    ) -> Result<Self, Error> {
        folder.write_plan(plan)?;
        let programs = folder.programs()?;
        // If a step fails, the values of the steps before it remove what they made.
        let certificates = Certificates::make(plan, &programs)?;
        let mut design = Design::of(plan, &programs, &options)?;
        let accounting = observe(&mut design.topology)?;
        let counts = accounting.counts();
        let (lab, backends, impairments) = nodes(plan, &design, options.tool)?;
        let refused = Refused::of(&backends).map_err(Error::io("count dropped frames"))?;
        let engine = engine(&design, backends, accounting, options.spin)?;
        let uplinks = Uplink::all(plan, &lab)?;
        let outputs = outputs(folder, &options)?;
        let inventory = Inventory::of(plan, &design.topology);
        // Last, so that no client finds a lab that is only half there.
        let control = control(&inventory, &engine, options.is_measured)?;
        Ok(Self {
            control,
            awaited: Vec::new(),
            power: Vec::new(),
            connections: BTreeMap::new(),
            uplinks,
            engine,
            refused,
            impairments,
            lab,
            outputs,
            _certificates: certificates,
            frame_path: design.path.frame_path(),
            design,
            inventory,
            counts,
            folder: folder.path().to_owned(),
            since: clock::now(),
            begun: None,
            dropped_before: Vec::new(),
            is_broken: false,
            options,
        })
    }

    /// What was known before the bed came up.
    pub fn design(&self) -> &Design {
        &self.design
    }

    /// Closes the control socket; returns the changes made through it.
    pub fn close_control(&mut self) -> Vec<ManualChange> {
        let Some((socket, requests)) = self.control.take() else { return Vec::new() };
        // The requests in it are not answered any more, and the socket waits for the replies.
        drop(requests);
        self.awaited.clear();
        socket.close()
    }

    /// Ends forwarding and removes the bed.
    ///
    /// # Errors
    /// When forwarding failed meanwhile.
    pub fn down(mut self) -> Result<Remains, Error> {
        self.close_control();
        let Self { uplinks, engine, refused, lab, outputs, design, frame_path, .. } = self;
        drop(refused);
        let outcome = engine.stop().map_err(Error::io("forward frames"))?;
        drop(uplinks);
        let uncounted = lab.uncounted().map(str::to_owned);
        drop(lab);
        // After the nodes: no program writes to a log any more.
        let shortened = outputs.end();
        Ok(Remains { design, outcome, frame_path, uncounted, shortened })
    }
}

/// Starts the nodes and takes over their interfaces.
fn nodes(
    plan: &Plan,
    design: &Design,
    tool: &Path,
) -> Result<(Lab, Vec<FrameBackend>, Impairments), Error> {
    let (topology, path, threads) = (&design.topology, &design.path, &design.threads);
    let (mut lab, mut ends) = Lab::up(tool, &topology.members, &topology.hosts, path.link)?;
    hardware::attach(plan, &mut ends)?;
    let ends: Vec<_> = ends.into_iter().flatten().collect();
    let impairments = Impairments::of(plan, &topology.places, &ends)
        .map_err(Error::io("save the state of links"))?;
    let backends = path.backends(&mut lab, threads.split(ends, &topology.places))?;
    Ok((lab, backends, impairments))
}

/// Starts forwarding.
fn engine(
    design: &Design,
    backends: Vec<FrameBackend>,
    accounting: Accounting,
    spin: bool,
) -> Result<Engine<Accounting>, Error> {
    let (segments, places) = (design.topology.segments.clone(), design.topology.places.clone());
    // Threads inherit the affinity, which ends with this function.
    let _affinity = design.pinning().and_then(|pinning| Affinity::on(&pinning.medium()));
    let spin = if spin { SPIN } else { Span::ZERO };
    Engine::start_threads(&design.threads, backends, segments, places, accounting, spin)
        .map_err(Error::io("start forwarding"))
}

/// Watches the programs' logs.
fn outputs(folder: &Folder, options: &BedOptions<'_>) -> Result<Outputs, Error> {
    let guard = |disk: &Arc<FullDisk>| DiskGuard::new(folder.path().to_owned(), disk.clone());
    let guard = options.disk.as_ref().map(guard);
    match options.watches_output {
        true => Outputs::start(guard).map_err(Error::io("watch the programs' logs")),
        false => Ok(Outputs::at_the_end()),
    }
}

/// Opens the control socket. A measured run works without one: changes by hand are optional in it.
fn control(
    inventory: &Shared,
    engine: &Engine<Accounting>,
    is_measured: bool,
) -> Result<Option<(ControlSocket, Requests)>, Error> {
    match ControlSocket::open(inventory, engine.remote()) {
        Err(_) if is_measured => Ok(None),
        opened => opened.map(Some).map_err(Error::io("open the lab's control socket")),
    }
}
