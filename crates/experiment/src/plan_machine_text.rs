//! The text of a plan: the programs of a node, and its machine.

use crate::plan::{PlannedMachine, PlannedNode};
use std::fmt;
use units::Span;

/// Writes the machine and the program of `node`, if it has them.
pub(crate) fn write_programs(f: &mut fmt::Formatter<'_>, node: &PlannedNode) -> fmt::Result {
    node.machine.iter().try_for_each(|machine| write_machine(f, machine))?;
    let Some(program) = &node.program else { return Ok(()) };
    match &program.run[..] {
        [] if node.machine.is_some() => write!(f, "    run: the machine")?,
        [] => write!(f, "    run: command of the image")?,
        run => write!(f, "    run: {}", run.join(" "))?,
    }
    if let Some(ready) = &program.ready {
        write!(f, ", ready when {ready}")?;
    }
    writeln!(f)?;
    program.env.iter().try_for_each(|(key, v)| writeln!(f, "    {key}={v}"))
}

fn write_machine(f: &mut fmt::Formatter<'_>, machine: &PlannedMachine) -> fmt::Result {
    let kind = if machine.is_emulated { "machine" } else { "firmware" };
    write!(f, "    {kind}: {}", machine.argv.join(" "))?;
    match (&machine.taps[..], &machine.tun) {
        ([], None) => writeln!(f)?,
        ([], Some(tun)) => writeln!(f, " at the tunnel {tun}")?,
        (taps, _) => writeln!(f, " at {}", taps.join(", "))?,
    }
    for step in &machine.steps {
        write!(f, "    console:")?;
        step.wait.iter().try_for_each(|text| write!(f, " wait for {text:?}"))?;
        if step.pause_ns > 0 {
            write!(f, " pause {}", Span::from_ns(step.pause_ns))?;
        }
        let entered = step.keys.iter().chain(&step.send);
        entered.into_iter().try_for_each(|text| write!(f, " enter {text:?}"))?;
        writeln!(f)?;
    }
    Ok(())
}
