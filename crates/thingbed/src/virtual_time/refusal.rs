//! Refuses plans with features that virtual time does not support.

use experiment::Plan;

/// The reason why `plan` cannot run in virtual time, and the fix; none if it can.
pub(crate) fn refusal(plan: &Plan) -> Option<String> {
    if let Some(node) = plan.nodes.iter().find(|node| node.external.is_some()) {
        return Some(format!(
            "node {} is `external`: hardware runs in real time, and cannot wait for a virtual \
             clock\n  use --clock real, or replace the node by a program",
            node.name
        ));
    }
    let is_emulated = |node: &&experiment::PlannedNode| {
        node.machine.as_ref().is_some_and(|machine| machine.is_emulated)
    };
    if let Some(node) = plan.nodes.iter().find(is_emulated) {
        return Some(format!(
            "node {} is a machine under `qemu`, whose clock is the host's\n  use --clock real, or a \
             `firmware` that was built as a program for this system",
            node.name
        ));
    }
    let gateway = plan.nodes.iter().find(|node| node.services.is_some_and(|s| s.nat))?;
    Some(format!(
        "{} is a gateway to the outside (`nat: true`): hosts there answer in real time, and \
         cannot wait for a virtual clock\n  use --clock real, or put the server into a node of \
         the experiment",
        gateway.name
    ))
}
