//! Commands for nodes: list, fault injection, scale-up, limits.

use super::find::{Found, all};
use super::own::find_to_end;
use super::{elsewhere, find, pairs, table};
use crate::arguments::{self, Clone, Labs, Nodes, Ps, Set};
use crate::{Status, complain, remark, say};
use experiment::PlannedFaultKind;
use runner::{NodeShown, Reply, Request};
use serde_json::{Value, json};
use std::io;
use std::path::Path;
use units::Span;

/// Lists the labs that are up.
pub fn labs(arguments: &Labs) -> Result<Status, String> {
    let labs = all()?;
    if arguments.json {
        let labs: Vec<_> = labs.iter().map(json).collect();
        say(serde_json::to_string_pretty(&labs).unwrap_or_default());
        return Ok(Status::Fine);
    }
    let rows: Vec<_> = labs.into_iter().map(row).collect();
    match rows.is_empty() {
        true => remark(format_args!("no lab is running on this machine{}", elsewhere())),
        false => say(table(&["NAME", "PROCESS", "KIND", "NODES", "UP FOR", "FOLDER"], 9, rows)),
    }
    Ok(Status::Fine)
}

fn json(lab: &Found) -> Value {
    let mut shown = match &lab.shown {
        Some(shown) => serde_json::to_value(shown).unwrap_or_default(),
        None => json!({ "pid": lab.pid }),
    };
    shown["answers"] = lab.shown.is_some().into();
    shown
}

fn row(lab: Found) -> Vec<String> {
    let Some(shown) = lab.shown else {
        return vec!["(does not answer)".into(), lab.pid.to_string()];
    };
    let kind = if shown.run { "run" } else { "lab" };
    let (nodes, folder) = (shown.nodes.to_string(), shown.folder.display().to_string());
    let up_for = up_for(shown.up_for);
    vec![shown.experiment, lab.pid.to_string(), kind.into(), nodes, up_for, folder]
}

/// Rounds down to 0.1 s, or to 1 s from one minute on.
fn up_for(span: Span) -> String {
    let s = span.as_ns() / 1_000_000_000;
    match (s / 3_600, s / 60 % 60, s % 60) {
        (0, 0, _) => format!("{:.1} s", span.as_ns() as f64 / 1e9),
        (0, min, s) => format!("{min} min {s} s"),
        (hours, min, _) => format!("{hours} h {min} min"),
    }
}

/// Lists the nodes of a lab.
pub fn ps(arguments: &Ps) -> Result<Status, String> {
    let nodes = find(&arguments.which.lab)?.nodes(&arguments.which.nodes)?;
    match arguments.json {
        true => say(serde_json::to_string_pretty(&nodes).unwrap_or_default()),
        false => list(&nodes),
    }
    Ok(Status::Fine)
}

/// Maximum length of a program in the list; `--json` prints all of it.
pub(super) const LONGEST: usize = 60;

fn list(nodes: &[NodeShown]) {
    let rows = nodes.iter().map(|node| {
        let addresses = node.interfaces.iter().map(|(_, _, address)| address.to_string());
        let (program, _) = node.program.clone().unwrap_or_default();
        let addresses = addresses.collect::<Vec<_>>().join(" ");
        let program = match program.char_indices().nth(LONGEST) {
            Some((at, _)) => format!("{}...", &program[..at]),
            None => program,
        };
        vec![node.name.clone(), node.pid.to_string(), addresses, node.state().to_owned(), program]
    });
    say(table(&["NODE", "PROCESS", "ADDRESSES", "STATE", "PROGRAM"], 9, rows.collect()));
}

/// Injects a fault into nodes' programs, or starts them.
pub fn inject_fault(what: PlannedFaultKind, arguments: &Nodes) -> Result<Status, String> {
    let request = Request::InjectFault { what, nodes: arguments.nodes.clone() };
    let lab = match what {
        PlannedFaultKind::Kill | PlannedFaultKind::Stop | PlannedFaultKind::Restart => {
            find_to_end(&arguments.lab, "end programs in it")?
        }
        _ => find(&arguments.lab)?,
    };
    lab.ask(&request).map(|_| Status::Fine)
}

/// Adds clones of a node; prints their names and addresses.
pub fn clone(arguments: &Clone) -> Result<Status, String> {
    let request = Request::Clone { node: arguments.node.clone(), count: arguments.count as usize };
    if let Reply::Nodes(nodes) = find(&arguments.lab)?.ask(&request)? {
        nodes.iter().for_each(|node| {
            let addresses = node.interfaces.iter().map(|(_, _, address)| address.to_string());
            say(format_args!("{} {}", node.name, addresses.collect::<Vec<_>>().join(" ")));
        });
    }
    Ok(Status::Fine)
}

/// Removes nodes.
pub fn destroy(arguments: &Nodes) -> Result<Status, String> {
    let request = Request::Destroy { nodes: arguments.nodes.clone() };
    find_to_end(&arguments.lab, "remove nodes of it")?.ask(&request).map(|_| Status::Fine)
}

/// Stops a lab, and waits until its process has exited.
pub fn down(arguments: &arguments::Lab) -> Result<Status, String> {
    let lab = find_to_end(arguments, "stop it")?;
    match runner::ask(lab.pid, &Request::End {}) {
        Ok(Reply::Done {} | Reply::Ending {}) => {}
        // It has closed its control socket meanwhile: another terminal has stopped it.
        Err(error) if is_closed(&error) => {}
        _ => drop(lab.ask(&Request::End {})?),
    }
    // After closing its control socket, the process still removes the cgroups.
    while Path::new(&format!("/proc/{}", lab.pid)).exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Ok(Status::Fine)
}

/// Whether no process has the control socket open any more, or it was closed before the reply.
fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotFound, UnexpectedEof};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionRefused | ConnectionReset | NotFound | UnexpectedEof
    )
}

/// Changes the limits or the host name of nodes.
pub fn set(arguments: &Set) -> Result<Status, String> {
    let request =
        Request::Change { nodes: vec![arguments.node.clone()], set: pairs(&arguments.set)? };
    match find(&arguments.lab)?.ask(&request)? {
        Reply::Wrong(why) => {
            complain(why);
            Ok(Status::Wrong)
        }
        _ => Ok(Status::Fine),
    }
}
