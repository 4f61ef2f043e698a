//! Commands for running labs, in this or another terminal.

mod capture;
mod console;
mod cp;
mod enter;
mod link;
mod logs;
mod nodes;
mod page;
mod pingall;
mod top;
mod up;

pub use capture::capture;
pub use console::console;
pub use cp::cp;
pub(crate) use enter::OWN_TERMINAL;
pub use enter::{exec, shell};
pub use link::link;
pub use logs::logs;
pub use nodes::{clone, destroy, down, inject_fault, labs, ps, set};
pub(crate) use page::PageProcess;
pub use page::page;
pub use pingall::pingall;
pub use top::top;
pub use up::up;

use crate::arguments;
use comfy_table::{CellAlignment, Table, presets};
use runner::{LabShown, NodeShown, Reply, Request};
use std::io::BufReader;
use std::os::unix::net::UnixStream;

/// A running lab.
pub(crate) struct Lab {
    pid: u32,
}

impl Lab {
    /// Sends a request; an answer that refuses it becomes an error.
    pub(crate) fn ask(&self, request: &Request) -> Result<Reply, String> {
        self.open(request).map(|(reply, _)| reply)
    }

    /// Like `ask`; also returns the stream, for data after the answer.
    fn open(&self, request: &Request) -> Result<(Reply, BufReader<UnixStream>), String> {
        match runner::open(self.pid, request) {
            Ok((Reply::Refused(why), _)) => Err(why),
            Ok(answer) => Ok(answer),
            Err(error) => Err(format!(
                "could not reach the lab of process {}: {error}\n  the lab may have just ended; \
                 `thingbed labs` lists the running labs",
                self.pid
            )),
        }
    }

    /// Nodes by name; all if `nodes` is empty.
    pub(crate) fn nodes(&self, nodes: &[String]) -> Result<Vec<NodeShown>, String> {
        match self.ask(&Request::Nodes { nodes: nodes.to_vec() })? {
            Reply::Nodes(nodes) => Ok(nodes),
            _ => Err("could not read the lab's answer: the lab runs another version of Thingbed"
                .to_owned()),
        }
    }

    /// The only node that matches `name`.
    pub(crate) fn node(&self, name: &str) -> Result<NodeShown, String> {
        let mut nodes = self.nodes(&[name.to_owned()])?;
        match (nodes.pop(), nodes.len()) {
            (Some(node), 0) => Ok(node),
            (Some(_), others) => Err(format!(
                "`{name}` matches {} nodes; name one, for example `{}`",
                others + 1,
                nodes[0].name
            )),
            (None, _) => Err(format!("the node `{name}` was destroyed")),
        }
    }

    fn shown(&self) -> Result<LabShown, String> {
        match self.ask(&Request::Lab {})? {
            Reply::Lab(lab) => Ok(lab),
            _ => Err("could not read the lab's answer: the lab runs another version of Thingbed"
                .to_owned()),
        }
    }
}

/// The lab that `--lab` selects, or the only running one.
pub(crate) fn find(selected: &arguments::Lab) -> Result<Lab, String> {
    // A number that is no process may still be an experiment's name.
    if let Some(lab) = by_process(selected)? {
        return Ok(lab);
    }
    let all = all()?;
    let list = |labs: &[(Lab, LabShown)]| {
        let words = labs.iter().map(|(lab, shown)| format!("{} ({})", shown.experiment, lab.pid));
        words.collect::<Vec<_>>().join(", ")
    };
    let Some(name) = &selected.lab else {
        return match all.len() {
            0 => Err(format!(
                "no lab is running on this machine{}\n  start one with `thingbed up FILE`; a \
                 `thingbed run FILE` in progress is a lab, too",
                elsewhere()
            )),
            1 => Ok(all.into_iter().next().map_or(Lab { pid: 0 }, |(lab, _)| lab)),
            _ => Err(format!("several labs are running; select one with --lab: {}", list(&all))),
        };
    };
    let running = list(&all);
    let mut named: Vec<_> = all
        .into_iter()
        .filter(|(lab, shown)| shown.experiment == *name || lab.pid.to_string() == *name)
        .collect();
    match (named.pop(), named.len()) {
        (Some((lab, _)), 0) => Ok(lab),
        (Some(_), _) => {
            Err(format!("several labs have the name `{name}`; select one by process id: {running}"))
        }
        (None, _) if running.is_empty() => Err(format!(
            "no lab `{name}` is running on this machine, nor any other lab{}\n  start one with \
             `thingbed up FILE`",
            elsewhere()
        )),
        (None, _) => Err(format!("no lab `{name}` is running; running labs: {running}")),
    }
}

/// The running lab that `--lab` selects by its process id. No other lab is asked: one that hangs
/// would delay the answer.
fn by_process(selected: &arguments::Lab) -> Result<Option<Lab>, String> {
    let Some(Ok(pid)) = selected.lab.as_ref().map(|name| name.parse()) else { return Ok(None) };
    Ok(pids()?.contains(&pid).then_some(Lab { pid }))
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

/// All labs that this user may access.
fn all() -> Result<Vec<(Lab, LabShown)>, String> {
    let labs = pids()?.into_iter().map(|pid| Lab { pid });
    // Skip labs that end meanwhile.
    Ok(labs.filter_map(|lab| lab.shown().ok().map(|shown| (lab, shown))).collect())
}

/// A table; columns from index `right` on are right-aligned.
fn table(head: &[&str], right: usize, rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).force_no_tty().set_header(head.to_vec()).add_rows(rows);
    for column in table.column_iter_mut().skip(right) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// Splits settings such as `loss=10%` into keys and values.
pub(crate) fn pairs(set: &[String]) -> Result<Vec<(String, String)>, String> {
    let pair = |pair: &String| match pair.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => {
            Err(format!("`{pair}` is not KEY=VALUE; write, for example, `loss=10%` or `cpus=0.5`"))
        }
    };
    set.iter().map(pair).collect()
}
