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
    /// Groups or nodes to capture. Default: all.
    pub nodes: Option<At<Names>>,
    /// Networks to capture. Default: all.
    pub networks: Option<At<Names>>,
    /// Capture filter in tcpdump's syntax, e.g. `tcp port 1883`. Default: all frames.
    pub filter: Option<At<String>>,
    /// Snapshot length: bytes to keep of each frame. Default: the whole frame.
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
