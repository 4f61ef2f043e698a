//! The programs of a run: where each starts, and with which files.

use crate::control::ControlConnection;
use crate::error::Error;
use crate::roots::Roots;
use crate::services;
use crate::tls;
use experiment::{Interaction, InteractionPattern, OutsideModel, Plan, Ready, Workload};
use lab::{Exit, Node, OutOfMemory, Program, Usage};
use serde::Serialize;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// Role of a program in its workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Sends the messages; the run ends when all sources are done.
    Source,
    /// Answers the messages.
    Sink,
    /// Publishes to a broker, subscribes there, or both; the run waits for it.
    Mqtt,
    /// A user's program; the run waits for it.
    Command,
    /// A user's program that ends with the run.
    Background,
    /// A node's own program.
    Node,
    /// A network service; starts before all other programs and stops after them.
    Service,
    /// Requests a node's address and ends when it has it.
    Client,
}

/// State of a program.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum State {
    /// Started, not ready yet.
    Starting,
    /// Waits for the start, or runs.
    Ready,
    /// A source whose schedule is over and fully answered.
    Done,
    /// Ended.
    Ended {
        exit: Exit,
        usage: Usage,
        /// Set if the kernel killed it, or one of its children, for lack of memory.
        starved: Option<OutOfMemory>,
    },
}

/// One program of a run.
#[derive(Debug)]
pub(crate) struct Job {
    /// The node that it runs on.
    pub node: usize,
    /// The node's name.
    pub name: String,
    /// Index of its workload; `None` for a node's own program.
    pub workload: Option<usize>,
    /// Its role.
    pub role: Role,
    /// Its command line.
    pub argv: Vec<String>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Its additional environment variables.
    pub env: Vec<(String, String)>,
    /// A node whose programs it depends on: the broker's.
    pub relies_on: Option<usize>,
    /// The control connection; `None` for programs without our protocol.
    pub connection: Option<ControlConnection>,
    /// Its state.
    pub state: State,
    /// Messages sent and answers received, as last reported.
    pub progress: (u64, u64),
    /// When a node's own program counts as ready.
    pub ready: Option<Ready>,
    /// Whether a fault or a user stopped it.
    pub asked_to_end: bool,
    /// Whether it may end at any time with status 0: a command, or a program that only an image
    /// names. That may be a shell, which finds no terminal.
    pub may_end: bool,
    /// Paths of its events, standard output and standard error.
    pub files: Files,
}

/// A program's files.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    pub spec: PathBuf,
    pub events: PathBuf,
    pub out: PathBuf,
    pub err: PathBuf,
}

impl Files {
    /// The files in `dir` of a program of `node`: of a workload by its number, or of the node's own
    /// program.
    pub(crate) fn of(dir: &Path, node: &str, workload: Option<usize>) -> Self {
        let whose = workload.map_or("run".to_owned(), |number| number.to_string());
        Self::named(dir, &format!("{node}.{whose}"))
    }

    /// The files in `dir` with this base name.
    pub(crate) fn named(dir: &Path, name: &str) -> Self {
        let file = |kind: &str| dir.join(format!("{name}.{kind}"));
        Self { spec: file("json"), events: file("csv"), out: file("out"), err: file("err") }
    }

    /// The last lines of its standard error.
    pub(crate) fn last_output(&self) -> String {
        let text = tail(&self.err).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.trim().lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }
}

/// The end of a file of any size.
fn tail(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(8192)))?;
    let mut end = Vec::new();
    file.take(8192).read_to_end(&mut end)?;
    Ok(end)
}

/// The configuration of an interaction's program; see the documentation of the workload programs.
#[derive(Serialize)]
struct Spec<'a> {
    role: &'static str,
    node: &'a str,
    down: InteractionPattern,
    up: InteractionPattern,
    address: Ipv4Addr,
    interface: &'a str,
    group: Ipv4Addr,
    port_down: u16,
    port_up: u16,
    mtu: u64,
    multicast_rate_bit_s: u64,
    assume_loss: Option<f64>,
    assume_round_trip_ns: Option<u64>,
    outside: &'a [OutsideModel],
    broker: Option<Ipv4Addr>,
    peers: Vec<Peer<'a>>,
    payload: &'a Path,
    reply_payload: &'a Path,
    events: &'a Path,
    every_ns: u64,
    messages: u64,
    /// Steps of the fan-out: from which message on, to how many receivers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fan_out: Vec<(u64, u64)>,
}

#[derive(Serialize, Clone)]
struct Peer<'a> {
    name: &'a str,
    address: Ipv4Addr,
}

/// Ports and group of the first workload; others count up from them. The group has
/// organisation-local scope (RFC 2365).
const PORT_DOWN: u16 = 5556;
const PORT_UP: u16 = 6556;
/// The director's other stacks use the next three ports.
const PORT_OUTSIDE: u16 = 7556;
const GROUP: [u8; 4] = [239, 192, 0, 1];

