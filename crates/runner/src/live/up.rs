//! A lab for interactive use: nodes run their own programs, without a measurement.

use super::scale_up::ScaleUp;
use super::{ControlSocket, Inventory, NodeApi};
use crate::controller::{Phase, RunController};
use crate::error::Error;
use crate::faults::Faults;
use crate::folder::Folder;
use crate::frame_path::SelectedPath;
use crate::hardware;
use crate::host_cpu::HostCpu;
use crate::jobs::own_programs;
use crate::netem::Impairments;
use crate::pinning::{Affinity, Pinning};
use crate::roots::Roots;
use crate::services;
use crate::topology::Topology;
use crate::uplink::Uplink;
use engine::{Engine, FramePath, monotonic_now};
use experiment::Plan;
use lab::Lab;
use measure::Accounting;
use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Options of a lab.
pub struct Up<'a> {
    /// A program whose `main` serves as the fork server: the tool itself.
    pub tool: &'a Path,
    /// Working directory of programs: the experiment file's folder.
    pub home: &'a Path,
    /// The requested frame path; `None` for the best that works.
    pub frame_path: Option<FramePath>,
    /// Set to stop the lab.
    pub interrupted: &'a AtomicBool,
    /// Called once, when all nodes are up and their programs are ready.
    pub ready: &'a mut dyn FnMut(),
    /// Called with each problem of the running lab.
    pub remark: &'a mut dyn FnMut(&str),
}

/// Brings up the nodes and networks of `plan` until a user stops the lab. Logs of programs are in
/// `folder`. Workloads do not run.
///
/// # Errors
/// The failed step; nothing of the lab is left then.
pub fn up(plan: &Plan, folder: &Folder, wanted: Up<'_>) -> Result<(), Error> {
    let Up { tool, home, frame_path, interrupted, ready, remark } = wanted;
    folder.write_plan(plan)?;
    let programs = folder.programs()?;
    let roots = Roots::of(plan)?;
    crate::tls::make(plan, &programs)?;
    let carrying = SelectedPath::of(plan, frame_path)?;
    let mut topology = Topology::of(plan, &roots);
    let host = HostCpu::here();
    host.limit(plan, &mut topology.members)?;
    let placement = Pinning::apply(plan, &mut topology.members);
    if let Some(Err(why)) = &placement {
        remark(&format!("`affinity` has no effect: {why}"));
    }
    let apart = placement.and_then(Result::ok);
    let (mut lab, mut ends) = Lab::up(tool, &topology.members, &topology.hosts, carrying.link)?;
    hardware::attach(plan, &mut ends)?;
    let ends: Vec<_> = ends.into_iter().flatten().collect();
    let impairments = Impairments::of(plan, &topology.places, &ends)
        .map_err(Error::io("save the state of links"))?;
    let carrier = carrying.carrier(&mut lab, ends)?;
    let waker = carrier.waker();
    let accounting = Accounting::new(topology.owners.clone(), Vec::new(), None);
    let counts = accounting.counts();
    let places = topology.places.clone();
    // Threads inherit the affinity.
    let affinity = apart.and_then(|apart| Affinity::on(apart.medium));
    let engine = Engine::start(carrier, waker, topology.segments.clone(), places, accounting)
        .map_err(Error::io("start forwarding"))?;
    drop(affinity);
    let uplinks = Uplink::all(plan, &lab)?;
    let inventory = Inventory::of(plan, &topology);
    let (socket, requests) = ControlSocket::open(&inventory, engine.remote())
        .map_err(Error::io("open the lab's control socket"))?;
    let scale_up = ScaleUp {
        roots: &roots,
        host: &host,
        home,
        programs: programs.clone(),
        remote: engine.remote(),
        broken: Cell::new(false),
    };
    let node_api = NodeApi {
        inventory: inventory.clone(),
        folder: folder.path().to_owned(),
        run: false,
        since: monotonic_now(),
        interrupted,
        counts,
        scale_up: Some(scale_up),
    };
    let mut jobs = services::programs(plan, &programs)?;
    jobs.extend(own_programs(plan, &roots, home, &programs));
    let mut controller = RunController {
        lab: &mut lab,
        engine: &engine,
        inventory,
        jobs,
        interrupted,
        watch: &mut (),
        expected: 0,
        failures: Vec::new(),
        contended: None,
        start_ns: None,
        phase: Phase::Up,
        until_ns: None,
        faults: Faults::new(&plan.faults),
        clients: Some((requests, node_api)),
    };
    controller.set_up(plan.setup_limit, &programs)?;
    impairments.begin(controller.lab)?;
    let start = controller.begin()?;
    ready();
    while !interrupted.load(Relaxed) {
        controller.look()?;
        controller.faults.turn(
            monotonic_now().saturating_sub(start),
            controller.lab.nodes(),
            &mut controller.jobs,
        )?;
        controller.failures.drain(..).for_each(|failure| remark(&failure.to_string()));
        if engine.has_failed() {
            remark("forwarding failed: the lab carries no frames any more");
            break;
        }
    }
    controller.stop()?;
    // The keys of this lab have no use after it.
    let _ = std::fs::remove_dir_all(crate::tls::folder(&programs));
    controller.failures.drain(..).for_each(|failure| remark(&failure.to_string()));
    drop(controller);
    drop(socket);
    let outcome = engine.stop().map(drop).map_err(Error::io("forward frames"));
    drop(uplinks);
    drop(lab);
    outcome
}
