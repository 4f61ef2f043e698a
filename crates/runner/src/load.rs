//! Loads and devices of a run: the spec of each program.

use crate::bed::jobs::{Files, Job, Role};
use crate::error::Error;
use crate::program_specs::Programs;
use experiment::{Contention, Device, Load, Made, Plan, Probe, Requests, Workload};
use record::spec::{DeviceSpec, LoadSpec, ProbeSpec};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The loads of a plan with their workload numbers.
pub(crate) fn workloads(plan: &Plan) -> impl Iterator<Item = (usize, &Load)> {
    plan.workloads.iter().enumerate().filter_map(|(number, workload)| match workload {
        Workload::Load(load) => Some((number, load)),
        _ => None,
    })
}

/// The probes of a plan with their workload numbers.
pub(crate) fn probes(plan: &Plan) -> impl Iterator<Item = (usize, &Probe)> {
    plan.workloads.iter().enumerate().filter_map(|(number, workload)| match workload {
        Workload::Probe(probe) => Some((number, probe)),
        _ => None,
    })
}

/// Path of a sender's latency log, which stays: next to the folder of the programs' files.
pub(crate) fn log(files: &Files, load: &str, node: &str) -> PathBuf {
    let programs = files.events.parent().unwrap_or(Path::new("."));
    programs.with_file_name("latency").join(format!("{load}.{node}.hlog"))
}

/// The senders of a load.
pub(crate) fn senders(programs: Programs<'_>, load: &Load) -> Result<Vec<Job>, Error> {
    let mut jobs = Vec::new();
    let logs = programs.dir.with_file_name("latency");
    fs::create_dir_all(&logs).map_err(Error::write(&logs))?;
    for (place, name) in load.on.iter().enumerate() {
        let other = load.targets().first().map(String::as_str);
        let spec = sender(programs, load, place, name);
        jobs.extend(programs.job(name, Role::Source, other, &spec)?);
    }
    Ok(jobs)
}

fn sender(programs: Programs<'_>, load: &Load, place: usize, name: &str) -> LoadSpec {
    let (trace, made) = match &load.requests {
        Requests::Trace(path) => (Some(path.clone()), None),
        Requests::Made(made) => (None, Some(made)),
    };
    let files = programs.files(name);
    LoadSpec {
        trace,
        targets: made.map_or_else(Vec::new, |made| targets(programs, load, made)),
        arrivals: made.map_or_else(String::new, |made| made.arrivals.clone()),
        together: made.is_some_and(|made| made.together),
        method: made.and_then(|made| made.method.clone()),
        path: made.and_then(|made| made.path.clone()),
        size: made.and_then(|made| made.size.clone()),
        count: made.and_then(|made| made.count),
        duration_ns: load.duration.as_ns(),
        users: load.users,
        think: load.think.clone(),
        timeout_ns: load.timeout.as_ns(),
        confirmable: load.confirmable,
        coap: load.coap,
        answers: load.answers,
        qos: load.qos,
        connections: load.connections,
        senders: load.senders,
        spin: load.spin,
        patience_ns: load.patience.as_ns(),
        seed: seed(programs, place),
        log: log(&files, &load.name, name),
        events: files.events,
    }
}

/// URIs of the devices, without paths.
fn targets(programs: Programs<'_>, load: &Load, made: &Made) -> Vec<String> {
    let target = |name: &String| {
        let way = programs.way(name, load.network.as_ref()?)?;
        Some(format!("{}://{}", made.protocol.name(), SocketAddr::from((way.address, made.port))))
    };
    made.to.iter().filter_map(target).collect()
}

/// The devices of a workload.
pub(crate) fn devices(programs: Programs<'_>, device: &Device) -> Result<Vec<Job>, Error> {
    let mut jobs = Vec::new();
    for (place, name) in device.on.iter().enumerate() {
        let spec = DeviceSpec {
            number: place as u32,
            coap: device.coap,
            http: device.http,
            udp: device.udp,
            tcp: device.tcp,
            resources: device.resources.clone(),
            threads: device.threads,
            queue: device.queue,
            payload: device.payload.get(),
            notify: device.notify.clone(),
            corrupt: device.corrupt.fraction(),
            duplicate: device.duplicate.fraction(),
            late: device.late.fraction(),
            late_by_ns: device.late_by.as_ns(),
            silent: device.silent.fraction(),
            spin: device.spin,
            check: device.check,
            seed: seed(programs, place),
            events: programs.files(name).events,
        };
        jobs.extend(programs.job(name, Role::Sink, None, &spec)?);
    }
    Ok(jobs)
}

/// The probes of a workload.
pub(crate) fn probers(programs: Programs<'_>, probe: &Probe) -> Result<Vec<Job>, Error> {
    // Devices run with priority. A probe without priority would be delayed by them and would see
    // contention that they do not suffer.
    let mut workloads = programs.plan.workloads.iter();
    let before = workloads.any(|workload| matches!(workload, Workload::Device(_)));
    let aborts = probe.contention == Contention::Abort;
    let mut jobs = Vec::new();
    for name in &probe.on {
        let spec = ProbeSpec {
            cores: probe.cores.clone(),
            modes: probe.modes.clone(),
            service_ns: probe.service().as_ns(),
            every_ns: probe.every.as_ns(),
            before,
            limit: aborts.then(|| probe.limit.fraction()),
            events: programs.files(name).events,
        };
        jobs.extend(programs.job(name, Role::Sink, None, &spec)?);
    }
    Ok(jobs)
}

/// A seed for each program: different in each repeat, equal in all cells.
fn seed(programs: Programs<'_>, place: usize) -> u64 {
    let (number, place) = (programs.number as u64 + 1, place as u64 + 1);
    programs.plan.impairment_seed().wrapping_add(number << 48).wrapping_add(place << 16)
}
