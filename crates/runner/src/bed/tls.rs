//! TLS certificates for a run: of an authority, and of each broker and server.

use crate::error::Error;
use experiment::{MqttTls, Plan, PlannedNode, Workload};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Environment variable with the certificates' folder, for programs of a broker's node.
pub(crate) const VARIABLE: &str = "THINGBED_TLS";

/// The certificates' folder, next to the folder of the programs' files.
pub(crate) fn folder(programs: &Path) -> PathBuf {
    programs.with_file_name("tls")
}

/// Whether a node has a broker or server with certificates of this run.
pub(crate) fn has(plan: &Plan, node: &str) -> bool {
    brokers(plan).any(|broker| broker.name == node)
}

/// The nodes with a broker or server that shows a certificate of this bed.
fn brokers(plan: &Plan) -> impl Iterator<Item = &PlannedNode> {
    let is_generated = |tls: &Option<MqttTls>| *tls == Some(MqttTls::Generated);
    let listens = move |workload: &Workload, node: &str| match workload {
        Workload::Mqtt(mqtt) => mqtt.broker == node && is_generated(&mqtt.tls),
        Workload::Exchange(exchange) if is_generated(&exchange.tls) => {
            match exchange.brokers.is_empty() {
                true => exchange.pairs().iter().any(|pair| pair.servers.contains(&node)),
                false => exchange.brokers.iter().any(|broker| broker == node),
            }
        }
        _ => false,
    };
    plan.nodes.iter().filter(move |node| plan.workloads.iter().any(|w| listens(w, &node.name)))
}

/// The certificates of a bed, with their keys. Dropping this removes them.
#[derive(Debug)]
pub(crate) struct Certificates {
    /// Their folder; `None` if there are none.
    folder: Option<PathBuf>,
}

impl Certificates {
    /// Creates the certificates of a plan: `ca.pem`, and `NODE.pem` and `NODE.key` for each broker,
    /// with the node's name and addresses.
    pub(crate) fn make(plan: &Plan, programs: &Path) -> Result<Self, Error> {
        if brokers(plan).next().is_none() {
            return Ok(Self { folder: None });
        }
        let folder = folder(programs);
        fs::create_dir(&folder).map_err(Error::write(&folder))?;
        // Exists before the files: a failure half way removes those that were written.
        let made = Self { folder: Some(folder.clone()) };
        write_all(plan, &folder)?;
        Ok(made)
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

fn write_all(plan: &Plan, folder: &Path) -> Result<(), Error> {
    let failed = |why: rcgen::Error| Error::Certificate(why.to_string());
    let key = KeyPair::generate().map_err(failed)?;
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Path validation requires keyCertSign of an authority (RFC 5280, section 6.1.4, step n).
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    ca.distinguished_name = called(&format!("Thingbed run of {}", plan.experiment));
    let certificate = ca.self_signed(&key).map_err(failed)?;
    // The authority's key is never written, so that nothing else can be signed with it.
    write(&folder.join("ca.pem"), &certificate.pem())?;
    let issuer = Issuer::new(ca, key);
    for broker in brokers(plan) {
        let addresses = broker
            .links
            .iter()
            .flat_map(|link| link.addresses())
            .map(|address| address.to_string());
        // A client checks the name or the address that it has connected to.
        let names: Vec<String> = addresses.chain([broker.name.clone()]).collect();
        let mut params = CertificateParams::new(names).map_err(failed)?;
        params.distinguished_name = called(&broker.name);
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &issuer).map_err(failed)?;
        write(&folder.join(format!("{}.pem", broker.name)), &certificate.pem())?;
        write(&folder.join(format!("{}.key", broker.name)), &key.serialize_pem())?;
    }
    Ok(())
}

fn called(name: &str) -> DistinguishedName {
    let mut called = DistinguishedName::new();
    called.push(DnType::CommonName, name);
    called
}

/// Writes a file that only this user can read: one of them is a key.
fn write(path: &Path, text: &str) -> Result<(), Error> {
    use std::io::Write;
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(Error::write(path))
}
