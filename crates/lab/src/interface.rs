//! Creates and configures a node's interfaces, from inside the node: by ioctl, and IPv6 by netlink.

use crate::failure::Failure;
use crate::netem;
use crate::routing::{Routing, accept_advertisements, enable_ipv6};
use crate::wire::Interface;
use nix::errno::Errno;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Transmit queue of frames that wait for the medium. The kernel's default of 1,000 overflows when
/// a hub answers hundreds of nodes at once in 127-byte frames, and such drops are not configured.
/// A TAP has 8 bytes for each, in an area of a power of two: 64 KiB.
const TX_QUEUE: libc::c_int = 8_192;

pub(crate) type Step<T> = Result<T, Failure>;

/// Brings the loopback interface up.
pub fn loopback() -> Step<()> {
    let socket = socket()?;
    up(&socket, "lo")
}

/// Creates and configures the TAP of `spec`; it lives as long as the descriptor. Its ifindex is
/// `number`.
pub fn make_tap(spec: &Interface, number: u32) -> Step<OwnedFd> {
    let tap = tap(&spec.name, number)?;
    // A TAP never asks the kernel to wait: it has its queue, and drops what exceeds it. The
    // default discipline in front of it would only take memory for three more queues. Kernels
    // without disciplines have none.
    let _ = netem::remove_queue(number);
    set_up(spec)?;
    Ok(tap)
}

pub(crate) fn mtu(socket: &OwnedFd, name: &str, mtu: u32) -> Step<()> {
    let mut request_data = request(name)?;
    request_data.ifr_ifru.ifru_mtu = mtu as libc::c_int;
    set(socket, libc::SIOCSIFMTU, &mut request_data, || format!("set the MTU {mtu} of {name}"))
}

/// Changes the MTU of an interface that is up.
pub(crate) fn change_mtu(name: &str, bytes: u32) -> Step<()> {
    mtu(&socket()?, name, bytes)
}

/// Adds permanent neighbours of an interface that is up.
pub(crate) fn add_neighbours(name: &str, neighbours: &[(IpAddr, [u8; 6])]) -> Step<()> {
    let (socket, mut routing) = (socket()?, None);
    for (address, mac) in neighbours {
        match address {
            IpAddr::V4(address) => neighbour(&socket, name, *address, *mac)?,
            IpAddr::V6(address) => {
                let routing = match &mut routing {
                    Some(routing) => routing,
                    none => none.insert(Routing::open()?),
                };
                routing.add_neighbour(name, *address, *mac)?;
            }
        }
    }
    Ok(())
}

/// The Ethernet address of the node's interface when its machine has the configured one. A bridge keeps
/// frames to the addresses of its ports.
pub(crate) fn other_mac(mac: [u8; 6]) -> [u8; 6] {
    let [first, rest @ ..] = mac;
    let [b, c, d, e, f] = rest;
    // Locally administered, and another one.
    [(first | 2) ^ 4, b, c, d, e, f]
}

/// Configures the addresses, routes and neighbours of an existing interface.
pub(crate) fn set_up(spec: &Interface) -> Step<()> {
    let socket = socket()?;
    let named = |what: &str| format!("{what} of {}", spec.name);
    let mac = if spec.tap.is_some() { other_mac(spec.mac) } else { spec.mac };

    let mut hardware = request(&spec.name)?;
    // SAFETY: the union's address field is plain bytes; six fit in fourteen.
    unsafe {
        hardware.ifr_ifru.ifru_hwaddr.sa_family = libc::ARPHRD_ETHER;
        for (to, from) in hardware.ifr_ifru.ifru_hwaddr.sa_data.iter_mut().zip(mac) {
            *to = from as libc::c_char;
        }
    }
    set(&socket, libc::SIOCSIFHWADDR, &mut hardware, || named("set the link address"))?;

    mtu(&socket, &spec.name, spec.mtu)?;

    let mut queue = request(&spec.name)?;
    queue.ifr_ifru.ifru_metric = TX_QUEUE;
    // Refused in a user namespace; then the kernel's default of 500 frames applies, and overflows
    // are counted as drops.
    match set(&socket, libc::SIOCSIFTXQLEN, &mut queue, || named("set the transmit queue")) {
        Err(failure) if failure.errno != libc::EPERM => return Err(failure),
        _ => {}
    }
    let has_address = spec.addresses.iter().any(|(address, _)| address.is_ipv6());
    let has_ipv6 = has_address || spec.is_advertised;
    match has_ipv6 {
        true => enable_ipv6(&spec.name)?,
        false => disable_ipv6(&spec.name),
    }
    if spec.is_advertised {
        accept_advertisements(&spec.name, spec.advertised)?;
    }
    // A program at the other end of a tunnel has the addresses.
    let own = if spec.tun.is_some() { &[] } else { &spec.addresses[..] };
    for (own, prefix) in own {
        let IpAddr::V4(own) = own else { continue };
        let mut address = request(&spec.name)?;
        address.ifr_ifru.ifru_addr = internet(*own);
        set(&socket, libc::SIOCSIFADDR, &mut address, || named(&format!("set the address {own}")))?;
        let mut mask = request(&spec.name)?;
        mask.ifr_ifru.ifru_netmask = internet(netmask(*prefix));
        set(&socket, libc::SIOCSIFNETMASK, &mut mask, || named("set the subnet mask"))?;
    }
    // The settings of IPv6 apply when the interface comes up.
    up(&socket, &spec.name)?;
    // The node's kernel only bridges the frames of its machine (decision 100), and a bridge has its
    // addresses at another interface, not at its ports.
    if spec.tap.is_some() || spec.is_port {
        return Ok(());
    }
    multicast_route(&socket, &spec.name)?;
    for (address, mac) in &spec.neighbours {
        if let IpAddr::V4(address) = address {
            neighbour(&socket, &spec.name, *address, *mac)?;
        }
    }
    if has_ipv6 { set_up_ipv6(spec, own) } else { Ok(()) }
}

