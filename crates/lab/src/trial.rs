//! Tests what this machine can do, with a temporary node.

use crate::cgroup::Limits;
use crate::error::Error;
use crate::netem::Netem;
use crate::nodes::{Lab, Member};
use crate::wire::{Direction, Interface, Link, NodeSpec, Setting};
use std::net::Ipv4Addr;
use std::path::Path;

/// Creates a node with one link of this kind and removes it. `tool` is as for [`Lab::up`].
///
/// # Errors
/// The failed step.
pub fn try_node(tool: &Path, link: Link) -> Result<(), Error> {
    temporary(tool, link).map(drop)
}

/// Tests whether this machine's kernel has netem, at both ends of a link of a temporary node.
/// `tool` is as for [`Lab::up`].
///
/// # Errors
/// The failed step.
pub fn try_netem(tool: &Path) -> Result<(), Error> {
    let lab = temporary(tool, Link::Veth)?;
    let netem = Netem { limit: 1, ..Netem::default() };
    for way in [Direction::Up, Direction::Down] {
        lab.nodes()[0].kind.impair(0, way, &netem)?;
    }
    Ok(())
}

/// A lab of one node.
fn temporary(tool: &Path, link: Link) -> Result<Lab, Error> {
    let interface = Interface {
        name: "eth0".into(),
        mac: [2, 0, 10, 0, 0, 1],
        address: Ipv4Addr::new(10, 0, 0, 1),
        prefix: 24,
        mtu: 1500,
        offload: false,
        neighbours: Vec::new(),
    };
    let spec =
        NodeSpec { name: "trial".into(), interfaces: vec![interface], setting: Setting::default() };
    let member = Member { spec, limits: Limits::default() };
    Lab::up(tool, &[member], "127.0.0.1 localhost\n", link).map(|(lab, _)| lab)
}
