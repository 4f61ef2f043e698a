//! Draws the next command of a sequence, by weight; depends only on the model and the draws.

use super::dice::Dice;
use super::link::Window;
use super::model::Model;
use super::operation::{End, LinkKey, LinkWay, Operation, Signal};
use super::refused::refused;

/// State of activities that the model does not contain.
#[derive(Debug, Clone, Copy)]
pub struct Background<'a> {
    pub capture: bool,
    /// The previous operation, if any.
    pub last: Option<&'a Operation>,
}

/// Maximum number of nodes: each costs time at every check.
const MOST_NODES: usize = 9;
/// Maximum number of busy loops: leaves CPU time for the lab on two cores.
const MOST_BUSY: usize = 2;

#[derive(Clone, Copy)]
enum Kind {
    Exec,
    Busy,
    Rest,
    Send,
    Copy,
    Fetch,
    Memory,
    Signal,
    Set,
    LinkSet,
    Ramp,
    LinkDown,
    Clone,
    Destroy,
    Capture,
    CaptureEnd,
    Restart,
    Together,
    Race,
    Refused,
}

/// Draws operations until one is possible.
pub fn next(model: &Model, background: Background<'_>, dice: &mut Dice) -> Operation {
    let kinds = [
        (4, Kind::Exec),
        (4, Kind::Busy),
        (3, Kind::Rest),
        (16, Kind::Send),
        (2, Kind::Copy),
        (4, Kind::Fetch),
        (2, Kind::Memory),
        (16, Kind::Signal),
        (10, Kind::Set),
        (12, Kind::LinkSet),
        (8, Kind::Ramp),
        (8, Kind::LinkDown),
        (7, Kind::Clone),
        (5, Kind::Destroy),
        (5, Kind::Capture),
        (4, Kind::CaptureEnd),
        (3, Kind::Restart),
        (7, Kind::Together),
        (9, Kind::Race),
        (12, Kind::Refused),
    ];
    if let Some(operation) = background
        .last
        .and_then(|last| during_ramp(model, last, dice).or_else(|| after_pause(model, last, dice)))
    {
        return operation;
    }
    loop {
        let kind = dice.weighted(&kinds);
        if let Some(operation) = draw(kind, model, background, dice) {
            return operation;
        }
    }
}

/// Another change of the same links during a ramp.
fn during_ramp(model: &Model, last: &Operation, dice: &mut Dice) -> Option<Operation> {
    let Operation::LinkSet { target, network, way, keys, over: Some(_) } = last else {
        return None;
    };
    if !dice.chance(60) || model.find(target).is_empty() {
        return None;
    }
    // Another key does not affect the ramp, the same key replaces it.
    let key = match keys[0] {
        LinkKey::Delay(_) if dice.chance(70) => LinkKey::Loss(*dice.pick(&[0.0, 5.0])),
        _ => LinkKey::Delay(*dice.pick(&[3.0, 8.0])),
    };
    let over = dice.chance(30).then(|| 3 + dice.below(5) as u64);
    let (target, network, way) = (target.clone(), *network, *way);
    Some(Operation::LinkSet { target, network, way, keys: vec![key], over })
}

