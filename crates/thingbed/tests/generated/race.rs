//! Two commands for one node at the same time: the lab must end as after one of the two orders.

use super::checks;
use super::failure::{Failure, Outcome, expect};
use super::link::Window;
use super::model::Model;
use super::operation::Operation;
use super::perform::{Background, ended};
use super::session::{self, Session};
use crate::common::CommandOutput;
use std::time::Instant;

/// Sends both commands at once; applies them to the model in the order that the exit statuses show.
pub fn race(
    both: &[Operation; 2],
    session: &mut Session<'_>,
    model: &mut Model,
    background: &mut Background,
) -> Outcome {
    let begin = Instant::now();
    let children = both.each_ref().map(|one| session.begin(&one.words(model)));
    session.typed.push("wait".to_owned());
    let outputs = children.map(session::ended);
    let at = Window { begin, end: Instant::now() };
    let after =
        [[0, 1], [1, 0]].iter().find_map(|order| in_order(both, order, &outputs, model, at));
    let Some(after) = after else { return Err(neither(both, &outputs, model)) };
    for output in outputs.iter().filter(|output| output.status != 0) {
        expect(!output.err.trim().is_empty(), "the message of a refused command", "why", "")?;
    }
    let before = std::mem::replace(model, after);
    let pairs = || before.nodes.iter().zip(&model.nodes).enumerate();
    for (_, (before, now)) in pairs().filter(|(_, (before, now))| before.busy != now.busy) {
        // 128 plus SIGKILL, as in shells.
        if now.busy.is_none() {
            ended(background, &before.name, 137)?;
        }
    }
    let gone = pairs().filter(|(_, (before, now))| before.alive && !now.alive);
    let gone: Vec<usize> = gone.map(|(node, _)| node).collect();
    gone.into_iter().try_for_each(|node| checks::silence(session, model, node))
}

/// The model after the commands in this order; `None` if one would have had another exit status.
fn in_order(
    both: &[Operation; 2],
    order: &[usize; 2],
    outputs: &[CommandOutput; 2],
    model: &Model,
    at: Window,
) -> Option<Model> {
    let mut after = model.clone();
    order.iter().try_for_each(|one| {
        let nodes = both[*one].nodes(&after);
        // A command for a node that is gone is refused.
        let applies = nodes.iter().any(|node| after.nodes[*node].alive);
        if applies {
            after.apply(&both[*one], at);
        }
        (outputs[*one].status == if applies { 0 } else { 1 }).then_some(())
    })?;
    Some(after)
}

fn neither(both: &[Operation; 2], outputs: &[CommandOutput; 2], model: &Model) -> Failure {
    let seen = both.iter().zip(outputs).map(|(one, output)| {
        let words = one.words(model).join(" ");
        format!("{words}: exit status {}\n{}{}", output.status, output.out, output.err)
    });
    Failure {
        what: "two commands for one node at once".into(),
        expected: "the exit statuses of one of the two orders".into(),
        seen: seen.collect(),
    }
}
