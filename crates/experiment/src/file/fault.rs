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
    /// Groups or nodes whose programs are all killed at once.
    pub kill: Option<At<Names>>,
    /// Groups or nodes whose `run` program is terminated.
    pub stop: Option<At<Names>>,
    /// Groups or nodes whose `run` program is started, if it is not running.
    pub start: Option<At<Names>>,
    /// Groups or nodes whose `run` program is terminated and started again.
    pub restart: Option<At<Names>>,
    /// Groups or nodes whose programs are all frozen.
    pub pause: Option<At<Names>>,
    /// Groups or nodes whose programs all resume after a pause.
    pub resume: Option<At<Names>>,
    /// Time until the program starts again, after `kill` and `stop`, or resumes, after `pause`.
    /// Default: never.
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
