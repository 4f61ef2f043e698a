//! Live capture: streams frames to a control client.

use super::links::LinkApi;
use super::{Reply, Request};
use crate::bed::select;
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
const WRITE_TIMEOUT: Duration = Duration::from_secs(600);

impl LinkApi {
    /// Replies to a capture request and starts to stream frames.
    pub(super) fn capture(&self, request: &Request, client: &UnixStream) -> Result<(), String> {
        let Request::Capture { nodes, network, filter, snap } = request else {
            return Err("this request is not for captures".to_owned());
        };
        // Locked to the end, so that no node is added before the capture watches.
        let inventory = self.inventory.lock();
        let named = |node: &usize| inventory.plan.nodes[*node].name.clone();
        let all = || inventory.present().collect();
        let requested = if nodes.is_empty() { all() } else { inventory.find(nodes)? };
        let networks = inventory.plan.networks.iter().map(|network| network.name.as_str());
        if let Some(name) = network.as_ref().filter(|name| inventory.plan.network(name).is_none()) {
            let known = networks.collect::<Vec<_>>().join(", ");
            return Err(format!("no network has the name `{name}`; the networks are {known}"));
        }
        let planned = PlannedCapture {
            nodes: requested.iter().map(named).collect(),
            networks: network.iter().cloned().collect(),
            filter: filter.clone(),
            snap: *snap,
        };
        let selection =
            select(&inventory.plan, &planned, &inventory.owners).map_err(|e| e.to_string())?;
        let links = selection.links.iter().flatten().flatten().filter(|link| **link).count();
        if links == 0 {
            return Err("none of these nodes is attached to this network".to_owned());
        }
        let begun = (|| {
            let mut sink = client.try_clone()?;
            let answer = serde_json::to_string(&Reply::Frames { links })?;
            // The reply goes first: the client takes all that follows it for pcapng.
            sink.set_write_timeout(Some(WRITE_TIMEOUT))?;
            writeln!(sink, "{answer}")?;
            Ok(BufWriter::with_capacity(ROOM, ClientStream(sink)))
        })();
        let sink = begun.map_err(|error: io::Error| error.to_string())?;
        let label = Path::new("for a client");
        let capture =
            Capture::to(sink, label, &inventory.names, selection).map_err(|e| e.to_string())?;
        self.remote.with_observer(|accounting: &mut Accounting| accounting.watch(capture));
        Ok(())
    }
}

/// The stream to a client, which sends nothing more.
struct ClientStream(UnixStream);

impl Write for ClientStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    /// Nothing is buffered here; detects a disconnected client even without frames.
    fn flush(&mut self) -> io::Result<()> {
        let look = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        match recv(self.0.as_raw_fd(), &mut [0], look) {
            // End of file: the client has closed its end, although a write might still succeed.
            Ok(0) => Err(io::ErrorKind::BrokenPipe.into()),
            _ => Ok(()),
        }
    }
}
