//! The TAP of a node's machine: an emulator or a firmware with its own network stack, which has the
//! node's interface in place of the node's kernel.

use crate::bridge;
use crate::failure::Failure;
use crate::interface::{Step, disable_ipv6, mtu, request, set, socket, up};
use crate::wire::Interface;
use nix::errno::Errno;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Creates the TAP `tap` and bridges it to the interface, which is up. It stays when the program that
/// opens it ends, so that a machine can start again.
pub(crate) fn connect(interface: &Interface, tap: &str) -> Step<()> {
    let socket = socket()?;
    create(tap, libc::IFF_TAP)?;
    mtu(&socket, tap, interface.mtu)?;
    // Otherwise the node's kernel would send router solicitations into the network, too.
    disable_ipv6(tap);
    let bridge = format!("br-{}", interface.name);
    bridge::create(&socket, &bridge)?;
    bridge::set_options(&bridge, &[bridge::no_snooping()])?;
    for port in [interface.name.as_str(), tap] {
        bridge::add_port(&socket, &bridge, port)?;
        up(&socket, port)?;
    }
    // The TAP has no carrier before the machine opens it.
    bridge::wait_for_carrier(&socket, &interface.name)?;
    // Last, so that no frame passes a bridge with one port.
    up(&socket, &bridge)
}

/// Creates a persistent TAP (`kind` is `IFF_TAP`) or tunnel (`IFF_TUN`), which any user of the node may
/// open.
pub(crate) fn create(name: &str, kind: libc::c_int) -> Step<()> {
    const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
    const TUNSETPERSIST: libc::Ioctl = 0x4004_54cb;
    // SAFETY: the path is a C string; a valid descriptor is owned at once.
    let fd = unsafe {
        let fd = libc::open(c"/dev/net/tun".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        Errno::result(fd).map_err(|errno| Failure::of("open /dev/net/tun", errno))?;
        OwnedFd::from_raw_fd(fd)
    };
    let mut make = request(name)?;
    make.ifr_ifru.ifru_flags = (kind | libc::IFF_NO_PI) as libc::c_short;
    set(&fd, TUNSETIFF, &mut make, || format!("create the interface {name}"))?;
    // SAFETY: a plain system call.
    let kept = unsafe { libc::ioctl(fd.as_raw_fd(), TUNSETPERSIST, 1) };
    Errno::result(kept)
        .map(drop)
        .map_err(|errno| Failure::of(format!("keep the interface {name}"), errno))
}
