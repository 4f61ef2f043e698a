//! File format: frame capture.

use crate::file::timetable::Names;
use crate::read::{At, Fields, Read, Sink};
use crate::tree::Node;
use schemars::JsonSchema;
use units::Bytes;

/// Frames to write to `capture.pcapng`; without keys, all frames.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Capture {
    /// Nodes whose frames to capture. Values: group or node, or a list of these. Default: all.
    pub nodes: Option<At<Names>>,
    /// Networks to capture. Values: network, or a list of networks. Default: all.
    pub networks: Option<At<Names>>,
    /// Capture filter in tcpdump's syntax, such as `tcp port 1883`. Use addresses, not node names.
    /// Default: all frames.
    pub filter: Option<At<String>>,
    /// Snapshot length: bytes of each frame to keep, from its first byte. Range: 14 B or more.
    /// Default: the whole frame.
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