/// The PGM port of a workload.
pub(crate) fn port_down(workload: usize) -> u16 {
    PORT_DOWN + workload as u16
}

/// The programs of `plan`, sinks before sources, with their files in `dir`. `workload` is the
/// program that implements the interaction models. User programs start in `home`.
pub(crate) fn jobs(
    plan: &Plan,
    roots: &Roots,
    workload: &Path,
    home: &Path,
    dir: &Path,
) -> Result<Vec<Job>, Error> {
    let place: HashMap<&str, usize> =
        plan.nodes.iter().enumerate().map(|(i, node)| (node.name.as_str(), i)).collect();
    let mut jobs = services::programs(plan, dir)?;
    jobs.extend(own_programs(plan, roots, home, dir));
    for (number, planned) in plan.workloads.iter().enumerate() {
        match planned {
            Workload::Interaction(interaction) => {
                let nodes = interaction.sinks.iter().map(|sink| (sink, Role::Sink));
                let nodes = nodes.chain([(&interaction.source, Role::Source)]);
                for (name, role) in nodes {
                    let Some(&node) = place.get(name.as_str()) else { continue };
                    let files = Files::of(dir, name, Some(number));
                    write_spec(plan, interaction, number, node, role, &files)?;
                    let argv = vec![
                        workload.display().to_string(),
                        "interaction".to_owned(),
                        files.spec.display().to_string(),
                    ];
                    jobs.push(Job::of(node, name, Some(number), role, argv, dir, files));
                }
            }
            Workload::Mqtt(mqtt) => {
                jobs.extend(crate::mqtt::jobs(plan, number, mqtt, workload, dir)?);
            }
            Workload::Exchange(exchange) => {
                jobs.extend(crate::exchange::jobs(plan, number, exchange, workload, dir)?);
            }
            Workload::Load(load) => {
                jobs.extend(crate::load::senders(plan, number, load, workload, dir)?);
            }
            Workload::Device(device) => {
                jobs.extend(crate::load::devices(plan, number, device, workload, dir)?);
            }
            Workload::Probe(probe) => {
                jobs.extend(crate::load::probers(plan, number, probe, workload, dir)?);
            }
            Workload::Command(command) => {
                for name in &command.on {
                    let Some(&node) = place.get(name.as_str()) else { continue };
                    let role = match command.background {
                        true => Role::Background,
                        false => Role::Command,
                    };
                    let (argv, files) = (command.run.clone(), Files::of(dir, name, Some(number)));
                    let mut job = Job::of(node, name, Some(number), role, argv, home, files);
                    job.env = variables(plan, name, &command.env, dir);
                    job.may_end = true;
                    jobs.push(job);
                }
            }
        }
    }
    Ok(jobs)
}

/// Environment of a user's program on `node`: `own`, and the variables it may need.
fn variables<'a>(
    plan: &Plan,
    node: &str,
    own: impl IntoIterator<Item = (&'a String, &'a String)>,
    dir: &Path,
) -> Vec<(String, String)> {
    let mut all: Vec<_> = own.into_iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    all.push(("THINGBED_NODE".to_owned(), node.to_owned()));
    if tls::has(plan, node) {
        all.push((tls::VARIABLE.to_owned(), tls::folder(dir).display().to_string()));
    }
    all
}

/// The nodes' own programs, from the experiment or the image, not yet started.
pub(crate) fn own_programs(plan: &Plan, roots: &Roots, home: &Path, dir: &Path) -> Vec<Job> {
    let nodes = plan.nodes.iter().enumerate();
    let of = |(node, planned): (usize, &experiment::PlannedNode)| {
        let program = planned.program.as_ref();
        let configured = program.map(|program| &program.run[..]).filter(|run| !run.is_empty());
        let argv = configured.or_else(|| roots.program(planned))?.to_vec();
        let files = Files::of(dir, &planned.name, None);
        let mut job = Job::of(node, &planned.name, None, Role::Node, argv, home, files);
        let own = program.into_iter().flat_map(|program| &program.env);
        job.env = variables(plan, &planned.name, own, dir);
        job.ready = program.and_then(|program| program.ready.clone());
        job.may_end = program.is_none();
        Some(job)
    };
    nodes.filter_map(of).collect()
}

