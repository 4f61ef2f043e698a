//! The programs of a network's MQTT broker: Mosquitto, or the director's gateways.

use crate::bed::jobs::{Files, Job, Role};
use crate::bed::services::with_servers;
use crate::error::Error;
use experiment::{BrokerKind, MQTT_PORT, Plan, PlannedBroker, PlannedNetwork, Ready};
use record::spec::{GATEWAY_PORT, GatewaySpec, Spec};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

/// Mosquitto on all addresses of its node, for anyone there. It keeps its user: a node has no other.
const MOSQUITTO: &str = "allow_anonymous true\nuser root\n";
/// What a device's gateway says when it has joined the hub's (`director/gateway/src/device.rs`).
const JOINED: &str = "the hub's gateway answers";

/// The programs of the broker of `plan`, with their files in `dir`; `workload` has the gateway.
pub(super) fn programs(plan: &Plan, workload: &Path, dir: &Path) -> Result<Vec<Job>, Error> {
    let Some((network, broker)) = plan.broker() else { return Ok(Vec::new()) };
    match broker.broker {
        BrokerKind::Mosquitto => mosquitto(plan, broker, dir).map(Vec::from_iter),
        BrokerKind::Gateway => {
            let devices = broker.devices.iter().map(|device| (device, Some(&broker.on)));
            [(&broker.on, None)]
                .into_iter()
                .chain(devices)
                .filter_map(|(own, hub)| {
                    let spec = spec(plan, network, broker, own, hub)?;
                    gateway(plan, own, &spec, workload, dir)
                })
                .collect()
        }
    }
}

fn mosquitto(plan: &Plan, broker: &PlannedBroker, dir: &Path) -> Result<Option<Job>, Error> {
    let path = dir.join(format!("{}.mosquitto.conf", broker.on));
    let text = format!("listener {MQTT_PORT}\n{MOSQUITTO}");
    fs::write(&path, text).map_err(Error::write(&path))?;
    let argv = vec!["mosquitto".to_owned(), "-c".to_owned(), path.display().to_string()];
    let Some(mut job) = job(plan, &broker.on, "mosquitto", argv, dir) else { return Ok(None) };
    job.env.push(with_servers());
    Ok(Some(job))
}

/// The settings of the gateway on node `own`; the hub's has no `hub`.
fn spec(
    plan: &Plan,
    network: &PlannedNetwork,
    broker: &PlannedBroker,
    own: &str,
    hub: Option<&String>,
) -> Option<GatewaySpec> {
    let address = |node: &str| {
        let links = &plan.node(node)?.links;
        let link = links.iter().find(|link| link.network == network.name)?;
        Some(SocketAddr::from((link.address, GATEWAY_PORT)))
    };
    let devices = match hub {
        None => broker.devices.iter().filter_map(|device| address(device)).collect(),
        Some(_) => Vec::new(),
    };
    Some(GatewaySpec {
        // It protects nothing here: all frames are those of the experiment.
        key: format!("gateways of the experiment {}", plan.experiment),
        local: address(own)?,
        hub: hub.and_then(|hub| address(hub)),
        devices,
    })
}

fn gateway(
    plan: &Plan,
    node: &str,
    spec: &GatewaySpec,
    workload: &Path,
    dir: &Path,
) -> Option<Result<Job, Error>> {
    let mut job = job(plan, node, GatewaySpec::PROGRAM, Vec::new(), dir)?;
    let words = [workload, Path::new(GatewaySpec::PROGRAM), &job.files.spec];
    job.argv = words.map(|word| word.display().to_string()).into();
    let text = serde_json::to_vec(spec).unwrap_or_default();
    if spec.hub.is_some() {
        // A broker is ready when its programs reach each other. If they joined later, how many of them
        // do so before impairments begin would depend on milliseconds of the set-up.
        job.ready = Some(Ready::Log(JOINED.to_owned()));
    }
    let written = fs::write(&job.files.spec, text).map_err(Error::write(&job.files.spec));
    Some(written.map(|()| job))
}

/// A service on node `name`, ready when it accepts MQTT.
fn job(plan: &Plan, name: &str, what: &str, argv: Vec<String>, dir: &Path) -> Option<Job> {
    let node = plan.nodes.iter().position(|node| node.name == name)?;
    let files = Files::named(dir, &format!("{name}.{what}"));
    let mut job = Job::new(node, &plan.nodes[node], Role::Service, argv, dir, files);
    job.ready = Some(Ready::Tcp(MQTT_PORT));
    Some(job)
}
