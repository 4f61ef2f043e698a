//! `thingbed import`: writes an experiment file from a compose file or a containerlab topology.

use crate::arguments::Import;
use crate::{Status, complain, remark, say};
use experiment::import::{Imported, import as converted};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

pub fn import(arguments: &Import) -> Status {
    match write(arguments) {
        Ok(status) => status,
        Err(error) => {
            complain(error);
            Status::Failed
        }
    }
}

fn write(arguments: &Import) -> Result<Status, String> {
    let file = &arguments.file;
    let text = input::read_to_string(file, input::MAX_DATA).map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::InvalidData => {
                "these files are YAML in UTF-8: convert it, for example with \
                                       `iconv -f LATIN1 -t UTF-8`"
            }
            _ => "check the path and its permissions",
        };
        format!("could not read {}: {error}\n  {advice}", file.display())
    })?;
    let imported = match converted(&text, file, arguments.host_programs) {
        Ok(imported) => imported,
        Err(errors) => {
            complain(errors);
            return Ok(Status::Wrong);
        }
    };
    let to =
        arguments.out.clone().unwrap_or_else(|| PathBuf::from(format!("{}.yaml", imported.name)));
    if to.as_os_str() == "-" {
        say(imported.text.trim_end());
    } else {
        // `create_new` checks and creates in one step, so a file that appears meanwhile is not
        // overwritten.
        let mut created =
            OpenOptions::new().write(true).create_new(true).open(&to).map_err(|error| {
                let advice = match error.kind() {
                    ErrorKind::AlreadyExists => {
                        "name another file with --out; `import` overwrites nothing"
                    }
                    _ => "name another file with --out",
                };
                format!("could not create {}: {error}\n  {advice}", to.display())
            })?;
        created.write_all(imported.text.as_bytes()).map_err(|error| {
            // Otherwise the next import would find a file that it must not overwrite.
            let _ = std::fs::remove_file(&to);
            format!("could not write {}: {error}\n  name a file elsewhere with --out", to.display())
        })?;
    }
    // Notes go to standard error, so that `--out -` prints a file that can be used as it is.
    conclude(&imported, file, &to);
    Ok(Status::Fine)
}

/// What could not be carried over, and what to do next.
fn conclude(imported: &Imported, file: &Path, to: &Path) {
    let (nodes, networks) = (imported.nodes, imported.networks);
    let s = |count: usize| if count == 1 { "" } else { "s" };
    remark(format_args!(
        "{}: {nodes} group{} of nodes, {networks} network{}, from {}",
        to.display(),
        s(nodes),
        s(networks),
        file.display()
    ));
    if !imported.notes.is_empty() {
        remark("not carried over, or different:");
        for note in &imported.notes {
            remark(format_args!("  {}:{}: {}", file.display(), note.line, note.text));
        }
    }
    if !imported.images.is_empty() {
        remark("the nodes use these images as archives, relative to the experiment file:");
        for (image, archive) in &imported.images {
            remark(format_args!("  docker save {image} -o {archive}"));
        }
    }
    if to.as_os_str() != "-" {
        remark(format_args!("next: thingbed check {0}, then thingbed up {0}", to.display()));
    }
}
