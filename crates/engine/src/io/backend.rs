//! The frame backend in use: one of the three frame paths.

use super::packet::DropCounters;
use super::{Attach, FrameIo, Packet, Received, Ring, Tallies, Taps, Waker};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;
use units::Instant;

/// How frames travel between nodes and the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FramePath {
    /// From veth pairs by a BPF program into one shared ring; to them by packet sockets.
    Ring,
    /// TAP devices, read and written.
    Tap,
    /// Packet sockets at the other ends of veth pairs.
    Packet,
}

impl FramePath {
    /// All paths, the fastest first.
    pub const ALL: [Self; 3] = [Self::Ring, Self::Tap, Self::Packet];

    /// Name of the path, as in `run.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Tap => "tap",
            Self::Packet => "packet",
        }
    }

    /// The path with this name, if any.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|path| path.name() == name)
    }
}

/// The frame backend in use.
#[derive(Debug)]
pub enum FrameBackend {
    /// BPF ring.
    Ring(Box<Ring>),
    /// TAPs only.
    Taps(Taps),
    /// Packet sockets.
    Packet(Packet),
}

impl FrameBackend {
    /// Uses veth pairs and a BPF ring: see [`Ring::new`].
    ///
    /// # Errors
    /// If the kernel does not support it or this user has no permission.
    pub fn over_ring(
        ends: Vec<impl Into<Option<OwnedFd>>>,
        first: u32,
        attach: Attach,
    ) -> io::Result<Self> {
        Ok(Self::Ring(Box::new(Ring::new(ends, first, attach)?)))
    }

    /// Uses TAPs.
    ///
    /// # Errors
    /// If there are too many open files.
    pub fn over_taps(taps: Vec<impl Into<Option<OwnedFd>>>) -> io::Result<Self> {
        Ok(Self::Taps(Taps::new(taps)?))
    }

    /// Uses packet sockets.
    ///
    /// # Errors
    /// If their rings cannot be set up.
    pub fn over_packets(sockets: Vec<impl Into<Option<OwnedFd>>>) -> io::Result<Self> {
        Ok(Self::Packet(Packet::new(sockets)?))
    }

    /// Frame path of this backend.
    pub fn path(&self) -> FramePath {
        match self {
            Self::Ring(_) => FramePath::Ring,
            Self::Taps(_) => FramePath::Tap,
            Self::Packet(_) => FramePath::Packet,
        }
    }
}

/// Frames that an interface has sent and that were dropped behind it: its own counters do
/// not include them. Readable from any thread.
#[derive(Debug)]
pub struct Refused(Vec<Counter>);

#[derive(Debug)]
enum Counter {
    /// Counted by the BPF program.
    Ring(Tallies),
    /// Counted by the packet sockets.
    Packet(DropCounters),
}

impl Refused {
    /// Those behind the ports of all `backends`, one per thread.
    ///
    /// # Errors
    /// If there are too many open files.
    pub fn of(backends: &[FrameBackend]) -> io::Result<Self> {
        let counter = |backend: &FrameBackend| {
            Ok(match backend {
                FrameBackend::Ring(ring) => Some(Counter::Ring(ring.tallies())),
                // A TAP counts them itself, as dropped.
                FrameBackend::Taps(_) => None,
                FrameBackend::Packet(packet) => Some(Counter::Packet(packet.overruns()?)),
            })
        };
        let counters = backends.iter().filter_map(|backend| counter(backend).transpose());
        Ok(Self(counters.collect::<io::Result<_>>()?))
    }

    /// Dropped frames per port so far; empty if there is nothing to add.
    pub fn read(&self) -> Vec<u64> {
        let mut all = Vec::new();
        for counter in &self.0 {
            let own = match counter {
                Counter::Ring(tallies) => tallies.refused(),
                Counter::Packet(drops) => drops.read(),
            };
            all.resize(own.len().max(all.len()), 0);
            all.iter_mut().zip(own).for_each(|(sum, dropped)| *sum += dropped);
        }
        all
    }
}

impl FrameIo for FrameBackend {
    fn waker(&self) -> Waker {
        match self {
            Self::Ring(ring) => ring.waker(),
            Self::Taps(taps) => taps.waker(),
            Self::Packet(packet) => packet.waker(),
        }
    }

    fn wait(&mut self, now: Instant, until: Option<Instant>) -> io::Result<()> {
        match self {
            Self::Ring(ring) => ring.wait(now, until),
            Self::Taps(taps) => taps.wait(now, until),
            Self::Packet(packet) => packet.wait(now, until),
        }
    }

    fn can_doze(&self) -> bool {
        match self {
            Self::Ring(ring) => ring.can_doze(),
            Self::Taps(taps) => taps.can_doze(),
            Self::Packet(packet) => packet.can_doze(),
        }
    }

    fn doze(&mut self, now: Instant, until: Instant) -> io::Result<()> {
        match self {
            Self::Ring(ring) => ring.doze(now, until),
            Self::Taps(taps) => taps.doze(now, until),
            Self::Packet(packet) => packet.doze(now, until),
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Option<Received> {
        match self {
            Self::Ring(ring) => ring.receive(buffer),
            Self::Taps(taps) => taps.receive(buffer),
            Self::Packet(packet) => packet.receive(buffer),
        }
    }

    fn send(&mut self, port: usize, frame: &[u8]) -> bool {
        match self {
            Self::Ring(ring) => ring.send(port, frame),
            Self::Taps(taps) => taps.send(port, frame),
            Self::Packet(packet) => packet.send(port, frame),
        }
    }

    fn attach(&mut self, end: Option<OwnedFd>) -> io::Result<usize> {
        match self {
            Self::Ring(ring) => ring.attach(end),
            Self::Taps(taps) => taps.attach(end),
            Self::Packet(packet) => packet.attach(end),
        }
    }

    fn detach(&mut self, port: usize) -> Option<OwnedFd> {
        match self {
            Self::Ring(ring) => ring.detach(port),
            Self::Taps(taps) => taps.detach(port),
            Self::Packet(packet) => packet.detach(port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_run_folder() {
        for path in FramePath::ALL {
            assert_eq!(FramePath::from_name(path.name()), Some(path));
            let json = serde_json::to_string(&path).unwrap();
            assert_eq!(json, format!("\"{}\"", path.name()));
        }
        assert_eq!(FramePath::from_name("tin can"), None);
    }
}
