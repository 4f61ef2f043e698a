//! IPv6 addresses, neighbours, and routes of a node, by rtnetlink(7), from inside the node.

use crate::failure::Failure;
use crate::netlink::{Message, NESTED, Socket, ask};
use crate::wire::Route;
use nix::errno::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Address flags of linux/if_addr.h: no duplicate address detection, never expires.
const NO_DAD: u8 = 0x02;
const PERMANENT_ADDRESS: u8 = 0x80;
/// Neighbour state of linux/neighbour.h: never resolved.
const PERMANENT_NEIGHBOUR: u16 = 0x80;
/// Flag of linux/neighbour.h: another node's address, for which this one answers.
const PROXY: u8 = 0x08;
/// Attributes of linux/if_addr.h and linux/neighbour.h.
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
const NEIGHBOUR: u16 = 1;
const LINK_ADDRESS: u16 = 2;

/// Metric of the default routes of advertisements at the first interface: below that of other routes, which
/// is 1024.
const METRIC: u32 = 512;

/// Connection to the kernel's network configuration of this network namespace.
pub(crate) struct Routing(Socket);

impl Routing {
    pub fn open() -> Result<Self, Failure> {
        let failed = |errno| Failure::of("open a socket for the network configuration", errno);
        Socket::open(libc::NETLINK_ROUTE).map(Self).map_err(failed)
    }

    /// Adds an IPv6 address. The plan gives each address once, so there is nothing to detect, and
    /// the node can use it at once.
    ///
    /// # Errors
    /// There is no such interface, or the kernel refuses the address.
    pub fn add_address(&self, name: &str, address: Ipv6Addr, prefix: u8) -> Result<(), Failure> {
        let mut header = vec![libc::AF_INET6 as u8, prefix, NO_DAD | PERMANENT_ADDRESS, 0];
        header.extend(index(name)?.to_ne_bytes());
        let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let mut message = Message::new(libc::RTM_NEWADDR, flags, &header);
        for attribute in [LOCAL, ADDRESS] {
            message.bytes(attribute, &address.octets());
        }
        self.ask(message, || format!("add the address {address} to {name}"))
    }

    /// Adds a permanent IPv6 neighbour.
    ///
    /// # Errors
    /// There is no such interface, or the kernel refuses the entry, for example because its table
    /// is full.
    pub fn add_neighbour(&self, name: &str, of: Ipv6Addr, mac: [u8; 6]) -> Result<(), Failure> {
        let mut header = vec![libc::AF_INET6 as u8, 0, 0, 0];
        header.extend(index(name)?.to_ne_bytes());
        header.extend(PERMANENT_NEIGHBOUR.to_ne_bytes());
        header.extend([0, 0]);
        let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        let mut message = Message::new(libc::RTM_NEWNEIGH, flags, &header);
        message.bytes(NEIGHBOUR, &of.octets());
        message.bytes(LINK_ADDRESS, &mac);
        self.ask(message, || {
            format!(
                "add the neighbour {of} to the kernel's neighbour table, which all labs on this \
                 machine share (if it is full, raise net.ipv6.neigh.default.gc_thresh3)"
            )
        })
    }

    /// Adds a route.
    ///
    /// # Errors
    /// When the kernel refuses it, for example because no network of the node has the next hop.
    pub fn add_route(&self, route: &Route) -> Result<(), Failure> {
        let Route { to, prefix, via } = route;
        let mut message = new_route(via.is_ipv6(), *prefix, libc::RT_SCOPE_UNIVERSE);
        message.bytes(libc::RTA_GATEWAY, &octets(*via));
        message.bytes(libc::RTA_DST, &octets(*to));
        self.ask(message, || format!("add the route to {to}/{prefix} by {via}"))
    }

    /// Adds a route to the first `prefix` bits of `to` without a router: by the interface `name`.
    ///
    /// # Errors
    /// There is no such interface, or the kernel refuses the route.
    pub fn add_direct_route(&self, to: IpAddr, prefix: u8, name: &str) -> Result<(), Failure> {
        // A router of IPv4 must be on a link, not behind one.
        let scope = if to.is_ipv6() { libc::RT_SCOPE_UNIVERSE } else { libc::RT_SCOPE_LINK };
        let mut message = new_route(to.is_ipv6(), prefix, scope);
        message.bytes(libc::RTA_DST, &octets(masked(to, prefix)));
        message.bytes(libc::RTA_OIF, &index(name)?.to_ne_bytes());
        self.ask(message, || format!("add the route to {to}/{prefix} by {name}"))
    }

