//! The facts about a finished run, for `run.json`.

use crate::machine::machine;
use crate::progress::Begun;
use crate::results::Results;
use experiment::Clock;
use journal::Contents;
use record::{Accounting, Departures, Phase, RUN_FORMAT, RunFacts, Stalls};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use units::{Instant, Span};

pub(crate) fn run_facts(results: &Results<'_>, files: Contents) -> RunFacts {
    let (plan, options) = (results.plan, results.options);
    let design = results.design;
    let placement = design.placement.as_ref().map(Result::as_ref);
    RunFacts {
        format: RUN_FORMAT,
        experiment: plan.experiment.clone(),
        cell: plan.cell.clone(),
        seed: plan.seed,
        repeat: plan.repeat,
        thingbed: options.version.to_owned(),
        commit: options.commit.to_owned(),
        clock: options.clock,
        virtual_cpu: (options.clock == Clock::Virtual).then_some(options.cpu),
        machine: machine(),
        medium_priority: results.priority.name().to_owned(),
        threads: design.threads.count(),
        spin: options.spin,
        replay: options.replay.map(Path::to_owned),
        replay_departures: options.replay.map(|_| departures(results)),
        decisions_missed: results.decisions_missed,
        frame_path: results.frame_path.name().to_owned(),
        frame_path_reason: design.path.why(),
        offload: offload(results),
        stalls: stalls(results.stalls),
        host_cpu: design.is_limited_by_host.then(|| design.host_cpu.clone()),
        placement: placement.and_then(Result::ok).map(|pinning| pinning.placement.clone()),
        placement_reason: placement.and_then(Result::err).cloned(),
        accounting: accounting(results),
        started: humantime::format_rfc3339_millis(results.started).to_string(),
        phases: phases(results),
        interrupted: options.interrupted.load(Relaxed),
        verdict: results.verdict.clone(),
        files: Some(files),
    }
}

/// How resource usage was counted, and what counting cost.
fn accounting(results: &Results<'_>) -> Accounting {
    let cost = &results.usage.cost;
    Accounting {
        source: cost.source.name().to_owned(),
        reason: results.uncounted.map(str::to_owned),
        cpu_pct: Some(cost.cpu_pct()),
    }
}

/// Each phase ends when the next one begins; the last one ends now.
fn phases(results: &Results<'_>) -> Vec<Phase> {
    let since = |at: Instant| at.seconds_from(results.start);
    let ends = results.phases.iter().skip(1).map(|(_, at)| *at).chain([clock::now()]);
    let phases = results.phases.iter().zip(ends);
    let phase = |((name, begin), end): (&Begun, Instant)| Phase {
        name: (*name).to_owned(),
        start_s: since(*begin),
        end_s: since(end),
    };
    phases.map(phase).collect()
}

fn stalls(stalls: engine::Stalls) -> Stalls {
    let engine::Stalls { count, longest, total, behind } = stalls;
    let [longest_ns, total_ns, behind_ns] = [longest, total, behind].map(Span::as_ns);
    Stalls { count, longest_ns, total_ns, behind_ns }
}

/// Where the frames of a replay differed from the recorded ones.
fn departures(results: &Results<'_>) -> Departures {
    let found = results.accounting.departures();
    let first = found.first.as_ref().map(|first| {
        let node = results.design.topology.owners[first.segment][first.endpoint];
        let node = results.plan.nodes.get(node).map_or("host", |node| node.name.as_str());
        let network = &results.plan.networks[first.segment].name;
        let way = if first.way == link::Direction::Up { "up" } else { "down" };
        format!("{node}, network {network}, {way}: {}", first.text)
    });
    Departures { count: found.count, first }
}

/// The networks whose nodes sent unsegmented TCP.
fn offload(results: &Results<'_>) -> Vec<String> {
    let networks = results.plan.networks.iter().filter(|network| network.offload);
    networks.map(|network| network.name.clone()).collect()
}
