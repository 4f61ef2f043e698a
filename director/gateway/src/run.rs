//! A gateway with its sockets: of the hub, or of a device.

use crate::driver::{run_device, run_hub};
use crate::hub::Hub;
use crate::storage::Storage;
use director::Pattern;
use director::io::{Preconnection, resolve};
use director::session::Security;
use std::collections::hash_map::RandomState;
use std::error::Error;
use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tokio::net::TcpListener;

/// Settings of a gateway.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Pre-shared key of all gateways, 16 bytes or more.
    pub key: Vec<u8>,
    /// UDP address of this gateway.
    pub local: SocketAddr,
    /// Where MQTT clients connect.
    pub mqtt: SocketAddr,
    /// Period in which a device with wills of clients reports, in seconds, 1 or more.
    pub period_s: u16,
    /// Which gateway it is.
    pub place: Place,
}

impl Settings {
    /// Default of `period_s`.
    pub const PERIOD_S: u16 = 60;
}

/// Which gateway it is.
#[derive(Debug, Clone)]
pub enum Place {
    /// That of the hub.
    Hub {
        /// UDP addresses of devices' gateways.
        devices: Vec<SocketAddr>,
        /// Number of further devices, which the hub does not know at its start.
        places: u16,
        /// The name that the hub announces.
        announce: Option<String>,
        /// The folder of retained messages.
        storage: Option<PathBuf>,
    },
    /// That of a device.
    Device {
        /// NAME:PORT of the hub's, which is resolved again if the hub is silent.
        hub: String,
    },
}

/// Runs a gateway until its session ends.
///
/// # Errors
/// An address that is in use or that this machine does not have, a key that is too short, a folder
/// that cannot be used; later, a message that cannot be stored.
pub async fn run(settings: Settings) -> Result<(), Box<dyn Error>> {
    let Settings { key, local, mqtt, period_s, place } = settings;
    let clients = TcpListener::bind(mqtt).await;
    let clients = clients.map_err(|error| format!("cannot listen for MQTT at {mqtt}: {error}"))?;
    // Different for each start of a gateway: random, because a clock may be the same after a restart.
    // 0 means that no start is known (`Seen`).
    let start = (RandomState::new().build_hasher().finish() as u32).max(1);
    let session = Preconnection::new(Pattern::PublishSubscribe, Security::Key(key));
    match place {
        Place::Hub { devices, places, announce, storage } => {
            let session = session.on_warning(|text| eprintln!("director-gateway: {text}"));
            let session = match &announce {
                Some(name) => session.announce(name),
                None => session,
            };
            let session = session.places(places.into()).initiate(local, &devices)?;
            let inbox = session.inbox().ok_or("the session is over")?;
            let count = u32::try_from(devices.len())? + u32::from(places);
            let (mut hub, greetings) = Hub::new(start, count);
            let opened = storage.as_deref().map(|folder| open(folder, &mut hub)).transpose()?;
            let stored = run_hub(clients, session, inbox, hub, greetings, opened);
            stored.await.map_err(|error| format!("cannot store retained messages: {error}"))?;
        }
        Place::Device { hub } => {
            let listener = session.listen_by(local, move || resolve(&hub))?;
            run_device(clients, listener, start, period_s).await;
        }
    }
    Ok(())
}

/// Opens the folder of retained messages.
fn open(folder: &Path, hub: &mut Hub) -> Result<Storage, Box<dyn Error>> {
    let opened = Storage::open(folder);
    let (storage, retained) =
        opened.map_err(|error| format!("cannot use --storage {}: {error}", folder.display()))?;
    if let Some(copy) = storage.damaged() {
        eprintln!(
            "director-gateway: the log of retained messages in {} was damaged: {} messages before the \
             damage are there, later ones are lost. Check the disk; {} is a copy of the log",
            folder.display(),
            retained.len(),
            copy.display()
        );
    }
    hub.restore(retained);
    Ok(storage)
}