    /// Makes the interface `name` answer neighbour discovery for an IPv6 address that is elsewhere.
    ///
    /// # Errors
    /// There is no such interface, or the kernel refuses the entry.
    pub fn add_proxy(&self, name: &str, of: Ipv6Addr) -> Result<(), Failure> {
        let mut header = vec![libc::AF_INET6 as u8, 0, 0, 0];
        header.extend(index(name)?.to_ne_bytes());
        header.extend(PERMANENT_NEIGHBOUR.to_ne_bytes());
        header.extend([PROXY, 0]);
        let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        let mut message = Message::new(libc::RTM_NEWNEIGH, flags, &header);
        message.bytes(NEIGHBOUR, &of.octets());
        self.ask(message, || format!("make {name} answer for {of}"))
    }

    /// Adds an IPv6 default route by a router on the link of the interface `name`.
    ///
    /// # Errors
    /// There is no such interface, or the kernel refuses the route.
    pub fn add_default_route(&self, name: &str, via: Ipv6Addr) -> Result<(), Failure> {
        let mut message = new_route(true, 0, libc::RT_SCOPE_UNIVERSE);
        message.bytes(libc::RTA_GATEWAY, &via.octets());
        message.bytes(libc::RTA_OIF, &index(name)?.to_ne_bytes());
        self.ask(message, || format!("add the default route by {via} on {name}"))
    }

    fn ask(&self, message: Message, step: impl Fn() -> String) -> Result<(), Failure> {
        self.0.exchange(&message.finish()).map(drop).map_err(|errno| Failure::of(step(), errno))
    }
}

/// A request for a route, without its destination, next hop and interface.
fn new_route(is_ipv6: bool, prefix: u8, scope: u8) -> Message {
    let family = if is_ipv6 { libc::AF_INET6 } else { libc::AF_INET };
    let mut header = vec![family as u8, prefix, 0, 0, libc::RT_TABLE_MAIN];
    header.extend([libc::RTPROT_STATIC, scope, libc::RTN_UNICAST]);
    header.extend([0; 4]);
    let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    Message::new(libc::RTM_NEWROUTE, flags, &header)
}

/// The first `prefix` bits of an address, then zeros.
fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    let zeros = |bits: u32| bits.saturating_sub(prefix.into());
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(zeros(32)).unwrap_or(0);
            Ipv4Addr::from(u32::from(address) & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(zeros(128)).unwrap_or(0);
            Ipv6Addr::from(u128::from(address) & mask).into()
        }
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn index(name: &str) -> Result<u32, Failure> {
    nix::net::if_::if_nametoindex(name)
        .map_err(|errno| Failure::of(format!("find the interface {name}"), errno))
}

/// Enables IPv6 on an interface that is not up yet. Its link-local address is made of the link
/// address (RFC 4291, appendix A) and not checked for duplicates: the plan gives each link address
/// once. The interface ignores router advertisements and asks for none, since the plan has all
/// addresses and routes. The kernel's documentation of these keys: networking/ip-sysctl.
pub(crate) fn enable_ipv6(name: &str) -> Result<(), Failure> {
    let folder = format!("/proc/sys/net/ipv6/conf/{name}");
    if !std::path::Path::new(&folder).exists() {
        let step = format!("use IPv6 on {name}: this kernel has no IPv6 (ipv6.disable=1?)");
        return Err(Failure::of(step, Errno::EAFNOSUPPORT));
    }
    for (key, value) in [
        ("addr_gen_mode", "0"),
        ("accept_dad", "0"),
        ("accept_ra", "0"),
        ("autoconf", "0"),
        ("router_solicitations", "0"),
        ("disable_ipv6", "0"),
    ] {
        set(&format!("{folder}/{key}"), value)?;
    }
    Ok(())
}

