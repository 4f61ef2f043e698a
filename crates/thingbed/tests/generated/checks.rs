//! Checks between commands. Each check can be repeated and changes nothing.

use super::dice::Dice;
use super::failure::{Failure, Outcome, eventually, expect};
use super::inside;
use super::link::Window;
use super::model::{Busy, Model, NETWORKS, Reach};
use super::session::Session;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// The tables of nodes: names, addresses, programs.
pub fn tables(session: &Session<'_>, model: &Model) -> Outcome {
    eventually(|| {
        let shown = nodes(session)?;
        let read = |node: &Value| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let own = node["interfaces"].as_array().into_iter().flatten();
            let addresses: Vec<_> = own.map(|interface| text(&interface[2])).collect();
            (text(&node["name"]), addresses, node["program"][1].as_str().map(str::to_owned))
        };
        let actual: BTreeSet<_> =
            shown.iter().map(read).filter(|(name, ..)| !name.ends_with("-services")).collect();
        let expected: BTreeSet<_> = model
            .alive()
            .map(|(_, node)| {
                let own = node.links.iter();
                let addresses: Vec<_> = own.map(|link| link.address.to_string()).collect();
                (node.name.clone(), addresses, node.state())
            })
            .collect();
        expect(actual == expected, "ps --json", format!("{expected:?}"), format!("{actual:?}"))
    })?;
    // `labs` includes the node that provides the network services.
    let expected = model.alive().count() + usize::from(model.scenario.services());
    let output = session.look(&["labs"]).out;
    let line = output.lines().find(|line| line.contains(&model.scenario.name)).unwrap_or_default();
    let count = line.split_whitespace().nth(3).unwrap_or_default();
    expect(count == expected.to_string(), "nodes in labs", expected.to_string(), line)
}

/// The output of `ps --json`.
pub fn nodes(session: &Session<'_>) -> Result<Vec<Value>, Failure> {
    let output = session.look(&["ps", "--json"]);
    let nodes = serde_json::from_str::<Value>(&output.out).ok();
    nodes.and_then(|nodes| nodes.as_array().cloned()).ok_or_else(|| Failure {
        what: "ps --json".into(),
        expected: "a list of nodes".into(),
        seen: format!("exit status {}\n{}{}", output.status, output.out, output.err),
    })
}

/// Pings from one node to another; compares with the result of the model.
pub fn reach(session: &Session<'_>, model: &Model, dice: &mut Dice) -> Outcome {
    let alive: Vec<usize> = model.alive().map(|(index, _)| index).collect();
    let (from, to) = (*dice.pick(&alive), dice.below(model.nodes.len()));
    let network = model.nodes[from].links.len() - 1;
    let network = if model.link(to, network).is_some() { network } else { 0 };
    if from == to {
        return Ok(());
    }
    let (one, other) = (&model.nodes[from], &model.nodes[to]);
    let address = other.links[network].address.to_string();
    let what = format!("ping {} to {} on {}", one.name, other.name, NETWORKS[network]);
    let both =
        |at: Window| [model.reach(from, to, network, at), model.reach(to, from, network, at)];
    // Nothing is waited for long if no answer is expected.
    let begin = Instant::now();
    let patience = if both(Window::now()).contains(&Reach::None) { "1" } else { "5" };
    let ping = inside::ping(session, one, (network, &address), &["-c2", "-W", patience]);
    let at = Window { begin, end: Instant::now() };
    let reach = both(at);
    if reach.contains(&Reach::None) {
        return expect(ping.received == 0, what, "no answer", ping.text);
    }
    if reach != [Reach::All; 2] {
        return Ok(());
    }
    expect(ping.received == ping.sent && ping.sent > 0, &what, "all answers", &ping.text)?;
    let least = model.round_trip(from, to, network, at);
    // ping rounds to microseconds.
    let long_enough = ping.least.is_some_and(|actual| actual > least - 0.01);
    expect(long_enough, &what, format!("{least} ms at least"), &ping.text)
}

/// A destroyed node does not answer.
pub fn silence(session: &Session<'_>, model: &Model, gone: usize) -> Outcome {
    let with = |link: &super::model::Link| {
        let near = model.alive().find(|(_, node)| {
            node.links.iter().any(|own| own.network == link.network && !own.up.down)
        });
        near.map(|(_, node)| (node, link.network, link.address.to_string()))
    };
    let all = model.nodes[gone].links.iter().filter_map(with);
    for (node, network, address) in all {
        let words = ["-c2", "-W1"];
        let ping = inside::ping(session, node, (network, &address), &words);
        let what = format!("ping {} to {}, destroyed", node.name, model.nodes[gone].name);
        expect(ping.received == 0, what, "no answer", ping.text)?;
    }
    Ok(())
}