/// Adds the IPv6 ones of these addresses, and the neighbours of an interface that is up.
fn set_up_ipv6(spec: &Interface, own: &[(IpAddr, u8)]) -> Step<()> {
    let routing = Routing::open()?;
    for (address, prefix) in own {
        if let IpAddr::V6(address) = address {
            routing.add_address(&spec.name, *address, *prefix)?;
        }
    }
    for (address, mac) in &spec.neighbours {
        if let IpAddr::V6(address) = address {
            routing.add_neighbour(&spec.name, *address, *mac)?;
        }
    }
    Ok(())
}

pub(crate) fn socket() -> Step<OwnedFd> {
    // SAFETY: a plain system call; a valid descriptor is owned at once.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        Errno::result(fd).map_err(|errno| Failure::of("open a socket for ioctls", errno))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

fn tap(name: &str, number: u32) -> Step<OwnedFd> {
    const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
    const TUNSETIFINDEX: libc::Ioctl = 0x4004_54da;
    // SAFETY: the path is a C string; a valid descriptor is owned at once.
    let fd = unsafe {
        let fd = libc::open(c"/dev/net/tun".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        Errno::result(fd).map_err(|errno| Failure::of("open /dev/net/tun", errno))?;
        OwnedFd::from_raw_fd(fd)
    };
    // The medium's BPF program for all TAPs distinguishes them by this number.
    // SAFETY: the call reads one number, which lives over it.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), TUNSETIFINDEX, &raw const number) };
    Errno::result(result).map_err(|errno| {
        Failure::of(format!("set the index of the TAP {name} to {number}"), errno)
    })?;
    let mut make = request(name)?;
    make.ifr_ifru.ifru_flags =
        // `IFF_TUN_EXCL`: an interface of this name must not exist yet.
        (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_TUN_EXCL) as libc::c_short;
    set(&fd, TUNSETIFF, &mut make, || format!("create the TAP {name}"))?;
    Ok(fd)
}

pub(crate) fn up(socket: &OwnedFd, name: &str) -> Step<()> {
    let mut flags = request(name)?;
    set(socket, libc::SIOCGIFFLAGS, &mut flags, || format!("read the flags of {name}"))?;
    // SAFETY: the call above has set the flags.
    unsafe { flags.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short };
    set(socket, libc::SIOCSIFFLAGS, &mut flags, || format!("bring {name} up"))
}

/// Adds a multicast route, for programs that name no interface.
fn multicast_route(socket: &OwnedFd, name: &str) -> Step<()> {
    let device = std::ffi::CString::new(name).map_err(|_| bad_name(name))?;
    // SAFETY: an all-zero route entry is valid; the device name outlives the call.
    unsafe {
        let mut route: libc::rtentry = std::mem::zeroed();
        route.rt_dst = internet(Ipv4Addr::new(224, 0, 0, 0));
        route.rt_genmask = internet(netmask(4));
        route.rt_flags = libc::RTF_UP as libc::c_ushort;
        route.rt_dev = device.as_ptr().cast_mut();
        let result = libc::ioctl(socket.as_raw_fd(), libc::SIOCADDRT, &raw const route);
        match Errno::result(result) {
            // On a second interface, the first one's route already exists.
            Ok(_) | Err(Errno::EEXIST) => Ok(()),
            Err(errno) => Err(Failure::of("add the multicast route", errno)),
        }
    }
}

fn neighbour(socket: &OwnedFd, name: &str, address: Ipv4Addr, mac: [u8; 6]) -> Step<()> {
    // SAFETY: an all-zero entry is valid; its fields are plain bytes.
    unsafe {
        let mut entry: libc::arpreq = std::mem::zeroed();
        entry.arp_pa = internet(address);
        entry.arp_ha.sa_family = libc::ARPHRD_ETHER;
        for (to, from) in entry.arp_ha.sa_data.iter_mut().zip(mac) {
            *to = from as libc::c_char;
        }
        entry.arp_flags = libc::ATF_PERM | libc::ATF_COM;
        for (to, from) in entry.arp_dev.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        let result = libc::ioctl(socket.as_raw_fd(), libc::SIOCSARP, &raw const entry);
        Errno::result(result).map(drop).map_err(|errno| {
            // The kernel's neighbour table is shared by all namespaces.
            let full = match errno {
                Errno::ENOBUFS => {
                    " to the kernel's neighbour table, which all labs on this machine share and \
                     which is full (raise net.ipv4.neigh.default.gc_thresh3, or run fewer labs at \
                     once)"
                }
                _ => "",
            };
            Failure::of(format!("add the neighbour {address}{full}"), errno)
        })
    }
}

/// Disables IPv6 on an interface without an IPv6 address: router and neighbour discovery of hundreds
/// of nodes would be unwanted traffic. A kernel without IPv6 has no such file and needs no change.
pub(crate) fn disable_ipv6(name: &str) {
    let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
}

pub(crate) fn set(
    fd: &OwnedFd,
    call: libc::Ioctl,
    request: &mut libc::ifreq,
    tried: impl Fn() -> String,
) -> Step<()> {
    // SAFETY: every call used here takes one ifreq, which lives over it.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), call, std::ptr::from_mut(request)) };
    Errno::result(result).map(drop).map_err(|errno| Failure::of(tried(), errno))
}

pub(crate) fn request(name: &str) -> Step<libc::ifreq> {
    // SAFETY: an all-zero ifreq is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(bad_name(name));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

fn bad_name(name: &str) -> Failure {
    Failure::of(format!("name an interface {name}"), Errno::ENAMETOOLONG)
}

fn internet(address: Ipv4Addr) -> libc::sockaddr {
    let internet = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.octets()) },
        sin_zero: [0; 8],
    };
    // SAFETY: both are 16 bytes of plain data with compatible layouts.
    unsafe { std::mem::transmute(internet) }
}

