//! Resolves workloads.

use crate::file::{Command, File, Group, Workload};
use crate::plan;
use crate::problem::Problem;
use crate::read::{Named, Sink};
use crate::resolve::checks::check_name;
use crate::resolve::context::{Context, Topology};
use crate::resolve::metrics;
use crate::resolve::networks::Networks;
use crate::resolve::nodes::Nodes;
use crate::resolve::program_check;
use crate::source::Place;
use std::collections::HashMap;
use std::path::Path;
use units::Span;

/// Durations of the interactions.
#[derive(Default)]
pub(super) struct Durations {
    /// The longest duration.
    pub sending: Span,
    /// Maximum wait of each interaction after that, if it has one.
    pub drain: Vec<Option<Span>>,
}

/// The names of workloads so far.
#[derive(Default)]
struct Labels {
    /// Number of workloads of each kind.
    numbers: HashMap<&'static str, usize>,
    /// Where each name is in the file; none if it has a workload's number.
    places: HashMap<String, Option<Place>>,
}

impl Labels {
    /// The name of the next workload: its own, or its kind and number.
    fn of(&mut self, workload: &Workload, sink: &mut Sink) -> String {
        let (kind, name) = match workload {
            Workload::Interaction(interaction) => ("interaction", &interaction.name),
            Workload::Mqtt(mqtt) => ("mqtt", &mqtt.name),
            Workload::Exchange(exchange) => ("exchange", &exchange.name),
            Workload::Load(load) => ("load", &load.name),
            Workload::Device(device) => ("device", &device.name),
            Workload::Probe(probe) => ("probe", &probe.name),
            Workload::Command(command) => ("command", &command.name),
        };
        // Workloads with a name count as well: naming one does not rename the others.
        let number = self.numbers.entry(kind).or_default();
        *number += 1;
        let label = name.as_ref().map_or(format!("{kind}-{number}"), |name| name.value.clone());
        if let Some(name) = name {
            check_name(name, sink);
        }
        let place = name.as_ref().map(|name| name.place);
        // A workload without a name can get the name that an earlier one was given.
        if let Some(earlier) = self.places.insert(label.clone(), place) {
            let problem = Problem::new(format!("two workloads have the name `{label}`"));
            sink.add(match place.or(earlier) {
                Some(place) => problem.at(place),
                None => problem,
            });
        }
        label
    }
}

/// Resolves the workloads and their durations.
pub(super) fn of<'f>(
    file: &'f File,
    nodes: &Nodes<'f>,
    networks: &Networks<'f>,
    topology: &Topology<'_>,
    duration: Option<Span>,
    base: &Path,
    sink: &mut Sink,
) -> (Vec<plan::Workload>, Durations) {
    let context = Context { file, nodes, networks, topology, duration, base };
    let models = file.models.iter().flat_map(Named::iter);
    models.for_each(|(_, _, model)| super::interaction::check(model, sink));
    let (mut planned, mut durations) = (Vec::new(), Durations::default());
    let workloads = file.workloads.as_deref().unwrap_or_default();
    let mut labels = Labels::default();
    for workload in workloads {
        let label = labels.of(workload, sink);
        match workload {
            Workload::Interaction(typed) => {
                let resolved = context.interaction(label, typed, sink);
                if let Some((interaction, sending)) = resolved {
                    durations.sending = durations.sending.max(sending);
                    durations.drain.push(context.drain(&interaction.model, typed));
                    planned.push(plan::Workload::Interaction(interaction));
                }
            }
            Workload::Mqtt(typed) => {
                if let Some(mqtt) = context.mqtt(label, typed, sink) {
                    durations.sending = durations.sending.max(mqtt.planned_duration());
                    durations.drain.push(typed.drain.as_ref().map(|drain| drain.value));
                    planned.push(plan::Workload::Mqtt(mqtt));
                }
            }
            Workload::Exchange(typed) => {
                if let Some(exchange) = context.exchange(label, typed, sink) {
                    durations.sending = durations.sending.max(exchange.planned_duration());
                    durations.drain.push(Some(exchange.max_overrun()));
                    planned.push(plan::Workload::Exchange(exchange));
                }
            }
            Workload::Load(typed) => {
                if let Some(load) = context.load(label, typed, sink) {
                    durations.sending = durations.sending.max(load.duration);
                    durations.drain.push(Some(load.max_overrun()));
                    planned.push(plan::Workload::Load(load));
                }
            }
            Workload::Device(typed) => {
                let device = context.device(label, typed, sink);
                planned.extend(device.map(plan::Workload::Device));
            }
            Workload::Probe(typed) => {
                let probe = context.probe(label, typed, sink);
                planned.extend(probe.map(plan::Workload::Probe));
            }
            Workload::Command(command) => {
                planned.push(plan::Workload::Command(context.command(label, command, sink)));
            }
        }
    }
    // After all devices are known, whose mean it takes (decision 31).
    default_probe_service(&mut planned);
    // Without interactions, only `duration` limits the run.
    let unlimited = workloads.iter().all(|workload| {
        use Workload::{Command, Device, Load, Probe};
        matches!(workload, Command(_) | Load(_) | Device(_) | Probe(_))
    });
    if unlimited && !workloads.is_empty() && file.duration.is_none() {
        sink.add(Problem::new("`duration` is missing").label("write for example `duration: 90 s`"));
    }
    (planned, durations)
}

