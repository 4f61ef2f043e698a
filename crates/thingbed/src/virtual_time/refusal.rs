//! What cannot be had in virtual time, and why.

use experiment::Plan;

/// Why `plan` cannot run in virtual time and what to do, if it cannot.
pub(crate) fn refusal(plan: &Plan) -> Option<String> {
    if let Some(node) = plan.nodes.iter().find(|node| node.external.is_some()) {
        return Some(format!(
            "node {} is `external`: hardware lives in real time, and cannot wait for a virtual \
             clock\n  use --clock real, or replace the node by a program",
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
