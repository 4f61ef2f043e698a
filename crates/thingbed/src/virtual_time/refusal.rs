//! Refuses plans with features that virtual time does not support.

use experiment::{Cpu, Plan, Workload};
use trace::Mode;

/// The reason why `plan` cannot run in virtual time with this CPU, and the fix; none if it can.
pub(crate) fn refusal(plan: &Plan, cpu: Cpu) -> Option<String> {
    if cpu.is_infinite()
        && let Some(workload) = plan.workloads.iter().find_map(busy)
    {
        return Some(format!(
            "{workload}, which computes until time has passed, and with an infinite CPU none passes \
             meanwhile\n  use a CPU of finite speed (--cpu 1), or `mode: sleep` without `spin`"
        ));
    }
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

/// The workload and its key, if a part of it computes on purpose.
fn busy(workload: &Workload) -> Option<String> {
    match workload {
        Workload::Device(device) if device.modes().contains(&Mode::Busy) => {
            Some("a resource of a device has `mode: busy`".to_owned())
        }
        Workload::Device(device) if device.spin => Some("a device has `spin: true`".to_owned()),
        Workload::Probe(probe) if probe.modes.contains(&Mode::Busy.to_string()) => {
            Some(format!("the probe {} has `mode: busy` (the default is both modes)", probe.name))
        }
        _ => None,
    }
}
