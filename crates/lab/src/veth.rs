//! Creates veth pairs as links, and impairs them with the kernel's netem.

use crate::failure::Failure;
use crate::interface::{Step, disable_ipv6, mtu, request, set, set_up, socket, up};
use crate::netem::{self, Netem, Passed};
use crate::netlink;
use crate::wire::{Direction, Interface};
use nix::errno::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Prefix of the failed step when netem cannot be added.
pub(crate) const PUT_NETEM: &str = "add netem to";

/// Creates and configures a veth pair for `spec`: one end here, the other in the network namespace
/// `wire`. Returns a packet socket at the other end, which receives frames if it `receives`. The
/// pair lives as long as both namespaces.
pub fn make_veth(
    spec: &Interface,
    number: u32,
    wire: BorrowedFd<'_>,
    receives: bool,
) -> Step<OwnedFd> {
    let peer = peer_of(number);
    netlink::make_veth(&spec.name, number, &peer, wire)?;
    if !spec.offload {
        plain(&socket()?, &spec.name)?;
    }
    let packets = within(wire, || packet_socket(spec, &peer, number, receives))?;
    set_up(spec)?;
    Ok(packets)
}

/// Name of the medium's end of the veth pair whose other end has this number.
fn peer_of(number: u32) -> String {
    format!("port{number}")
}

/// Runs `work` in the network namespace `wire`, and returns to this one.
fn within<T>(wire: BorrowedFd<'_>, work: impl FnOnce() -> Step<T>) -> Step<T> {
    let here = std::fs::File::open("/proc/self/ns/net").map_err(|error| {
        let errno = Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
        Failure::of("open this network namespace", errno)
    })?;
    let enter = |namespace: BorrowedFd<'_>, which: &str| {
        nix::sched::setns(namespace, nix::sched::CloneFlags::CLONE_NEWNET)
            .map_err(|errno| Failure::of(format!("enter the network namespace {which}"), errno))
    };
    enter(wire, "of the medium")?;
    let done = work();
    enter(here.as_fd(), "of the node")?;
    done
}

/// A veth pair of a node.
pub struct Veth<'a> {
    /// Name and ifindex of the node's end.
    pub name: &'a str,
    /// See `name`.
    pub number: u32,
    /// The network namespace of the other end.
    pub wire: BorrowedFd<'a>,
}

/// Adds netem where frames leave a veth pair: at the node's end on the uplink, at the medium's on
/// the downlink.
pub fn impair(veth: &Veth<'_>, way: Direction, netem: &Netem) -> Step<()> {
    let set = |name: &str, index: u32| {
        let tried = format!("{PUT_NETEM} {name}");
        netem::set(index, netem).map_err(|errno| Failure::of(tried, errno))
    };
    sending_end(veth, way, set)
}

/// Netem's counters there.
pub fn passed(veth: &Veth<'_>, way: Direction) -> Step<Passed> {
    let ask = |name: &str, index: u32| {
        let tried = format!("read netem's counters at {name}");
        netem::passed(index).map_err(|errno| Failure::of(tried, errno))
    };
    sending_end(veth, way, ask)
}

/// Runs `work` at the sending end of a veth pair, with its name and ifindex.
fn sending_end<T>(
    veth: &Veth<'_>,
    way: Direction,
    work: impl FnOnce(&str, u32) -> Step<T>,
) -> Step<T> {
    match way {
        Direction::Up => work(veth.name, veth.number),
        Direction::Down => {
            within(veth.wire, || work(&format!("the far end of {}", veth.name), veth.number))
        }
    }
}

pub(crate) fn index(socket: &OwnedFd, name: &str) -> Step<u32> {
    let mut index = request(name)?;
    set(socket, libc::SIOCGIFINDEX, &mut index, || format!("find {name}"))?;
    // SAFETY: the call above has set the number.
    Ok(unsafe { index.ifr_ifru.ifru_ifindex } as u32)
}

/// Configures the medium's end of a veth pair, from inside its namespace.
fn packet_socket(spec: &Interface, peer: &str, number: u32, receives: bool) -> Step<OwnedFd> {
    let ioctls = socket()?;
    mtu(&ioctls, peer, spec.mtu)?;
    disable_ipv6(peer);
    up(&ioctls, peer)?;
    let packets = packets_at(peer, number, receives)?;
    if spec.offload {
        behind_headers(&packets, peer)?;
    }
    Ok(packets)
}

