//! Real hardware behind an interface of the host, for a network of the lab.
//!
//! The interface stays in the host and is not changed, except for promiscuous mode while the socket
//! is open, which the kernel ends with the socket. So nothing needs to be restored, however the
//! tool ends.

use crate::error::Error;
use crate::failure::Failure;
use crate::interface::{request, set, socket};
use crate::veth::{index, packets_at};
use nix::errno::Errno;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};

/// Opens a packet socket at the host's interface `name`, which receives and sends all frames of the
/// hardware behind it.
///
/// # Errors
/// When the interface does not exist, is down, is used by the host, merges frames, or is not
/// accessible to this user.
pub fn attach(name: &str) -> Result<OwnedFd, Error> {
    let wrong = |why: String, fix: String| Error::Hardware { interface: name.to_owned(), why, fix };
    let failed = |failure: Failure| {
        let fix = match failure.errno {
            libc::EPERM | libc::EACCES => "run as root: only root can use hardware",
            libc::ENODEV => "",
            _ => "see its driver's messages with `dmesg | tail`",
        };
        match failure.errno {
            libc::ENODEV => {
                wrong("the interface does not exist on this machine".to_owned(), there_are())
            }
            _ => wrong(failure.to_string(), fix.to_owned()),
        }
    };
    let ioctls = socket().map_err(failed)?;
    let number = index(&ioctls, name).map_err(failed)?;
    let flags = flags(&ioctls, name).map_err(failed)?;
    if flags & libc::IFF_LOOPBACK != 0 {
        return Err(wrong("it is not a hardware interface".to_owned(), there_are()));
    }
    if flags & libc::IFF_UP == 0 {
        return Err(wrong("it is down".to_owned(), format!("ip link set {name} up")));
    }
    if let Some(address) = address(&ioctls, name) {
        let why = format!("the host uses it with the address {address}");
        let fix = format!(
            "the host would answer, too; to remove the address: ip addr flush dev \
                            {name}"
        );
        return Err(wrong(why, fix));
    }
    if merges_frames(&ioctls, name) {
        let why = "it merges TCP frames into longer ones (GRO or LRO), which the network would \
                   not carry";
        return Err(wrong(why.to_owned(), format!("ethtool -K {name} gro off lro off")));
    }
    let packets = packets_at(name, number, true).map_err(failed)?;
    set_promiscuous(&packets, number)
        .map_err(|errno| failed(Failure::of("enable promiscuous mode", errno)))?;
    Ok(packets)
}

fn there_are() -> String {
    let names = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut names: Vec<_> =
        names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    format!("interfaces: {}", names.join(", "))
}

fn flags(ioctls: &OwnedFd, name: &str) -> Result<libc::c_int, Failure> {
    let mut flags = request(name)?;
    set(ioctls, libc::SIOCGIFFLAGS, &mut flags, || format!("read the flags of {name}"))?;
    // SAFETY: the call above has set the flags.
    Ok(libc::c_int::from(unsafe { flags.ifr_ifru.ifru_flags }))
}

/// The host's IPv4 address there, if it has one.
fn address(ioctls: &OwnedFd, name: &str) -> Option<Ipv4Addr> {
    let mut address = request(name).ok()?;
    set(ioctls, libc::SIOCGIFADDR, &mut address, String::new).ok()?;
    // SAFETY: the call above has set an address; its type has all fields of IPv4.
    let bytes = unsafe { address.ifr_ifru.ifru_addr.sa_data };
    Some(Ipv4Addr::new(bytes[2] as u8, bytes[3] as u8, bytes[4] as u8, bytes[5] as u8))
}

/// Whether generic receive offload is on. A driver without support for it has none.
fn merges_frames(ioctls: &OwnedFd, name: &str) -> bool {
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    // ETHTOOL_GGRO of linux/ethtool.h.
    const GET_JOINING: u32 = 0x2b;
    let mut value = Value { command: GET_JOINING, data: 0 };
    let Ok(mut request_data) = request(name) else { return false };
    request_data.ifr_ifru.ifru_data = (&raw mut value).cast();
    let result = set(ioctls, libc::SIOCETHTOOL as libc::Ioctl, &mut request_data, String::new);
    result.is_ok() && value.data != 0
}

/// Receives frames for other addresses, too, while the socket is open.
fn set_promiscuous(packets: &OwnedFd, number: u32) -> Result<(), Errno> {
    // SAFETY: an all-zero request is valid, and it lives over the call.
    unsafe {
        let mut request_data: libc::packet_mreq = std::mem::zeroed();
        request_data.mr_ifindex = number as i32;
        request_data.mr_type = libc::PACKET_MR_PROMISC as libc::c_ushort;
        let set = libc::setsockopt(
            packets.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            (&raw const request_data).cast(),
            size_of::<libc::packet_mreq>() as u32,
        );
        Errno::result(set).map(drop)
    }
}
