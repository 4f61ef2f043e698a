//! A lab for interactive use: nodes run their own programs, without a measurement.

use crate::bed::environment::Environment;
use crate::bed::faults::Faults;
use crate::bed::{Bed, BedOptions};
use crate::controller::Controller;
use crate::error::Error;
use crate::folder::Folder;
use engine::FramePath;
use experiment::Plan;
use measure::Accounting;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Options of a lab.
pub struct Up<'a> {
    /// A program whose `main` serves as the fork server: the tool itself.
    pub tool: &'a Path,
    /// The program that implements the consoles of machines.
    pub workload: &'a Path,
    /// Working directory of programs: the experiment file's folder.
    pub home: &'a Path,
    /// The requested frame path; `None` for the best that works.
    pub frame_path: Option<FramePath>,
    /// Maximum number of threads that forward frames; each network belongs to one.
    pub threads: usize,
    /// Whether they busy-wait shortly before frames are due.
    pub spin: bool,
    /// Set to stop the lab.
    pub interrupted: &'a AtomicBool,
    /// Called once, when all nodes are up and their programs are ready.
    pub ready: &'a mut dyn FnMut(),
    /// Called with each problem of the running lab.
    pub remark: &'a mut dyn FnMut(&str),
}

/// Brings up the nodes and networks of `plan` until a user stops the lab. Logs of programs are in
/// `folder`. Workloads do not run.
///
/// # Errors
/// The failed step; nothing of the lab is left then.
pub fn up(plan: &Plan, folder: &Folder, options: Up<'_>) -> Result<(), Error> {
    let Up { tool, workload, home, frame_path, threads, spin, interrupted, ready, remark } =
        options;
    let of_bed = BedOptions {
        tool,
        workload,
        home,
        frame_path,
        threads,
        spin,
        is_measured: false,
        watches_output: true,
        disk: None,
        interrupted,
    };
    let bed = Bed::up(plan, folder, of_bed, |topology| {
        Ok(Accounting::new(topology.owners.clone(), Vec::new(), None))
    })?;
    if let Some(Err(why)) = &bed.design().placement {
        remark(&format!("`affinity` has no effect: {why}"));
    }
    let logs = bed.design().programs.clone();
    let mut nothing = ();
    let mut controller =
        Controller::new(bed, Vec::new(), Faults::of(plan), logs, interrupted, &mut nothing);
    controller.set_up(plan.setup_limit)?;
    controller.begin()?;
    ready();
    while !controller.is_interrupted() {
        controller.look()?;
        controller.inject_due_faults()?;
        controller.failures.drain(..).for_each(|failure| remark(&failure.to_string()));
        if controller.bed.frames().have_failed {
            remark("forwarding failed: the lab carries no frames any more");
            break;
        }
    }
    controller.stop()?;
    controller.failures.drain(..).for_each(|failure| remark(&failure.to_string()));
    controller.bed.down().map(drop)
}
