//! Loads and devices: who sends what to whom, and who answers how.

use super::workloads::Context;
use super::{mqtt, positive};
use crate::file::{self, Resources};
use crate::load::{Contention, Device, Load, Made, Probe, Requests, usual_port};
use crate::problem::Problem;
use crate::read::{At, OneOrMore, Sink};
use crate::source::Place;
use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;
use trace::{Arrivals, Distribution, Group, Method, Mix, Mode, Recipe, Resource, Scheme};
use units::{Bytes, Ratio, Span};

const TIMEOUT: Span = Span::from_ns(2_000_000_000);
const PATIENCE: Span = Span::from_ns(10_000_000_000);
const EVERY: Span = Span::from_ns(1_000_000_000);
const LATE_BY: Span = Span::from_ns(3_000_000_000);
/// The largest answer that crosses any link without being cut (RFC 7252, 4.6).
const LARGEST_ANSWER: u64 = 1_024;
/// The largest request.
const LARGEST_REQUEST: u64 = 65_000;

/// A number that must lie in a range, or what it is unless given.
fn within(
    at: &Option<At<u32>>,
    key: &str,
    range: std::ops::RangeInclusive<u32>,
    other: u32,
    sink: &mut Sink,
) -> Option<u32> {
    let Some(at) = at else { return Some(other) };
    if range.contains(&at.value) {
        return Some(at.value);
    }
    let text = format!("`{key}` is {}", at.value);
    let label = format!("{} to {}", range.start(), range.end());
    sink.add(Problem::new(text).at(at.place).label(label));
    None
}

/// Reads a text as `trace` does; nothing if the sink has been told why it is none.
fn read<T: FromStr<Err: Display>>(text: &str, place: Place, sink: &mut Sink) -> Option<T> {
    match text.parse() {
        Ok(value) => Some(value),
        Err(error) => {
            let error: T::Err = error;
            sink.add(Problem::new(error.to_string()).at(place).label("see docs/load.md"));
            None
        }
    }
}

/// `measured:FILE` with the file where the experiment's is: programs start elsewhere.
fn at_home(text: &str, base: &Path) -> String {
    let Some(file) = text.strip_prefix("measured:") else { return text.to_owned() };
    let file = base.join(file.trim());
    format!("measured:{}", std::path::absolute(&file).unwrap_or(file).display())
}

/// A file's absolute path, if there is one to be read.
fn file(at: &At<String>, what: &str, base: &Path, sink: &mut Sink) -> Option<std::path::PathBuf> {
    let path = base.join(&at.value);
    if let Err(error) = std::fs::File::open(&path) {
        let problem = Problem::new(format!("{what} `{}` cannot be read: {error}", at.value));
        let problem = problem.at(at.place).label("a path is relative to the experiment file");
        sink.add(problem.note(format!("looked for {}", path.display())));
        return None;
    }
    Some(std::path::absolute(&path).unwrap_or(path))
}

impl Context<'_, '_> {
    /// The load; nothing if the sink has been told why.
    pub(super) fn load(&self, name: String, typed: &file::Load, sink: &mut Sink) -> Option<Load> {
        let on = typed.on.as_ref()?;
        self.nonempty(on, "`on` names nobody", sink);
        let (senders, groups) = self.nodes.find_all(&on.value, sink);
        let duration = match &typed.duration {
            Some(_) => positive(&typed.duration, "duration", sink),
            None => self.said,
        };
        let (requests, network) = match &typed.trace {
            Some(trace) => (self.traced(trace, typed, sink)?, None),
            None => {
                let (made, network) = self.made(on, (&senders, groups), typed, duration, sink)?;
                (Requests::Made(made), Some(network))
            }
        };
        if let Some(think) = &typed.think {
            read::<Distribution>(&at_home(&think.value, self.base), think.place, sink)?;
        }
        let users = match &typed.users {
            Some(_) => Some(within(&typed.users, "users", 1..=100_000, 1, sink)?),
            None => None,
        };
        let is = |at: &Option<At<bool>>, other| at.as_ref().map_or(other, |at| at.value);
        let span = |at: &Option<At<Span>>, other| at.as_ref().map_or(other, |at| at.value);
        Some(Load {
            name,
            on: senders,
            requests,
            users,
            think: typed.think.as_ref().map(|think| at_home(&think.value, self.base)),
            timeout: span(&typed.timeout, TIMEOUT),
            confirmable: is(&typed.confirmable, false),
            answers: is(&typed.answers, true),
            qos: within(&typed.qos, "qos", 0..=1, 0, sink)? as u8,
            connections: within(&typed.connections, "connections", 1..=10_000, 16, sink)?,
            senders: within(&typed.senders, "senders", 1..=256, 1, sink)?,
            spin: is(&typed.spin, false),
            patience: span(&typed.patience, PATIENCE),
            network,
            duration: duration?,
        })
    }

