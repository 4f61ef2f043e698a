//! Model of a lab: the expected state after the commands so far.

use super::link::{Direction, Window};
use super::operation::{LinkKey, LinkWay, Operation, Signal};
use super::scenario::{DELAY, Scenario};
use std::net::Ipv4Addr;
use std::time::Duration;

pub const NETWORKS: [&str; 2] = ["lan", "depot"];

/// The MTU of the networks, in bytes.
const MTU: u32 = 1500;

/// State of a node's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    Running,
    Paused,
    Ended { signal: i32 },
}

/// A loop that uses a CPU, started by `exec`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Busy {
    Running,
    Paused,
}

#[derive(Debug, Clone)]
pub struct Link {
    /// Index in [`NETWORKS`].
    pub network: usize,
    pub address: Ipv4Addr,
    pub up: Direction,
    pub down: Direction,
}

#[derive(Debug, Clone)]
pub struct Node {
    pub name: String,
    pub group: &'static str,
    pub alive: bool,
    pub hostname: String,
    pub mtu: u32,
    pub cpus: Option<f64>,
    /// In MiB.
    pub memory: Option<u64>,
    /// `None` if the file has none.
    pub program: Option<Program>,
    pub busy: Option<Busy>,
    pub links: Vec<Link>,
    /// Whether its root file system is an image.
    pub image: bool,
}

#[derive(Clone)]
pub struct Model {
    pub scenario: Scenario,
    /// Including destroyed nodes, whose names and addresses are not reused.
    pub nodes: Vec<Node>,
}

/// Reachability between two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    All,
    Some,
    None,
}

impl Model {
    /// A lab that has just started.
    pub fn new(scenario: Scenario) -> Self {
        let mut model = Self { scenario, nodes: Vec::new() };
        model.add("server", "server".into());
        for number in 1..=model.scenario.meters {
            model.add("meter", format!("meter-{number}"));
        }
        if model.scenario.image {
            model.add("box", "box".into());
        }
        model
    }

    fn add(&mut self, group: &'static str, name: String) {
        let is_meter = group == "meter";
        let mut networks = vec![0];
        if is_meter && self.scenario.depot {
            networks.push(1);
        }
        let delay = |network: usize| if is_meter && network == 0 { DELAY } else { 0.0 };
        let links = networks.into_iter().map(|network| Link {
            network,
            address: self.free_address(network),
            up: Direction::new(delay(network)),
            down: Direction::new(0.0),
        });
        let links = links.collect();
        let limits = self.scenario.limits.filter(|_| is_meter);
        self.nodes.push(Node {
            hostname: name.clone(),
            name,
            group,
            alive: true,
            mtu: MTU,
            cpus: limits.map(|(cpus, _)| cpus),
            memory: limits.map(|(_, memory)| memory),
            program: (group == "server").then_some(Program::Running),
            busy: None,
            links,
            image: group == "box",
        });
    }

    fn free_address(&self, network: usize) -> Ipv4Addr {
        let taken = self.nodes.iter().flat_map(|node| &node.links);
        let taken = taken.filter(|link| link.network == network).count() as u8;
        Ipv4Addr::new(10, 80 + network as u8, 0, taken + 1)
    }

    pub fn alive(&self) -> impl Iterator<Item = (usize, &Node)> {
        self.nodes.iter().enumerate().filter(|(_, node)| node.alive)
    }

    /// The existing nodes that match a name, a group or a pattern such as `meter-*`.
    pub fn find(&self, target: &str) -> Vec<usize> {
        // A node's name matches only that node, even if it is gone and its clones are not.
        if let Some(index) = self.nodes.iter().position(|node| node.name == target) {
            return Some(index).filter(|index| self.nodes[*index].alive).into_iter().collect();
        }
        let meant = |node: &Node| {
            let begin = target.strip_suffix('*');
            node.group == target || begin.is_some_and(|begin| node.name.starts_with(begin))
        };
        self.alive().filter(|(_, node)| meant(node)).map(|(index, _)| index).collect()
    }

    /// The number of the group's next clone.
    fn next_number(&self, group: &str) -> usize {
        let own = self.nodes.iter().filter(|node| node.group == group);
        let number = |node: &Node| match node.name.rsplit_once('-') {
            Some((_, number)) => number.parse().unwrap_or(1),
            None => 1,
        };
        own.map(number).max().unwrap_or(0) + 1
    }

