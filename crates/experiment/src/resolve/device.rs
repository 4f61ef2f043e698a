//! Resolves devices and contention probes.

use super::checks::positive;
use super::context::Context;
use super::load::{absolute_file, file, read, within};
use super::load_keys;
use super::mqtt;
use crate::file::{self, Resources};
use crate::limits::{DEVICE_QUEUE, DEVICE_THREADS};
use crate::load::{Contention, Device, Probe, default_port};
use crate::problem::Problem;
use crate::read::{At, Sink};
use trace::{Distribution, Mode, Resource, Scheme};
use units::{Bytes, Ratio, Span};

/// Default time between two requests of a probe.
const EVERY: Span = Span::from_ns(1_000_000_000);
/// Default delay of late answers: above the default timeout of loads.
const LATE_BY: Span = Span::from_ns(3_000_000_000);
/// Maximum answer, B: 1 MB is about a thousand CoAP blocks.
const MAX_ANSWER: u64 = 1_000_000;

impl Context<'_, '_> {
    /// Resolves devices. `None`: the problem is in the sink.
    pub(super) fn device(
        &self,
        name: String,
        typed: &file::Device,
        sink: &mut Sink,
    ) -> Option<Device> {
        let on = typed.on.as_ref()?;
        self.nonempty(on, "`on` matches no nodes", sink);
        let (nodes, _) = self.nodes.find_all(&on.value, sink);
        let mut port = |at: &Option<At<u32>>, protocol: Scheme| match at {
            Some(_) => mqtt::port_or(at, default_port(protocol), sink).map(Some),
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
        if let Some(at) = typed.payload.as_ref().filter(|at| at.value.get() > MAX_ANSWER) {
            let problem = Problem::new(format!("answers of {}", at.value)).at(at.place);
            sink.add(problem.label(format!("use at most {MAX_ANSWER} B")));
            return None;
        }
        let notify = typed.notify.as_ref().map(|at| {
            let text = absolute_file(&at.value, self.base);
            read::<Distribution>(&text, at.place, sink).map(|_| text)
        });
        if let Some(at) = typed.notify.as_ref().filter(|_| coap.is_none() && !none) {
            let problem = Problem::new("`notify` without `coap`").at(at.place);
            sink.add(problem.label("only CoAP resources can be observed: add `coap: 5683`"));
            return None;
        }
        let share = |at: &Option<At<Ratio>>| at.as_ref().map_or(Ratio::ZERO, |at| at.value);
        let faulty = [&typed.corrupt, &typed.duplicate, &typed.late, &typed.silent];
        if faulty.iter().map(|at| share(at).fraction()).sum::<f64>() > 1.0 {
            let text = "the shares of faulty answers exceed 100 % together";
            sink.add(Problem::new(text).at(on.place));
            return None;
        }
        load_keys::check_device(typed, sink);
        Some(Device {
            name,
            on: nodes,
            // A device without any protocol in the file serves CoAP.
            coap: coap.or(none.then(|| default_port(Scheme::Coap))),
            http,
            udp,
            tcp,
            resources,
            threads: within(&typed.threads, "threads", &DEVICE_THREADS, 1, sink)?,
            queue: within(&typed.queue, "queue", &DEVICE_QUEUE, 1_000, sink)?,
            payload: typed.payload.as_ref().map_or(Bytes::new(4), |at| at.value),
            notify: match notify {
                Some(read) => Some(read?),
                None => None,
            },
            corrupt: share(&typed.corrupt),
            duplicate: share(&typed.duplicate),
            late: share(&typed.late),
            late_by: typed.late_by.as_ref().map_or(LATE_BY, |at| at.value),
            silent: share(&typed.silent),
            spin: typed.spin.as_ref().is_some_and(|at| at.value),
            check: typed.check.as_ref().is_none_or(|at| at.value),
        })
    }

    /// Resolves probes. `None`: the problem is in the sink.
    pub(super) fn probe(
        &self,
        name: String,
        typed: &file::Probe,
        sink: &mut Sink,
    ) -> Option<Probe> {
        let on = typed.on.as_ref()?;
        self.nonempty(on, "`on` matches no nodes", sink);
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

    /// Lines of resources of all devices.
    fn resources(&self, at: &At<Resources>, devices: u32, sink: &mut Sink) -> Option<Vec<String>> {
        let lines = match &at.value {
            Resources::File(name) => {
                let path = file(name, "the file of resources", self.base, sink)?;
                let text = match input::read_to_string(&path, input::MAX_TEXT) {
                    Ok(text) => text,
                    Err(error) => {
                        let text = format!("could not read `{}`: {error}", name.value);
                        let label = "one resource per line";
                        sink.add(Problem::new(text).at(name.place).label(label));
                        return None;
                    }
                };
                let lines = text.lines().map(str::trim);
                let lines: Vec<String> = lines
                    .filter(|line| !line.is_empty() && !line.starts_with('#'))
                    .map(str::to_owned)
                    .collect();
                // A device without a resource would answer each request with an error.
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
                    let label = "device numbers are the places in `on`, from 0";
                    sink.add(Problem::new(text).at(name.place).label(label));
                    return None;
                }
                lines
            }
            Resources::Named(named) => {
                let mut lines = Vec::new();
                for (path, _, resource) in named.iter() {
                    let time = absolute_file(&resource.time.value, self.base);
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
            let problem = Problem::new("`resources` is empty").at(at.place);
            sink.add(problem.label("write for example `{temperature: exponential:5ms}`"));
            return None;
        }
        Some(lines)
    }
}
