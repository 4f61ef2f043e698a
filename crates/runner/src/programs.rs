//! Thingbed's programs of one workload, each with its spec in a file.

use crate::bed::jobs::{Job, Role, variables};
use crate::error::Error;
use crate::program_specs::Programs;
use experiment::{Command, Plan, Workload};
use std::path::Path;

/// The programs of the workloads of `plan`, sinks before sources, with their files in `dir`.
/// `workload` is the program that implements the interaction models. User programs start in `home`.
pub(crate) fn jobs(
    plan: &Plan,
    workload: &Path,
    home: &Path,
    dir: &Path,
) -> Result<Vec<Job>, Error> {
    let mut jobs = Vec::new();
    for (number, planned) in plan.workloads.iter().enumerate() {
        let programs = Programs { plan, number, program: workload, dir };
        jobs.extend(match planned {
            Workload::Interaction(interaction) => crate::interaction::jobs(programs, interaction)?,
            Workload::Mqtt(mqtt) => crate::mqtt::jobs(programs, mqtt)?,
            Workload::Exchange(exchange) => crate::exchange::jobs(programs, exchange)?,
            Workload::Load(load) => crate::load::senders(programs, load)?,
            Workload::Device(device) => crate::load::devices(programs, device)?,
            Workload::Probe(probe) => crate::load::probers(programs, probe)?,
            Workload::Command(command) => commands(programs, command, home),
        });
    }
    jobs.extend(crate::collectors::jobs(plan, workload, dir)?);
    Ok(jobs)
}

/// A user's programs of one workload.
fn commands(programs: Programs<'_>, command: &Command, home: &Path) -> Vec<Job> {
    let Programs { plan, number, dir, .. } = programs;
    let of = |name: &String| {
        let node = plan.nodes.iter().position(|node| node.name == *name)?;
        let role = match command.background {
            true => Role::Background,
            false => Role::Command,
        };
        let (argv, files) = (command.run.clone(), programs.files(name));
        let mut job = Job::of(node, name, Some(number), role, argv, home, files);
        job.env = variables(plan, name, &command.env, dir);
        job.may_end = true;
        job.output_limit = plan.nodes[node].limits.output;
        job.check = command.check.clone();
        Some(job)
    };
    command.on.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::jobs;
    use experiment::{Experiment, Only};
    use record::spec::{
        DeviceSpec, ExchangeSpec, InteractionSpec, LoadSpec, MqttSpec, ProbeSpec, Spec,
    };
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn experiments() -> impl Iterator<Item = PathBuf> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
    }

    /// Reads a spec back, and returns whether it is the same when written again.
    fn accepted<S: Spec>(text: &str) -> Result<bool, String> {
        let spec = S::parse(text)?;
        Ok(serde_json::to_string(&spec).unwrap() == text)
    }

    #[test]
    fn each_spec_of_the_shipped_experiments_is_read_back_and_accepted() {
        let mut kinds = BTreeSet::new();
        for file in experiments() {
            let experiment = Experiment::read(&file).unwrap();
            // The specs of a cell's programs differ from others' only in values.
            let cells = experiment.cells(&Only::all()).unwrap();
            let few = cells.len().div_ceil(3).max(1);
            for cell in cells.iter().step_by(few) {
                let plan = experiment.plan(cell, 0, 7).unwrap();
                let dir = tempfile::tempdir().unwrap();
                let programs = dir.path().join("programs");
                fs::create_dir(&programs).unwrap();
                let home = dir.path();
                let jobs = jobs(&plan, Path::new("w"), home, &programs).unwrap();
                for job in jobs.iter().filter(|job| job.argv[0] == "w") {
                    let text = fs::read_to_string(&job.argv[2]).unwrap();
                    let same = match job.argv[1].as_str() {
                        InteractionSpec::PROGRAM => accepted::<InteractionSpec>(&text),
                        MqttSpec::PROGRAM => accepted::<MqttSpec>(&text),
                        ExchangeSpec::PROGRAM => accepted::<ExchangeSpec>(&text),
                        LoadSpec::PROGRAM => accepted::<LoadSpec>(&text),
                        DeviceSpec::PROGRAM => accepted::<DeviceSpec>(&text),
                        ProbeSpec::PROGRAM => accepted::<ProbeSpec>(&text),
                        other => panic!("{other} has no spec"),
                    };
                    assert_eq!(same, Ok(true), "{} {cell} {}: {text}", file.display(), job.name);
                    kinds.insert(job.argv[1].clone());
                }
            }
        }
        assert_eq!(kinds.len(), 6, "the experiments use all programs: {kinds:?}");
    }
}
