//! A gateway of MQTT clients: `director-gateway` with the settings of a spec, so that nodes need no
//! further program.

use crate::error::Error;
use director_gateway::{Place, Settings};
use record::spec::GatewaySpec;
use std::net::{Ipv4Addr, SocketAddr};

/// TCP port of MQTT.
const MQTT_PORT: u16 = 1883;

/// Runs a gateway until the process ends.
///
/// # Errors
/// A port that is in use, or an address that the node does not have.
pub fn run(spec: &GatewaySpec) -> Result<(), Error> {
    let failed = |why: String| Error::mqtt(&format!("run the gateway at {}", spec.local), why);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(error.to_string()))?;
    let place = match spec.hub {
        Some(hub) => Place::Device { hub: hub.to_string(), storage: None },
        None => {
            Place::Hub { devices: spec.devices.clone(), places: 0, announce: None, storage: None }
        }
    };
    let settings = Settings {
        keys: vec![spec.key.clone().into_bytes()],
        signed: false,
        local: spec.local,
        mqtt: SocketAddr::from((Ipv4Addr::LOCALHOST, MQTT_PORT)),
        period_s: Settings::PERIOD_S,
        place,
    };
    runtime.block_on(director_gateway::run(settings)).map_err(|error| failed(error.to_string()))
}
