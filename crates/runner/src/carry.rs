//! Which way frames go between nodes and medium in a run.

use crate::error::Error;
use experiment::Plan;
use lab::Link;
use medium::{Carrier, FramePath, Tap};
use std::os::fd::OwnedFd;

/// Why frames of `plan` can only be carried by packet sockets, if so.
pub(crate) fn needs_packets(plan: &Plan) -> Option<&'static str> {
    if crate::netem::is_wanted(plan) {
        // Frames to a node have no queue at a TAP.
        return Some("a network has `backend: netem`, which needs veth pairs");
    }
    let hardware = crate::hardware::is_wanted(plan);
    hardware.then_some("a node is real hardware, which a packet socket leads to")
}

/// What nodes' interfaces are to be made of: what `asked` needs, else the best; veth
/// pairs where there are reasons for `packets`.
pub(crate) fn link(asked: Option<FramePath>, packets: Option<&str>) -> Link {
    match asked {
        _ if packets.is_some() => Link::Veth,
        Some(FramePath::Packet) => Link::Veth,
        Some(FramePath::Ring | FramePath::Tap) => Link::Tap,
        None => Link::best(),
    }
}

/// Takes over what the lab gave, where `uncut` says which links were to have
/// super-frames: by the way asked for, else by the fastest that
/// works. If that is not the fastest of all, also why.
pub(crate) fn carrier(
    ends: Vec<OwnedFd>,
    uncut: &[bool],
    link: Link,
    asked: Option<FramePath>,
    packets: Option<&str>,
) -> Result<(Carrier, Option<String>), Error> {
    let failed = Error::io("take over the nodes' interfaces");
    let (carrier, why) = match link {
        Link::Veth => {
            let why = packets.unwrap_or("/dev/net/tun could not be opened");
            let why = std::io::Error::other(why.to_owned());
            (Carrier::over_packets(ends).map_err(failed)?, Some(why))
        }
        Link::Tap => {
            let plain = asked == Some(FramePath::Tap);
            let taps = ends.into_iter().zip(uncut).map(|(fd, uncut)| Tap { fd, uncut: *uncut });
            Carrier::over_taps(taps.collect(), lab::FIRST_INTERFACE, plain).map_err(failed)?
        }
    };
    match (asked, why) {
        (Some(path), Some(source)) if path != carrier.path() => {
            Err(Error::FramePath { path: path.name(), source })
        }
        (Some(_), _) => Ok((carrier, Some("asked for".to_owned()))),
        (None, why) => Ok((carrier, why.map(|error| error.to_string()))),
    }
}
