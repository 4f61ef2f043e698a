//! File format: `expect` of a program.

use crate::limits::EXIT_STATUS;
use crate::problem::Problem;
use crate::program_metric::Stream;
use crate::read::{At, Fields, OneOrMore, Read, Sink};
use crate::tree::{Content, Node};
use schemars::JsonSchema;
use units::Span;

/// What a program must do; otherwise the run is `failed`.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ProgramExpect {
    /// Exit statuses that mean success. Default: 0.
    pub exit: Option<At<OneOrMore<At<ExitStatus>>>>,
    /// What a line of the standard output must have; each of a list in some line.
    pub output: Option<At<OneOrMore<OutputExpect>>>,
    /// The program must end by itself within this time from its start.
    pub within: Option<At<Span>>,
}

impl Read for ProgramExpect {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "what a program must do", sink)?;
        let expect = Self {
            exit: fields.optional("exit"),
            output: fields.optional("output"),
            within: fields.optional("within"),
        };
        fields.finish();
        Some(expect)
    }
}

/// An exit status of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExitStatus(pub i32);

impl Read for ExitStatus {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let status = u32::read(node, sink)?;
        if !EXIT_STATUS.contains(&status) {
            let (first, last) = (EXIT_STATUS.start(), EXIT_STATUS.end());
            let problem = Problem::new(format!("{status} is not an exit status")).at(node.place);
            sink.add(problem.label(format!("exit statuses are {first} to {last}")));
            return None;
        }
        i32::try_from(status).ok().map(Self)
    }
}

/// What a line of a program's output must have: a text, or the keys.
#[derive(Debug)]
pub(crate) struct OutputExpect(pub OutputKeys);

/// What a line of a program's output must have: `contains` or `matches`.
#[derive(Debug, Default, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct OutputKeys {
    /// Text that a line contains.
    pub contains: Option<At<String>>,
    /// Regular expression that a line matches.
    pub matches: Option<At<String>>,
    /// Output with the line. Default: `stdout`.
    pub from: Option<At<Stream>>,
}

impl Read for OutputExpect {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        if let Content::Scalar(text) = &node.content {
            let contains = Some(At { value: text.clone(), place: node.place });
            return Some(Self(OutputKeys { contains, ..OutputKeys::default() }));
        }
        let mut fields = Fields::of(node, "a text, or a condition on output", sink)?;
        let keys = OutputKeys {
            contains: fields.optional("contains"),
            matches: fields.optional("matches"),
            from: fields.optional("from"),
        };
        fields.finish();
        Some(Self(keys))
    }
}
