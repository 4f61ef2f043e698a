//! The gateway's command line.

use director::io::resolve;
use director_gateway::{Place, Settings};
use std::error::Error;
use std::io::{Read, Write};
use std::path::PathBuf;

const USAGE: &str = "MQTT clients over the director.

usage: director-gateway hub    --key FILE... --local NAME:PORT [--mqtt NAME:PORT] [--places N] [--sign] [--announce NAME] [--storage FOLDER] [DEVICE...]
       director-gateway device --key FILE --local NAME:PORT --hub NAME:PORT [--mqtt NAME:PORT] [--storage FOLDER]

  --key FILE         pre-shared key of all gateways, 16 bytes or more. Several at the hub's gateway: one of each
                     DEVICE, in their order, then one of each further device
  --local NAME:PORT  UDP address of this gateway
  --hub NAME:PORT    UDP address of the hub's gateway, or NAME._tb-director._udp.local for one that
                     announces itself
  DEVICE             NAME:PORT: UDP address of a device's gateway
  --places N         number of further devices, which the hub does not know at its start (default: 0, or as
                     many as have a key)
  --sign             the hub's gateway signs its messages, so that no device can pose as it; each device needs
                     its own key
  --announce NAME    announces the hub's gateway in the local network by DNS-SD
  --storage FOLDER   keeps sessions of clients over a restart; at the hub's gateway also retained messages, and
                     what waits for devices
  --mqtt NAME:PORT   where MQTT clients connect (default: 127.0.0.1:1883)
  --alive SECONDS    period in which a device with wills of clients reports (default: 60)
  --version          prints the version";

/// Maximum length of a key, in bytes: the file may be another one, or a device without an end.
const MAX_KEY: u64 = 4_096;

fn read_key(file: &str) -> std::io::Result<Vec<u8>> {
    let mut key = Vec::new();
    std::fs::File::open(file)?.take(MAX_KEY + 1).read_to_end(&mut key)?;
    if key.len() as u64 > MAX_KEY {
        let why = format!("it has more than {MAX_KEY} bytes; use 16 to {MAX_KEY} random ones");
        return Err(std::io::Error::other(why));
    }
    Ok(key)
}

/// What the command line says.
fn arguments(all: &[String]) -> Result<Settings, Box<dyn Error>> {
    let Some((side, rest)) = all.split_first() else { return Err(USAGE.into()) };
    let is_hub = match side.as_str() {
        "hub" => true,
        "device" => false,
        other => return Err(format!("`{other}` is neither `hub` nor `device`\n\n{USAGE}").into()),
    };
    let (mut keys, mut local, mut hub, mut devices) = (Vec::new(), None, None, Vec::new());
    let (mut mqtt, mut period_s) = ("127.0.0.1:1883".to_owned(), Settings::PERIOD_S);
    let (mut places, mut signed) = (None, false);
    let (mut announce, mut storage) = (None, None);
    let mut rest = rest.iter();
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().cloned().ok_or(format!("{argument} has no value"));
        match argument.as_str() {
            "--key" => {
                let file = value()?;
                let read = read_key(&file);
                keys.push(read.map_err(|error| format!("cannot read the key {file}: {error}"))?);
            }
            "--local" => local = Some(resolve(&value()?)?),
            "--hub" if !is_hub => hub = Some(value()?),
            "--announce" if is_hub => announce = Some(value()?),
            "--storage" => storage = Some(PathBuf::from(value()?)),
            "--places" if is_hub => {
                let text = value()?;
                let number = text.parse();
                let wrong = |_| format!("--places is `{text}`; use 0 to 65534");
                places = Some(number.map_err(wrong)?);
            }
            "--sign" if is_hub => signed = true,
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
    if keys.is_empty() {
        return Err("--key is missing".into());
    }
    if !is_hub && keys.len() > 1 {
        return Err("a device has one --key: name several at the hub's gateway".into());
    }
    // One key is that of all.
    let unnamed = if keys.len() > 1 { keys.len().saturating_sub(devices.len()) } else { 0 };
    let places = places.unwrap_or(u16::try_from(unnamed)?);
    if is_hub && devices.is_empty() && places == 0 {
        return Err("there are no devices: name their addresses, or set --places".into());
    }
    let place = match is_hub {
        true => Place::Hub { devices, places, announce, storage },
        false => Place::Device { hub: hub.ok_or("--hub is missing")?, storage },
    };
    Ok(Settings {
        keys,
        signed,
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
    if all.iter().any(|argument| matches!(argument.as_str(), "-V" | "--version")) {
        let version = env!("CARGO_PKG_VERSION");
        let _ = writeln!(std::io::stdout(), "director-gateway {version}");
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