    /// Requests from a trace, beside which nothing may be said of requests.
    fn traced(&self, trace: &At<String>, typed: &file::Load, sink: &mut Sink) -> Option<Requests> {
        let text = |at: &Option<At<String>>| at.as_ref().map(|at| at.place);
        let own = [
            ("to", typed.to.as_ref().map(|at| at.place)),
            ("protocol", typed.protocol.as_ref().map(|at| at.place)),
            ("port", typed.port.as_ref().map(|at| at.place)),
            ("arrivals", text(&typed.arrivals)),
            ("together", typed.together.as_ref().map(|at| at.place)),
            ("method", text(&typed.method)),
            ("path", text(&typed.path)),
            ("size", text(&typed.size)),
            ("count", typed.count.as_ref().map(|at| at.place)),
            ("network", text(&typed.network)),
        ];
        if let Some((key, place)) = own.into_iter().find_map(|(key, at)| Some((key, at?))) {
            let problem = Problem::new(format!("`{key}` beside `trace`")).at(place);
            sink.add(problem.label("the lines of the trace say that"));
            return None;
        }
        file(trace, "the trace", self.base, sink).map(Requests::Trace)
    }

    /// Requests that are made, and the network that they go over.
    fn made(
        &self,
        on: &At<OneOrMore<At<String>>>,
        (senders, mut groups): (&[String], Vec<String>),
        typed: &file::Load,
        duration: Option<Span>,
        sink: &mut Sink,
    ) -> Option<(Made, String)> {
        let Some(to) = &typed.to else {
            let problem = Problem::new("a load without `to` and without `trace`").at(on.place);
            sink.add(problem.label("say who is asked, `to: sensor`, or name a trace"));
            return None;
        };
        self.nonempty(to, "`to` names nobody", sink);
        let (asked, more) = self.nodes.find_all(&to.value, sink);
        if let Some(both) = asked.iter().find(|node| senders.contains(node)) {
            let problem = Problem::new(format!("`{both}` would ask itself")).at(to.place);
            sink.add(problem.label("what stays in a node passes no network"));
            return None;
        }
        groups.extend(more);
        groups.sort();
        groups.dedup();
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        let shared = self.networks.shared_by(&groups);
        let network = self.network(&typed.network, on.place, &shared, &groups, sink)?;
        let protocol = typed.protocol.as_ref().map_or(Scheme::Coap, |at| at.value);
        let port = mqtt::port_or(&typed.port, usual_port(protocol), sink)?;
        let (arrivals, together) = match (&typed.arrivals, &typed.users) {
            (Some(at), _) => {
                let together = typed.together.as_ref().is_some_and(|at| at.value);
                (at_home(&at.value, self.base), together)
            }
            // A closed loop needs no times.
            (None, Some(_)) => ("constant:1us".to_owned(), true),
            (None, None) => {
                let problem = Problem::new("nothing says when requests come").at(on.place);
                sink.add(problem.label("write for example `arrivals: exponential:300us`"));
                return None;
            }
        };
        if let Some(users) = typed.users.as_ref().filter(|_| typed.count.is_none()) {
            let problem = Problem::new("a closed loop without `count`").at(users.place);
            sink.add(problem.label("it ends by number: say how many requests there are"));
            return None;
        }
        let text = |at: &Option<At<String>>| at.as_ref().map(|at| at.value.clone());
        let made = Made {
            to: asked,
            protocol,
            port,
            arrivals,
            together,
            method: text(&typed.method),
            path: text(&typed.path),
            size: text(&typed.size),
            count: typed.count.as_ref().map(|at| at.value),
            duration: duration?,
        };
        self.try_out(&made, on.place, typed, sink).then_some((made, network))
    }

