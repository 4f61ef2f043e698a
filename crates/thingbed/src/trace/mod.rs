//! `thingbed trace`: generates, inspects and merges request traces.

mod files;
mod generate;
mod inspect;
mod merge;
mod shape;

pub(crate) use files::open;
pub(crate) use shape::{resources, trace_spec};

use crate::arguments::Trace;
use crate::{Status, complain};

/// Executes a subcommand of `trace`.
pub fn trace(what: &Trace) -> Status {
    let ended = match what {
        Trace::Generate(requested) => generate::generate(requested),
        Trace::Inspect(requested) => inspect::inspect(requested),
        Trace::Merge { files, out } => merge::merge(files, out),
    };
    ended.unwrap_or_else(|(status, error)| {
        complain(error);
        status
    })
}