fn write_spec(
    plan: &Plan,
    interaction: &Interaction,
    number: usize,
    node: usize,
    role: Role,
    files: &Files,
) -> Result<(), Error> {
    let address = |node: &experiment::PlannedNode| {
        node.links.iter().find(|link| link.network == interaction.network).map(|l| l.address)
    };
    let peer = |name: &String| {
        let node = plan.nodes.iter().find(|node| node.name == *name)?;
        Some(Peer { name: &node.name, address: address(node)? })
    };
    let planned = &plan.nodes[node];
    let link = planned.links.iter().find(|link| link.network == interaction.network);
    let network = plan.networks.iter().find(|network| network.name == interaction.network);
    let (Some(link), Some(network)) = (link, network) else { return Ok(()) };
    let [a, b, c, d] = GROUP;
    let peers = match role {
        Role::Source => interaction.sinks.iter().filter_map(peer).collect(),
        _ => peer(&interaction.source).into_iter().collect(),
    };
    let spec = Spec {
        role: if role == Role::Source { "source" } else { "sink" },
        node: &planned.name,
        down: interaction.down,
        up: interaction.up,
        address: link.address,
        interface: &link.interface,
        group: Ipv4Addr::from(u32::from(Ipv4Addr::new(a, b, c, d)) + number as u32),
        port_down: port_down(number),
        port_up: match interaction.down.is_director() {
            true => PORT_OUTSIDE + 4 * number as u16,
            false => PORT_UP + number as u16,
        },
        mtu: network.mtu.get(),
        multicast_rate_bit_s: interaction.multicast_rate.bit_s(),
        assume_loss: interaction.assume_loss.map(|loss| loss.fraction()),
        assume_round_trip_ns: interaction.assume_round_trip.map(|trip| trip.as_ns()),
        outside: &interaction.outside,
        broker: interaction.broker.as_ref().and_then(peer).map(|broker| broker.address),
        peers,
        payload: &interaction.payload,
        reply_payload: &interaction.reply_payload,
        events: &files.events,
        every_ns: interaction.every.as_ns(),
        messages: interaction.messages,
        fan_out: interaction.fan_outs().collect(),
    };
    let text = serde_json::to_vec(&spec).unwrap_or_default();
    fs::write(&files.spec, text).map_err(Error::write(&files.spec))
}

impl Job {
    /// A program chosen by the tool, not yet started, which may end with status 0.
    pub(crate) fn new(
        node: usize,
        planned: &experiment::PlannedNode,
        role: Role,
        argv: Vec<String>,
        dir: &Path,
        files: Files,
    ) -> Self {
        let job = Self::of(node, &planned.name, None, role, argv, dir, files);
        Self { may_end: true, ..job }
    }

    /// A program that is not yet started.
    pub(crate) fn of(
        node: usize,
        name: &str,
        workload: Option<usize>,
        role: Role,
        argv: Vec<String>,
        cwd: &Path,
        files: Files,
    ) -> Self {
        Self {
            node,
            name: name.to_owned(),
            workload,
            role,
            argv,
            cwd: cwd.to_path_buf(),
            env: Vec::new(),
            relies_on: None,
            connection: None,
            state: State::Starting,
            progress: (0, 0),
            ready: None,
            asked_to_end: false,
            may_end: false,
            files,
        }
    }

    /// Starts the program in its node under the number `id`.
    pub(crate) fn start(&mut self, nodes: &[Node], id: u64) -> Result<(), Error> {
        // A node's own program may start more than once and continues its log.
        let create = |path: &Path| {
            let mut options = File::options();
            options.write(true).create(true);
            match self.role {
                Role::Node => options.append(true),
                _ => options.truncate(true),
            };
            options.open(path).map_err(Error::write(path))
        };
        let control = match self.role {
            Role::Command | Role::Background | Role::Node | Role::Service => None,
            // A program with a control socket is ours, so it sees the host's files wherever it
            // runs; a DHCP client does not use the socket.
            Role::Client => {
                Some(ControlConnection::begin().map_err(Error::io("create a socket"))?.1)
            }
            Role::Source | Role::Sink | Role::Mqtt => {
                let (ours, theirs) =
                    ControlConnection::begin().map_err(Error::io("create a socket"))?;
                self.connection = Some(ours);
                Some(theirs)
            }
        };
        let program = Program {
            argv: self.argv.clone(),
            env: self.env.clone(),
            cwd: self.cwd.display().to_string(),
            stdout: create(&self.files.out)?.into(),
            stderr: create(&self.files.err)?.into(),
            control,
        };
        Ok(nodes[self.node].kind.run(id, program)?)
    }

    /// Whether it is a user's program.
    pub(crate) fn is_foreign(&self) -> bool {
        !matches!(self.role, Role::Source | Role::Sink | Role::Mqtt)
    }

    /// Whether it starts before the workloads and stops after them.
    pub(crate) fn is_of_the_lab(&self) -> bool {
        matches!(self.role, Role::Node | Role::Service | Role::Client)
    }

    /// A copy of the program, not yet started.
    pub(crate) fn again(&self) -> Self {
        Self {
            node: self.node,
            name: self.name.clone(),
            workload: self.workload,
            role: self.role,
            argv: self.argv.clone(),
            cwd: self.cwd.clone(),
            env: self.env.clone(),
            relies_on: self.relies_on,
            connection: None,
            state: State::Starting,
            progress: (0, 0),
            ready: self.ready.clone(),
            asked_to_end: false,
            may_end: self.may_end,
            files: self.files.clone(),
        }
    }

    /// Whether it is still running.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, State::Ended { .. })
    }
}
