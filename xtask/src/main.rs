//! `cargo xtask tidy`: what reviewers would otherwise have to look for.
//!
//! Limits that the tree does not meet yet are in `xtask/exceptions.txt`, each with its present
//! number. A number may only become smaller: an exception that is larger than needed is an error,
//! too, so that what was improved stays improved.

mod arrows;
mod exceptions;
mod phrases;
mod rust;

use exceptions::{Exceptions, Finding};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let write = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => false,
        ["tidy", "--write"] => true,
        _ => {
            eprintln!(
                "usage: cargo xtask tidy           check the tree\n       \
                 cargo xtask tidy --write   and store smaller numbers of exceptions"
            );
            return ExitCode::from(2);
        }
    };
    match tidy(write) {
        Ok(problems) if problems.is_empty() => ExitCode::SUCCESS,
        Ok(problems) => {
            problems.iter().for_each(|problem| eprintln!("{problem}"));
            eprintln!("{} problems", problems.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Problems of the tree, a line each.
fn tidy(write: bool) -> Result<Vec<String>, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace")?;
    let mut problems = Vec::new();
    let mut findings: Vec<Finding> = Vec::new();
    for path in files(root)? {
        let name = path.to_string_lossy().into_owned();
        let Ok(text) = std::fs::read_to_string(root.join(&path)) else { continue };
        problems.extend(phrases::banned(&name, &text));
        if path.extension().is_some_and(|ending| ending == "rs") {
            findings.extend(rust::findings(&name, &text)?);
        }
    }
    let architecture = read(&root.join("ARCHITECTURE.md"))?;
    problems.extend(arrows::problems(root, &architecture)?);
    let place = root.join("xtask/exceptions.txt");
    let exceptions = Exceptions::parse(&read(&place)?)?;
    if write {
        let text = exceptions.lowered(&findings);
        std::fs::write(&place, text).map_err(|error| format!("{}: {error}", place.display()))?;
    } else {
        problems.extend(exceptions.problems(&findings));
    }
    Ok(problems)
}

/// The files of the repository, relative to `root`.
fn files(root: &Path) -> Result<Vec<PathBuf>, String> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output();
    let listed = listed.map_err(|error| format!("run git ls-files: {error}"))?;
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    Ok(names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect())
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