    /// Whether requests can be made like that.
    fn try_out(&self, made: &Made, on: Place, typed: &file::Load, sink: &mut Sink) -> bool {
        let place = |at: &Option<At<String>>| at.as_ref().map_or(on, |at| at.place);
        let arrivals = read::<Arrivals>(&made.arrivals, place(&typed.arrivals), sink);
        let methods = made.method.as_deref().map(|text| read(text, place(&typed.method), sink));
        let paths = made.path.as_deref().map(|text| read(text, place(&typed.path), sink));
        let sizes: Option<Option<Mix<Bytes>>> =
            made.size.as_deref().map(|text| read(text, place(&typed.size), sink));
        let (Some(arrivals), Some(methods), Some(paths), Some(sizes)) = (
            arrivals,
            methods.unwrap_or_else(|| Some(Mix::of(Method::usual(made.protocol)))),
            paths.unwrap_or_else(|| Some(Mix::of(String::new()))),
            sizes.map_or(Some(None), |sizes| sizes.map(Some)),
        ) else {
            return false;
        };
        let large = sizes.as_ref().and_then(|s| s.values().find(|s| s.get() > LARGEST_REQUEST));
        if let Some(size) = large {
            let problem = Problem::new(format!("a request of {size}")).at(place(&typed.size));
            sink.add(problem.label(format!("{LARGEST_REQUEST} B at most")));
            return false;
        }
        let group = Group {
            devices: 0..1,
            targets: vec![format!("{}://10.0.0.1:{}", made.protocol.name(), made.port)],
            arrivals,
            together: made.together,
            methods,
            paths,
            service: None,
            sizes: None,
        };
        let recipe = Recipe { seed: 1, groups: vec![group], span: None, requests: Some(1) };
        if let Err(error) = recipe.requests() {
            let at = if typed.method.is_some() { &typed.method } else { &typed.path };
            sink.add(Problem::new(error.to_string()).at(place(at)));
            return false;
        }
        true
    }

    /// The devices; nothing if the sink has been told why.
    pub(super) fn device(
        &self,
        name: String,
        typed: &file::Device,
        sink: &mut Sink,
    ) -> Option<Device> {
        let on = typed.on.as_ref()?;
        self.nonempty(on, "`on` names nobody", sink);
        let (nodes, _) = self.nodes.find_all(&on.value, sink);
        let mut port = |at: &Option<At<u32>>, protocol: Scheme| match at {
            Some(_) => mqtt::port_or(at, usual_port(protocol), sink).map(Some),
            None => Some(None),
        };
        let coap = port(&typed.coap, Scheme::Coap)?;
        let http = port(&typed.http, Scheme::Http)?;
        let udp = port(&typed.udp, Scheme::Udp)?;
        let tcp = port(&typed.tcp, Scheme::Tcp)?;
        let none = [coap, http, udp, tcp].iter().all(Option::is_none);
        let resources = match &typed.resources {
            Some(resources) => self.resources(resources, nodes.len() as u32, sink)?,
            // Answered at once.
            None => vec!["*, , sleep, constant:0s".to_owned()],
        };
        if let Some(at) = typed.payload.as_ref().filter(|at| at.value.get() > LARGEST_ANSWER) {
            let problem = Problem::new(format!("answers of {}", at.value)).at(at.place);
            sink.add(problem.label(format!("{LARGEST_ANSWER} B at most")));
            return None;
        }
        let share = |at: &Option<At<Ratio>>| at.as_ref().map_or(Ratio::ZERO, |at| at.value);
        let spoiled = [&typed.garbage, &typed.twice, &typed.late, &typed.silent];
        if spoiled.iter().map(|at| share(at).fraction()).sum::<f64>() > 1.0 {
            let text = "the shares of spoiled answers are more than 100 % together";
            sink.add(Problem::new(text).at(on.place));
            return None;
        }
        Some(Device {
            name,
            on: nodes,
            coap: coap.or(none.then(|| usual_port(Scheme::Coap))),
            http,
            udp,
            tcp,
            resources,
            threads: within(&typed.threads, "threads", 1..=1_024, 1, sink)?,
            queue: within(&typed.queue, "queue", 0..=10_000_000, 1_000, sink)?,
            payload: typed.payload.as_ref().map_or(Bytes::new(4), |at| at.value),
            garbage: share(&typed.garbage),
            twice: share(&typed.twice),
            late: share(&typed.late),
            late_by: typed.late_by.as_ref().map_or(LATE_BY, |at| at.value),
            silent: share(&typed.silent),
            spin: typed.spin.as_ref().is_some_and(|at| at.value),
            check: typed.check.as_ref().is_none_or(|at| at.value),
        })
    }

