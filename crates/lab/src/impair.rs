//! Impairs links of a running lab with the kernel's netem.

use crate::cgroup::Limits;
use crate::error::Error;
use crate::netem::{Netem, Passed};
use crate::nodes::{Lab, Member};
use crate::wire::{
    Direction, FromInit, Interface, Link, NodeSpec, Setting, ToInit, pair, receive, send,
};
use nix::sys::socket::MsgFlags;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::path::Path;

impl Lab {
    /// Impairs one direction of a link of `node` with netem; `interface` is its index among the
    /// node's. The lab's links must be [`Link::Veth`], because frames to a node have no queue at a
    /// TAP. Packet sockets bypass netem while their PACKET_QDISC_BYPASS is on.
    ///
    /// # Errors
    /// When the kernel has no netem, or refuses the configuration.
    ///
    /// # Panics
    /// When the node does not exist.
    pub fn impair(
        &self,
        node: usize,
        interface: usize,
        way: Direction,
        netem: &Netem,
    ) -> Result<(), Error> {
        let netem = Box::new(netem.clone());
        self.ask_init(node, &ToInit::Impair { interface, way, netem }).map(drop)
    }

    /// Netem's counters of that link direction.
    ///
    /// # Errors
    /// When the kernel does not return them, or the link was not impaired.
    ///
    /// # Panics
    /// When the node does not exist.
    pub fn passed(&self, node: usize, interface: usize, way: Direction) -> Result<Passed, Error> {
        match self.ask_init(node, &ToInit::Passed { interface, way })? {
            FromInit::Passed(passed) => Ok(passed),
            _ => Err(Error::Gone { who: "the init that reads netem's counters".to_owned() }),
        }
    }

    /// Sends a request to a node's init and waits for its reply on a separate socket; other events
    /// of the node are not affected.
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

/// Tests whether this machine's kernel has netem, at both ends of a link of a temporary node.
/// `tool` is as for [`Lab::up`].
///
/// # Errors
/// The failed step.
pub fn try_netem(tool: &Path) -> Result<(), Error> {
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
        NodeSpec { name: "netem".into(), interfaces: vec![interface], setting: Setting::default() };
    let member = Member { spec, limits: Limits::default() };
    let (lab, _ends) = Lab::up(tool, &[member], "127.0.0.1 localhost\n", Link::Veth)?;
    let netem = Netem { limit: 1, ..Netem::default() };
    for way in [Direction::Up, Direction::Down] {
        lab.impair(0, 0, way, &netem)?;
    }
    Ok(())
}
