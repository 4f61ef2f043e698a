//! Forecast of what a run writes to its folder.
//!
//! It is an estimate, like [`Forecast`]: sizes of rows are those of runs on one machine, rounded
//! up. What programs will print is unknown: only its limit is part of it.

use crate::forecast::Forecast;
use crate::plan::{Plan, Workload};
use std::collections::HashMap;

/// Bytes of a line of usage while the run goes on, and of its row in the table.
const USAGE_LINE: f64 = 130.0;
const USAGE_ROW: f64 = 30.0;
/// Bytes of an interval of a link while the run goes on, and of its row in the table.
const INTERVAL_LINE: f64 = 170.0;
const INTERVAL_ROW: f64 = 130.0;
/// Seconds of an interval.
/// Thingbed ends an interval that often, and at each change of a link.
const INTERVAL_S: f64 = 10.0;
/// Bytes of a program's event of a message, and of the message's part of a row.
const EVENT: f64 = 60.0;
const MESSAGE: f64 = 20.0;
/// Bytes per second for the usage of the host.
/// Ten lines a second of 80 B.
const HOST: f64 = 10.0 * 80.0;
/// Bytes of the files whose size hardly depends on the run: report pages, plan, summary.
const FIXED: u64 = 3 << 19;
/// Bytes of a frame in a capture without its content, and of an impairment decision.
const CAPTURED: f64 = 48.0;
const DECISION: f64 = 24.0;

/// Default of the maximum size of each of a program's two logs (standard output and standard error), in bytes:
/// 400,000 lines.
pub const OUTPUT_LIMIT: u64 = 64 << 20;

/// Bytes that a run writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskForecast {
    /// Tables and summary, which stay.
    pub figures: u64,
    /// Rows that exist only during the run: usage, intervals and the events of programs.
    pub rows: u64,
    /// Events of programs alone, a part of `rows`.
    pub events: u64,
    /// The capture and the impairment decisions.
    pub auxiliary: u64,
    /// The most that logs of users' programs keep (`limits.output`). Few programs print that much.
    pub output: u64,
}

impl DiskForecast {
    /// Estimates what a run of `plan` writes, with or without a capture.
    pub fn of(plan: &Plan, is_captured: bool) -> Self {
        let load = Forecast::of(plan);
        let duration_s = plan.duration.as_ns() as f64 / 1e9;
        let all_s = duration_s + plan.drain.as_ns() as f64 / 1e9;
        let nodes = plan.nodes.len() as f64;
        let links: usize = plan.nodes.iter().map(|node| node.links.len()).sum();
        // A row for each direction; the last interval is shorter and has a row, too.
        let intervals = 2.0 * links as f64 * (1.0 + all_s / INTERVAL_S);
        let (usage, host) = (nodes * all_s, HOST * all_s);
        let messages = load.messages_s * duration_s;
        let tables = usage * USAGE_ROW + intervals * INTERVAL_ROW + messages * MESSAGE;
        let events = messages * EVENT;
        let rows = usage * USAGE_LINE + intervals * INTERVAL_LINE + host + events;
        // A frame is captured when it is sent and when it is delivered.
        let captured = 2.0 * (load.bytes_s + load.frames_s * CAPTURED) * duration_s;
        // The sender's uplink and the receiver's downlink each decide about a frame.
        let decisions = 2.0 * load.frames_s * DECISION * duration_s;
        let is_captured = is_captured || plan.capture.is_some();
        Self {
            figures: FIXED + tables as u64,
            rows: rows as u64,
            events: events as u64,
            auxiliary: (decisions + if is_captured { captured } else { 0.0 }) as u64,
            output: most_output(plan),
        }
    }

    /// The space for two runs, one after the other: only their rows do not stay.
    pub fn after(self, earlier: Self) -> Self {
        Self {
            figures: self.figures + earlier.figures,
            rows: self.rows.max(earlier.rows),
            events: self.events.max(earlier.events),
            auxiliary: self.auxiliary + earlier.auxiliary,
            output: self.output.saturating_add(earlier.output),
        }
    }

    /// The space for several equal runs, one after the other.
    pub fn repeated(self, count: u64) -> Self {
        Self {
            figures: self.figures * count,
            auxiliary: self.auxiliary * count,
            output: self.output.saturating_mul(count),
            ..self
        }
    }
}

/// The sum of the limits of all logs of users' programs.
fn most_output(plan: &Plan) -> u64 {
    let of_commands = plan.workloads.iter().flat_map(|workload| match workload {
        Workload::Command(command) => &command.on[..],
        _ => &[],
    });
    let of_nodes = plan.nodes.iter().filter(|node| node.program.is_some()).map(|node| &node.name);
    let limits: HashMap<&String, u64> = plan
        .nodes
        .iter()
        .map(|node| (&node.name, node.limits.output.map_or(OUTPUT_LIMIT, |limit| limit.get())))
        .collect();
    let logs = of_commands.chain(of_nodes).filter_map(|node| limits.get(node));
    logs.fold(0, |sum, limit| sum.saturating_add(limit.saturating_mul(2)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Experiment;
    use crate::only::Only;

    fn forecast(duration: &str, is_captured: bool) -> DiskForecast {
        forecast_with(duration, is_captured, "")
    }

    fn forecast_with(duration: &str, is_captured: bool, more: &str) -> DiskForecast {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("e.yaml");
        let text = format!(
            "experiment: f\nnodes: {{a: {{}}, b: {{count: 10}}}}\nnetworks: {{n: {{attach: [a, b], \
             subnet: 10.0.0.0/24}}}}\nduration: {duration}\ndrain: 0 s\nmodels: {{udp: {{down: \
             udp/request-response, up: udp/request-response, every: 0.1 s}}}}\nworkloads:\n  - \
             interaction: {{name: poll, source: a, sinks: b, model: udp, payload: p}}\n{more}"
        );
        std::fs::write(&path, text).unwrap();
        std::fs::write(dir.path().join("p"), "<update number=\"##########\"/>").unwrap();
        let experiment = Experiment::read(&path).unwrap_or_else(|errors| panic!("{errors}"));
        let cells = experiment.cells(&Only::all()).unwrap();
        DiskForecast::of(&experiment.plan(&cells[0], 0, 1).unwrap(), is_captured)
    }

    #[test]
    fn what_a_run_writes_grows_with_its_duration() {
        let (short, long) = (forecast("10 s", false), forecast("1000 s", false));
        assert!(long.rows > 50 * short.rows && long.figures > short.figures, "{short:?} {long:?}");
        assert!(long.events < long.rows && long.events > 0);
        let captured = forecast("1000 s", true);
        assert_eq!((captured.figures, captured.rows), (long.figures, long.rows));
        assert!(captured.auxiliary > long.auxiliary + 1_000_000, "{captured:?}");
    }

    #[test]
    fn each_users_program_has_two_logs_of_the_limit() {
        let command = "  - command: {on: b, run: [date]}\n  - command: {on: a, run: [date]}\n";
        assert_eq!(forecast("10 s", false).output, 0);
        assert_eq!(forecast_with("10 s", false, command).output, 11 * 2 * OUTPUT_LIMIT);
        let one = forecast_with("10 s", false, command);
        assert_eq!(one.repeated(3).after(one).output, 4 * one.output);
    }
}
