//! Commands for running labs, in this or another terminal.

mod capture;
mod console;
mod cp;
mod enter;
mod find;
mod link;
mod logs;
mod nodes;
mod own;
mod page;
mod pingall;
mod top;
mod up;

pub use capture::capture;
pub use console::console;
pub use cp::cp;
pub(crate) use enter::OWN_TERMINAL;
pub use enter::{exec, shell};
pub(crate) use find::{elsewhere, find};
pub use link::link;
pub use logs::logs;
pub use nodes::{clone, destroy, down, inject_fault, labs, ps, set};
pub(crate) use page::PageProcess;
pub use page::page;
pub use pingall::pingall;
pub use top::top;
pub use up::up;

use comfy_table::{CellAlignment, Table, presets};
use runner::{NodeShown, Reply, Request};
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
            Ok((Reply::Ending {}, _)) => {
                Err("the run or the lab is ending; this request did not run".to_owned())
            }
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