fn draw(kind: Kind, model: &Model, on: Background<'_>, dice: &mut Dice) -> Option<Operation> {
    let alive: Vec<usize> = model.alive().map(|(index, _)| index).collect();
    let node = *dice.pick(&alive);
    let busy: Vec<usize> =
        alive.iter().copied().filter(|node| model.nodes[*node].busy.is_some()).collect();
    Some(match kind {
        Kind::Exec => Operation::Exec { node },
        Kind::Busy if busy.len() < MOST_BUSY && !busy.contains(&node) => Operation::Busy { node },
        // A paused loop cannot react to its end.
        Kind::Rest => {
            let running =
                |node: &usize| model.nodes[*node].busy == Some(super::model::Busy::Running);
            Operation::Rest { node: busy.into_iter().find(running)? }
        }
        Kind::Send => send(model, node, dice)?,
        Kind::Copy => Operation::Copy { node },
        Kind::Fetch if model.scenario.nat => Operation::Fetch { node },
        Kind::Memory => Operation::Memory { node },
        Kind::Signal => signal(model, dice),
        Kind::Set => set(model, dice),
        Kind::LinkSet => link_set(model, None, dice),
        Kind::Ramp => {
            let over = 3 + dice.below(10) as u64;
            link_set(model, Some(over), dice)
        }
        Kind::LinkDown => {
            let (target, network, way) = links(model, dice);
            // More often up than down: a lab with all links down shows little.
            Operation::LinkDown { target, network, way, down: dice.chance(40) }
        }
        Kind::Clone if alive.len() < MOST_NODES => {
            Operation::Clone { node, count: 1 + dice.below(2) }
        }
        Kind::Destroy if may_destroy(model, node) => {
            Operation::Destroy { target: model.nodes[node].name.clone() }
        }
        Kind::Capture if !on.capture => Operation::Capture { node },
        Kind::CaptureEnd if on.capture => Operation::CaptureEnd,
        Kind::Restart => Operation::Restart(end(model, on, dice)),
        Kind::Together => together(model, on, dice)?,
        Kind::Race => race(model, on, dice)?,
        Kind::Refused => refused(model, dice),
        _ => return None,
    })
}

/// Commands for different nodes, so that their order has no influence. At most one clone: two would
/// get the next addresses in their order.
fn together(model: &Model, on: Background<'_>, dice: &mut Dice) -> Option<Operation> {
    let kinds =
        [Kind::Set, Kind::LinkSet, Kind::LinkDown, Kind::Signal, Kind::Clone, Kind::Destroy];
    let mut all: Vec<Operation> = Vec::new();
    let mut taken: Vec<usize> = Vec::new();
    for _ in 0..12 {
        let Some(one) = draw(*dice.pick(&kinds), model, on, dice) else { continue };
        let nodes = one.nodes(model);
        let clones = |one: &Operation| matches!(one, Operation::Clone { .. });
        let second = clones(&one) && all.iter().any(clones);
        if !second && nodes.iter().all(|node| !taken.contains(node)) {
            taken.extend(nodes);
            all.push(one);
        }
        if all.len() == 3 {
            break;
        }
    }
    (all.len() > 1).then_some(Operation::Together(all))
}

/// The end of a node that was paused.
fn after_pause(model: &Model, last: &Operation, dice: &mut Dice) -> Option<Operation> {
    let Operation::Signal { signal: Signal::Pause, target } = last else { return None };
    let [node] = model.find(target)[..] else { return None };
    let may = may_destroy(model, node) && dice.chance(40);
    may.then(|| Operation::Destroy { target: model.nodes[node].name.clone() })
}

/// Whether a node may go. The server stays: it is the only node with a program.
fn may_destroy(model: &Model, node: usize) -> bool {
    model.alive().count() > 3 && model.nodes[node].name != "server"
}

/// Two commands for one node. Either the node is destroyed meanwhile, or the commands change different
/// things, so that the exit statuses show all that the order decides.
fn race(model: &Model, on: Background<'_>, dice: &mut Dice) -> Option<Operation> {
    let alive: Vec<usize> = model.alive().map(|(index, _)| index).collect();
    let node = *dice.pick(&alive);
    let one = match may_destroy(model, node) && dice.chance(60) {
        true => Operation::Destroy { target: model.nodes[node].name.clone() },
        false => signal(model, dice).of_node(node, model),
    };
    let kinds = match one {
        Operation::Destroy { .. } => {
            vec![Kind::Destroy, Kind::Set, Kind::LinkSet, Kind::Ramp, Kind::LinkDown, Kind::Clone]
        }
        _ => vec![Kind::Set, Kind::LinkSet, Kind::Ramp, Kind::LinkDown, Kind::Clone],
    };
    // Some nodes have no program to start or stop.
    if let Operation::Signal { signal, .. } = one
        && signal.needs_program()
        && model.nodes[node].program.is_none()
    {
        return None;
    }
    let other = draw(*dice.pick(&kinds), model, on, dice)?.of_node(node, model);
    Some(Operation::Race(Box::new([one, other])))
}

