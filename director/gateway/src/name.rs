//! The name of the hub's gateway, which a device may know before its DNS does.

use crate::log::say;
use director::io::{Error, resolve_from};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::sleep;

/// Time between the first two attempts, and its maximum.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// The address of `hub` in the family of `local`. While the name does not resolve, waits and tries again.
///
/// # Errors
/// An address or a name that no later attempt can resolve; the address of this device.
pub async fn address(
    local: SocketAddr,
    hub: &str,
) -> Result<SocketAddr, Box<dyn std::error::Error>> {
    let mut wait = FIRST;
    loop {
        let name = hub.to_owned();
        // A resolver can take long: signals and the runtime go on meanwhile.
        let resolved = tokio::task::spawn_blocking(move || resolve_from(local, &name)).await?;
        match resolved {
            Ok(address) if is_same(address, local) => return Err(format!(
                "--hub and --local are both {local}: --local is the address of this device, --hub that of the \
                 hub's gateway. Give this device another address or port"
            )
            .into()),
            Ok(address) => return Ok(address),
            Err(error) if is_final(hub, &error) => return Err(error.into()),
            Err(error) => say(format_args!(
                "{error}. The gateway tries again in {} s; if this goes on, check --hub and the DNS of this \
                 machine",
                wait.as_secs()
            )),
        }
        sleep(wait).await;
        wait = (wait * 2).min(LONGEST);
    }
}

/// A function for sessions that gives this address at first, and then resolves the name again.
pub fn resolver(
    local: SocketAddr,
    hub: String,
    first: SocketAddr,
) -> impl Fn() -> Result<SocketAddr, Error> + Send + Sync + 'static {
    let first = Mutex::new(Some(first));
    move || {
        let known = first.lock().unwrap_or_else(PoisonError::into_inner).take();
        known.map_or_else(|| resolve_from(local, &hub), Ok)
    }
}

/// Whether two addresses are the same; flow labels and scopes of IPv6 do not matter.
fn is_same(one: SocketAddr, other: SocketAddr) -> bool {
    (one.ip(), one.port()) == (other.ip(), other.port())
}

/// Whether later attempts fail as well: this is no name, or one that is not valid.
fn is_final(hub: &str, error: &Error) -> bool {
    let is_invalid = matches!(error, Error::Socket { source, .. }
        if source.kind() == ErrorKind::InvalidInput);
    is_invalid || hub.parse::<SocketAddr>().is_ok() || !has_valid_host(hub)
}

/// Whether the part before the port can be the name of a host (RFC 1123, 2.1; with the underscores of
/// DNS-SD), or that of an announced hub, which can be any text.
fn has_valid_host(name: &str) -> bool {
    let announced = name.trim_end_matches('.').to_ascii_lowercase();
    let host = name.rsplit_once(':').map(|(host, _)| host);
    let Some(host) = host.filter(|_| !announced.ends_with("._udp.local")) else { return true };
    let is_label = |label: &str| {
        let is_valid = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_');
        (1..64).contains(&label.len()) && label.chars().all(is_valid)
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    host.len() < 254 && host.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_can_resolve_later_differ_from_those_that_cannot() {
        for name in ["hub:5700", "hub.site-7.example.:5700", "my site: 7._tb-director._udp.local"] {
            assert!(has_valid_host(name), "{name}");
        }
        for name in ["a hub:5700", "hub..example:5700", "-h,x:1", &format!("{}:1", "x".repeat(64))]
        {
            assert!(!has_valid_host(name), "{name}");
        }
    }
}
