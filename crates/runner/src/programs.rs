//! Thingbed's programs of one workload, each with its spec in a file.

use crate::error::Error;
use crate::jobs::{Files, Job, Role};
use crate::tls;
use experiment::{MqttTls, Plan, PlannedLink};
use record::spec::{Peer, Spec, TlsFiles};
use std::fs;
use std::path::Path;

/// Common parameters of a workload's programs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Programs<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Number of the workload.
    pub number: usize,
    /// The program that implements all workloads.
    pub program: &'a Path,
    /// Folder of the programs' files.
    pub dir: &'a Path,
}

impl<'a> Programs<'a> {
    /// Files of the program on `node`.
    pub fn files(&self, node: &str) -> Files {
        Files::of(self.dir, node, Some(self.number))
    }

    /// The link of a node to a network.
    pub fn link(&self, node: &str, network: &str) -> Option<&'a PlannedLink> {
        self.plan.node(node)?.links.iter().find(|link| link.network == network)
    }

    /// A node as peer of a program in `network`.
    pub fn peer(&self, node: &str, network: &str) -> Option<Peer> {
        let address = self.link(node, network)?.address;
        Some(Peer { name: node.to_owned(), address })
    }

    /// The TLS files of a client, which trusts the authority of the other side's certificate.
    pub fn tls(&self, tls: &MqttTls) -> TlsFiles {
        match tls {
            MqttTls::Generated => {
                TlsFiles { ca: tls::folder(self.dir).join("ca.pem"), cert: None, key: None }
            }
            MqttTls::Files { ca, cert, key } => {
                TlsFiles { ca: ca.clone(), cert: cert.clone(), key: key.clone() }
            }
        }
    }

    /// The program of `role` on node `name`, which depends on node `other`. Writes its spec.
    pub fn job<S: Spec>(
        &self,
        name: &str,
        role: Role,
        other: Option<&str>,
        spec: &S,
    ) -> Result<Option<Job>, Error> {
        let place = |name: &str| self.plan.nodes.iter().position(|node| node.name == name);
        let Some(node) = place(name) else { return Ok(None) };
        let files = self.files(name);
        let text = serde_json::to_vec(spec).unwrap_or_default();
        fs::write(&files.spec, text).map_err(Error::write(&files.spec))?;
        let argv = vec![
            self.program.display().to_string(),
            S::PROGRAM.to_owned(),
            files.spec.display().to_string(),
        ];
        let mut job = Job::of(node, name, Some(self.number), role, argv, self.dir, files);
        job.relies_on = other.and_then(place);
        Ok(Some(job))
    }
}

#[cfg(test)]
mod tests {
    use crate::jobs;
    use crate::roots::Roots;
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
                let roots = Roots::default();
                let home = dir.path();
                let jobs = jobs::jobs(&plan, &roots, Path::new("w"), home, &programs).unwrap();
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
