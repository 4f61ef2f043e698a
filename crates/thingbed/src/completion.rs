//! Completion of words in shells: names of running labs, their nodes and groups.

use clap_complete::CompletionCandidate;
use runner::{NodeShown, Reply, Request};
use std::collections::BTreeSet;
use std::time::Duration;

/// Time limit of labs: a key press must not wait for one that hangs.
const LIMIT: Duration = Duration::from_secs(1);

/// The nodes and groups of all labs that this user may access. A lab that ends meanwhile, or that
/// does not answer, has none.
pub(crate) fn nodes() -> Vec<CompletionCandidate> {
    names(replies(&Request::Nodes { nodes: Vec::new() }).flat_map(|reply| match reply {
        Reply::Nodes(nodes) => nodes,
        _ => Vec::new(),
    }))
}

/// The replies of all labs. Errors give no candidates: text on a shell's command line would replace
/// what the user types.
fn replies(request: &Request) -> impl Iterator<Item = Reply> {
    let labs = runner::labs().unwrap_or_default();
    runner::ask_all(&labs, request, LIMIT).into_iter().filter_map(|(_, reply)| reply.ok())
}

fn names(nodes: impl Iterator<Item = NodeShown>) -> Vec<CompletionCandidate> {
    let names: BTreeSet<String> = nodes.flat_map(|node| [node.name, node.group]).collect();
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// The labs that this user may access.
pub(crate) fn labs() -> Vec<CompletionCandidate> {
    let labs = replies(&Request::Lab {}).filter_map(|reply| match reply {
        Reply::Lab(lab) => Some(CompletionCandidate::new(lab.experiment)),
        _ => None,
    });
    labs.collect()
}
