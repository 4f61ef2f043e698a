//! File format: fault injection into nodes' programs.

use crate::file::timetable::Names;
use crate::read::{At, Fields, Read, Sink};
use crate::tree::Node;
use schemars::JsonSchema;
use units::Span;

/// One fault: a time, and one of `kill`, `stop`, `start`, `restart` and `pause`.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Fault {
    /// Time of the fault, from the start of the schedules.
    #[schemars(required)]
    pub at: Option<At<Span>>,
    /// All programs of these nodes get SIGKILL. Values: group or node, or a list of these.
    pub kill: Option<At<Names>>,
    /// The nodes' own program, `run`, gets SIGTERM. Values: group or node, or a list of these.
    pub stop: Option<At<Names>>,
    /// The program `run` starts, unless it still runs. Values: group or node, or a list of these.
    pub start: Option<At<Names>>,
    /// The program `run` gets SIGTERM, and starts again when it has ended. Values: group or node,
    /// or a list of these.
    pub restart: Option<At<Names>>,
    /// All programs of these nodes stop (SIGSTOP). A program that is still paused when the run ends
    /// continues, to handle its SIGTERM. Values: group or node, or a list of these.
    pub pause: Option<At<Names>>,
    /// All programs of these nodes continue after a pause (SIGCONT). Values: group or node, or a
    /// list of these.
    pub resume: Option<At<Names>>,
    /// After `kill` and `stop`: time until `run` starts again; after `pause`: time until the
    /// programs continue. Default: to the end.
    pub lasts: Option<At<Span>>,
}

impl Fault {
    /// The kinds of fault with their targets.
    pub fn kinds(&self) -> [(&'static str, &Option<At<Names>>); 6] {
        [
            ("kill", &self.kill),
            ("stop", &self.stop),
            ("start", &self.start),
            ("restart", &self.restart),
            ("pause", &self.pause),
            ("resume", &self.resume),
        ]
    }
}

impl Read for Fault {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "a fault", sink)?;
        let fault = Self {
            at: fields.required("at"),
            kill: fields.optional("kill"),
            stop: fields.optional("stop"),
            start: fields.optional("start"),
            restart: fields.optional("restart"),
            pause: fields.optional("pause"),
            resume: fields.optional("resume"),
            lasts: fields.optional("lasts"),
        };
        fields.finish();
        Some(fault)
    }
}
