//! Which lab a command may end without its name: that of this working directory, as with `docker
//! compose`. Another one is confirmed on a terminal, or named.

use super::Lab;
use super::find::{describe_one, find};
use crate::arguments;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// What to do with a command that ends something in the only lab.
#[derive(Debug, PartialEq)]
enum Answer {
    Do,
    Ask,
    Refuse,
}

/// The answer for a lab that was started in one folder and a command in another. A folder is not
/// known if the process belongs to another user.
fn answer(lab: Option<&Path>, here: Option<&Path>, has_terminal: bool) -> Answer {
    match (lab.is_some() && lab == here, has_terminal) {
        (true, _) => Answer::Do,
        (false, true) => Answer::Ask,
        (false, false) => Answer::Refuse,
    }
}

/// The lab that `--lab` selects, or the only one if it was started in this working directory or the
/// user agrees to `what` happens to it.
///
/// # Errors
/// As [`find`]; or the user does not agree or cannot be asked.
pub(super) fn find_to_end(selected: &arguments::Lab, what: &str) -> Result<Lab, String> {
    let lab = find(selected)?;
    if selected.lab.is_some() {
        return Ok(lab);
    }
    let folder = std::fs::read_link(format!("/proc/{}/cwd", lab.pid)).ok();
    let here = std::env::current_dir().ok();
    let has_terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
    let name = || described(lab.pid, folder.as_ref());
    match answer(folder.as_deref(), here.as_deref(), has_terminal) {
        Answer::Do => Ok(lab),
        Answer::Refuse => {
            let (name, text) = name();
            Err(format!("{text}: to {what}, name it with --lab {name}"))
        }
        Answer::Ask => {
            let (_, text) = name();
            match agrees(&format!("{text}. To {what}, enter y: "), &mut io::stdin().lock()) {
                true => Ok(lab),
                false => Err("nothing was changed".to_owned()),
            }
        }
    }
}

/// The value of `--lab` for a lab, and a text about where it was started.
fn described(pid: u32, folder: Option<&PathBuf>) -> (String, String) {
    let name = describe_one(pid).unwrap_or_else(|| pid.to_string());
    let place = match folder {
        Some(folder) => format!("in {}, not in this folder", folder.display()),
        None => "by another user".to_owned(),
    };
    let text = format!("the lab {name} (process {pid}) was started {place}");
    (name, text)
}

/// Asks on the terminal.
fn agrees(question: &str, answers: &mut impl BufRead) -> bool {
    let mut terminal = io::stderr();
    let _ = terminal.write_all(question.as_bytes()).and_then(|()| terminal.flush());
    let mut line = String::new();
    answers.read_line(&mut line).is_ok() && ["y", "yes"].contains(&&*line.trim().to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_of_this_folder_needs_no_name() {
        let path = |text| Some(Path::new(text));
        for (lab, here, has_terminal, expected) in [
            (path("/a"), path("/a"), false, Answer::Do),
            (path("/a"), path("/a"), true, Answer::Do),
            (path("/a"), path("/a/b"), false, Answer::Refuse),
            (path("/a"), path("/b"), true, Answer::Ask),
            (None, path("/b"), true, Answer::Ask),
            (None, path("/b"), false, Answer::Refuse),
            // Neither is known, which does not make them equal.
            (None, None, false, Answer::Refuse),
        ] {
            assert_eq!(answer(lab, here, has_terminal), expected, "{lab:?} {here:?}");
        }
    }

    #[test]
    fn only_yes_is_an_agreement() {
        for (text, expected) in
            [("y\n", true), (" YES \n", true), ("n\n", false), ("\n", false), ("", false)]
        {
            assert_eq!(agrees("", &mut text.as_bytes()), expected, "{text:?}");
        }
    }
}
