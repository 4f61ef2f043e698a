//! Completion of words in shells: names of running labs, their nodes and groups.

use clap_complete::CompletionCandidate;
use runner::{NodeShown, Reply, Request};
use std::collections::BTreeSet;

/// The nodes and groups of all labs that this user may access. A lab that ends meanwhile, or that
/// does not answer, has none.
pub(crate) fn nodes() -> Vec<CompletionCandidate> {
    let of = |pid: u32| match runner::ask(pid, &Request::Nodes { nodes: Vec::new() }) {
        Ok(Reply::Nodes(nodes)) => nodes,
        _ => Vec::new(),
    };
    // Errors give no candidates: text on a shell's command line would replace what the user types.
    names(runner::labs().unwrap_or_default().into_iter().flat_map(of))
}

fn names(nodes: impl Iterator<Item = NodeShown>) -> Vec<CompletionCandidate> {
    let names: BTreeSet<String> = nodes.flat_map(|node| [node.name, node.group]).collect();
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// The labs that this user may access.
pub(crate) fn labs() -> Vec<CompletionCandidate> {
    let of = |pid: u32| match runner::ask(pid, &Request::Lab {}) {
        Ok(Reply::Lab(lab)) => Some(CompletionCandidate::new(lab.experiment)),
        _ => None,
    };
    runner::labs().unwrap_or_default().into_iter().filter_map(of).collect()
}
