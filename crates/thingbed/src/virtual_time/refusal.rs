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
    let is_limited =
        |node: &&experiment::PlannedNode| node.limits.cpus.is_some() || node.limits.cpu.is_some();
    if cpu.is_infinite()
        && let Some(node) = plan.nodes.iter().find(is_limited)
    {
        return Some(format!(
            "node {} has a limit of its CPU, and with an infinite CPU programs take no time, whatever \
             their limit\n  use a CPU of finite speed (--cpu 1), or remove `cpus` and `cpu` from its \
             `limits`",
            node.name
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
    if cpu.is_infinite()
        && let Some(node) = plan.nodes.iter().find(is_emulated)
    {
        return Some(format!(
            "node {} is a machine under `qemu`, whose firmware computes until time has passed, and \
             with an infinite CPU none passes meanwhile\n  use a CPU of finite speed (--cpu 1), or a \
             `firmware` that was built as a program for this system",
            node.name
        ));
    }
    let is_foreign =
        |node: &&experiment::PlannedNode| node.root.as_ref().is_some_and(runner::is_foreign);
    if let Some(node) = plan.nodes.iter().find(is_foreign) {
        return Some(format!(
            "the programs of node {} are for another architecture (`platform`), and the guest kernel \
             of virtual time cannot start QEMU for them\n  use --clock real, or an image for this \
             machine",
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

#[cfg(test)]
mod tests {
    use super::*;
    use experiment::{Experiment, Only};

    fn refused(limits: &str, cpu: Cpu) -> Option<String> {
        refused_node(&format!("limits: {{{limits}}}"), cpu)
    }

    fn refused_node(node: &str, cpu: Cpu) -> Option<String> {
        let text = format!(
            "experiment: e\nnodes: {{a: {{{node}}}, b: {{}}}}\n\
             networks: {{n: {{attach: [a, b], subnet: 10.0.0.0/24}}}}\nduration: 1 s\n"
        );
        let experiment = Experiment::parse(&text, "e.yaml", "").unwrap();
        let cell = experiment.cells(&Only::all()).unwrap().remove(0);
        refusal(&experiment.plan(&cell, 0, 1).unwrap(), cpu)
    }

    #[test]
    fn a_machine_needs_a_cpu_of_finite_speed_and_foreign_programs_real_time() {
        let text = refused_node("qemu: {arch: arm}", Cpu::Infinite).unwrap();
        assert!(text.contains("node a is a machine") && text.contains("--cpu 1"), "{text}");
        assert_eq!(refused_node("qemu: {arch: arm}", Cpu::Mips(1_000)), None);
        for cpu in [Cpu::Infinite, Cpu::Mips(1_000)] {
            let text = refused_node("root: /, platform: linux/s390x", cpu).unwrap();
            assert!(text.contains("node a") && text.contains("`platform`"), "{text}");
        }
    }

    /// What failed: a program of a node with a tenth of a CPU computed in no time, and one with a
    /// hundredth never ended.
    #[test]
    fn a_limit_of_the_cpu_needs_a_cpu_of_finite_speed() {
        for limits in ["cpus: 0.5", "cpu: 200 MHz"] {
            let text = refused(limits, Cpu::Infinite).unwrap();
            assert!(text.contains("node a has a limit") && text.contains("--cpu 1"), "{text}");
            assert_eq!(refused(limits, Cpu::Mips(1_000)), None);
        }
        assert_eq!(refused("memory: 64 MiB", Cpu::Infinite), None);
    }
}
