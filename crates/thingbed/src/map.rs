//! `thingbed map`: turns results of the director's models into a performance map.

use crate::arguments::Map;
use crate::{Status, complain, remark, sweep};
use director::{Conditions, Figures, ModelId, PerformanceMap, Point, Quantiles, Span};
use experiment::{Interaction, Plan, PlannedNetwork, Workload};
use link::{Impairment, Loss};
use record::{Summary, Times};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Runs an experiment, or reads the sweep in a folder, and writes its performance map.
pub fn map(arguments: &Map) -> Status {
    let (status, folder) = match arguments.run.file.is_dir() {
        true => (Status::Fine, Some(arguments.run.file.clone())),
        false => sweep::have(&arguments.run),
    };
    let Some(folder) = folder else { return status };
    if status == Status::Interrupted {
        return status;
    }
    // An interrupted sweep has fewer repeats for some conditions than for others, so it gives no
    // map.
    let mut results = Results::default();
    if let Err(error) = results.collect(&folder, arguments.suspect) {
        complain(error);
        return Status::Failed;
    }
    if results.points.is_empty() {
        complain(format!(
            "no {} run in {} uses a model of the director (`director/udp-arq` and so on); {} runs \
             were skipped because of their verdict",
            if arguments.suspect { "valid or suspect" } else { "valid" },
            folder.display(),
            results.skipped
        ));
        return Status::Failed;
    }
    let map = results.map();
    if let Err(error) = fs::write(&arguments.map, map.to_json() + "\n") {
        complain(format!("could not write the map to {}: {error}", arguments.map.display()));
        return Status::Failed;
    }
    remark(format_args!(
        "{} points of {} models in {}; {} runs were skipped because of their verdict",
        results.points.len(),
        results
            .points
            .keys()
            .map(|(model, _)| model)
            .collect::<std::collections::BTreeSet<_>>()
            .len(),
        arguments.map.display(),
        results.skipped
    ));
    Status::Fine
}

/// Results by model and conditions; the repeats of a cell are in one entry.
#[derive(Debug, Default)]
struct Results {
    points: BTreeMap<(ModelId, String), (Conditions, Vec<Figures>)>,
    skipped: usize,
}

impl Results {
    /// Adds a run, or all runs of a sweep.
    fn collect(&mut self, folder: &Path, suspect: bool) -> Result<(), String> {
        if folder.join("plan.json").exists() {
            return self.run(folder, suspect);
        }
        let failed = |error| format!("could not read {}: {error}", folder.display());
        let entries = fs::read_dir(folder).map_err(failed)?;
        let mut runs: Vec<PathBuf> = entries
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            // A run that was killed lacks its summary.
            .filter(|path| path.join("plan.json").exists() && path.join("summary.json").exists())
            .collect();
        // The order in which a file system lists folders must not change the map.
        runs.sort();
        runs.iter().try_for_each(|run| self.run(run, suspect))
    }

    fn run(&mut self, folder: &Path, suspect: bool) -> Result<(), String> {
        let read = |name: &str| {
            let path = folder.join(name);
            input::read_to_string(&path, input::MAX_DATA)
                .map_err(|error| format!("{}: {error}", path.display()))
        };
        let plan: Plan = serde_json::from_str(&read("plan.json")?).map_err(|error| {
            format!(
                "{}/plan.json was written by another version of Thingbed: {error}",
                folder.display()
            )
        })?;
        let summary: Summary = serde_json::from_str(&read("summary.json")?)
            .map_err(|error| format!("{}/summary.json: {error}", folder.display()))?;
        let Some((model, at)) = conditions(&plan) else { return Ok(()) };
        let trusted = match summary.verdict.status {
            record::Status::Valid => true,
            record::Status::Suspect => suspect,
            record::Status::Unknown | record::Status::Failed | record::Status::Invalid => false,
        };
        if !trusted {
            self.skipped += 1;
            return Ok(());
        }
        let Some(figures) = figures(&plan, &summary, at.group) else { return Ok(()) };
        // The text of the conditions is the key, because they contain floating-point numbers, which
        // have no order.
        let key = (model, format!("{at:?}"));
        self.points.entry(key).or_insert((at, Vec::new())).1.push(figures);
        Ok(())
    }

