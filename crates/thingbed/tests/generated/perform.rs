//! Executes an operation in the lab, and checks its immediate effects.

use super::capture::Running;
use super::checks;
use super::ending::end;
use super::failure::{Failure, Outcome, eventually, expect};
use super::generate::links_change;
use super::inside;
use super::isolation::Isolation;
use super::link::Window;
use super::model::{Model, NETWORKS, Reach};
use super::operation::{Operation, Signal};
use super::race::race;
use super::session::{self, Session};
use crate::common::CommandOutput;
use std::process::Child;
use std::time::Instant;

/// Activities in parallel to the sequence.
#[derive(Default)]
pub struct Background {
    pub capture: Option<Running>,
    /// Busy loops: the node, and the `exec` that waits for the end of the loop.
    pub busy: Vec<(String, Child)>,
    /// Number of captures and copies, for file names.
    pub number: usize,
}

/// Executes the operation in the lab and in the model.
pub fn perform(
    operation: &Operation,
    session: &mut Session<'_>,
    model: &mut Model,
    background: &mut Background,
    isolation: &Isolation,
) -> Outcome {
    // A pause affects the programs that run at that moment, and starts and stops take a moment.
    if all(operation)
        .iter()
        .any(|one| matches!(one, Operation::Signal { signal: Signal::Pause | Signal::Resume, .. }))
    {
        checks::tables(session, model)?;
    }
    let begin = Instant::now();
    match operation {
        Operation::Exec { node } => exec(session, &model.nodes[*node].name)?,
        Operation::Busy { node } => {
            let node = &model.nodes[*node];
            let file = busy_file(session, node.image, &node.name);
            let line = format!("touch {file}; while test -e {file}; do :; done");
            let child = session.begin(&["exec", &node.name, "--", "sh", "-c", &line]);
            background.busy.push((node.name.clone(), child));
            // A pause before the loop starts would not affect it.
            eventually(|| {
                let output = session.inside(&node.name, &["test", "-e", &file]);
                expect(output.status == 0, "a loop begun by exec", "its file", output.err)
            })?;
        }
        Operation::Rest { node } => {
            let node = &model.nodes[*node];
            let file = busy_file(session, node.image, &node.name);
            session.expect(&["exec", &node.name, "--", "busybox", "rm", &file], 0)?;
            ended(background, &node.name, 0)?;
        }
        Operation::Send { from, to, network } => send(session, model, (*from, *to), *network)?,
        Operation::Copy { node } => {
            background.number += 1;
            copy(session, &model.nodes[*node].name, background.number)?;
        }
        Operation::Fetch { node } => fetch(session, model, *node)?,
        Operation::Memory { node } => memory(session, model, *node)?,
        Operation::Refused { words, status } => refused(session, model, words, *status)?,
        Operation::Capture { node } => {
            let node = &model.nodes[*node];
            background.number += 1;
            let whose = (node.name.as_str(), node.links.len());
            background.capture = Some(Running::begin(session, whose, background.number)?);
        }
        Operation::CaptureEnd => {
            if let Some(capture) = background.capture.take() {
                capture.end(session)?;
            }
        }
        Operation::Restart(how) => {
            let after = end(how, session, model)?;
            finish(session, background, isolation, after)?;
            session.up()?;
        }
        // It also applies them to the model.
        Operation::Race(both) => return race(both, session, model, background),
        Operation::Together(all) => {
            let begun: Vec<Child> =
                all.iter().map(|one| session.begin(&one.words(model))).collect();
            session.typed.push("wait".to_owned());
            for (one, child) in all.iter().zip(begun) {
                let output = session::ended(child);
                let what = format!("{} among others at once", one.words(model).join(" "));
                expect(output.status == 0, what, "exit status 0", output.err)?;
            }
        }
        Operation::Signal { .. }
        | Operation::Set { .. }
        | Operation::LinkSet { .. }
        | Operation::LinkDown { .. }
        | Operation::Clone { .. }
        | Operation::Destroy { .. } => {
            session.expect(&operation.words(model), 0)?;
        }
    }
    let ends = |one: &&Operation| {
        matches!(one, Operation::Signal { signal: Signal::Kill, .. } | Operation::Destroy { .. })
    };
    let killed = all(operation).iter().filter(ends).flat_map(|one| one.nodes(model));
    let killed: Vec<String> = killed.map(|node| model.nodes[node].name.clone()).collect();
    let destroys = |one: &&Operation| matches!(one, Operation::Destroy { .. });
    let destroyed = all(operation).iter().filter(destroys).flat_map(|one| one.nodes(model));
    let destroyed: Vec<usize> = destroyed.collect();
    model.apply(operation, Window { begin, end: Instant::now() });
    // 128 plus SIGKILL, as in shells.
    killed.iter().try_for_each(|node| ended(background, node, 137))?;
    destroyed.into_iter().try_for_each(|node| checks::silence(session, model, node))
}

