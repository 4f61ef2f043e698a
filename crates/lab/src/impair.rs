//! Links that the kernel's netem impairs, in a lab that is up.

use crate::cgroup::Limits;
use crate::error::Error;
use crate::netem::{Netem, Passed};
use crate::nodes::{Lab, Member};
use crate::wire::{FromInit, Interface, Link, NodeSpec, Setting, ToInit, Way, pair, receive, send};
use nix::sys::socket::MsgFlags;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::path::Path;

impl Lab {
    /// Has the kernel's netem impair one way of a link of `node`, `interface` being
    /// its place among the node's. The lab's links must be [`Link::Veth`], since
    /// frames to a node have no queue at a TAP; and packet sockets go past netem
    /// as long as their PACKET_QDISC_BYPASS is on.
    ///
    /// # Errors
    /// When the kernel has no netem, or refuses what is asked.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn impair(
        &self,
        node: usize,
        interface: usize,
        way: Way,
        netem: &Netem,
    ) -> Result<(), Error> {
        let netem = Box::new(netem.clone());
        self.ask_init(node, &ToInit::Impair { interface, way, netem }).map(drop)
    }

    /// What netem has done there since.
    ///
    /// # Errors
    /// When the kernel does not say, or nothing was impaired.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn passed(&self, node: usize, interface: usize, way: Way) -> Result<Passed, Error> {
        match self.ask_init(node, &ToInit::Passed { interface, way })? {
            FromInit::Passed(passed) => Ok(passed),
            _ => Err(Error::Gone { who: "the init that reads netem's counters".to_owned() }),
        }
    }

    /// Asks a node's init and takes its answer, which comes at a socket of its own:
    /// what happens in the node meanwhile goes its way.
    fn ask_init(&self, node: usize, message: &ToInit) -> Result<FromInit, Error> {
        let gone = || Error::Gone { who: format!("the init of {}", self.names[node]) };
        let (ours, theirs) = pair().map_err(Error::io("create a socket for an answer"))?;
        send(&self.sockets[node], message, &[theirs.as_raw_fd()])
            .map_err(Error::io("send to the init of a node"))?;
        drop(theirs);
        let answer = receive(&ours, MsgFlags::empty());
        match answer.map_err(Error::io("receive from the init of a node"))?.ok_or_else(gone)? {
            (FromInit::Failed(failure), _) => Err(Error::Impair(failure)),
            (answer, _) => Ok(answer),
        }
    }
}

/// Whether this machine's kernel has netem, tried at both ends of a link of a node
/// that is made for it. `tool` is as for [`Lab::up`].
///
/// # Errors
/// What stood in the way.
pub fn try_netem(tool: &Path) -> Result<(), Error> {
    let interface = Interface {
        name: "eth0".into(),
        mac: [2, 0, 10, 0, 0, 1],
        address: Ipv4Addr::new(10, 0, 0, 1),
        prefix: 24,
        mtu: 1500,
        super_frames: false,
        neighbours: Vec::new(),
    };
    let spec =
        NodeSpec { name: "netem".into(), interfaces: vec![interface], setting: Setting::default() };
    let member = Member { spec, limits: Limits::default() };
    let (lab, _ends) = Lab::up(tool, &[member], "127.0.0.1 localhost\n", Link::Veth)?;
    let netem = Netem { limit: 1, ..Netem::default() };
    for way in [Way::Up, Way::Down] {
        lab.impair(0, 0, way, &netem)?;
    }
    Ok(())
}
