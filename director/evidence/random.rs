//! The director over random networks, told nothing: a row for each draw, and the distribution.

use crate::column;
use crate::draw::{Draw, Phase, SECONDS};
use crate::table::Column;
use crate::trial::Message;
use director::{Span, carrier};
use experiment::{Experiment, Only};
use std::path::{Path, PathBuf};

/// Time before the first message, in s: members join in it, through the network's impairments.
pub const WAIT: f64 = 10.0;

/// A draw's results: mean costs of a message in ms.
struct Row {
    director: f64,
    best: f64,
    bound: f64,
}

/// Runs `count` draws from number `first`, each with `seeds` seeds, and prints them and the
/// distribution of the ratios. Experiment files of the draws are left in `folder`.
///
/// # Errors
/// A file that cannot be written, or that is not valid.
pub fn run(folder: &Path, first: u64, count: u64, seeds: u32) -> Result<(), String> {
    println!(
        "| draw | members | payload, B | packets, B | phases | director, ms | best fixed model, ms | director / fixed | director / bound | changes | answers | fixed: answers |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let mut rows = Vec::new();
    for number in first..first + count {
        rows.extend(one(folder, &Draw::new(number), seeds)?);
    }
    distribution(&rows);
    Ok(())
}

/// The director and each of its models.
pub fn names() -> Vec<&'static str> {
    std::iter::once("director").chain(carrier::available().iter().map(|m| m.name())).collect()
}

/// Protocols of peers.py that need no configuration of the network's properties.
const PROTOCOLS: [&str; 6] = ["zenoh", "mqtt-qos0", "mqtt-qos1", "coap", "dds", "quic"];

/// Writes the experiment files of `count` draws from number `first` to `folder`, for nodes: those of
/// the director and its models, and those of other protocols.
///
/// # Errors
/// A file that cannot be written.
pub fn files(folder: &Path, first: u64, count: u64) -> Result<(), String> {
    let models = ["director", "udp-request-response", "udp-arq", "multicast-fec"];
    for number in first..first + count {
        let draw = Draw::new(number);
        println!("{}", write(folder, &draw, &models)?.display());
        let peers = folder.join(format!("peers-{number}.yaml"));
        std::fs::write(&peers, draw.peers(&PROTOCOLS))
            .map_err(|why| format!("{}: {why}", peers.display()))?;
        println!("{}", peers.display());
    }
    Ok(())
}

