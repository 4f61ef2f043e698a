//! Resolves loads.

use super::checks::positive;
use super::context::Context;
use super::load_keys;
use super::mqtt;
use crate::file;
use crate::limits::{CONNECTIONS, LOAD_QOS, ONE, SENDERS, USERS, use_range};
use crate::load::{Load, Made, Requests, default_port};
use crate::problem::Problem;
use crate::read::{At, OneOrMore, Sink};
use crate::source::Place;
use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;
use trace::{Arrivals, CoapSettings, Distribution, Group, Method, Mix, Scheme, TraceSpec};
use units::{Bytes, Span};

/// Default timeout of an answer.
const TIMEOUT: Span = Span::from_ns(2_000_000_000);
/// Default of the largest lag of a sender behind its schedule, before the load stops.
const PATIENCE: Span = Span::from_ns(10_000_000_000);
/// Maximum request payload, B.
const MAX_REQUEST: u64 = 65_000;

/// A number that must be in a range, or its default.
pub(super) fn within(
    at: &Option<At<u32>>,
    key: &str,
    range: &std::ops::RangeInclusive<u32>,
    other: u32,
    sink: &mut Sink,
) -> Option<u32> {
    let Some(at) = at else { return Some(other) };
    if range.contains(&at.value) {
        return Some(at.value);
    }
    let text = format!("`{key}` is {}", at.value);
    sink.add(Problem::new(text).at(at.place).label(use_range(range)));
    None
}

/// Parses a text by `trace`'s syntax. `None`: the problem is in the sink.
pub(super) fn read<T: FromStr<Err: Display>>(
    text: &str,
    place: Place,
    sink: &mut Sink,
) -> Option<T> {
    match text.parse() {
        Ok(value) => Some(value),
        Err(error) => {
            let error: T::Err = error;
            sink.add(Problem::new(error.to_string()).at(place).label("see docs/load.md"));
            None
        }
    }
}

/// Makes the file of `measured:FILE` absolute, because programs have another working directory.
pub(super) fn absolute_file(text: &str, base: &Path) -> String {
    let Some(file) = text.strip_prefix("measured:") else { return text.to_owned() };
    let file = base.join(file.trim());
    format!("measured:{}", std::path::absolute(&file).unwrap_or(file).display())
}

/// Absolute path of a readable file.
pub(super) fn file(
    at: &At<String>,
    what: &str,
    base: &Path,
    sink: &mut Sink,
) -> Option<std::path::PathBuf> {
    let path = base.join(&at.value);
    if let Err(error) = input::open(&path, input::ANY_SIZE) {
        let problem = Problem::new(format!("could not read {what} `{}`: {error}", at.value));
        let problem = problem.at(at.place).label("paths are relative to the experiment file");
        sink.add(problem.note(format!("Thingbed looked for {}", path.display())));
        return None;
    }
    Some(std::path::absolute(&path).unwrap_or(path))
}

/// CoAP options of a load. `None`: the problem is in the sink.
fn coap(
    typed: &file::Load,
    on: Place,
    scheme: Option<Scheme>,
    (confirmable, timeout): (bool, Span),
    sink: &mut Sink,
) -> Option<CoapSettings> {
    let defaults = CoapSettings::default();
    let value = |at: &Option<At<u32>>| at.as_ref().map(|at| at.value);
    let settings = CoapSettings {
        // The check below rejects invalid block sizes.
        block: typed.block.as_ref().map(|at| u16::try_from(at.value.get()).unwrap_or(u16::MAX)),
        max_retransmit: value(&typed.max_retransmit).unwrap_or(defaults.max_retransmit),
        ack_timeout: typed.ack_timeout.as_ref().map_or(defaults.ack_timeout, |at| at.value),
        ack_random_factor: typed
            .ack_random_factor
            .as_ref()
            .map_or(defaults.ack_random_factor, |at| at.value),
        nstart: value(&typed.nstart),
        observe: typed.observe.as_ref().map(|at| at.value),
    };
    let place = |key: &str| match key {
        "block" => typed.block.as_ref().map(|at| at.place),
        "max_retransmit" => typed.max_retransmit.as_ref().map(|at| at.place),
        "ack_timeout" => typed.ack_timeout.as_ref().map(|at| at.place),
        "ack_random_factor" => typed.ack_random_factor.as_ref().map(|at| at.place),
        "nstart" => typed.nstart.as_ref().map(|at| at.place),
        _ => typed.observe.as_ref().map(|at| at.place),
    };
    if settings.max_retransmit == 0
        && let Some(key) =
            ["ack_timeout", "ack_random_factor"].into_iter().find(|key| place(key).is_some())
    {
        let problem = Problem::new(format!("`{key}` without `max_retransmit`"));
        let problem = problem.at(place(key).unwrap_or(on));
        sink.add(problem.label(
            "without it nothing is retransmitted: add for example \
                                `max_retransmit: 4`",
        ));
        return None;
    }
    if let Err(error) = settings.check(scheme, confirmable, timeout) {
        let place = place(error.key).unwrap_or(on);
        sink.add(Problem::new(error.to_string()).at(place));
        return None;
    }
    Some(settings)
}

