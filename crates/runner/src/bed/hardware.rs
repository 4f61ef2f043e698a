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
            ends.push(lab::attach(interface)?);
        }
    }
    Ok(())
}