/// Makes an IPv6 interface that is not up yet solicit router advertisements, each second until one comes, and
/// take its routes from them, even if the node forwards packets. They replace other default routes, as
/// those of an IPv4 client of DHCP do. Its addresses are those of DHCP alone, or the one of SLAAC that has
/// the last 64 bits of `own`.
pub(crate) fn accept_advertisements(name: &str, own: Option<Ipv6Addr>) -> Result<(), Failure> {
    let folder = format!("/proc/sys/net/ipv6/conf/{name}");
    for (key, value) in [
        ("router_solicitation_delay", "0"),
        ("router_solicitation_interval", "1"),
        ("router_solicitations", "-1"),
        ("accept_ra", "2"),
    ] {
        set(&format!("{folder}/{key}"), value)?;
    }
    // A node's interfaces have successive numbers. Of several default routes that of the first one is
    // used, as planned.
    let first = index("eth0").unwrap_or_default();
    let metric = METRIC + index(name)?.saturating_sub(first).min(METRIC - 1);
    // Linux has the first since 4.8 and the second since 5.12.
    for (key, value) in [("router_solicitation_max_interval", 1), ("ra_defrtr_metric", metric)] {
        let path = format!("{folder}/{key}");
        if std::path::Path::new(&path).exists() {
            set(&path, &value.to_string())?;
        }
    }
    let Some(own) = own else { return Ok(()) };
    set(&format!("{folder}/autoconf"), "1")?;
    set_token(name, own)
}

/// Attribute of IFLA_AF_SPEC for IPv6 (linux/if_link.h): the interface identifier of SLAAC.
const TOKEN: u16 = 7;

/// Sets the interface identifier of addresses that the kernel makes of router advertisements (RFC 7217
/// has others): the last 64 bits of `own`.
fn set_token(name: &str, own: Ipv6Addr) -> Result<(), Failure> {
    let mut link = [0; 16];
    link[4..8].copy_from_slice(&index(name)?.to_ne_bytes());
    let mut message = Message::new(libc::RTM_SETLINK, libc::NLM_F_ACK, &link);
    let families = message.begin(libc::IFLA_AF_SPEC | NESTED);
    let ipv6 = message.begin(libc::AF_INET6 as u16 | NESTED);
    message.bytes(TOKEN, &(u128::from(own) & u128::from(u64::MAX)).to_be_bytes());
    message.end(ipv6);
    message.end(families);
    ask(&message.finish())
        .map(drop)
        .map_err(|errno| Failure::of(format!("set the interface identifier of {name}"), errno))
}

/// Makes the node forward packets between its interfaces. Packets may return by another way than
/// they came, as between real routers, so the reverse path is not checked; and hosts keep the
/// routes of the plan, so no redirects are sent.
pub(crate) fn forward(interfaces: &[String]) -> Result<(), Failure> {
    let v6 = "/proc/sys/net/ipv6/conf/all/forwarding";
    if std::path::Path::new(v6).exists() {
        set(v6, "1")?;
    }
    set("/proc/sys/net/ipv4/ip_forward", "1")?;
    // The kernel uses the larger one of an interface's `rp_filter` and that of `all`
    // (networking/ip-sysctl).
    for name in interfaces.iter().map(String::as_str).chain(["all"]) {
        set(&format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), "0")?;
        set(&format!("/proc/sys/net/ipv4/conf/{name}/send_redirects"), "0")?;
    }
    Ok(())
}

pub(crate) fn set(path: &str, value: &str) -> Result<(), Failure> {
    std::fs::write(path, value).map_err(|error| {
        let errno = Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
        Failure::of(format!("write {path}"), errno)
    })
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn a_subnet_has_the_first_bits_of_an_address() {
        for (address, prefix, subnet) in [
            ("10.1.2.3", 24, "10.1.2.0"),
            ("10.1.2.3", 32, "10.1.2.3"),
            ("10.1.2.3", 0, "0.0.0.0"),
            ("fd00::1:2", 64, "fd00::"),
            ("fd00::1:2", 128, "fd00::1:2"),
            ("fd00::1:2", 0, "::"),
        ] {
            assert_eq!(masked(address.parse().unwrap(), prefix).to_string(), subnet);
        }
    }
}