/// An end of the lab.
fn end(model: &Model, on: Background<'_>, dice: &mut Dice) -> End {
    match dice.below(4) {
        0 => End::Crash,
        1 => End::Downs,
        2 => End::Down,
        _ => {
            let kinds = [Kind::Clone, Kind::Clone, Kind::Set, Kind::LinkSet, Kind::Signal];
            let command = draw(*dice.pick(&kinds), model, on, dice);
            command.map_or(End::Down, |command| End::During(Box::new(command)))
        }
    }
}

fn send(model: &Model, from: usize, dice: &mut Dice) -> Option<Operation> {
    // Includes destroyed nodes, which must not answer.
    let to = dice.below(model.nodes.len());
    let own: Vec<usize> = model.nodes[from].links.iter().map(|link| link.network).collect();
    let network = *dice.pick(&own);
    (to != from && model.link(to, network).is_some()).then_some(Operation::Send {
        from,
        to,
        network,
    })
}

/// A node, a group, or a pattern. Never `*`: it includes the services' node, whose programs are not
/// restarted.
fn target(model: &Model, dice: &mut Dice) -> String {
    let alive: Vec<_> = model.alive().map(|(_, node)| node).collect();
    let node = dice.pick(&alive);
    let meters = alive.iter().any(|node| node.group == "meter");
    match dice.below(10) {
        0 if meters => "meter-*".to_owned(),
        1..=2 if !model.find(node.group).is_empty() => node.group.to_owned(),
        _ => node.name.clone(),
    }
}

fn signal(model: &Model, dice: &mut Dice) -> Operation {
    let signal = dice.weighted(&[
        (3, Signal::Start),
        (2, Signal::Stop),
        (2, Signal::Restart),
        (2, Signal::Kill),
        (4, Signal::Pause),
        (4, Signal::Resume),
    ]);
    let target = match signal.needs_program() || dice.chance(50) {
        true => "server".to_owned(),
        false => target(model, dice),
    };
    Operation::Signal { signal, target }
}

fn set(model: &Model, dice: &mut Dice) -> Operation {
    let target = target(model, dice);
    let (mut cpus, mut memory, mut hostname, mut mtu) = (None, None, None, None);
    while cpus.is_none() && memory.is_none() && hostname.is_none() && mtu.is_none() {
        cpus = dice.chance(50).then(|| *dice.pick(&[0.1, 0.3, 0.6]));
        memory = dice.chance(25).then(|| *dice.pick(&[48, 256]));
        hostname = dice.chance(20).then(|| format!("host-{}", dice.below(100)));
        mtu = dice.chance(20).then(|| *dice.pick(&[600, 1280, 1500]));
    }
    Operation::Set { target, cpus, memory, hostname, mtu }
}

/// Links of nodes: on one network or all, in one direction or both.
fn links(model: &Model, dice: &mut Dice) -> (String, Option<usize>, LinkWay) {
    let target = target(model, dice);
    let on_both = model.scenario.depot
        && model.find(&target).iter().all(|node| model.nodes[*node].links.len() == 2);
    let network = dice.chance(40).then(|| if on_both { dice.below(2) } else { 0 });
    let way = dice.weighted(&[(3, LinkWay::Both), (3, LinkWay::Up), (3, LinkWay::Down)]);
    (target, network, way)
}

fn link_set(model: &Model, over: Option<u64>, dice: &mut Dice) -> Operation {
    let (target, network, way) = links(model, dice);
    let mut keys = Vec::new();
    while keys.is_empty() {
        if dice.chance(50) {
            keys.push(LinkKey::Delay(*dice.pick(&[0.0, 1.0, 5.0, 12.0, 30.0])));
        }
        if dice.chance(50) {
            keys.push(LinkKey::Loss(*dice.pick(&[0.0, 0.0, 0.0, 10.0, 100.0])));
        }
        // A shared channel determines the rate of its uplinks; omit the network of that channel, as
        // the `check` of a file does.
        let may = !model.scenario.is_shared() || way == LinkWay::Down;
        if over.is_none() && may && dice.chance(25) {
            keys.push(LinkKey::Rate(*dice.pick(&[0, 500, 2000])));
        }
    }
    Operation::LinkSet { target, network, way, keys, over }
}

/// Whether a ramp may be in progress, so that links cannot be compared as text.
pub fn links_change(model: &Model) -> bool {
    model.has_ramp(Window::now())
}