/// Writes the experiment file of a draw; returns its path.
pub fn write(folder: &Path, draw: &Draw, models: &[&str]) -> Result<PathBuf, String> {
    let file = folder.join(format!("random-{}.yaml", draw.number));
    // Ten characters are replaced by the message's number.
    let content = |length: u32| match (length as usize).checked_sub(10) {
        Some(rest) if rest > 0 => [&vec![b'-'; rest][..], b"##########"].concat(),
        _ => vec![b'-'; length as usize],
    };
    let write = |path: &Path, content: &[u8]| {
        std::fs::write(path, content).map_err(|why| format!("{}: {why}", path.display()))
    };
    std::fs::create_dir_all(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    for length in draw.cross.iter().map(|cross| cross.payload).chain([draw.payload]) {
        write(&folder.join(format!("payload-{length}")), &content(length))?;
    }
    write(&file, draw.text(models).as_bytes())?;
    Ok(file)
}

fn one(folder: &Path, draw: &Draw, seeds: u32) -> Result<Option<Row>, String> {
    let file = write(folder, draw, &names())?;
    let experiment = Experiment::read(&file).map_err(|errors| errors.to_string())?;
    let cells = experiment.cells(&Only::all()).map_err(|errors| errors.to_string())?;
    let mut columns = Vec::new();
    let wait = Span::from_ns_f64(WAIT * 1e9);
    for cell in &cells {
        columns.extend(column(&experiment, cell, seeds, Some(wait))?);
    }
    // Chosen afterwards, so a part of its advantage is chance.
    let fixed = columns.iter().filter(|column| column.fixed);
    let best = fixed.min_by(|a, b| a.mean().total_cmp(&b.mean()));
    let director = columns.iter().find(|column| !column.fixed);
    let (Some(best), Some(director)) = (best, director) else { return Ok(None) };
    for column in &columns {
        eprintln!("{}: {} {:.0} ms", draw.number, column.name, column.mean());
    }
    for (at, to, why) in director.outcomes.first().map_or(&[][..], |outcome| &outcome.changes) {
        let (at, why) = (at.as_ns_f64() / 1e9, why.replace('\n', "; "));
        eprintln!("{}: changes to {to} at {at:.1} s: {why}", draw.number);
    }
    // In ms, as `every`.
    let deadline = draw.every * crate::DEADLINE as f64;
    let bound = bound(draw, &director.outcomes[0].messages, deadline);
    let row = Row { director: director.mean(), best: best.mean(), bound };
    let changes: usize = director.outcomes.iter().map(|outcome| outcome.changes.len()).sum();
    let share = |column: &Column| 100.0 * column.delivery(Span::from_ns_f64(deadline * 1e6));
    println!(
        "| {} | {}{} | {} | {} | {} | {:.0} | {:.0} ({}) | {:.3} | {:.2} | {:.1} | {:.2} % | {:.2} % |",
        draw.number,
        draw.members,
        draw.distant.as_ref().map_or(String::new(), |of| format!(", {} distant", of.count)),
        draw.payload,
        draw.mtu,
        draw.phases.len(),
        row.director,
        row.best,
        best.name,
        row.director / row.best,
        row.director / row.bound,
        changes as f64 / director.outcomes.len().max(1) as f64,
        share(director),
        share(best),
    );
    Ok(Some(row))
}

/// Mean cost of a message in ms below which no protocol is on average, even if it knows the
/// network and its losses in advance: the rates of the hub's link, the least delays, and as many frames
/// as a member needs on average. It leaves out headers beyond Ethernet, IPv4 and UDP,
/// acknowledgements, and answers that are lost.
fn bound(draw: &Draw, messages: &[Message], deadline: f64) -> f64 {
    let of = |message: &Message| {
        let sent = message.sent.as_ns_f64() / 1e9;
        let end = sent + deadline / 1e3;
        let during = |place: usize, phase: &Phase| {
            let next = draw.phases.get(place + 1).map_or(SECONDS * 10.0, |next| next.at);
            phase.at < end && next > sent
        };
        // A change may come while the message is on its way: the best of the phases.
        let phases = draw.phases.iter().enumerate().filter(|(place, phase)| during(*place, phase));
        let best = phases.map(|(_, phase)| least(draw, phase)).fold(f64::INFINITY, f64::min);
        // While the hub's link is closed nothing can start.
        let closed = draw.outages.iter().filter(|outage| outage.of == "hub");
        let closed = closed.filter(|outage| (outage.at..outage.at + outage.lasts).contains(&sent));
        let closed = closed.map(|outage| (outage.at + outage.lasts - sent) * 1e3);
        (best + closed.fold(0.0, f64::max)).min(deadline)
    };
    messages.iter().map(of).sum::<f64>() / messages.len().max(1) as f64
}

/// The bound of a message in a phase, in ms.
fn least(draw: &Draw, phase: &Phase) -> f64 {
    let members = f64::from(draw.members);
    let bits = draw.bits();
    let (up, down) = (bits / phase.up, bits / phase.down);
    let distant = draw.distant.as_ref().map_or(0.0, |distant| f64::from(distant.count));
    let far = draw.distant.as_ref().map_or((0.0, 0.0), |distant| {
        (phase.delay * (distant.delay - 1.0), phase.loss.max(distant.loss))
    });
    let near = phase.delay - phase.jitter;
    let mean_delay = near + distant / members * far.0;
    // By multicast a member needs 1 / (1 - loss) times the frames on average, whatever the burst.
    let loss = |share: f64, loss: f64| share / (1.0 - loss);
    let frames = loss(1.0 - distant / members, phase.loss) + loss(distant / members, far.1);
    // For a mean message: its way to a member, and the answer's way back.
    let each = up * frames + 2.0 * mean_delay + down;
    // The answers follow one another on the hub's link.
    let queued = up + 2.0 * near + down * (members + 1.0) / 2.0;
    each.max(queued)
}

/// Prints what shares of the draws have which ratio.
fn distribution(rows: &[Row]) {
    let quantiles = |name: &str, mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
        let [least, p5, p25, p50, p75, p95, most] = [0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0].map(at);
        println!(
            "| {name} | {least:.3} | {p5:.3} | {p25:.3} | {p50:.3} | {p75:.3} | {p95:.3} | {most:.3} |"
        );
    };
    if rows.is_empty() {
        return;
    }
    let ratios: Vec<f64> = rows.iter().map(|row| row.director / row.best).collect();
    println!("\n| {} draws | least | 5 % | 25 % | median | 75 % | 95 % | most |", rows.len());
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    quantiles("director / best fixed model", ratios.clone());
    quantiles("director / bound", rows.iter().map(|row| row.director / row.bound).collect());
    quantiles("best fixed model / bound", rows.iter().map(|row| row.best / row.bound).collect());
    let share = |test: fn(&f64) -> bool| {
        100.0 * ratios.iter().filter(|ratio| test(ratio)).count() as f64 / ratios.len() as f64
    };
    println!(
        "\nWithin 5 % of the best fixed model: {:.1} %; better by 10 % or more: {:.1} %; worse by more than 30 %: {:.1} %.",
        share(|ratio| *ratio <= 1.05),
        share(|ratio| *ratio <= 0.9),
        share(|ratio| *ratio > 1.3)
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::{self, Setup};
    use director::Conditions;

    /// The plan of the first cell of a file.
    fn plan(file: &Path) -> experiment::Plan {
        let experiment = Experiment::read(file).unwrap();
        let cells = experiment.cells(&Only::all()).unwrap();
        experiment.plan(&cells[0], 0, experiment.seed).unwrap()
    }

    #[test]
    fn files_for_nodes_have_the_same_network_and_configure_nothing() {
        let folder = std::env::temp_dir().join(format!("thingbed-draws-{}", std::process::id()));
        files(&folder, 1, 30).unwrap();
        let mut changes = 0;
        for number in 1..=30 {
            let own = plan(&folder.join(format!("random-{number}.yaml")));
            let peers = plan(&folder.join(format!("peers-{number}.yaml")));
            let (network, other) = (&own.networks[0], &peers.networks[0]);
            assert_eq!(network.mtu, other.mtu);
            assert_eq!(own.nodes.len(), peers.nodes.len());
            for (node, other) in own.nodes.iter().zip(&peers.nodes) {
                assert_eq!(node.links[0].up, other.links[0].up, "{number}: {}", node.name);
                assert_eq!(node.links[0].down, other.links[0].down, "{number}: {}", node.name);
            }
            assert_eq!(network.timetable.len(), other.timetable.len());
            for (change, later) in network.timetable.iter().zip(&other.timetable) {
                changes += 1;
                let settle = Span::from_s(15);
                // A network without multicast at the start has none while programs connect.
                let is_first = change.at == Span::ZERO;
                assert_eq!(later.at, if is_first { Span::ZERO } else { change.at + settle });
            }
            let interaction = setup::interaction(&own).unwrap();
            assert!(interaction.assume_nothing);
            assert_eq!(interaction.lifetime, Some(interaction.every * crate::DEADLINE));
            let setup = Setup::of(&own, Vec::new());
            assert_eq!(setup.config.lifetime, interaction.lifetime);
            let nothing = Conditions { mtu: setup.mtu as f64, ..Conditions::default() };
            assert_eq!(setup.config.assumed, nothing);
        }
        assert!(changes > 30, "{changes}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
