//! What befalls nodes' programs while a run goes on, as typed.

use crate::file::timetable::Names;
use crate::read::{At, Fields, Read, Sink};
use crate::tree::Node;
use schemars::JsonSchema;
use units::Span;

/// One fault: a time, and one of `kill`, `stop`, `start`, `restart` and `pause`.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Fault {
    /// When, from the start of the schedules.
    #[schemars(required)]
    pub at: Option<At<Span>>,
    /// Groups or nodes of which all programs are killed at once.
    pub kill: Option<At<Names>>,
    /// Groups or nodes whose own program is asked to end.
    pub stop: Option<At<Names>>,
    /// Groups or nodes whose own program is started, if it does not run.
    pub start: Option<At<Names>>,
    /// Groups or nodes whose own program is asked to end, and started again.
    pub restart: Option<At<Names>>,
    /// Groups or nodes of which all programs stand still.
    pub pause: Option<At<Names>>,
    /// Groups or nodes of which all programs go on after a pause.
    pub resume: Option<At<Names>>,
    /// After what time the program starts again, after `kill` and `stop`, or goes
    /// on, after `pause`; never unless given.
    pub lasts: Option<At<Span>>,
}

impl Fault {
    /// The words that say what happens, and to whom.
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
