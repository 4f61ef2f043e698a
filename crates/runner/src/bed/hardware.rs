//! Real hardware on a plan's networks.

use crate::error::Error;
use experiment::Plan;
use std::os::fd::OwnedFd;

/// Whether a plan uses any.
pub(crate) fn is_used(plan: &Plan) -> bool {
    plan.nodes.iter().any(|node| node.external.is_some())
}

/// Inserts the hardware's frame ends among the nodes' ends, in the plan's order.
pub(crate) fn attach(plan: &Plan, ends: &mut [Vec<OwnedFd>]) -> Result<(), Error> {
    for (node, ends) in plan.nodes.iter().zip(ends) {
        if let Some(interface) = &node.external {
            // Its placeholder node has no interface in the lab, so this is its only descriptor, in
            // the order of the plan's links (decision 25).
            ends.push(lab::attach(interface)?);
        }
    }
    Ok(())
}