impl Context<'_, '_> {
    /// Resolves a load. `None`: the problem is in the sink.
    pub(super) fn load(&self, name: String, typed: &file::Load, sink: &mut Sink) -> Option<Load> {
        let on = typed.on.as_ref()?;
        self.nonempty(on, "`on` matches no nodes", sink);
        let (senders, groups) = self.nodes.find_all(&on.value, sink);
        let duration = match &typed.duration {
            Some(_) => positive(&typed.duration, "duration", sink),
            None => self.duration,
        };
        if let Some(count) = typed.count.as_ref().filter(|count| count.value < ONE) {
            let problem = Problem::new("`count` is 0, so no request is sent").at(count.place);
            sink.add(problem.label("use 1 or more"));
        }
        positive(&typed.timeout, "timeout", sink);
        positive(&typed.patience, "patience", sink);
        let (requests, network) = match &typed.trace {
            Some(trace) => (self.traced(trace, typed, sink)?, None),
            None => {
                let (made, network) = self.made(on, (&senders, groups), typed, duration, sink)?;
                (Requests::Made(made), Some(network))
            }
        };
        if let Some(think) = &typed.think {
            read::<Distribution>(&absolute_file(&think.value, self.base), think.place, sink)?;
        }
        let users = match &typed.users {
            Some(_) => Some(within(&typed.users, "users", &USERS, 1, sink)?),
            None => None,
        };
        let is = |at: &Option<At<bool>>, other| at.as_ref().map_or(other, |at| at.value);
        let span = |at: &Option<At<Span>>, other| at.as_ref().map_or(other, |at| at.value);
        let (timeout, confirmable) = (span(&typed.timeout, TIMEOUT), is(&typed.confirmable, false));
        let scheme = match &requests {
            Requests::Trace(_) => None,
            Requests::Made(made) => Some(made.protocol),
        };
        load_keys::check_load(typed, scheme, sink);
        let coap = coap(typed, on.place, scheme, (confirmable, timeout), sink)?;
        Some(Load {
            name,
            on: senders,
            requests,
            users,
            think: typed.think.as_ref().map(|think| absolute_file(&think.value, self.base)),
            timeout,
            confirmable,
            coap,
            answers: is(&typed.answers, true),
            qos: within(&typed.qos, "qos", &LOAD_QOS, 0, sink)? as u8,
            connections: within(&typed.connections, "connections", &CONNECTIONS, 16, sink)?,
            senders: within(&typed.senders, "senders", &SENDERS, 1, sink)?,
            spin: is(&typed.spin, false),
            patience: span(&typed.patience, PATIENCE),
            network,
            duration: duration?,
        })
    }

    /// Requests from a trace; other keys of requests are not allowed.
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
            let problem = Problem::new(format!("`{key}` together with `trace`")).at(place);
            sink.add(problem.label("remove it: the lines of the trace contain it"));
            return None;
        }
        file(trace, "the trace", self.base, sink).map(Requests::Trace)
    }

    /// Generated requests, and their network.
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
            sink.add(problem.label("add the target, `to: sensor`, or a trace"));
            return None;
        };
        self.nonempty(to, "`to` matches no nodes", sink);
        let (targets, more) = self.nodes.find_all(&to.value, sink);
        if let Some(both) = targets.iter().find(|node| senders.contains(node)) {
            let problem =
                Problem::new(format!("`{both}` would send requests to itself")).at(to.place);
            sink.add(problem.label("traffic within a node does not pass any network"));
            return None;
        }
        groups.extend(more);
        groups.sort();
        groups.dedup();
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        let nodes: Vec<&String> = senders.iter().chain(&targets).collect();
        let network = self.network(&typed.network, on.place, &groups, &nodes, sink)?;
        let protocol = typed.protocol.as_ref().map_or(Scheme::Coap, |at| at.value);
        let port = mqtt::port_or(&typed.port, default_port(protocol), sink)?;
        let (arrivals, together) = match (&typed.arrivals, &typed.users) {
            (Some(at), _) => {
                let together = typed.together.as_ref().is_some_and(|at| at.value);
                (absolute_file(&at.value, self.base), together)
            }
            // A closed loop needs no arrival times.
            (None, Some(_)) => ("constant:1us".to_owned(), true),
            (None, None) => {
                let problem = Problem::new("the load has no arrival process").at(on.place);
                sink.add(problem.label("write for example `arrivals: exponential:300us`"));
                return None;
            }
        };
        if let Some(users) = typed.users.as_ref().filter(|_| typed.count.is_none()) {
            let problem = Problem::new("a closed loop without `count`").at(users.place);
            sink.add(problem.label("add the number of requests"));
            return None;
        }
        let text = |at: &Option<At<String>>| at.as_ref().map(|at| at.value.clone());
        let made = Made {
            to: targets,
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
        self.check_requests(&made, on.place, typed, sink).then_some((made, network))
    }

    /// Checks that requests can be generated from `made`.
    fn check_requests(&self, made: &Made, on: Place, typed: &file::Load, sink: &mut Sink) -> bool {
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
        let large = sizes.as_ref().and_then(|s| s.values().find(|s| s.get() > MAX_REQUEST));
        if let Some(size) = large {
            let problem = Problem::new(format!("a request of {size}")).at(place(&typed.size));
            sink.add(problem.label(format!("use at most {MAX_REQUEST} B")));
            return false;
        }
        // Making one request finds what `trace` refuses, such as a method that the protocol lacks.
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
        // Address, seed and length do not matter: only the texts are checked.
        let recipe = TraceSpec { seed: 1, groups: vec![group], span: None, requests: Some(1) };
        if let Err(error) = recipe.requests() {
            let at = if typed.method.is_some() { &typed.method } else { &typed.path };
            sink.add(Problem::new(error.to_string()).at(place(at)));
            return false;
        }
        true
    }
}
