//! A gateway with its sockets: of the hub, or of a device.

use crate::device::Device;
use crate::driver::{run_device, run_hub};
use crate::folder::Folder;
use crate::hub::Hub;
use crate::log::say;
use crate::message::KEEPS;
use crate::name;
use crate::records::fix;
use director::Pattern;
use director::io::Preconnection;
use director::session::Security;
use std::collections::hash_map::RandomState;
use std::error::Error;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tokio::net::TcpListener;

/// Settings of a gateway.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Pre-shared keys, 16 bytes or more each: one of all gateways; or at the hub's, one of each device, in
    /// the order of `devices` and then of the places.
    pub keys: Vec<Vec<u8>>,
    /// Whether the hub's gateway signs its messages: each device needs its own key.
    pub signed: bool,
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

    fn security(&self) -> Security {
        match &self.keys[..] {
            [key] if !self.signed => Security::Key(key.clone()),
            keys => Security::Keys(keys.to_vec()),
        }
    }
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
        /// The folder of retained messages, of sessions of its clients, and of what waits for devices.
        storage: Option<PathBuf>,
    },
    /// That of a device.
    Device {
        /// NAME:PORT of the hub's, which is resolved again if the hub is silent.
        hub: String,
        /// The folder of sessions of its clients.
        storage: Option<PathBuf>,
    },
}

/// Runs a gateway until its session ends.
///
/// # Errors
/// An address that is in use or that this machine does not have, a device with the address of the hub, a
/// key that is too short, a folder that cannot be used; later, a message that cannot be stored.
pub async fn run(settings: Settings) -> Result<(), Box<dyn Error>> {
    let security = settings.security();
    let Settings { local, mqtt, period_s, place, signed, .. } = settings;
    let clients = TcpListener::bind(mqtt).await;
    let clients = clients.map_err(|error| format!("cannot listen for MQTT at {mqtt}: {error}"))?;
    // Different for each start of a gateway: random, because a clock may be the same after a restart.
    // 0 means that no start is known (`Seen`).
    let start = (RandomState::new().build_hasher().finish() as u32).max(1);
    let session = Preconnection::new(Pattern::PublishSubscribe, security).signed(signed);
    let common = Common { clients, session, local, start };
    match place {
        Place::Hub { devices, places, announce, storage } => {
            let session = common.session.on_warning(|text| say(text)).places(places.into());
            let session = match &announce {
                Some(name) => session.announce(name),
                None => session,
            };
            start_hub(Common { session, ..common }, &devices, places, storage.as_deref()).await
        }
        Place::Device { hub, storage } => {
            start_device(common, hub, period_s, storage.as_deref()).await
        }
    }
}

/// What both gateways have at their start.
struct Common {
    clients: TcpListener,
    session: Preconnection,
    local: SocketAddr,
    start: u32,
}

async fn start_hub(
    common: Common,
    devices: &[SocketAddr],
    places: u16,
    storage: Option<&Path>,
) -> Result<(), Box<dyn Error>> {
    let Common { clients, session, local, start } = common;
    let mqtt = clients.local_addr()?;
    let session = session.initiate(local, devices)?;
    let inbox = session.inbox().ok_or("the session is over")?;
    let count = u32::try_from(devices.len())? + u32::from(places);
    let (mut hub, mut greetings) = Hub::new(start, count);
    let folder = match storage {
        Some(path) => {
            let (folder, retained, kept) =
                Folder::of_hub(path).map_err(|error| unusable(path, &error))?;
            report_damage(&folder);
            greetings.extend(hub.restore(retained, kept));
            Some(folder)
        }
        None => None,
    };
    let devices = if count == 1 { "1 device".to_owned() } else { format!("{count} devices") };
    say(format_args!("hub, MQTT on {mqtt}, session on {local}, {devices} expected"));
    warn_of_clients(mqtt);
    let stored = run_hub(clients, session, inbox, hub, greetings, folder).await;
    Ok(stored.map_err(|error| format!("cannot store messages: {error}"))?)
}

async fn start_device(
    common: Common,
    hub: String,
    period_s: u16,
    storage: Option<&Path>,
) -> Result<(), Box<dyn Error>> {
    let Common { clients, session, local, start } = common;
    let mqtt = clients.local_addr()?;
    // The hub keeps what waits for a device that keeps its sessions.
    let start = if storage.is_some() { start | KEEPS } else { start & !KEEPS };
    let (mut device, mut greetings) = Device::new(start.max(1), period_s);
    let folder = match storage {
        Some(path) => {
            let (folder, kept) = Folder::of_device(path).map_err(|error| unusable(path, &error))?;
            report_damage(&folder);
            greetings.extend(device.restore(kept));
            Some(folder)
        }
        None => None,
    };
    let address = name::address(local, &hub).await?;
    let text =
        format!("device, MQTT on {mqtt}, session from {local} to the hub's gateway at {hub}");
    let listener = session.listen_by(local, name::resolver(local, hub, address))?;
    say(text);
    warn_of_clients(mqtt);
    let stored = run_device(clients, listener, device, greetings, folder).await;
    Ok(stored.map_err(|error| format!("cannot store sessions: {error}"))?)
}

/// Warns if clients of other machines can connect.
fn warn_of_clients(mqtt: SocketAddr) {
    if !mqtt.ip().to_canonical().is_loopback() {
        say(format_args!(
            "warning: everyone who reaches {mqtt} can publish and subscribe, because the gateway has no \
             passwords. Let only your devices reach this port, or use --mqtt 127.0.0.1:{}",
            mqtt.port()
        ));
    }
}

fn unusable(path: &Path, error: &io::Error) -> String {
    format!("cannot use --storage {}: {error}{}", path.display(), fix(error))
}

/// Says that the log of a folder was damaged.
fn report_damage(folder: &Folder) {
    for (what, copy) in folder.damaged() {
        say(format_args!(
            "the log of {what} in {} was damaged: what it has before the damage is there, all later changes \
             are lost. Check the disk; {} is a copy of the log",
            folder.path().display(),
            copy.display()
        ));
    }
}