    /// The probes; nothing if the sink has been told why.
    pub(super) fn probe(
        &self,
        name: String,
        typed: &file::Probe,
        sink: &mut Sink,
    ) -> Option<Probe> {
        let on = typed.on.as_ref()?;
        self.nonempty(on, "`on` names nobody", sink);
        let (nodes, _) = self.nodes.find_all(&on.value, sink);
        let modes = match &typed.mode {
            Some(modes) => {
                let texts = modes.value.0.iter();
                let modes = texts.map(|at| read::<Mode>(&at.value, at.place, sink));
                modes.collect::<Option<Vec<_>>>()?
            }
            None => vec![Mode::Sleep, Mode::Busy],
        };
        let positive = |at: &Option<At<Span>>, key, sink: &mut Sink| match at {
            Some(_) => positive(at, key, sink).map(Some),
            None => Some(None),
        };
        let service = positive(&typed.service, "service", sink)?;
        let every = positive(&typed.every, "every", sink)?.unwrap_or(EVERY);
        let cores = typed.cores.iter().flat_map(|cores| &cores.value.0);
        Some(Probe {
            name,
            on: nodes,
            service,
            modes: modes.iter().map(Mode::to_string).collect(),
            every,
            cores: cores.map(|at| at.value).collect(),
            contention: typed.contention.as_ref().map_or(Contention::Report, |at| at.value),
            limit: typed.limit.as_ref().map(|at| at.value).or(Ratio::from_fraction(0.1))?,
        })
    }

    /// The lines of resources, all devices' in one list.
    fn resources(&self, at: &At<Resources>, devices: u32, sink: &mut Sink) -> Option<Vec<String>> {
        let lines = match &at.value {
            Resources::File(name) => {
                let path = file(name, "the file of resources", self.base, sink)?;
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                let lines = text.lines().map(str::trim);
                let lines: Vec<String> = lines
                    .filter(|line| !line.is_empty() && !line.starts_with('#'))
                    .map(str::to_owned)
                    .collect();
                let mut of = vec![false; devices as usize];
                for line in &lines {
                    let resource = read::<Resource>(line, name.place, sink)?;
                    match resource.device {
                        None => of.fill(true),
                        Some(device) => {
                            of.get_mut(device as usize).into_iter().for_each(|has| *has = true);
                        }
                    }
                }
                if let Some(without) = of.iter().position(|has| !has) {
                    let text = format!("`{}` has no resource of device {without}", name.value);
                    let label = "devices have numbers by their place in `on`, from 0";
                    sink.add(Problem::new(text).at(name.place).label(label));
                    return None;
                }
                lines
            }
            Resources::Named(named) => {
                let mut lines = Vec::new();
                for (path, _, resource) in named.iter() {
                    let time = at_home(&resource.time.value, self.base);
                    read::<Distribution>(&time, resource.time.place, sink)?;
                    let mode = match &resource.mode {
                        Some(mode) => read::<Mode>(&mode.value, mode.place, sink)?,
                        None => Mode::Sleep,
                    };
                    lines.push(format!("*, {}, {mode}, {time}", path.trim_start_matches('/')));
                }
                lines
            }
        };
        if lines.is_empty() {
            let problem = Problem::new("`resources` names none").at(at.place);
            sink.add(problem.label("write for example `{temperature: exponential:5ms}`"));
            return None;
        }
        Some(lines)
    }
}