/// Names and addresses in a node: its hosts file, its interfaces, its host name.
pub fn identity(session: &Session<'_>, model: &Model, dice: &mut Dice) -> Outcome {
    let alive: Vec<_> = model.alive().map(|(_, node)| node).collect();
    let node = dice.pick(&alive);
    let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in &alive {
        let addresses = one.links.iter().map(|link| link.address.to_string());
        expected.insert(one.name.clone(), addresses.take(1).collect());
    }
    if model.scenario.services() {
        expected.insert("lan-services".into(), vec!["10.80.0.254".into()]);
    }
    eventually(|| {
        let mut actual = inside::hosts(session, &node.name);
        // A node on two networks may have one name for both addresses.
        actual.values_mut().for_each(|addresses| addresses.truncate(1));
        let what = format!("/etc/hosts of {}", node.name);
        expect(actual == expected, what, format!("{expected:?}"), format!("{actual:?}"))
    })?;
    let prefix = [24, 28];
    let expected: BTreeMap<String, (Vec<String>, u32)> = (0..)
        .zip(&node.links)
        .map(|(number, link)| {
            let address = format!("{}/{}", link.address, prefix[link.network]);
            (format!("eth{number}"), (vec![address], node.mtu))
        })
        .collect();
    let actual = inside::interfaces(session, &node.name);
    let what = format!("ip addr in {}", node.name);
    expect(actual == expected, what, format!("{expected:?}"), format!("{actual:?}"))?;
    let output = session.inside(&node.name, &["hostname"]);
    let what = format!("hostname in {}", node.name);
    expect(output.out.trim() == node.hostname, what, &node.hostname, output.out)
}

/// The network's name server knows exactly the existing nodes.
pub fn names(session: &Session<'_>, model: &Model, dice: &mut Dice) -> Outcome {
    if !model.scenario.dns {
        return Ok(());
    }
    let asking = model.alive().find(|(_, node)| {
        let link = &node.links[0];
        let fine =
            |way: &super::link::Direction| !way.down && way.loss.during(Window::now()).1 == 0.0;
        !node.image && fine(&link.up) && fine(&link.down) && way_is_wide(node.mtu)
    });
    let Some((_, asking)) = asking else { return Ok(()) };
    let of = dice.pick(&model.nodes);
    let address = of.links[0].address.to_string();
    eventually(|| {
        let words = ["busybox", "nslookup", &of.name, "10.80.0.254"];
        let output = session.inside(&asking.name, &words).out;
        let known = output.split_whitespace().any(|word| word == address);
        let what = format!("nslookup {} in {}", of.name, asking.name);
        let expected = if of.alive { &address } else { "no such name" };
        expect(known == of.alive, what, expected, output)
    })
}

fn way_is_wide(mtu: u32) -> bool {
    mtu >= 600
}

/// Output of `link show` for all nodes.
pub fn links(session: &Session<'_>, model: &Model) -> Outcome {
    let begin = Instant::now();
    let output = session.look(&["link show"]);
    let at = Window { begin, end: Instant::now() };
    let mut shown: BTreeMap<String, &str> = BTreeMap::new();
    for line in output.out.lines() {
        let words: Vec<_> = line.split_whitespace().take(3).collect();
        let text = line.get(words.join(" ").len()..).unwrap_or_default();
        // `up` has as many columns as `down`.
        shown.insert(words.join(" "), text.trim_start());
    }
    shown.retain(|name, _| !name.contains("-services "));
    for (_, node) in model.alive() {
        for link in &node.links {
            for (way, direction) in [("up", &link.up), ("down", &link.down)] {
                let name = format!("{} {} {way}", node.name, NETWORKS[link.network]);
                let text = shown.remove(&name).unwrap_or("is missing");
                direction.check(&name, text, at)?;
            }
        }
    }
    expect(shown.is_empty(), "link show", "links of nodes that are up", format!("{shown:?}"))
}

/// Output of `top` for a busy loop: the loop is listed, and within its limit.
pub fn usage(session: &Session<'_>, model: &Model) -> Outcome {
    let Some((_, node)) = model.alive().find(|(_, node)| node.busy.is_some()) else {
        return Ok(());
    };
    let paused = node.busy == Some(Busy::Paused);
    let most = match (paused, node.cpus) {
        (true, _) => 1.0,
        // The kernel enforces a limit per period of 100 ms; a second may include one more period.
        (false, Some(cpus)) => cpus * 100.0 * 1.5 + 5.0,
        (false, None) => 110.0,
    };
    // A tenth of what remains on a busy machine.
    let least = if paused { -1.0 } else { 0.8 };
    eventually(|| {
        let output = session.look(&["top", "--once", &node.name]);
        let line = output.out.lines().find(|line| line.contains(&node.name)).unwrap_or_default();
        // The state may be empty or several words: six numbers end the line, CPU first.
        let words: Vec<_> = line.split_whitespace().collect();
        let cpu = words.len().checked_sub(6).and_then(|place| words[place].parse::<f64>().ok());
        let fits = cpu.is_some_and(|cpu| cpu > least && cpu < most);
        let what = format!("CPU of {} in top, busy {:?}", node.name, node.busy);
        expect(fits, what, format!("between {least} and {most} %"), output.out)
    })
}

/// Certificates that the file requests.
pub fn certificates(session: &Session<'_>, model: &Model) -> Outcome {
    if !model.scenario.tls {
        return Ok(());
    }
    let output = session.look(&["logs", "server"]);
    let there = output.out.contains("ca.pem");
    expect(there, "certificates that server lists in its log", "ca.pem", output.out)
}
