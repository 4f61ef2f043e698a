//! Programs of `thingbed-workload` with their specs, each in a file.

use crate::bed::jobs::{Files, Job, Role};
use crate::bed::tls;
use crate::error::Error;
use experiment::{MqttTls, Plan, Way};
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

    /// How a node reaches a network: by its link to it, or by a router.
    pub fn way(&self, node: &str, network: &str) -> Option<Way<'a>> {
        self.plan.way(node, network)
    }

    /// The largest IP packet between a node and a network: routers may fragment larger ones, or
    /// refuse them.
    pub fn mtu(&self, node: &str, network: &str) -> Option<u16> {
        let way = self.way(node, network)?;
        let mtu = |name: &str| Some(self.plan.network(name)?.mtu.get());
        Some(mtu(network)?.min(mtu(&way.link.network)?) as u16)
    }

    /// A node as peer of a program in `network`.
    pub fn peer(&self, node: &str, network: &str) -> Option<Peer> {
        let address = self.way(node, network)?.address;
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
    ///
    /// # Errors
    /// The spec cannot be written.
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
