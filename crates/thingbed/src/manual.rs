//! Manual pages and the set-up of completion, both made from the command line's definition.

use crate::arguments::{Arguments, CompletedShell};
use crate::{Status, say};
use clap::CommandFactory;
use std::path::Path;
use std::process::Command;

/// Environment variable by which shells ask for completions.
pub(crate) const COMPLETE: &str = "COMPLETE";

/// Prints what a shell must read to complete Thingbed's command lines.
pub(crate) fn completions(shell: CompletedShell) -> Result<Status, String> {
    let tool = std::env::current_exe().map_err(|error| format!("find this program: {error}"))?;
    // The setup must name this program by its path, which clap takes from the started process.
    let printed = Command::new(&tool).env(COMPLETE, shell.name()).status();
    match printed {
        Ok(status) if status.success() => Ok(Status::Fine),
        Ok(status) => Err(format!("{} ended with {status}", tool.display())),
        Err(error) => Err(format!("run {}: {error}", tool.display())),
    }
}

/// Writes a manual page for each command.
pub(crate) fn manual(folder: &Path) -> Result<Status, String> {
    let failed = |error| {
        format!(
            "write manual pages to {}: {error}\n  name a folder that you can write to",
            folder.display()
        )
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(Arguments::command(), folder).map_err(failed)?;
    say(format!("manual pages are in {0}; read one with: man {0}/thingbed.1", folder.display()));
    Ok(Status::Fine)
}
