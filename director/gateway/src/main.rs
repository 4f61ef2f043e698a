//! The gateway's command line.

use director::io::resolve;
use director_gateway::{Place, Settings};
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

const USAGE: &str = "MQTT clients over the director.

usage: director-gateway hub    --key FILE --local NAME:PORT [--mqtt NAME:PORT] [--places N] [--announce NAME] [--storage FOLDER] [DEVICE...]
       director-gateway device --key FILE --local NAME:PORT --hub NAME:PORT [--mqtt NAME:PORT] [--storage FOLDER]

  --key FILE         pre-shared key of all gateways, 16 bytes or more
  --local NAME:PORT  UDP address of this gateway
  --hub NAME:PORT    UDP address of the hub's gateway, or NAME._tb-director._udp.local for one that
                     announces itself
  DEVICE             NAME:PORT: UDP address of a device's gateway
  --places N         number of further devices, which the hub does not know at its start
  --announce NAME    announces the hub's gateway in the local network by DNS-SD
  --storage FOLDER   keeps sessions of clients over a restart; at the hub's gateway also retained messages, and
                     what waits for devices
  --mqtt NAME:PORT   where MQTT clients connect (default: 127.0.0.1:1883)
  --alive SECONDS    period in which a device with wills of clients reports (default: 60)";

/// What the command line says.
fn arguments(all: &[String]) -> Result<Settings, Box<dyn Error>> {
    let Some((side, rest)) = all.split_first() else { return Err(USAGE.into()) };
    let is_hub = match side.as_str() {
        "hub" => true,
        "device" => false,
        other => return Err(format!("`{other}` is neither `hub` nor `device`\n\n{USAGE}").into()),
    };
    let (mut key, mut local, mut hub, mut devices) = (None, None, None, Vec::new());
    let (mut mqtt, mut period_s, mut places) = ("127.0.0.1:1883".to_owned(), Settings::PERIOD_S, 0);
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
            "--storage" => storage = Some(PathBuf::from(value()?)),
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
    if is_hub && devices.is_empty() && places == 0 {
        return Err("there are no devices: name their addresses, or set --places".into());
    }
    let place = match is_hub {
        true => Place::Hub { devices, places, announce, storage },
        false => Place::Device { hub: hub.ok_or("--hub is missing")?, storage },
    };
    Ok(Settings {
        key: key.ok_or("--key is missing")?,
        local: local.ok_or("--local is missing")?,
        mqtt: resolve(&mqtt)?,
        period_s,
        place,
    })
}

async fn run(all: &[String]) -> Result<(), Box<dyn Error>> {
    director_gateway::run(arguments(all)?).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    let all: Vec<String> = std::env::args().skip(1).collect();
    if all.iter().any(|argument| matches!(argument.as_str(), "-h" | "--help")) {
        let _ = writeln!(std::io::stdout(), "{USAGE}");
        return std::process::ExitCode::SUCCESS;
    }
    match run(&all).await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "director-gateway: {error}");
            std::process::ExitCode::from(2)
        }
    }
}