fn netmask(prefix: u8) -> Ipv4Addr {
    // `checked_shl`, because a prefix of 0 shifts by all 32 bits.
    let bits = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
    Ipv4Addr::from(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_address_is_another_one_of_a_single_station() {
        for mac in [[2, 0, 10, 0, 0, 1], [0x52, 0x54, 0, 1, 2, 3], [0xf4, 1, 2, 3, 4, 5]] {
            let other = other_mac(mac);
            assert_ne!(other, mac);
            assert_eq!((other[0] & 1, other[0] & 2), (0, 2));
        }
    }

    #[test]
    fn masks() {
        assert_eq!(netmask(0), Ipv4Addr::new(0, 0, 0, 0));
        assert_eq!(netmask(16), Ipv4Addr::new(255, 255, 0, 0));
        assert_eq!(netmask(32), Ipv4Addr::new(255, 255, 255, 255));
    }

    /// Frames that an interface of this thread's network namespace dropped on their way out.
    fn dropped(name: &str) -> u64 {
        let all = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let line = all.lines().find_map(|line| line.trim().strip_prefix(&format!("{name}:")));
        line.unwrap().split_whitespace().nth(11).unwrap().parse().unwrap()
    }

    /// More queues would take memory, and hold nothing.
    #[test]
    fn a_tap_has_one_queue_of_the_configured_length() {
        let in_own_namespace = || {
            if nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).is_err() {
                return eprintln!("NOT RUN: needs root");
            }
            let to = IpAddr::from([10, 0, 0, 2]);
            let spec = Interface {
                name: "eth0".into(),
                mac: [2, 0, 10, 0, 0, 1],
                addresses: vec![([10, 0, 0, 1].into(), 24)],
                mtu: 1500,
                offload: false,
                neighbours: vec![(to, [2, 0, 10, 0, 0, 2])],
                is_advertised: false,
                advertised: None,
                tap: None,
                tun: None,
                is_port: false,
            };
            let _tap = make_tap(&spec, 1000).unwrap();
            assert_eq!(netem::discipline(1000).unwrap(), "noqueue");
            let socket = std::net::UdpSocket::bind("10.0.0.1:0").unwrap();
            for _ in 0..TX_QUEUE + 100 {
                socket.send_to(b"x", (to, 9)).unwrap();
            }
            assert_eq!(dropped("eth0"), 100);
        };
        std::thread::spawn(in_own_namespace).join().unwrap();
    }

    #[test]
    fn a_name_that_is_too_long_is_an_error() {
        assert!(request("exactly-sixteen-").is_err());
        assert!(request("fifteen-letters").is_ok());
    }
}
