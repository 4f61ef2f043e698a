//! What control groups can limit on this machine.

use super::Groups;
use crate::hierarchy::Hierarchy;
use crate::ledger::Page;
use std::fs;

/// Whether nodes can be limited here.
///
/// # Errors
/// The reason why not, as text.
pub fn can_limit() -> Result<&'static str, String> {
    let name = format!("thingbed-{}-probe", std::process::id());
    let mut groups = Groups::find(&name)?;
    let _page = Page::write(&name, groups.roots()).map_err(|error| format!("write: {error}"))?;
    groups.begin()?;
    Ok(groups.source().name())
}

/// Whether the number of processes of a node can be limited here.
///
/// # Errors
/// The reason why not, as text.
pub fn can_limit_processes() -> Result<(), String> {
    let name = format!("thingbed-{}-processes", std::process::id());
    let mut groups = Groups::find(&name)?;
    let _page = Page::write(&name, groups.roots()).map_err(|error| format!("write: {error}"))?;
    groups.begin()?;
    match groups.hierarchy {
        Hierarchy::V1 { .. } => groups.root_with("pids.max").map(drop),
        Hierarchy::V2(_) => {
            let text = fs::read_to_string(groups.roots[0].join("cgroup.subtree_control"));
            let has = text.is_ok_and(|all| all.split_whitespace().any(|one| one == "pids"));
            if has { Ok(()) } else { Err("the controller pids is not available".to_owned()) }
        }
    }
}
