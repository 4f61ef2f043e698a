//! The gateway's command line.

use director::Pattern;
use director::io::{Preconnection, resolve};
use director::session::Security;
use director_gateway::{Hub, Storage};
use std::collections::hash_map::RandomState;
use std::error::Error;
use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tokio::net::TcpListener;

const USAGE: &str = "MQTT clients over the director.

usage: director-gateway hub    --key FILE --local NAME:PORT [--mqtt NAME:PORT] [--places N] [--announce NAME] [--storage FOLDER] [DEVICE...]
       director-gateway device --key FILE --local NAME:PORT --hub NAME:PORT [--mqtt NAME:PORT]

  --key FILE         pre-shared key of all gateways, 16 bytes or more
  --local NAME:PORT  UDP address of this gateway
  --hub NAME:PORT    UDP address of the hub's gateway, or NAME._tb-director._udp.local for one that
                     announces itself
  DEVICE             NAME:PORT: UDP address of a device's gateway
  --places N         number of further devices, which the hub does not know at its start
  --announce NAME    announces the hub's gateway in the local network by DNS-SD
  --storage FOLDER   keeps retained messages of the hub's gateway over a restart
  --mqtt NAME:PORT   where MQTT clients connect (default: 127.0.0.1:1883)
  --alive SECONDS    period in which a device with wills of clients reports (default: 60)";

/// What the command line says.
struct Arguments {
    is_hub: bool,
    key: Vec<u8>,
    local: SocketAddr,
    mqtt: SocketAddr,
    /// Its name, which is resolved again if the hub is silent.
    hub: Option<String>,
    devices: Vec<SocketAddr>,
    places: u16,
    /// The name that the hub announces.
    announce: Option<String>,
    /// The folder of retained messages.
    storage: Option<PathBuf>,
    period_s: u16,
}

fn arguments(all: &[String]) -> Result<Arguments, Box<dyn Error>> {
    let Some((side, rest)) = all.split_first() else { return Err(USAGE.into()) };
    let is_hub = match side.as_str() {
        "hub" => true,
        "device" => false,
        "-h" | "--help" => return Err(USAGE.into()),
        other => return Err(format!("`{other}` is neither `hub` nor `device`\n\n{USAGE}").into()),
    };
    let (mut key, mut local, mut hub, mut devices) = (None, None, None, Vec::new());
    let (mut mqtt, mut period_s, mut places) = ("127.0.0.1:1883".to_owned(), 60, 0);
    let (mut announce, mut storage) = (None, None);
    let mut rest = rest.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().cloned().ok_or(format!("{argument} has no value"));
        match argument.as_str() {
            "--key" => {
                let file = value()?;
                let read = std::fs::read(&file);
                key = Some(read.map_err(|error| format!("cannot read the key {file}: {error}"))?);
            }
            "--local" => local = Some(resolve(&value()?)?),
            "--hub" if !is_hub => hub = Some(value()?),
            "--announce" if is_hub => announce = Some(value()?),
            "--storage" if is_hub => storage = Some(PathBuf::from(value()?)),
            "--places" if is_hub => {
                let text = value()?;
                let number = text.parse();
                places = number.map_err(|_| format!("--places is `{text}`; use 0 to 65534"))?;
            }
            "--mqtt" => mqtt = value()?,
            "--alive" => {
                let text = value()?;
                let number = text.parse().ok().filter(|seconds| *seconds > 0);
                period_s = number.ok_or(format!("--alive is `{text}`; use 1 to 65535 seconds"))?;
            }
            device if is_hub && !device.starts_with('-') => devices.push(resolve(device)?),
            other => return Err(format!("unknown argument `{other}`\n\n{USAGE}").into()),
        }
    }
    Ok(Arguments {
        is_hub,
        key: key.ok_or("--key is missing")?,
        local: local.ok_or("--local is missing")?,
        mqtt: resolve(&mqtt)?,
        hub,
        devices,
        places,
        announce,
        storage,
        period_s,
    })
}

/// Opens the folder of retained messages.
fn open(folder: &Path, hub: &mut Hub) -> Result<Storage, Box<dyn Error>> {
    let opened = Storage::open(folder);
    let (storage, retained) =
        opened.map_err(|error| format!("cannot use --storage {}: {error}", folder.display()))?;
    hub.restore(retained);
    Ok(storage)
}

async fn run(all: &[String]) -> Result<(), Box<dyn Error>> {
    let Arguments { is_hub, key, local, mqtt, hub, devices, places, announce, storage, period_s } =
        arguments(all)?;
    let clients = TcpListener::bind(mqtt).await;
    let clients = clients.map_err(|error| format!("cannot listen for MQTT at {mqtt}: {error}"))?;
    // Different for each start of a gateway.
    // Random, because a clock may be the same after a restart. 0 means that no start is known
    // (`Seen`).
    let start = (RandomState::new().build_hasher().finish() as u32).max(1);
    let session = Preconnection::new(Pattern::PublishSubscribe, Security::Key(key));
    if is_hub {
        let session = match &announce {
            Some(name) => session.announce(name),
            None => session,
        };
        let session = session.places(places.into()).initiate(local, &devices)?;
        let inbox = session.inbox().ok_or("the session is over")?;
        let count = u32::try_from(devices.len())? + u32::from(places);
        let (mut hub, greetings) = Hub::new(start, count);
        let opened = storage.as_deref().map(|folder| open(folder, &mut hub)).transpose()?;
        let stored = director_gateway::run_hub(clients, session, inbox, hub, greetings, opened);
        stored.await.map_err(|error| format!("cannot store retained messages: {error}"))?;
    } else {
        let hub = hub.ok_or("--hub is missing")?;
        let listener = session.listen_by(local, move || resolve(&hub))?;
        director_gateway::run_device(clients, listener, start, period_s).await;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    let all: Vec<String> = std::env::args().skip(1).collect();
    match run(&all).await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("director-gateway: {error}");
            std::process::ExitCode::from(2)
        }
    }
}
