//! Commands that the lab must reject in its current state, with their exit status.

use super::dice::Dice;
use super::model::{Model, NETWORKS};
use super::operation::Operation;

/// Why a command is rejected. All reasons are equally likely, whatever their number of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// A node, group or network that never existed.
    Unknown,
    /// A node that was destroyed.
    Gone,
    /// An invalid value.
    Value,
    /// Keys that contradict each other or the link's configuration.
    Rules,
    /// A command that these nodes do not support.
    Command,
}

/// Draws one.
pub fn refused(model: &Model, dice: &mut Dice) -> Operation {
    let all = all(model);
    let reasons = [Reason::Unknown, Reason::Gone, Reason::Value, Reason::Rules, Reason::Command];
    loop {
        let reason = *dice.pick(&reasons);
        let own: Vec<_> = all.iter().filter(|(known, ..)| *known == reason).collect();
        if !own.is_empty() {
            let (_, status, words) = (*dice.pick(&own)).clone();
            return Operation::Refused { words, status };
        }
    }
}

fn all(model: &Model) -> Vec<(Reason, i32, Vec<String>)> {
    let mut all = Vec::new();
    let mut add = |reason: Reason, status: i32, words: &[&str]| {
        all.push((reason, status, words.iter().map(|word| (*word).to_owned()).collect()));
    };
    for command in ["kill", "destroy", "clone", "link up", "pause", "logs", "top"] {
        add(Reason::Unknown, 1, &[command, "nobody"]);
    }
    add(Reason::Unknown, 1, &["exec", "nobody", "--", "true"]);
    add(Reason::Unknown, 1, &["exec", "server", "--", "no-such-program"]);
    add(Reason::Unknown, 1, &["link set", "nobody", "loss=1%"]);
    add(Reason::Unknown, 1, &["link set", "server", "--network", "moon", "loss=1%"]);
    add(Reason::Unknown, 1, &["capture", "nobody", "-w", "refused.pcapng"]);
    add(Reason::Unknown, 1, &["capture", "server", "-w", "refused.pcapng", "--network", "moon"]);
    add(Reason::Value, 2, &["clone", "server", "--count", "0"]);
    add(Reason::Value, 2, &["set", "server", "colour=red"]);
    add(Reason::Value, 2, &["set", "server", "memory=much"]);
    add(Reason::Value, 2, &["set", "server", "cpu=5"]);
    add(Reason::Value, 2, &["set", "server", "cpus=0.3", "memory=1kB"]);
    add(Reason::Value, 2, &["set", "server", "cpus=0.3", "mtu=70000B"]);
    add(Reason::Value, 2, &["set", "server", "mtu=900B", "hostname=bad_name!"]);
    add(Reason::Value, 2, &["link set", "server", "los=1%"]);
    add(Reason::Value, 2, &["link set", "server", "loss"]);
    add(Reason::Value, 2, &["link set", "server", "loss=120%"]);
    add(Reason::Value, 2, &["link set", "server", "delay=3ms", "loss=120%"]);
    add(Reason::Value, 2, &["link set", "*", "loss=1%", "loss_unit=flock"]);
    add(Reason::Value, 1, &["capture", "server", "-w", "refused.pcapng", "--filter", "tpc"]);
    rules(model, &mut add);
    commands(model, &mut add);
    if let Some(gone) = model.nodes.iter().find(|node| !node.alive) {
        let gone = gone.name.as_str();
        for command in ["kill", "pause", "resume", "destroy", "clone", "link up", "link show", "ps"]
        {
            add(Reason::Gone, 1, &[command, gone]);
        }
        add(Reason::Gone, 1, &["exec", gone, "--", "true"]);
        add(Reason::Gone, 1, &["cp", "payload.xml", &format!("{gone}:/tmp/refused")]);
        add(Reason::Gone, 1, &["cp", &format!("{gone}:/etc/hosts"), "refused"]);
        add(Reason::Gone, 1, &["set", gone, "cpus=0.3"]);
        add(Reason::Gone, 1, &["link set", gone, "delay=3ms"]);
        add(Reason::Gone, 1, &["capture", gone, "-w", "refused.pcapng"]);
    }
    all
}

/// Settings that a file would not accept either. No link has any of these keys.
fn rules(model: &Model, add: &mut impl FnMut(Reason, i32, &[&str])) {
    for (_, node) in model.alive() {
        let mut set = |words: &[&str]| {
            add(Reason::Rules, 2, &[&["link set", node.name.as_str()], words].concat());
        };
        set(&["jitter=500ms"]);
        set(&["loss=1%", "jitter=500ms"]);
        set(&["gap=2"]);
        set(&["distribution=normal"]);
        set(&["correlation=10%"]);
        set(&["duplicate_correlation=10%"]);
        set(&["loss=1%", "gilbert_elliott={p: 1 %, r: 20 %}"]);
        let ways = || node.links.iter().flat_map(|link| [link.up, link.down]);
        if ways().all(|way| way.rate == 0) {
            set(&["burst=1kB"]);
            set(&["delay=3ms", "overhead=24B"]);
        }
        if model.scenario.is_shared() {
            set(&["--network", "lan", "rate=1Mbit/s"]);
        }
    }
}

/// Commands that these nodes do not support.
fn commands(model: &Model, add: &mut impl FnMut(Reason, i32, &[&str])) {
    add(Reason::Command, 1, &["cp", "payload.xml", "elsewhere.xml"]);
    // Some of these nodes have no own program: then none is stopped.
    add(Reason::Command, 1, &["stop", "*"]);
    add(Reason::Command, 1, &["restart", "*"]);
    if model.scenario.services() {
        add(Reason::Command, 1, &["clone", "lan-services"]);
    }
    if model.find("meter").len() > 1 {
        add(Reason::Command, 1, &["exec", "meter", "--", "true"]);
        add(Reason::Command, 1, &["clone", "meter"]);
    }
    if let Some((_, meter)) = model.alive().find(|(_, node)| node.group == "meter") {
        add(Reason::Command, 1, &["start", &meter.name]);
        if model.scenario.depot {
            // 10.81.0.0/28 has room for 14.
            add(Reason::Command, 1, &["clone", &meter.name, "--count", "14"]);
        } else {
            let words = ["link set", &meter.name, "--network", NETWORKS[1], "loss=1%"];
            add(Reason::Command, 1, &words);
        }
    }
}
