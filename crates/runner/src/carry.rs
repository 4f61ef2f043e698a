//! Which way frames go between nodes and medium in a run.

use crate::error::Error;
use lab::Link;
use medium::{Carrier, FramePath, Tap};
use std::os::fd::OwnedFd;

/// What nodes' interfaces are to be made of: what `asked` needs, else the best. With
/// netem they are veth pairs, since frames to a node have no queue at a TAP.
pub(crate) fn link(asked: Option<FramePath>, netem: bool) -> Link {
    match asked {
        _ if netem => Link::Veth,
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
    netem: bool,
) -> Result<(Carrier, Option<String>), Error> {
    let failed = Error::io("take over the nodes' interfaces");
    let (carrier, why) = match link {
        Link::Veth => {
            let why = std::io::Error::other(match netem {
                true => "a network has `backend: netem`, which needs veth pairs",
                false => "/dev/net/tun could not be opened",
            });
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
