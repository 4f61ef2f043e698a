//! Selects the frame path between the nodes and the medium.

use crate::error::Error;
use engine::{Attach, FrameBackend, FramePath, Ring};
use experiment::Plan;
use lab::{Lab, Link, Ports};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The type of the nodes' interfaces, and why the fastest path is not in use, if so.
pub(crate) struct SelectedPath {
    pub link: Link,
    /// Whether packet sockets have headers before the frames, which their rings do not support.
    offload: bool,
    requested: Option<FramePath>,
    why: Option<String>,
}

impl SelectedPath {
    /// Selects the path that `plan` needs, else the one `requested` for, else the fastest that works
    /// here.
    pub(crate) fn of(plan: &Plan, requested: Option<FramePath>) -> Result<Self, Error> {
        let offload = plan.networks.iter().any(|network| network.offload);
        let by = |link, why: Option<String>| Self { link, offload, requested, why };
        // A lab has one kind of link for all nodes, so one such network or node decides for all.
        if let Some(why) = needs_packets(plan) {
            return match requested.filter(|path| *path != FramePath::Packet) {
                Some(path) => Err(refused(path, why.to_owned())),
                None => Ok(by(Link::Veth, Some(why.to_owned()))),
            };
        }
        Ok(match requested {
            Some(FramePath::Packet) => by(Link::Veth, None),
            Some(FramePath::Tap) => by(Link::Tap, None),
            Some(FramePath::Ring) => match can_have_ring() {
                Ok(()) => by(Link::Bpf, None),
                Err(error) => return Err(refused(FramePath::Ring, error.to_string())),
            },
            None => match can_have_ring() {
                Ok(()) => by(Link::Bpf, None),
                Err(error) if lab::can_have_taps() => by(Link::Tap, Some(error.to_string())),
                Err(_) => by(Link::Veth, Some("/dev/net/tun could not be opened".to_owned())),
            },
        })
    }

    /// Builds a frame backend for each thread of the engine, from the lab's descriptors as in
    /// [`engine::Threads::split`].
    pub(crate) fn backends(
        &self,
        lab: &mut Lab,
        ends: Vec<Vec<Option<OwnedFd>>>,
    ) -> Result<Vec<FrameBackend>, Error> {
        let ports = lab.ports().map(Arc::new);
        ends.into_iter().map(|ends| self.backend(ports.clone(), ends)).collect()
    }

    fn backend(
        &self,
        ports: Option<Arc<Ports>>,
        ends: Vec<Option<OwnedFd>>,
    ) -> Result<FrameBackend, Error> {
        let failed = Error::io("take over the nodes' interfaces");
        match self.link {
            // Rings of packet sockets have no header in front of frames: read one by one, as TAPs.
            Link::Veth if self.offload => FrameBackend::over_taps(ends),
            Link::Veth => FrameBackend::over_packets(ends),
            Link::Tap => FrameBackend::over_taps(ends),
            Link::Bpf => {
                let attach = Attach::by(move |number, program| match &ports {
                    Some(ports) => ports.attach(number, program),
                    None => Err(std::io::Error::other("another process has taken over the lab")),
                });
                // The number of an interface identifies its port (decision 38), from this one on.
                FrameBackend::over_ring(ends, lab::FIRST_INTERFACE, attach)
            }
        }
        .map_err(failed)
    }

    /// The frame path of the backends.
    pub(crate) fn frame_path(&self) -> FramePath {
        match self.link {
            Link::Veth if self.offload => FramePath::Tap,
            Link::Veth => FramePath::Packet,
            Link::Tap => FramePath::Tap,
            Link::Bpf => FramePath::Ring,
        }
    }

    /// Why this path is in use, if it is not the fastest or was requested.
    pub(crate) fn why(&self) -> Option<String> {
        self.why.clone().or(self.requested.map(|_| "requested by THINGBED_FRAME_PATH".to_owned()))
    }
}

/// Checks whether this user on this kernel can use the fastest path.
///
/// # Errors
/// The reason why not.
pub fn can_have_ring() -> std::io::Result<()> {
    Ring::try_out(lab::Ports::try_out)
}

fn refused(path: FramePath, why: String) -> Error {
    Error::FramePath { path: path.name(), source: std::io::Error::other(why) }
}

/// Why `plan` requires packet sockets, if it does.
fn needs_packets(plan: &Plan) -> Option<&'static str> {
    if crate::bed::netem::is_used(plan) {
        // A TAP has no queue for frames to a node, nor for frames that a program sends back.
        return Some("a network has `backend: netem`, which needs veth pairs");
    }
    let hardware = crate::bed::hardware::is_used(plan);
    hardware.then_some("a node is real hardware, which needs a packet socket")
}
