//! Finds running labs and selects one.

use super::Lab;
use crate::arguments;
use runner::{LabShown, Reply, Request};
use std::io;
use std::time::Duration;

/// Time limit of labs to describe themselves in a list, which waits for all of them. A lab that is
/// not busy answers within a few ms.
const LIST: Duration = Duration::from_secs(2);
/// Time limit when a lab that has not answered may be the selected one: adding thousands of nodes
/// takes this long.
const SELECT: Duration = Duration::from_secs(25);

/// A lab that this user may access.
pub(super) struct Found {
    pub pid: u32,
    /// `None` if it does not answer.
    pub shown: Option<LabShown>,
}

impl Found {
    fn has_name(&self, name: &str) -> bool {
        self.shown.as_ref().is_some_and(|shown| shown.experiment == name)
    }

    fn text(&self) -> String {
        match &self.shown {
            Some(shown) => format!("{} ({})", shown.experiment, self.pid),
            None => format!("process {}, which does not answer", self.pid),
        }
    }
}

/// All labs that this user may access.
///
/// # Errors
/// When the folder of control sockets cannot be read.
pub(super) fn all() -> Result<Vec<Found>, String> {
    pids().map(|pids| describe(&pids, LIST))
}

/// Asks all labs at once, without those that end meanwhile.
fn describe(pids: &[u32], limit: Duration) -> Vec<Found> {
    let replies = runner::ask_all(pids, &Request::Lab {}, limit).into_iter();
    let found = replies.filter_map(|(pid, reply)| match reply {
        Ok(Reply::Lab(shown)) => Some(Found { pid, shown: Some(shown) }),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Some(Found { pid, shown: None }),
        _ => None,
    });
    found.collect()
}

/// The experiment's name of a lab, if it answers.
pub(super) fn describe_one(pid: u32) -> Option<String> {
    describe(&[pid], LIST).pop()?.shown.map(|shown| shown.experiment)
}

/// The lab that `--lab` selects, or the only running one.
pub(crate) fn find(selected: &arguments::Lab) -> Result<Lab, String> {
    let pids = pids()?;
    let Some(name) = &selected.lab else {
        // No lab is asked: a busy one would delay the command twice.
        return match pids[..] {
            [pid] => Ok(Lab { pid }),
            _ => only(&describe(&pids, LIST)),
        };
    };
    // A number that is no process may still be an experiment's name.
    if let Some(pid) = name.parse().ok().filter(|pid| pids.contains(pid)) {
        return Ok(Lab { pid });
    }
    let mut all = describe(&pids, LIST);
    if all.iter().any(|lab| lab.shown.is_none()) && !all.iter().any(|lab| lab.has_name(name)) {
        all = describe(&pids, SELECT);
    }
    named(&all, name)
}

/// The only lab. One that does not answer counts: otherwise a command for a busy lab would reach
/// another one.
fn only(all: &[Found]) -> Result<Lab, String> {
    match all {
        [] => Err(format!(
            "no lab is running on this machine{}\n  start one with `thingbed up FILE`; a `thingbed \
             run FILE` in progress is a lab, too",
            elsewhere()
        )),
        [lab] => Ok(Lab { pid: lab.pid }),
        _ => Err(format!("several labs are running; select one with --lab: {}", list(all))),
    }
}

/// The lab with this experiment's name.
fn named(all: &[Found], name: &str) -> Result<Lab, String> {
    let named: Vec<_> = all.iter().filter(|lab| lab.has_name(name)).collect();
    match named[..] {
        [lab] => Ok(Lab { pid: lab.pid }),
        [] if all.is_empty() => Err(format!(
            "no lab `{name}` is running on this machine, nor any other lab{}\n  start one with \
             `thingbed up FILE`",
            elsewhere()
        )),
        [] => Err(format!("no lab `{name}` is running; running labs: {}", list(all))),
        _ => Err(format!(
            "several labs have the name `{name}`; select one by process id: {}",
            list(all)
        )),
    }
}

fn list(labs: &[Found]) -> String {
    labs.iter().map(Found::text).collect::<Vec<_>>().join(", ")
}

/// The process ids of the labs that this user may access.
fn pids() -> Result<Vec<u32>, String> {
    runner::labs().map_err(|error| format!("could not list the labs: {error}"))
}

/// What to say of labs that run in other containers, after the words that none runs here.
pub(crate) fn elsewhere() -> String {
    match runner::labs_elsewhere().unwrap_or(0) {
        0 => String::new(),
        1 => ", except for one in another container, where its commands must run".to_owned(),
        more => format!(", except for {more} in other containers, where their commands must run"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use units::Span;

    fn lab(pid: u32, name: Option<&str>) -> Found {
        let shown = name.map(|name| LabShown {
            experiment: name.into(),
            pid,
            folder: PathBuf::new(),
            run: false,
            nodes: 1,
            up_for: Span::ZERO,
        });
        Found { pid, shown }
    }

    #[test]
    fn a_command_goes_to_the_selected_lab_or_says_why_not() {
        let (a, b, c) = (|| lab(1, Some("a")), || lab(2, Some("b")), || lab(3, None));
        let pid = |found: Result<Lab, String>| found.map(|lab| lab.pid);
        assert_eq!(pid(only(&[a()])), Ok(1));
        assert_eq!(pid(only(&[c()])), Ok(3));
        let several = "several labs are running; select one with --lab: a (1), process 3, which does \
                       not answer";
        assert_eq!(pid(only(&[a(), c()])), Err(several.into()));
        assert_eq!(pid(named(&[a(), b(), c()], "b")), Ok(2));
        let none = "no lab `x` is running; running labs: b (2), process 3, which does not answer";
        assert_eq!(pid(named(&[b(), c()], "x")), Err(none.into()));
        let twice = "several labs have the name `a`; select one by process id: a (1), a (4)";
        assert_eq!(pid(named(&[a(), lab(4, Some("a"))], "a")), Err(twice.into()));
        assert!(pid(only(&[])).unwrap_err().starts_with("no lab is running on this machine"));
        assert!(pid(named(&[], "a")).unwrap_err().starts_with("no lab `a` is running"));
    }
}
