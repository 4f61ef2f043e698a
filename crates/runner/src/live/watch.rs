//! Live capture: streams frames to a control client.

use super::links::Keeper;
use super::{Reply, Request};
use crate::capture::select;
use experiment::PlannedCapture;
use measure::{Accounting, Capture};
use nix::sys::socket::{MsgFlags, recv};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Write buffer, in bytes.
const ROOM: usize = 64 * 1024;
/// Write timeout of a client before it is disconnected. A stopped terminal may continue; frames
/// that do not fit meanwhile are counted as missing.
const PATIENCE: Duration = Duration::from_secs(600);

impl Keeper {
    /// Replies to a capture request and starts to stream frames.
    pub(super) fn capture(&self, request: &Request, visitor: &UnixStream) -> Result<(), String> {
        let Request::Capture { nodes, network, filter, snap } = request else {
            return Err("this request is not for captures".to_owned());
        };
        let roll = self.roll.lock();
        let named = |node: &usize| roll.plan.nodes[*node].name.clone();
        let all = || roll.present().collect();
        let wanted = if nodes.is_empty() { all() } else { roll.find(nodes)? };
        let networks = roll.plan.networks.iter().map(|network| network.name.as_str());
        if let Some(name) = network.as_ref().filter(|name| roll.plan.network(name).is_none()) {
            let known = networks.collect::<Vec<_>>().join(", ");
            return Err(format!("no network has the name `{name}`; the networks are {known}"));
        }
        let planned = PlannedCapture {
            nodes: wanted.iter().map(named).collect(),
            networks: network.iter().cloned().collect(),
            filter: filter.clone(),
            snap: *snap,
        };
        let selection = select(&roll.plan, &planned, &roll.owners).map_err(|e| e.to_string())?;
        let links = selection.links.iter().flatten().flatten().filter(|link| **link).count();
        if links == 0 {
            return Err("none of these nodes is attached to this network".to_owned());
        }
        let begun = (|| {
            let mut sink = visitor.try_clone()?;
            let answer = serde_json::to_string(&Reply::Frames { links })?;
            sink.set_write_timeout(Some(PATIENCE))?;
            writeln!(sink, "{answer}")?;
            Ok(BufWriter::with_capacity(ROOM, Visitor(sink)))
        })();
        let sink = begun.map_err(|error: io::Error| error.to_string())?;
        let label = Path::new("for a client");
        let capture =
            Capture::to(sink, label, &roll.names, selection).map_err(|e| e.to_string())?;
        self.remote.with_observer(|accounting: &mut Accounting| accounting.watch(capture));
        Ok(())
    }
}

/// The stream to a client, which sends nothing more.
struct Visitor(UnixStream);

impl Write for Visitor {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    /// Nothing is buffered here; detects a disconnected client even without frames.
    fn flush(&mut self) -> io::Result<()> {
        let look = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        match recv(self.0.as_raw_fd(), &mut [0], look) {
            Ok(0) => Err(io::ErrorKind::BrokenPipe.into()),
            _ => Ok(()),
        }
    }
}