/// The commands of an operation.
fn all(operation: &Operation) -> &[Operation] {
    match operation {
        Operation::Together(all) => all,
        Operation::Race(both) => &both[..],
        one => std::slice::from_ref(one),
    }
}

/// Conditions after the end of the lab, however it ended.
pub fn finish(
    session: &Session<'_>,
    background: &mut Background,
    isolation: &Isolation,
    after: &str,
) -> Outcome {
    for (node, child) in background.busy.drain(..) {
        let CommandOutput { status, err, .. } = session::ended(child);
        expect(status >= 0, format!("exec in {node} after {after}"), "its end", err)?;
    }
    if let Some(capture) = background.capture.take() {
        capture.ended(session)?;
    }
    isolation.check_nothing_left(session, after)
}

fn busy_file(session: &Session<'_>, image: bool, node: &str) -> String {
    match image {
        true => "/tmp/busy".to_owned(),
        false => session.bed.path().join(format!("busy-{node}")).display().to_string(),
    }
}

/// Waits for the end of a node's loop, if it has one.
pub fn ended(background: &mut Background, node: &str, status: i32) -> Outcome {
    let place = background.busy.iter().position(|(name, _)| name == node);
    let Some(place) = place else { return Ok(()) };
    let (_, mut child) = background.busy.swap_remove(place);
    let mut seen = None;
    eventually(|| {
        seen = seen.or(child.try_wait().unwrap_or_default());
        let code = seen.and_then(|status| status.code());
        let what = format!("exit status of exec in {node}, whose loop has ended");
        expect(code == Some(status), what, status.to_string(), format!("{seen:?}"))
    })
}

fn exec(session: &mut Session<'_>, node: &str) -> Outcome {
    let line = "echo $THINGBED_NODE; exit 7";
    let output = session.expect(&["exec", node, "--", "sh", "-c", line], 7)?;
    expect(output.out.trim() == node, "THINGBED_NODE", node, output.out)
}

/// Sends five pings. They are answered if the model says so, and always counted: by the node's
/// kernel without drops, and by the medium with the same count.
fn send(
    session: &mut Session<'_>,
    model: &Model,
    (from, to): (usize, usize),
    network: usize,
) -> Outcome {
    let (one, other) = (&model.nodes[from], &model.nodes[to]);
    let address = other.links[network].address.to_string();
    let interface = format!("eth{network}");
    let words = ["exec", &one.name, "--", "ping", "-n", "-c5", "-i0.1", "-W2", &address];
    session.note(&words, "");
    let (before, counted) = settled(session, &one.name)?;
    let begin = Instant::now();
    let ping = inside::ping(session, one, (network, &address), &["-c5", "-W2"]);
    let at = Window { begin, end: Instant::now() };
    let ways = [model.reach(from, to, network, at), model.reach(to, from, network, at)];
    let what = format!("ping {} to {} on {}", one.name, other.name, NETWORKS[network]);
    if ways.contains(&Reach::None) {
        expect(ping.received == 0, &what, "no answer", &ping.text)?;
    } else if ways == [Reach::All; 2] {
        // `checks::reach` is strict, and waits longer.
        expect(ping.received > 0, &what, "answers", &ping.text)?;
    }
    let now = inside::counters(session, &one.name);
    let (Some(old), Some(new)) = (before.get(&interface), now.get(&interface)) else {
        return expect(false, "/proc/net/dev", interface, format!("{now:?}"));
    };
    let what = format!("/proc/net/dev of {} after {} pings", one.name, ping.sent);
    let clean = new.send_drops == 0 && new.send_errors == 0;
    expect(clean, &what, "nothing dropped on the way out", format!("{new:?}"))?;
    // Without an ARP answer, no ping may be sent.
    let (sent, least) = (new.sent - old.sent, ping.received);
    expect(sent >= least, &what, format!("{least} sent"), format!("{old:?} {new:?}"))?;
    eventually(|| {
        let by_node = total(&inside::counters(session, &one.name)) - total(&before);
        let by_medium = carried(session, &one.name)? - counted;
        let what = format!("frames sent by {}: its counters, and those of ps", one.name);
        expect(by_node == by_medium, what, by_node.to_string(), by_medium.to_string())
    })
}

