//! What of a run's frames is kept, as typed.

use crate::file::timetable::Names;
use crate::read::{At, Fields, Read, Sink};
use crate::tree::Node;
use schemars::JsonSchema;
use units::Bytes;

/// Which frames are kept in `capture.pcapng`; with no key, all.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Capture {
    /// Groups or nodes whose frames are kept; all unless given.
    pub nodes: Option<At<Names>>,
    /// Networks whose frames are kept; all unless given.
    pub networks: Option<At<Names>>,
    /// Frames that are kept, as for tcpdump, e.g. `tcp port 1883`; all unless given.
    pub filter: Option<At<String>>,
    /// Bytes of each frame that are kept, from its first; all unless given.
    pub snap: Option<At<Bytes>>,
}

impl Read for Capture {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "a capture", sink)?;
        let capture = Self {
            nodes: fields.optional("nodes"),
            networks: fields.optional("networks"),
            filter: fields.optional("filter"),
            snap: fields.optional("snap"),
        };
        fields.finish();
        Some(capture)
    }
}
