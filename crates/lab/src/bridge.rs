//! Bridges of the kernel in a node.

use crate::failure::Failure;
use crate::interface::{self, Step, disable_ipv6, request, set, socket};
use crate::netlink::{Message, NESTED, ask};
use crate::veth::index;
use crate::wire::{Bridge, Interface};
use nix::errno::Errno;
use std::os::fd::{AsRawFd, OwnedFd};

/// SIOCBRADDBR and SIOCBRADDIF of linux/sockios.h.
const ADD_BRIDGE: libc::Ioctl = 0x89a0;
const ADD_PORT: libc::Ioctl = 0x89a2;

/// An option of a bridge: an attribute of IFLA_INFO_DATA (linux/if_link.h) and its value.
pub(crate) struct BridgeOption {
    attribute: u16,
    value: Vec<u8>,
}

/// No multicast snooping: with it, a bridge reports a group (224.0.0.106, RFC 4286) to the network,
/// and keeps multicast from ports whose members it has not heard.
pub(crate) fn no_snooping() -> BridgeOption {
    BridgeOption { attribute: 23, value: vec![0] }
}

fn stp() -> BridgeOption {
    BridgeOption { attribute: 5, value: 1_u32.to_ne_bytes().into() }
}

/// Creates and configures the bridge of a node, whose interfaces exist.
pub(crate) fn set_up(bridge: &Bridge, interfaces: &[Interface]) -> Step<()> {
    let (socket, name) = (socket()?, &bridge.interface.name);
    create(&socket, name)?;
    let mut options = vec![no_snooping()];
    options.extend(bridge.stp.then(stp));
    set_options(name, &options)?;
    for port in interfaces.iter().filter(|interface| interface.is_port) {
        add_port(&socket, name, &port.name)?;
        wait_for_carrier(&socket, &port.name)?;
    }
    // Last, because the bridge's MTU cannot be above that of its ports.
    interface::set_up(&bridge.interface)?;
    // With STP it has a carrier when a port forwards, half a minute later.
    if bridge.stp { Ok(()) } else { wait_for_carrier(&socket, name) }
}

/// Waits until the kernel has processed that the interface has a carrier, two seconds at most. A port
/// forwards only from then on, and the kernel processes such changes once in a second.
pub(crate) fn wait_for_carrier(socket: &OwnedFd, name: &str) -> Step<()> {
    const POLLS: u32 = 400;
    for _ in 0..POLLS {
        let mut flags = request(name)?;
        set(socket, libc::SIOCGIFFLAGS, &mut flags, || format!("read the flags of {name}"))?;
        // SAFETY: the call above has set the flags.
        if libc::c_int::from(unsafe { flags.ifr_ifru.ifru_flags }) & libc::IFF_RUNNING != 0 {
            break;
        }
        // Since Linux 6.8 this has the change of the interface processed at once.
        let mut link = [0; 16];
        link[4..8].copy_from_slice(&index(socket, name)?.to_ne_bytes());
        let _ = ask(&Message::new(libc::RTM_GETLINK, 0, &link).finish());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Ok(())
}

/// Creates a bridge without IPv6, ports and options.
pub(crate) fn create(socket: &OwnedFd, bridge: &str) -> Step<()> {
    let name = std::ffi::CString::new(bridge)
        .map_err(|_| Failure::of(format!("name a bridge {bridge}"), Errno::EINVAL))?;
    // SAFETY: the call reads the name, which lives over it.
    let made = unsafe { libc::ioctl(socket.as_raw_fd(), ADD_BRIDGE, name.as_ptr()) };
    Errno::result(made).map_err(|errno| {
        let hint = match errno {
            Errno::ENOPKG | Errno::EINVAL | Errno::ENOTTY => {
                " (nodes that are bridges or machines need a kernel with bridges: load the module \
                 `bridge`)"
            }
            _ => "",
        };
        Failure::of(format!("create the bridge {bridge}{hint}"), errno)
    })?;
    disable_ipv6(bridge);
    Ok(())
}

/// Adds an interface to a bridge.
pub(crate) fn add_port(socket: &OwnedFd, bridge: &str, port: &str) -> Step<()> {
    let number = index(socket, port)?;
    let mut add = request(bridge)?;
    add.ifr_ifru.ifru_ifindex = number as libc::c_int;
    set(socket, ADD_PORT, &mut add, || format!("add {port} to the bridge {bridge}"))
}

/// Sets options of a bridge.
pub(crate) fn set_options(bridge: &str, options: &[BridgeOption]) -> Step<()> {
    let mut link = [0; 16];
    link[4..8].copy_from_slice(&index(&socket()?, bridge)?.to_ne_bytes());
    let mut message = Message::new(libc::RTM_NEWLINK, libc::NLM_F_ACK, &link);
    let info = message.begin(libc::IFLA_LINKINFO | NESTED);
    message.bytes(libc::IFLA_INFO_KIND, b"bridge");
    let data = message.begin(libc::IFLA_INFO_DATA | NESTED);
    for option in options {
        message.bytes(option.attribute, &option.value);
    }
    message.end(data);
    message.end(info);
    ask(&message.finish())
        .map(drop)
        .map_err(|errno| Failure::of(format!("set the options of the bridge {bridge}"), errno))
}