    /// Applies the effects of an operation, which the lab executed within the window.
    pub fn apply(&mut self, operation: &Operation, at: Window) {
        match operation {
            Operation::Busy { node } => self.nodes[*node].busy = Some(Busy::Running),
            Operation::Rest { node } => self.nodes[*node].busy = None,
            Operation::Signal { signal, target } => {
                for node in self.find(target) {
                    self.nodes[node].signal(*signal);
                }
            }
            Operation::Set { target, cpus, memory, hostname, mtu } => {
                for node in self.find(target) {
                    let node = &mut self.nodes[node];
                    node.cpus = cpus.or(node.cpus);
                    node.memory = memory.or(node.memory);
                    node.mtu = mtu.unwrap_or(node.mtu);
                    if let Some(hostname) = hostname {
                        node.hostname.clone_from(hostname);
                    }
                }
            }
            Operation::LinkSet { target, network, way, keys, over } => {
                let over = over.map_or(Duration::ZERO, Duration::from_secs);
                self.directions(target, *network, *way, |direction| {
                    for key in keys {
                        match key {
                            LinkKey::Delay(ms) => direction.delay.change(*ms, at, over),
                            LinkKey::Loss(percent) => direction.loss.change(*percent, at, over),
                            LinkKey::Rate(rate) => direction.rate = *rate,
                        }
                    }
                });
            }
            Operation::LinkDown { target, network, way, down } => {
                self.directions(target, *network, *way, |direction| direction.down = *down);
            }
            Operation::Clone { node, count } => {
                for _ in 0..*count {
                    let original = self.nodes[*node].clone();
                    let number = self.next_number(original.group);
                    self.add(original.group, format!("{}-{number}", original.group));
                    let clone = self.nodes.last_mut().expect("just added");
                    (clone.cpus, clone.memory) = (original.cpus, original.memory);
                    for (link, own) in clone.links.iter_mut().zip(&original.links) {
                        (link.up, link.down) = (own.up.cloned(), own.down.cloned());
                    }
                }
            }
            Operation::Destroy { target } => {
                for node in self.find(target) {
                    (self.nodes[node].alive, self.nodes[node].busy) = (false, None);
                }
            }
            Operation::Together(all) => all.iter().for_each(|one| self.apply(one, at)),
            // Applied in the order that the lab has chosen.
            Operation::Race(both) => both.iter().for_each(|one| self.apply(one, at)),
            Operation::Restart(_) => *self = Self::new(self.scenario.clone()),
            Operation::Exec { .. }
            | Operation::Send { .. }
            | Operation::Copy { .. }
            | Operation::Fetch { .. }
            | Operation::Memory { .. }
            | Operation::Capture { .. }
            | Operation::CaptureEnd
            | Operation::Refused { .. } => {}
        }
    }

    fn directions(
        &mut self,
        target: &str,
        network: Option<usize>,
        way: LinkWay,
        mut change: impl FnMut(&mut Direction),
    ) {
        for node in self.find(target) {
            let links = &mut self.nodes[node].links;
            for link in links.iter_mut().filter(|link| network.is_none_or(|n| n == link.network)) {
                if way != LinkWay::Down {
                    change(&mut link.up);
                }
                if way != LinkWay::Up {
                    change(&mut link.down);
                }
            }
        }
    }

    pub fn link(&self, node: usize, network: usize) -> Option<&Link> {
        self.nodes[node].links.iter().find(|link| link.network == network)
    }

    /// Whether frames get from one node to another on a network within the window. Paused and
    /// killed programs have no influence: kernels answer.
    pub fn reach(&self, from: usize, to: usize, network: usize, at: Window) -> Reach {
        let (Some(one), Some(other)) = (self.link(from, network), self.link(to, network)) else {
            return Reach::None;
        };
        if !self.nodes[from].alive || !self.nodes[to].alive || one.up.down || other.down.down {
            return Reach::None;
        }
        let losses = [one.up.loss.during(at), other.down.loss.during(at)];
        if losses.iter().any(|(least, _)| *least >= 100.0) {
            Reach::None
        } else if losses.iter().all(|(_, most)| *most == 0.0) {
            Reach::All
        } else {
            Reach::Some
        }
    }

    /// Minimum round-trip time, in ms.
    pub fn round_trip(&self, from: usize, to: usize, network: usize, at: Window) -> f64 {
        let links = [self.link(from, network), self.link(to, network)];
        let ways = links.into_iter().flatten().flat_map(|link| [link.up, link.down]);
        ways.map(|direction| direction.delay.during(at).0).sum()
    }

    /// Whether a ramp may be in progress.
    pub fn has_ramp(&self, at: Window) -> bool {
        let ways = self.nodes.iter().flat_map(|node| &node.links).flat_map(|l| [l.up, l.down]);
        ways.flat_map(|way| [way.delay, way.loss]).any(|q| q.has_arrived(at) != Some(true))
    }
}

impl Node {
    fn signal(&mut self, signal: Signal) {
        let ended = |program: Program| matches!(program, Program::Ended { .. });
        self.program = self.program.map(|program| match signal {
            Signal::Start if ended(program) => Program::Running,
            Signal::Restart => Program::Running,
            Signal::Stop if !ended(program) => Program::Ended { signal: libc::SIGTERM },
            Signal::Kill if !ended(program) => Program::Ended { signal: libc::SIGKILL },
            Signal::Pause if !ended(program) => Program::Paused,
            Signal::Resume if !ended(program) => Program::Running,
            _ => program,
        });
        self.busy = match signal {
            Signal::Kill => None,
            Signal::Pause => self.busy.map(|_| Busy::Paused),
            Signal::Resume => self.busy.map(|_| Busy::Running),
            // These affect only the node's own program.
            Signal::Start | Signal::Stop | Signal::Restart => self.busy,
        };
    }

    /// The program's state as in `ps`.
    pub fn state(&self) -> Option<String> {
        self.program.map(|program| match program {
            Program::Running => "running".to_owned(),
            Program::Paused => "paused".to_owned(),
            Program::Ended { signal } => format!("killed by signal {signal}"),
        })
    }
}
