//! `cargo xtask tidy`: what reviewers would otherwise have to look for. `cargo xtask test`: all tests.
//! `cargo xtask sbom`: the list of all parts of the program. `cargo xtask reference`: the tables of
//! keys in the reference of the experiment file. `cargo xtask book`: the documentation as a book.
//!
//! Limits that the tree does not meet yet are in `xtask/exceptions.txt`, each with its present
//! number. A number may only become smaller: an exception that is larger than needed is an error,
//! too, so that what was improved stays improved.

mod arrows;
mod book;
mod circles;
mod exceptions;
mod links;
mod phrases;
mod reference;
mod retries;
mod rust;
mod sbom;
mod test;

use exceptions::{Exceptions, Finding};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let ["sbom", to @ ..] = &words.iter().map(String::as_str).collect::<Vec<_>>()[..]
        && to.len() <= 1
    {
        return write_sbom(to.first().copied());
    }
    if let ["test", jobs @ ..] = &words.iter().map(String::as_str).collect::<Vec<_>>()[..]
        && let Some(jobs) = jobs.first().map_or(Some(1), |text| text.parse().ok())
    {
        return run_tests(jobs);
    }
    if words == ["reference"] {
        return write_reference();
    }
    if words == ["book"] {
        return build_book();
    }
    let write = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => false,
        ["tidy", "--write"] => true,
        _ => {
            eprintln!(
                "usage: cargo xtask tidy           check the tree\n       \
                 cargo xtask tidy --write   and store smaller numbers of exceptions\n       \
                 cargo xtask test [N]       run all tests, N test programs at a time\n       \
                 cargo xtask sbom [FILE]    print or write the bill of materials (CycloneDX)\n       \
                 cargo xtask reference      write the tables of keys from the JSON Schema\n       \
                 cargo xtask book           build the documentation as a book, with mdBook"
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

/// Runs all tests.
fn run_tests(jobs: usize) -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace".to_owned());
    match root.and_then(|root| test::test(root, jobs)) {
        Ok(failed) if failed.is_empty() => ExitCode::SUCCESS,
        Ok(failed) => {
            eprintln!("failed: {}", failed.join(", "));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the tables of keys into the pages of the reference.
fn write_reference() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace".to_owned());
    match root.and_then(reference::write) {
        Ok(changed) => {
            changed.iter().for_each(|page| eprintln!("wrote {page}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the book.
fn build_book() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace".to_owned());
    match root.and_then(|root| book::build(root, &files(root)?, &names(root)?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the bill of materials to a file, or prints it.
fn write_sbom(to: Option<&str>) -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("no workspace".to_owned());
    let written = root.and_then(sbom::sbom).and_then(|text| match to {
        Some(path) => std::fs::write(path, text).map_err(|error| format!("{path}: {error}")),
        None => writeln!(std::io::stdout(), "{text}").map_err(|error| error.to_string()),
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
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
    let files = files(root)?;
    let mut findings: Vec<Finding> = circles::findings(&files)?;
    for (name, text) in &files {
        problems.extend(phrases::banned(name, text));
        if name.ends_with(".rs") {
            findings.extend(rust::findings(name, text)?);
            findings.extend(retries::findings(name, text)?);
        }
    }
    problems.extend(arrows::problems(&files)?);
    problems.extend(links::problems(&files, |path| root.join(path).exists()));
    let place = root.join("xtask/exceptions.txt");
    let mut exceptions = Exceptions::parse(&read(&place)?)?;
    if write {
        exceptions = exceptions.lowered(&findings);
        std::fs::write(&place, exceptions.to_string())
            .map_err(|error| format!("{}: {error}", place.display()))?;
    }
    problems.extend(exceptions.problems(&findings));
    Ok(problems)
}

/// The texts of the repository, by their names relative to `root`.
fn files(root: &Path) -> Result<BTreeMap<String, String>, String> {
    let text = |name: String| {
        // Files that are no text, or are deleted and still tracked, are left out.
        let text = std::fs::read_to_string(root.join(&name)).ok()?;
        Some((name, text))
    };
    Ok(names(root)?.into_iter().filter_map(text).collect())
}

/// The names of all files that git tracks, relative to `root`.
fn names(root: &Path) -> Result<Vec<String>, String> {
    // With -z, git does not quote names with special characters.
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output();
    let listed = listed.map_err(|error| format!("run git ls-files: {error}"))?;
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    Ok(names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}
