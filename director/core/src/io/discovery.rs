//! Discovery of hubs in the local network by DNS-SD over multicast DNS (RFC 6763, RFC 6762).
//!
//! An announcement is not authenticated: anyone in the network can announce a hub of any name. The
//! keys decide whose session a member joins. So a name need not be unique, and a look-up gives one of
//! all announced addresses at random: a member whose hub does not answer looks again.

use super::Error;
use super::family::{Family, is_of_host};
use super::socket::interface_of;
use crate::rng::{Rng, Seed};
use mdns_sd::{IfKind, ResolvedService, ScopedIp, ServiceDaemon, ServiceEvent, ServiceInfo};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::time::{Duration, Instant};

/// The type of the service, with its domain.
const SERVICE: &str = "_tb-director._udp.local.";
/// The end of a name that is looked up by DNS-SD.
const SUFFIX: &str = "._tb-director._udp.local";
/// Maximum length of a name, in bytes (RFC 6763, 4.1.1).
const MAX_NAME: usize = 63;
/// The property with the address that a hub is bound to, if it is bound to one.
const BOUND: &str = "address";
/// Time to wait for an announcement: the hub may start after its members.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time to wait for further announcements after the first one: answers come after a random delay of 20
/// to 120 ms (RFC 6762, 6).
const FURTHER: Duration = Duration::from_millis(500);
/// Addresses of a name among which to choose; anyone can announce any number of them.
const MOST: usize = 256;

fn error(what: String, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Socket { what, source: std::io::Error::other(source) }
}

/// The name before the suffix of DNS-SD; `None` if there is none.
pub(super) fn instance(name: &str) -> Option<&str> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let at = name.len().checked_sub(SUFFIX.len())?;
    let (instance, suffix) = name.split_at_checked(at)?;
    (suffix.eq_ignore_ascii_case(SUFFIX) && !instance.is_empty()).then_some(instance)
}

/// An announced hub; dropping it withdraws the announcement.
#[derive(Debug)]
pub(super) struct Announcement {
    daemon: Daemon,
    full_name: String,
}

impl Announcement {
    /// Announces the hub at `local` under this name: on the interface of that address, or on all.
    pub fn new(name: &str, local: SocketAddr) -> Result<Self, Error> {
        if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
            let what = format!("cannot announce a hub as {name:?}: use 1 to {MAX_NAME} bytes");
            let source = ErrorKind::InvalidInput.into();
            return Err(Error::Socket { what, source });
        }
        let failed = |source| error(format!("cannot announce the hub {name}"), source);
        // Host names are unique, as several hubs can be on a machine, or machines have one name.
        let host = format!("director-{:016x}.local.", Rng::new(&Seed::from_system()?).bits());
        let own = local.ip();
        let named = own.to_string();
        let named = [(BOUND, named.as_str())];
        let named = if own.is_unspecified() { &[] } else { &named[..] };
        let info = match own {
            IpAddr::V4(own) if !own.is_unspecified() => {
                ServiceInfo::new(SERVICE, name, &host, IpAddr::V4(own), local.port(), named)
            }
            // With a single IPv6 address, members did not find the hub (mdns-sd 0.21.7).
            _ => ServiceInfo::new(SERVICE, name, &host, "", local.port(), named)
                .map(ServiceInfo::enable_addr_auto),
        };
        let mut info = info.map_err(failed)?;
        let interface = match own {
            IpAddr::V4(own) if own.is_unspecified() => IfKind::IPv4,
            IpAddr::V6(own) if own.is_unspecified() => IfKind::IPv6,
            IpAddr::V4(own) => IfKind::Addr(own.into()),
            IpAddr::V6(own) => IfKind::IndexV6(interface_of(own)),
        };
        info.set_interfaces(vec![interface]);
        // Without probes: someone who answers them could keep the hub from its name (decision 176).
        info.set_requires_probe(false);
        let full_name = info.get_fullname().to_owned();
        let daemon = Daemon(ServiceDaemon::new().map_err(failed)?);
        daemon.0.register(info).map_err(failed)?;
        Ok(Self { daemon, full_name })
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        if let Ok(gone) = self.daemon.0.unregister(&self.full_name) {
            // The goodbye is sent when the daemon answers.
            let _ = gone.recv_timeout(Duration::from_secs(1));
        }
    }
}

/// A thread for multicast DNS, which ends when this is dropped.
struct Daemon(ServiceDaemon);

impl std::fmt::Debug for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Daemon")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.shutdown();
    }
}