    fn map(&self) -> PerformanceMap {
        let mut map = PerformanceMap::new();
        for ((model, _), (at, runs)) in &self.points {
            map.add(*model, Point { at: *at, figures: Figures::of_repeats(runs) });
        }
        map
    }
}

/// The plan's interaction with a fixed model of the director, if it has one.
fn interaction(plan: &Plan) -> Option<(ModelId, &Interaction)> {
    plan.workloads.iter().find_map(|workload| match workload {
        Workload::Interaction(interaction) => {
            let name = interaction.down.text().strip_prefix("director/")?;
            let model = ModelId::ALL.into_iter().find(|model| model.name() == name)?;
            Some((model, interaction))
        }
        _ => None,
    })
}

/// The model of a run and its conditions.
fn conditions(plan: &Plan) -> Option<(ModelId, Conditions)> {
    let (model, interaction) = interaction(plan)?;
    let network = plan.networks.iter().find(|n| n.name == interaction.network)?;
    let link = |node: &str| {
        let node = plan.nodes.iter().find(|planned| planned.name == node)?;
        node.links.iter().find(|link| link.network == interaction.network)
    };
    let (hub, member) = (link(&interaction.source)?, link(interaction.sinks.first()?)?);
    let ways = [(&hub.up, &member.down), (&member.up, &hub.down)];
    // The larger loss of the two round trips: a message and its answer need both directions.
    let loss = ways.map(|(one, other)| 1.0 - (1.0 - one.mean_loss()) * (1.0 - other.mean_loss()));
    // One link up and one down in each direction: a round trip passes four links.
    let delay: Span = ways.iter().map(|(one, two)| one.delay.mean + two.delay.mean).sum();
    let burst = ways.iter().flat_map(|(one, two)| [mean_burst(one), mean_burst(two)]);
    let links = [&hub.up, &hub.down, &member.up, &member.down];
    Some((
        model,
        Conditions {
            loss: loss[0].max(loss[1]),
            burst: burst.fold(1.0, f64::max),
            rtt: delay,
            // Without any limit on the way, the configured multicast rate is what the model sends
            // at.
            rate_bit_s: rate(network, &links).unwrap_or(interaction.multicast_rate.bit_s() as f64),
            mtu: network.mtu.get() as f64,
            group: interaction.sinks.len() as f64,
            payload: interaction.payload_bytes as f64,
            messages_s: 1e9 / interaction.every.as_ns().max(1) as f64,
        },
    ))
}

/// Mean number of consecutive frames that a link loses.
fn mean_burst(link: &Impairment) -> f64 {
    match link.loss {
        // The mean stay in the bad state is 1/r frames (Gilbert-Elliott model, r: from bad to
        // good).
        Loss::GilbertElliott(model) => 1.0 / model.r.fraction().max(1e-6),
        _ => 1.0,
    }
}

/// Bottleneck rate in bit/s.
fn rate(network: &PlannedNetwork, links: &[&Impairment]) -> Option<f64> {
    let shared = match network.channel {
        link::Channel::Shared(rate) => Some(rate),
        link::Channel::Cell { up, down } => Some(up.min(down)),
        link::Channel::Switch
        | link::Channel::Csma(_)
        | link::Channel::Wifi(_)
        | link::Channel::Aloha(_) => None,
    };
    let rates = links.iter().filter_map(|link| link.rate()).chain(shared);
    rates.map(|rate| rate.bit_s() as f64).reduce(f64::min)
}

fn figures(plan: &Plan, summary: &Summary, group: f64) -> Option<Figures> {
    let messages = &summary.messages;
    let handled = messages.sent as f64 * group;
    // Bytes as counted by the medium: both directions, all nodes of the two groups.
    let (_, interaction) = interaction(plan)?;
    let bytes: u64 = summary.groups.values().map(|group| group.tx_bytes).sum();
    let nothing = interaction.messages == 0 || handled == 0.0;
    (!nothing).then_some(())?;
    let Times { p50, p90, p99, .. } = messages.rtd_ms?;
    Some(Figures {
        delay_ms: Quantiles { p50, p90, p99 },
        delay_interval: None,
        delivery: (1.0 - messages.loss_pct / 100.0).clamp(0.0, 1.0),
        bytes: bytes as f64 / handled,
        // Runs do not measure energy.
        energy: 0.0,
        messages: handled,
    })
}
