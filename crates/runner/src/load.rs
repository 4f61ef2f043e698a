//! Loads and devices of a run: the configuration of each program.

use crate::error::Error;
use crate::jobs::{Files, Job, Role};
use experiment::{Contention, Device, Load, Made, Plan, Probe, Requests, Workload};
use serde_json::{Value, json};
use std::fs;
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

/// The senders of a load, with their files in `dir`.
pub(crate) fn senders(
    plan: &Plan,
    number: usize,
    load: &Load,
    program: &Path,
    dir: &Path,
) -> Result<Vec<Job>, Error> {
    let mut jobs = Vec::new();
    let logs = dir.with_file_name("latency");
    fs::create_dir_all(&logs).map_err(Error::write(&logs))?;
    for (place, name) in load.on.iter().enumerate() {
        let files = Files::of(dir, name, Some(number));
        let mut spec = match &load.requests {
            Requests::Trace(path) => json!({"trace": path}),
            Requests::Made(made) => requests(plan, load, made),
        };
        let own = json!({
            "duration_ns": load.duration.as_ns(),
            "users": load.users,
            "think": load.think,
            "timeout_ns": load.timeout.as_ns(),
            "confirmable": load.confirmable,
            "coap": load.coap,
            "answers": load.answers,
            "qos": load.qos,
            "connections": load.connections,
            "senders": load.senders,
            "spin": load.spin,
            "patience_ns": load.patience.as_ns(),
            "seed": seed(plan, number, place),
            "events": files.events,
            "log": log(&files, &load.name, name),
        });
        if let (Value::Object(spec), Value::Object(own)) = (&mut spec, own) {
            spec.extend(own);
        }
        let other = load.asked().first();
        jobs.extend(job(plan, number, (name, other), (Role::Source, "load"), &spec, program, dir)?);
    }
    Ok(jobs)
}

/// Parameters of the requests, with the addresses of the devices.
fn requests(plan: &Plan, load: &Load, made: &Made) -> Value {
    let target = |name: &String| {
        let links = &plan.node(name)?.links;
        let link = links.iter().find(|link| Some(&link.network) == load.network.as_ref())?;
        Some(format!("{}://{}:{}", made.protocol.name(), link.address, made.port))
    };
    json!({
        "targets": made.to.iter().filter_map(target).collect::<Vec<_>>(),
        "arrivals": made.arrivals,
        "together": made.together,
        "method": made.method,
        "path": made.path,
        "size": made.size,
        "count": made.count,
    })
}

/// The devices of a workload, with their files in `dir`.
pub(crate) fn devices(
    plan: &Plan,
    number: usize,
    device: &Device,
    program: &Path,
    dir: &Path,
) -> Result<Vec<Job>, Error> {
    let mut jobs = Vec::new();
    for (place, name) in device.on.iter().enumerate() {
        let files = Files::of(dir, name, Some(number));
        let spec = json!({
            "number": place,
            "coap": device.coap,
            "http": device.http,
            "udp": device.udp,
            "tcp": device.tcp,
            "resources": device.resources,
            "threads": device.threads,
            "queue": device.queue,
            "payload": device.payload.get(),
            "notify": device.notify,
            "garbage": device.garbage.fraction(),
            "twice": device.twice.fraction(),
            "late": device.late.fraction(),
            "late_by_ns": device.late_by.as_ns(),
            "silent": device.silent.fraction(),
            "spin": device.spin,
            "check": device.check,
            "seed": seed(plan, number, place),
            "events": files.events,
        });
        jobs.extend(job(plan, number, (name, None), (Role::Sink, "device"), &spec, program, dir)?);
    }
    Ok(jobs)
}

/// The probes of a workload, with their files in `dir`.
pub(crate) fn probers(
    plan: &Plan,
    number: usize,
    probe: &Probe,
    program: &Path,
    dir: &Path,
) -> Result<Vec<Job>, Error> {
    // Devices run with priority. A probe without priority would be delayed by them and would see
    // contention that they do not suffer.
    let before = plan.workloads.iter().any(|workload| matches!(workload, Workload::Device(_)));
    let mut jobs = Vec::new();
    for name in &probe.on {
        let files = Files::of(dir, name, Some(number));
        let aborts = probe.contention == Contention::Abort;
        let spec = json!({
            "cores": probe.cores,
            "modes": probe.modes,
            "service_ns": probe.service().as_ns(),
            "every_ns": probe.every.as_ns(),
            "before": before,
            "limit": aborts.then(|| probe.limit.fraction()),
            "events": files.events,
        });
        jobs.extend(job(plan, number, (name, None), (Role::Sink, "probe"), &spec, program, dir)?);
    }
    Ok(jobs)
}

/// A seed for each program: different in each repeat, equal in all cells.
fn seed(plan: &Plan, number: usize, place: usize) -> u64 {
    let (number, place) = (number as u64 + 1, place as u64 + 1);
    plan.impairment_seed().wrapping_add(number << 48).wrapping_add(place << 16)
}

/// A program on node `name` that depends on `other`.
fn job(
    plan: &Plan,
    number: usize,
    (name, other): (&String, Option<&String>),
    (role, what): (Role, &str),
    spec: &Value,
    program: &Path,
    dir: &Path,
) -> Result<Option<Job>, Error> {
    let place = |name: &String| plan.nodes.iter().position(|node| node.name == *name);
    let Some(node) = place(name) else { return Ok(None) };
    let files = Files::of(dir, name, Some(number));
    fs::write(&files.spec, spec.to_string()).map_err(Error::write(&files.spec))?;
    let words = [program.as_os_str(), what.as_ref(), files.spec.as_os_str()];
    let argv = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut job = Job::of(node, name, Some(number), role, argv, dir, files);
    job.relies_on = other.and_then(place);
    Ok(Some(job))
}
