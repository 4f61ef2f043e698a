//! Experiment files from files of other tools: compose files and containerlab topologies.

mod command;
mod compose;
mod compose_networks;
mod compose_order;
mod containerlab;
mod imported;
mod limits;
mod links;
mod names;
mod program;
mod reader;
mod subnets;
mod text;
mod variables;
mod writer;

pub use imported::{Imported, Note};

use crate::problem::{Errors, Problem};
use crate::source::Source;
use crate::tree;
use std::path::Path;
use std::sync::Arc;

/// Converts `text`, a compose file or a containerlab topology that errors call `file`.
/// `host_programs`: nodes see the file system of the host, not that of their images.
///
/// # Errors
/// If the text is neither, or lacks what an experiment needs.
pub fn import(text: &str, file: &Path, host_programs: bool) -> Result<Imported, Errors> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let source = Arc::new(Source { file: file.to_owned(), text: text.to_owned() });
    let fail = |problem| Errors::new(source.clone(), vec![problem]);
    // Tags and duplicate keys are problems of the other tool.
    let (root, _) = tree::parse(text).map_err(fail)?;
    let mut reader = reader::Reader::new(source.clone());
    let draft = if root.get("services").is_some() {
        compose::convert(&root, file, host_programs, &mut reader)
    } else if root.get("topology").is_some() {
        containerlab::convert(&root, host_programs, &mut reader)
    } else {
        let problem = Problem::new("neither a compose file nor a containerlab topology");
        Err(problem.at(root.place).label("a compose file has `services`, a topology `topology`"))
    };
    let mut draft = draft.map_err(fail)?;
    // What is left out can leave networks without nodes.
    draft.networks.retain(|network| !network.attach.is_empty());
    subnets::assign(&mut draft, &mut reader).map_err(fail)?;
    Ok(draft.imported(file, reader.notes()))
}

#[cfg(test)]
mod compose_tests;
#[cfg(test)]
mod containerlab_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
#[path = "tests.rs"]
mod tests;
