//! The commands about nodes: how they are, what befalls them, what they may use.

use super::{all, find, pairs, table};
use crate::arguments::{self, Clone, Nodes, Ps, Set};
use crate::{Status, complain, remark, say};
use experiment::PlannedFaultKind;
use runner::{NodeShown, Reply, Request};
use std::path::Path;
use units::Span;

/// Lists the labs that are up.
pub fn labs() -> Result<Status, String> {
    let rows: Vec<_> = all()?
        .into_iter()
        .map(|(_, lab)| {
            let what = if lab.run { "run" } else { "lab" };
            let nodes = lab.nodes.to_string();
            let folder = lab.folder.display().to_string();
            vec![
                lab.experiment,
                lab.pid.to_string(),
                what.into(),
                nodes,
                up_for(lab.up_for),
                folder,
            ]
        })
        .collect();
    match rows.is_empty() {
        true => remark("no lab is running on this machine"),
        false => say(table(&["NAME", "PROCESS", "KIND", "NODES", "UP FOR", "FOLDER"], 9, rows)),
    }
    Ok(Status::Fine)
}

/// To a tenth of a second, or to a second from a minute on.
fn up_for(span: Span) -> String {
    let step = if span.as_ns() < 60_000_000_000 { 100_000_000 } else { 1_000_000_000 };
    Span::from_ns(span.as_ns() / step * step).to_string()
}

/// Lists the nodes of a lab.
pub fn ps(wanted: &Ps) -> Result<Status, String> {
    let nodes = find(&wanted.which.lab)?.nodes(&wanted.which.nodes)?;
    match wanted.json {
        true => say(serde_json::to_string_pretty(&nodes).unwrap_or_default()),
        false => list(&nodes),
    }
    Ok(Status::Fine)
}

/// What of a program is listed; `--json` has all of it.
const LONGEST: usize = 60;

fn list(nodes: &[NodeShown]) {
    let rows = nodes.iter().map(|node| {
        let addresses = node.interfaces.iter().map(|(_, _, address)| address.to_string());
        let (program, state) = node.program.clone().unwrap_or_default();
        let addresses = addresses.collect::<Vec<_>>().join(" ");
        let program = match program.char_indices().nth(LONGEST) {
            Some((at, _)) => format!("{}...", &program[..at]),
            None => program,
        };
        vec![node.name.clone(), node.pid.to_string(), addresses, state, program]
    });
    say(table(&["NODE", "PROCESS", "ADDRESSES", "STATE", "PROGRAM"], 9, rows.collect()));
}

/// Lets something befall nodes' programs.
pub fn befall(what: PlannedFaultKind, wanted: &Nodes) -> Result<Status, String> {
    let request = Request::Befall { what, nodes: wanted.nodes.clone() };
    find(&wanted.lab)?.ask(&request).map(|_| Status::Fine)
}

/// Brings more nodes up that are like one; says how they are called.
pub fn clone(wanted: &Clone) -> Result<Status, String> {
    let request = Request::Clone { node: wanted.node.clone(), count: wanted.count as usize };
    if let Reply::Nodes(nodes) = find(&wanted.lab)?.ask(&request)? {
        nodes.iter().for_each(|node| {
            let addresses = node.interfaces.iter().map(|(_, _, address)| address.to_string());
            say(format_args!("{} {}", node.name, addresses.collect::<Vec<_>>().join(" ")));
        });
    }
    Ok(Status::Fine)
}

/// Ends nodes.
pub fn destroy(wanted: &Nodes) -> Result<Status, String> {
    let request = Request::Destroy { nodes: wanted.nodes.clone() };
    find(&wanted.lab)?.ask(&request).map(|_| Status::Fine)
}

/// Takes a lab down, and waits until it is gone.
pub fn down(wanted: &arguments::Lab) -> Result<Status, String> {
    let lab = find(wanted)?;
    lab.ask(&Request::End {})?;
    // Its last act, after the door, is to remove the groups of limits.
    while Path::new(&format!("/proc/{}", lab.pid)).exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Ok(Status::Fine)
}

/// Changes what nodes may use, or what they are called.
pub fn set(wanted: &Set) -> Result<Status, String> {
    let request = Request::Change { nodes: vec![wanted.node.clone()], set: pairs(&wanted.set)? };
    match find(&wanted.lab)?.ask(&request)? {
        Reply::Wrong(why) => {
            complain(why);
            Ok(Status::Wrong)
        }
        _ => Ok(Status::Fine),
    }
}