/// Adds a `struct virtio_net_hdr` before the frames of a packet socket, for unsegmented TCP in both
/// directions.
fn behind_headers(packets: &OwnedFd, peer: &str) -> Step<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option's value lives over the call.
    let set = unsafe {
        let size = size_of_val(&on) as u32;
        let (fd, option) = (packets.as_raw_fd(), libc::PACKET_VNET_HDR);
        libc::setsockopt(fd, libc::SOL_PACKET, option, (&raw const on).cast(), size)
    };
    let failed = |errno| Failure::of(format!("have unsegmented TCP at {peer}"), errno);
    Errno::result(set).map_err(failed)?;
    // The default of 208 KiB holds three of them. Without privileges the user's limit applies.
    let bytes = OFFLOAD_QUEUE_BYTES;
    for option in [libc::SO_RCVBUF, libc::SO_RCVBUFFORCE] {
        // SAFETY: as above.
        unsafe {
            let (fd, size) = (packets.as_raw_fd(), size_of_val(&bytes) as u32);
            libc::setsockopt(fd, libc::SOL_SOCKET, option, (&raw const bytes).cast(), size);
        }
    }
    Ok(())
}

/// Receive queue for unsegmented TCP, in bytes.
const OFFLOAD_QUEUE_BYTES: libc::c_int = 16 << 20;

/// A packet socket at the interface `name` with this ifindex, of this process's network namespace.
/// Without `receives` it only sends.
pub(crate) fn packets_at(name: &str, index: u32, receives: bool) -> Step<OwnedFd> {
    let failed = |errno| Failure::of(format!("open a packet socket at {name}"), errno);
    // SAFETY: plain system calls; a valid descriptor is owned at once, the option
    // and the address live over their calls, and an all-zero address is valid.
    unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let fd = Errno::result(libc::socket(libc::AF_PACKET, kind, 0)).map_err(failed)?;
        let packets = OwnedFd::from_raw_fd(fd);
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = if receives { (libc::ETH_P_ALL as u16).to_be() } else { 0 };
        address.sll_ifindex = index as i32;
        let len = size_of::<libc::sockaddr_ll>() as u32;
        let on: libc::c_int = 1;
        let size = size_of::<libc::c_int>() as u32;
        // The medium must not receive its own frames, and they must not queue at this end.
        for option in [libc::PACKET_IGNORE_OUTGOING, libc::PACKET_QDISC_BYPASS] {
            let set = libc::setsockopt(fd, libc::SOL_PACKET, option, (&raw const on).cast(), size);
            Errno::result(set).map_err(failed)?;
        }
        Errno::result(libc::bind(fd, (&raw const address).cast(), len)).map_err(failed)?;
        // A frame counts until the node's kernel has processed it. The default of 208 KiB refuses
        // frames when a node receives some hundred at once on a slow processor. Without privileges
        // the user's limit applies.
        let bytes = SEND_BYTES;
        // First what any user may set, then what only root may.
        for option in [libc::SO_SNDBUF, libc::SO_SNDBUFFORCE] {
            libc::setsockopt(fd, libc::SOL_SOCKET, option, (&raw const bytes).cast(), size);
        }
        Ok(packets)
    }
}

/// Send buffer of a packet socket at a port, in bytes.
const SEND_BYTES: libc::c_int = 16 << 20;

/// Disables offloads, so that frames leave `name` as on a wire: segmented and with checksums.
fn plain(socket: &OwnedFd, name: &str) -> Step<()> {
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    const CHECKSUMS: u32 = 0x17;
    const SCATTER: u32 = 0x19;
    const SEGMENTATION: u32 = 0x1f;
    const UNCUT: u32 = 0x24;
    for command in [SEGMENTATION, UNCUT, SCATTER, CHECKSUMS] {
        let mut value = Value { command, data: 0 };
        let mut off = request(name)?;
        off.ifr_ifru.ifru_data = (&raw mut value).cast();
        set(socket, libc::SIOCETHTOOL as libc::Ioctl, &mut off, || {
            format!("turn the offload {command:#x} of {name} off")
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_holds_a_burst_to_a_slow_node() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("NOT RUN: needs root");
            return;
        }
        const LOOPBACK: u32 = 1;
        let packets = packets_at("lo", LOOPBACK, false).unwrap_or_else(|failure| {
            panic!("{failure:?}");
        });
        let bytes = nix::sys::socket::getsockopt(&packets, nix::sys::socket::sockopt::SndBuf);
        assert!(bytes.unwrap() >= SEND_BYTES as usize);
    }
}
