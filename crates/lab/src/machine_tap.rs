//! The TAP of a node's machine: an emulator or a firmware with its own network stack, which has the
//! node's interface in place of the node's kernel.

use crate::failure::Failure;
use crate::interface::{Step, disable_ipv6, mtu, request, set, socket, up};
use crate::netlink::{Message, NESTED, ask};
use crate::veth::index;
use crate::wire::Interface;
use nix::errno::Errno;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// SIOCBRADDBR and SIOCBRADDIF of linux/sockios.h.
const ADD_BRIDGE: libc::Ioctl = 0x89a0;
const ADD_PORT: libc::Ioctl = 0x89a2;

/// Creates the TAP `tap` and bridges it to the interface, which is up. It stays when the program that
/// opens it ends, so that a machine can start again.
pub(crate) fn connect(interface: &Interface, tap: &str) -> Step<()> {
    let socket = socket()?;
    create(tap)?;
    mtu(&socket, tap, interface.mtu)?;
    // Otherwise the node's kernel would send router solicitations into the network, too.
    disable_ipv6(tap);
    let bridge = format!("br-{}", interface.name);
    let name = std::ffi::CString::new(bridge.as_str())
        .map_err(|_| Failure::of(format!("name a bridge {bridge}"), Errno::EINVAL))?;
    // SAFETY: the call reads the name, which lives over it.
    let made = unsafe { libc::ioctl(socket.as_raw_fd(), ADD_BRIDGE, name.as_ptr()) };
    Errno::result(made).map_err(|errno| {
        let hint = match errno {
            Errno::ENOPKG | Errno::EINVAL | Errno::ENOTTY => {
                " (nodes that are machines need a kernel with bridges: load the module `bridge`)"
            }
            _ => "",
        };
        Failure::of(format!("create the bridge {bridge}{hint}"), errno)
    })?;
    disable_ipv6(&bridge);
    keep_silent(&socket, &bridge)?;
    for port in [interface.name.as_str(), tap] {
        let number = index(&socket, port)?;
        let mut add = request(&bridge)?;
        add.ifr_ifru.ifru_ifindex = number as libc::c_int;
        set(&socket, ADD_PORT, &mut add, || format!("add {port} to the bridge {bridge}"))?;
        up(&socket, port)?;
    }
    // Last, so that no frame passes a bridge with one port.
    up(&socket, &bridge)
}

/// Disables multicast snooping of a bridge, for which it would report a group (224.0.0.106, RFC 4286)
/// to the network: all frames of the node are the machine's.
fn keep_silent(socket: &OwnedFd, bridge: &str) -> Step<()> {
    const MULTICAST_SNOOPING: u16 = 23;
    let mut link = [0; 16];
    link[4..8].copy_from_slice(&index(socket, bridge)?.to_ne_bytes());
    let mut message = Message::new(libc::RTM_NEWLINK, libc::NLM_F_ACK, &link);
    let info = message.begin(libc::IFLA_LINKINFO | NESTED);
    message.bytes(libc::IFLA_INFO_KIND, b"bridge");
    let data = message.begin(libc::IFLA_INFO_DATA | NESTED);
    message.bytes(MULTICAST_SNOOPING, &[0]);
    message.end(data);
    message.end(info);
    ask(&message.finish())
        .map(drop)
        .map_err(|errno| Failure::of(format!("disable multicast snooping of {bridge}"), errno))
}

/// Creates a persistent TAP, which any user of the node may open.
pub(crate) fn create(name: &str) -> Step<()> {
    const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
    const TUNSETPERSIST: libc::Ioctl = 0x4004_54cb;
    // SAFETY: the path is a C string; a valid descriptor is owned at once.
    let fd = unsafe {
        let fd = libc::open(c"/dev/net/tun".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        Errno::result(fd).map_err(|errno| Failure::of("open /dev/net/tun", errno))?;
        OwnedFd::from_raw_fd(fd)
    };
    let mut make = request(name)?;
    make.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    set(&fd, TUNSETIFF, &mut make, || format!("create the TAP {name}"))?;
    // SAFETY: a plain system call.
    let kept = unsafe { libc::ioctl(fd.as_raw_fd(), TUNSETPERSIST, 1) };
    Errno::result(kept)
        .map(drop)
        .map_err(|errno| Failure::of(format!("keep the TAP {name}"), errno))
}
