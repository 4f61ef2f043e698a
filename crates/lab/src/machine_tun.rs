//! The tunnel of a node's firmware: it sends and receives IP packets without Ethernet headers, and has the
//! addresses of the node's interface. The node's kernel routes between tunnel and interface, with the
//! Ethernet address of the node, and answers requests for the firmware's addresses (RFC 1027, proxy ARP;
//! RFC 4389, section 4.1.3.2, neighbour discovery).

use crate::interface::{Step, disable_ipv6, mtu, socket, up};
use crate::machine_tap;
use crate::routing::{Routing, enable_ipv6, set};
use crate::wire::Interface;
use std::net::IpAddr;

/// Creates the tunnel `tun` and its routes; the interface is up. The tunnel stays when the program that
/// opens it ends, so that the firmware can start again.
pub(crate) fn connect(interface: &Interface, tun: &str) -> Step<()> {
    let socket = socket()?;
    machine_tap::create(tun, libc::IFF_TUN)?;
    mtu(&socket, tun, interface.mtu)?;
    match interface.addresses.iter().any(|(address, _)| address.is_ipv6()) {
        true => {
            enable_ipv6(tun)?;
            // No link-local address: with one, the node's kernel would send router solicitations to
            // the firmware.
            set(&format!("/proc/sys/net/ipv6/conf/{tun}/addr_gen_mode"), "1")?;
        }
        false => disable_ipv6(tun),
    }
    up(&socket, tun)?;
    let (routing, name) = (Routing::open()?, &interface.name);
    for (address, prefix) in &interface.addresses {
        routing.add_direct_route(*address, *prefix, name)?;
        routing.add_direct_route(*address, if address.is_ipv6() { 128 } else { 32 }, tun)?;
        let (family, proxy) = match address {
            IpAddr::V4(_) => ("ipv4", "proxy_arp"),
            IpAddr::V6(_) => ("ipv6", "proxy_ndp"),
        };
        set(&format!("/proc/sys/net/{family}/conf/{name}/{proxy}"), "1")?;
        // Otherwise a proxy answers up to 0.8 s later. Some kernels hide these files in user namespaces.
        let delay = format!("/proc/sys/net/{family}/neigh/{name}/proxy_delay");
        let _ = std::fs::write(delay, "0");
        if let IpAddr::V6(address) = address {
            routing.add_proxy(name, *address)?;
        }
    }
    Ok(())
}
