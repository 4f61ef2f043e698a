//! Tests what this machine can do, with a temporary node.

use crate::cgroup::Limits;
use crate::emulator::Emulator;
use crate::error::Error;
use crate::netem::Netem;
use crate::netlink::{Message, NESTED, ask};
use crate::nodes::{Lab, Member};
use crate::wire::{Direction, Interface, Link, NodeSpec, Root, Setting};
use nix::errno::Errno;
use std::path::Path;

/// Creates a node with one link of this kind and removes it. `tool` is as for [`Lab::up`].
///
/// # Errors
/// The failed step.
pub fn try_node(tool: &Path, link: Link) -> Result<(), Error> {
    temporary(tool, link, None).map(drop)
}

/// Tests whether this machine's kernel has netem, at both ends of a link of a temporary node.
/// `tool` is as for [`Lab::up`].
///
/// # Errors
/// The failed step.
pub fn try_netem(tool: &Path) -> Result<(), Error> {
    let lab = temporary(tool, Link::Veth, None)?;
    let netem = Netem { limit: 1, ..Netem::default() };
    for way in [Direction::Up, Direction::Down] {
        lab.nodes()[0].kind.impair(0, way, &netem)?;
    }
    Ok(())
}

/// Tests whether a node's machine can have a TAP in place of the node's interface. `tool` is as for
/// [`Lab::up`].
///
/// # Errors
/// The failed step.
pub fn try_machine(tool: &Path) -> Result<(), Error> {
    temporary(tool, Link::Veth, Some("tap0")).map(drop)
}

/// Whether this machine's kernel has interfaces of VLANs (`ip link add ... type vlan`). `None`: this user
/// may not ask it.
pub fn has_vlan_interfaces() -> Option<bool> {
    // Without the number of a VLAN, no kernel makes an interface: one with VLANs says that it is missing,
    // another that it does not know the type. The kernel loads the module `8021q` to answer.
    let mut message =
        Message::new(libc::RTM_NEWLINK, libc::NLM_F_ACK | libc::NLM_F_CREATE, &[0; 16]);
    let info = message.begin(libc::IFLA_LINKINFO | NESTED);
    message.bytes(libc::IFLA_INFO_KIND, b"vlan");
    message.end(info);
    match ask(&message.finish()) {
        Err(Errno::EINVAL) => Some(true),
        Err(Errno::EOPNOTSUPP) => Some(false),
        _ => None,
    }
}

/// Tests whether nodes with a separate root get separate users here, with a temporary node whose
/// root is a folder of this machine. `tool` is as for [`Lab::up`].
///
/// # Errors
/// The reason why not, as text.
pub fn try_own_users(tool: &Path) -> Result<(), String> {
    let lab = rooted(tool, None).map_err(|error| error.to_string())?;
    lab.same_users().map_or(Ok(()), |why| Err(why.to_owned()))
}

/// Tests whether a node can run programs by `emulator`. `tool` is as for [`Lab::up`].
///
/// # Errors
/// The failed step.
pub fn try_emulator(tool: &Path, emulator: &Emulator) -> Result<(), Error> {
    rooted(tool, Some(emulator.clone())).map(drop)
}

/// A lab of one node without links, whose root is a folder of this machine.
fn rooted(tool: &Path, emulator: Option<Emulator>) -> Result<Lab, Error> {
    // Not `/`: an ordinary user cannot mount an overlay whose changes are below it.
    let root = Root { lower: "/usr".into(), cwd: "/".to_owned(), emulator, ..Root::default() };
    let setting = Setting { root: Some(root), ..Setting::default() };
    one_node(tool, NodeSpec { name: "trial".into(), interfaces: Vec::new(), setting }, Link::Tap)
}

/// A lab of one node with one link.
fn temporary(tool: &Path, link: Link, tap: Option<&str>) -> Result<Lab, Error> {
    let interface = Interface {
        name: "eth0".into(),
        mac: [2, 0, 10, 0, 0, 1],
        addresses: if tap.is_some() { Vec::new() } else { vec![([10, 0, 0, 1].into(), 24)] },
        mtu: 1500,
        offload: false,
        neighbours: Vec::new(),
        is_advertised: false,
        advertised: None,
        tap: tap.map(str::to_owned),
        tun: None,
        is_port: false,
    };
    let spec =
        NodeSpec { name: "trial".into(), interfaces: vec![interface], setting: Setting::default() };
    one_node(tool, spec, link)
}

fn one_node(tool: &Path, spec: NodeSpec, link: Link) -> Result<Lab, Error> {
    let member = Member { spec, limits: Limits::default() };
    Lab::up(tool, &[member], "127.0.0.1 localhost\n", link).map(|(lab, _)| lab)
}