/// An address that is announced for the hub with this name, chosen at random among those of `family`, or
/// without one among its IPv4 addresses if it has any. Blocks until it is announced, half a minute at
/// most.
pub(super) fn find(name: &str, family: Option<Family>) -> Result<SocketAddr, Error> {
    let failed = |source| error(format!("cannot look for the hub {name}"), source);
    let daemon = Daemon(ServiceDaemon::new().map_err(failed)?);
    let events = daemon.0.browse(SERVICE).map_err(failed)?;
    let (mut until, mut found) = (Instant::now() + PATIENCE, BTreeSet::new());
    // Others may announce so much that there is always an event.
    while Instant::now() < until
        && found.len() < MOST
        && let Ok(event) = events.recv_deadline(until)
    {
        if let ServiceEvent::ServiceResolved(service) = event
            && instance(&service.fullname).is_some_and(|found| found.eq_ignore_ascii_case(name))
        {
            let known = !found.is_empty();
            found.extend(addresses(&service, family));
            if !known && !found.is_empty() {
                until = until.min(Instant::now() + FURTHER);
            }
        }
    }
    let mut rng = Rng::new(&Seed::from_system()?);
    choose(&found, rng.uniform()).ok_or_else(|| {
        let kind = family.map_or("", Family::adjective);
        let what = format!(
            "no hub announces itself as {name} in the local network with an {kind}address: is it running, with `announce`, \
             and does the network carry multicast (224.0.0.251 or ff02::fb, port 5353)"
        );
        Error::Socket { what, source: ErrorKind::TimedOut.into() }
    })
}

/// The address at this place, from 0 to below 1, among those of IPv4 if there are any.
fn choose(found: &BTreeSet<SocketAddr>, place: f64) -> Option<SocketAddr> {
    // A set has those of IPv4 first.
    let of_v4 = found.iter().take_while(|at| at.is_ipv4()).count();
    let count = if of_v4 > 0 { of_v4 } else { found.len() };
    found.iter().nth((place * count as f64) as usize).copied()
}

/// The addresses at which the hub may be: the one that it is bound to, or all.
fn addresses(service: &ResolvedService, family: Option<Family>) -> BTreeSet<SocketAddr> {
    let address = |ip: &ScopedIp| match ip {
        ScopedIp::V6(ip) if ip.addr().is_unicast_link_local() => {
            SocketAddrV6::new(*ip.addr(), service.port, 0, ip.scope_id().index).into()
        }
        ip => SocketAddr::new(ip.to_ip_addr(), service.port),
    };
    let is_possible =
        |at: &SocketAddr| is_of_host(at) && family.is_none_or(|family| family == Family::of(*at));
    let all: BTreeSet<_> = service.addresses.iter().map(address).filter(is_possible).collect();
    let bound = service.txt_properties.get_property_val_str(BOUND);
    let bound: Option<IpAddr> = bound.and_then(|address| address.parse().ok());
    match all.iter().find(|at| Some(at.ip()) == bound) {
        Some(bound) => BTreeSet::from([*bound]),
        None => all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_dns_sd_have_a_suffix() {
        assert_eq!(instance("site._tb-director._udp.local"), Some("site"));
        assert_eq!(instance("My site._TB-Director._udp.local."), Some("My site"));
        assert_eq!(instance("._tb-director._udp.local"), None);
        assert_eq!(instance("hub:5700"), None);
        assert_eq!(instance("é"), None);
        assert_eq!(instance("éé._tb-director._udp.loca"), None);
    }

    #[test]
    fn each_address_of_the_family_is_chosen_at_some_place() {
        let all = ["[fd00::1]:5", "10.0.0.2:5", "10.0.0.1:7"].map(|at| at.parse().unwrap());
        let found = BTreeSet::from(all);
        assert_eq!([0.0, 0.49].map(|place| choose(&found, place)), [Some(all[2]); 2]);
        assert_eq!([0.5, 0.99].map(|place| choose(&found, place)), [Some(all[1]); 2]);
        assert_eq!(choose(&BTreeSet::from([all[0]]), 0.99), Some(all[0]));
        assert_eq!(choose(&BTreeSet::new(), 0.0), None);
    }

    #[test]
    fn names_that_no_announcement_can_have_are_refused() {
        for name in ["", &"x".repeat(64), "a\nb"] {
            assert!(Announcement::new(name, ([127, 0, 0, 1], 5_703).into()).is_err());
        }
    }
}
