//! Ends of a lab, and what happens at the same time.

use super::failure::{Failure, Outcome, expect};
use super::isolation::crash;
use super::model::Model;
use super::operation::{End, Operation};
use super::session::{self, Session};
use crate::common::CommandOutput;
use std::path::Path;

/// Ends the lab; returns how, in words.
///
/// # Errors
/// If a command ended in an unexpected way.
pub fn end(how: &End, session: &mut Session<'_>, model: &Model) -> Result<&'static str, Failure> {
    match how {
        End::Crash => {
            crash(session)?;
            return Ok("kill -9 and gc");
        }
        End::Down => drop(session.expect(&["down"], 0)?),
        End::Downs => downs(session)?,
        End::During(command) => during(command, session, model)?,
    }
    Ok("down")
}

/// Three `down` at once: each returns when the lab is gone, or finds none.
fn downs(session: &mut Session<'_>) -> Outcome {
    let children = [(); 3].map(|()| session.begin(&["down"]));
    session.typed.push("wait".to_owned());
    let outputs = children.map(session::ended);
    let stopped = outputs.iter().filter(|output| output.status == 0).count();
    let is_known = |output: &CommandOutput| {
        output.status == 0 || output.status == 1 && output.err.contains("no lab ")
    };
    let seen = || outputs.iter().map(|output| format!("{} {}", output.status, output.err));
    let fine = stopped > 0 && outputs.iter().all(is_known);
    expect(fine, "three `down` at once", "0, or 1: no lab", seen().collect::<String>())?;
    is_gone(session)
}

/// A command that meets a `down`: it is executed or not, and says so.
fn during(command: &Operation, session: &mut Session<'_>, model: &Model) -> Outcome {
    let words = command.words(model);
    let child = session.begin(&words);
    let down = session.run(&["down"]);
    // Checked first: the other command may end later.
    let gone = is_gone(session);
    let output = session::ended(child);
    let what = format!("down during {}", words.join(" "));
    expect(down.status == 0, what, "exit status 0", format!("{} {}", down.status, down.err))?;
    gone?;
    let reasons = ["is ending", "no lab ", "could not reach the lab", "ended during"];
    let is_refused = reasons.iter().any(|reason| output.err.contains(reason));
    let fine = output.status == 0 || output.status == 1 && is_refused;
    let what = format!("{} during down", words.join(" "));
    expect(fine, what, "0, or 1 and the reason", format!("{} {}", output.status, output.err))
}

fn is_gone(session: &Session<'_>) -> Outcome {
    let process = format!("/proc/{}", session.pid);
    expect(!Path::new(&process).exists(), "the lab's process after down", "none", process)
}
