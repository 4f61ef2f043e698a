//! What control groups can limit on this machine.

use super::Groups;
use crate::hierarchy::Hierarchy;
use crate::ledger::{Page, name_of};
use std::fs;

/// Whether nodes can be limited here.
///
/// # Errors
/// The reason why not, as text.
pub fn can_limit() -> Result<&'static str, String> {
    let name = name_of("probe");
    let groups = Groups::find(&name)?;
    let _page = Page::write(&name, groups.roots()).map_err(|error| format!("write: {error}"))?;
    // Dropped before the page, which stays while its groups exist.
    let mut groups = groups;
    groups.begin()?;
    Ok(groups.source().name())
}

/// Whether the number of processes of a node can be limited here.
///
/// # Errors
/// The reason why not, as text.
pub fn can_limit_processes() -> Result<(), String> {
    let name = name_of("processes");
    let groups = Groups::find(&name)?;
    let _page = Page::write(&name, groups.roots()).map_err(|error| format!("write: {error}"))?;
    // Dropped before the page, which stays while its groups exist.
    let mut groups = groups;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What failed before: `thingbed doctor` left an entry in the ledger.
    #[test]
    fn trying_limits_leaves_nothing_behind() {
        let _ = (can_limit(), can_limit_processes());
        for what in ["probe", "processes"] {
            let entry = crate::ledger_dir().join(name_of(what)).with_extension("json");
            assert!(!entry.exists());
        }
    }
}