/// A node's counters and the medium's count of its frames, at a time when both are the same twice:
/// the node's kernel sends frames at any time, and the medium counts them a moment later.
fn settled(session: &Session<'_>, node: &str) -> Result<(Counters, u64), Failure> {
    let read = || Ok((inside::counters(session, node), carried(session, node)?));
    let mut seen = read()?;
    eventually(|| {
        let (before, now) = (std::mem::replace(&mut seen, read()?), &seen);
        let same = (total(&before.0), before.1) == (total(&now.0), now.1);
        let what = format!("frames sent by {node}, at rest");
        expect(same, what, format!("{before:?}"), format!("{now:?}"))
    })?;
    Ok(seen)
}

/// Frames sent by all interfaces.
fn total(all: &Counters) -> u64 {
    all.values().map(|counters| counters.sent).sum()
}

type Counters = std::collections::BTreeMap<String, inside::Counters>;

/// Frames received by the medium from a node.
fn carried(session: &Session<'_>, node: &str) -> Result<u64, Failure> {
    let nodes = checks::nodes(session)?;
    let own = nodes.iter().find(|shown| shown["name"] == node);
    Ok(own.and_then(|own| own["sent"][0].as_u64()).unwrap_or(0))
}

fn copy(session: &mut Session<'_>, node: &str, number: usize) -> Outcome {
    let inside = format!("{node}:/tmp/copied-{}-{number}", session.scenario.name);
    let out = format!("out-{number}");
    session.expect(&["cp", "payload.xml", &inside], 0)?;
    session.expect(&["cp", &inside, &out], 0)?;
    let bytes = |name: &str| std::fs::read(session.bed.path().join(name)).unwrap_or_default();
    let same = bytes("payload.xml") == bytes(&out);
    let file = inside.split_once(':').map_or("", |(_, file)| file);
    let removed = session.inside(node, &["busybox", "rm", file]);
    expect(same && removed.status == 0, "a file into a node and out", "the same", removed.err)
}

fn fetch(session: &mut Session<'_>, model: &Model, node: usize) -> Outcome {
    let link = &model.nodes[node].links[0];
    let at = Window::now();
    let fine = [link.up, link.down].iter().all(|way| !way.down && way.loss.during(at).1 == 0.0);
    let line = "printf 'GET /hello HTTP/1.0\\r\\n\\r\\n' | busybox nc -w 3 203.0.113.1 80";
    let name = model.nodes[node].name.clone();
    session.note(&["exec", &name, "--", "sh", "-c", line], "");
    eventually(|| {
        let output = session.inside(&name, &["sh", "-c", line]);
        let is_received = output.out.contains("from-outside");
        let what = format!("a page from outside in {name}");
        expect(is_received || !fine, what, "from-outside", format!("{}{}", output.out, output.err))
    })
}

/// A program that fills 100 MiB, which a lower limit must kill.
fn memory(session: &mut Session<'_>, model: &Model, node: usize) -> Outcome {
    let node = &model.nodes[node];
    let status = if node.memory.is_some_and(|memory| memory < 100) { 137 } else { 0 };
    let fill = ["busybox", "dd", "if=/dev/zero", "of=/dev/null", "bs=100M", "count=1"];
    session.expect(&[&["exec", &node.name, "--"], &fill[..]].concat(), status).map(drop)
}

/// A command that must fail without any effect.
fn refused(session: &mut Session<'_>, model: &Model, words: &[String], status: i32) -> Outcome {
    let ramp = links_change(model);
    let state = |session: &Session<'_>| {
        let nodes = session.look(&["ps"]).out;
        nodes + if ramp { String::new() } else { session.look(&["link show"]).out }.as_str()
    };
    let before = state(session);
    let output = session.expect(words, status)?;
    let what = format!("the message of a refused {}", words[0]);
    expect(!output.err.trim().is_empty(), what, "why it was refused", output.out)?;
    let after = state(session);
    expect(before == after, format!("ps and link show after a refused {}", words[0]), before, after)
}