/// Sets the service time of probes without one to the devices' mean.
fn default_probe_service(planned: &mut [plan::Workload]) {
    let times = planned.iter().flat_map(|workload| match workload {
        plan::Workload::Device(device) => device.mean_service_ns(),
        _ => Vec::new(),
    });
    let times: Vec<f64> = times.filter(|ns| *ns > 0.0).collect();
    if times.is_empty() {
        return;
    }
    let mean = Span::from_ns((times.iter().sum::<f64>() / times.len() as f64).round() as u64);
    for workload in planned {
        if let plan::Workload::Probe(probe) = workload {
            probe.service.get_or_insert(mean);
        }
    }
}

impl Context<'_, '_> {
    /// The figures of a command's metrics are `programs.NAME.METRIC`, as those of a group's program.
    fn check_figures(&self, name: &str, typed: &Command, sink: &mut Sink) {
        let Some((_, place, _)) = typed.metrics.iter().flat_map(Named::iter).next() else { return };
        let place = typed.name.as_ref().map_or(place, |name| name.place);
        if name.contains('.') {
            let problem =
                Problem::new(format!("the command `{name}` has metrics and a dot in its name"));
            let label = "a dot separates the parts of a figure's name; use `-` or `_`";
            sink.add(problem.at(place).label(label));
        }
        let mut groups = self.file.nodes.iter().flat_map(Named::iter);
        let same = |(group, _, typed): (&str, Place, &Group)| {
            group == name && typed.metrics.iter().flat_map(Named::iter).next().is_some()
        };
        if groups.any(same) {
            let text = format!("the command and the group `{name}` both have metrics");
            let label = "their figures would have the same names; give the command another `name`";
            sink.add(Problem::new(text).at(place).label(label));
        }
    }

    fn command(&self, name: String, typed: &Command, sink: &mut Sink) -> plan::Command {
        let on = typed.on.as_ref().map(|on| {
            self.nonempty(on, "`on` matches no nodes", sink);
            self.nodes.find_all(&on.value, sink).0
        });
        let run = typed.run.as_ref().map(|run| {
            if run.value.first().is_none_or(|program| program.value.is_empty()) {
                let problem = Problem::new("`run` has no program").at(run.place);
                sink.add(problem.label("write for example `[ping, -c, 3, utility]`"));
            }
            run.value.iter().map(|word| word.value.clone()).collect()
        });
        let env = typed.env.iter().flat_map(Named::iter);
        self.check_figures(&name, typed, sink);
        plan::Command {
            name,
            on: on.unwrap_or_default(),
            run: run.unwrap_or_default(),
            env: env.map(|(key, _, value)| (key.to_owned(), value.value.clone())).collect(),
            background: typed.background.as_ref().is_some_and(|background| background.value),
            metrics: metrics::of(&typed.metrics, sink),
            check: program_check::of(&typed.expect, sink),
        }
    }
}
