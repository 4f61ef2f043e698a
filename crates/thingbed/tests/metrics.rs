//! Values that programs print, as figures of a run.

mod common;

use common::{Bed, CommandOutput, figure, has};
use std::fs;
use std::process::Command;

const EXPERIMENT: &str = r#"experiment: own
nodes:
  server:
    run: [sh, -c, 'echo started in 250ms >&2; exec sleep 100']
    metrics: {start: {match: 'started in (?<value>\d+)(?<unit>ms|s)', unit: s, from: stderr}}
  client: {count: 2}
networks:
  field:
    attach: [server, client]
    subnet: 10.0.0.0/24
    links: {client: {up: {delay: "${delay}"}}}
workloads:
  - command:
      name: poll
      on: client
      run: [sh, -c, 'for n in 1 2 3; do echo "{\"n\": $n, \"parts\": [{\"ms\": $n.5}]}"; done; echo done']
      metrics:
        part: {json: parts.*.ms, unit: ms}
        done: {match: ^done$}
        errors: {match: error}
  - command:
      name: ping
      on: client-1
      run: [ping, -n, -c, 3, -i, 0.1, server]
      metrics: {rtt: {match: 'time=(?<value>[0-9.]+) (?<unit>us|ms|s)', unit: ms}}
duration: 1 s
drain: 5 s
matrix: {delay: [20 ms]}
expect:
  - {say: parts, metric: programs.poll.part.p50, of: {delay: 20 ms}, is: within, value: 2.5, tolerance: 0 %}
  - {say: no errors, metric: programs.poll.errors.count, of: {delay: 20 ms}, is: below, value: 1}
  - {say: the link's delay, metric: programs.ping.rtt.min, of: {delay: 20 ms}, is: above, value: 19.9}
"#;

#[test]
fn values_in_outputs_are_figures_in_table_page_and_expectations() {
    if !has("ping") {
        return;
    }
    let bed = Bed::new();
    bed.write("e.yaml", EXPERIMENT);
    let step = bed.path().join("step.md");
    let mut command = bed.command(&["run", "e.yaml", "--clock", "virtual", "--junit", "junit.xml"]);
    let output = CommandOutput::of(command.env("GITHUB_STEP_SUMMARY", &step).output().unwrap());
    output.expect(0, &["VALID", "errors", "Expectations: 3 of 3 hold"]);
    let sweep = bed.sweep("own");
    let run = &sweep;
    let summary = common::json(&run.join("summary.json"));
    for (path, value) in [
        ("/programs/poll/part/count", 6.0),
        ("/programs/poll/part/sum", 15.0),
        ("/programs/poll/part/last", 3.5),
        ("/programs/poll/done/count", 2.0),
        ("/programs/poll/errors/count", 0.0),
        ("/programs/ping/rtt/count", 3.0),
        ("/programs/server/start/max", 0.25),
    ] {
        assert_eq!(figure(&summary, path), value, "{path}");
    }
    assert!(run.join("metrics.parquet").exists());
    let step = fs::read_to_string(step).unwrap();
    assert!(step.contains("| poll part"), "{step}");
    let read = "import sys, xml.etree.ElementTree as t; \
                print(*[c.get('name') for c in t.parse('junit.xml').iter('testcase')], sep='|')";
    let cases = Command::new("python3").args(["-c", read]).current_dir(bed.path()).output();
    let cases = String::from_utf8(cases.unwrap().stdout).unwrap();
    assert_eq!(cases.trim(), "20_ms-0|parts|no errors|the link's delay");
    let page = fs::read_to_string(sweep.join("report.html")).unwrap();
    assert!(page.contains("<h2>Programs") || page.contains("Programs</h2>"), "no section");
}

#[test]
fn a_metric_without_a_value_is_named_with_the_rule_and_the_file() {
    let bed = Bed::new();
    let text = "experiment: none
nodes: {a: {}}
workloads:
  - command: {name: poll, on: a, run: [echo, fine], metrics: {rtt: {match: 'rtt (.*) ms'}}}
duration: 1 s
";
    bed.write("e.yaml", text);
    let output = bed.thingbed(&["run", "e.yaml", "-q"]);
    output.failed(&[
        "metric `rtt` of `poll` has no value on a",
        "pattern `rtt (.*) ms`",
        "programs/",
    ]);
    bed.write("o.yaml", &text.replace("ms'", "ms', optional: true"));
    bed.thingbed(&["run", "o.yaml", "-q"]).ran(&["none"]);
}

#[test]
fn wrong_metrics_are_reported_with_their_line() {
    let bed = Bed::new();
    bed.write(
        "e.yaml",
        r"experiment: wrong
nodes: {a: {metrics: {x: {json: y}}}}
workloads:
  - command:
      on: a
      run: [echo]
      metrics:
        a.b: {json: c}
        neither: {unit: ms}
        both: {json: a, match: b}
        open: {match: 'time=('}
        path: {json: a..b}
        unit: {match: '(\d+)(?<unit>ms|s)'}
duration: 1 s
expect:
  - {say: s, metric: programs.command-1.nether.mean, is: below, value: 1}
",
    );
    bed.thingbed(&["check", "e.yaml"]).expect(
        2,
        &[
            "`metrics` without `run`",
            "`a.b` cannot be the name of a metric",
            "a metric needs `json`, `match`, `statsd`, `prometheus` or `opentelemetry`",
            "a metric has only one of `json`, `match`, `statsd`, `prometheus` and `opentelemetry`",
            "`match` is not a regular expression: unclosed group",
            "`a..b` is not a path",
            "the pattern has a group `unit`, but the metric has no unit for it",
        ],
    );
}

/// Most servers end by the signal that stops them at the end of a run: that is no failure, and does
/// not excuse what is missing.
#[test]
fn what_a_stopped_program_has_not_said_is_missing() {
    let bed = Bed::new();
    let run = |keys: &str| {
        let text = format!(
            "experiment: quiet
nodes: {{server: {{run: [sleep, '100'], {keys}}}}}
networks: {{lan: {{attach: server, subnet: 10.0.0.0/24}}}}
duration: 1 s
"
        );
        bed.write("e.yaml", &text);
        bed.thingbed(&["run", "e.yaml", "-q", "--clock", "virtual"])
    };
    run("metrics: {depth: {statsd: queue.depth}}")
        .expect(4, &["FAILED", "metric `depth` of `server` has no value on server"]);
    run("metrics: {depth: {match: 'depth (\\d+)'}}").expect(4, &["FAILED", "has no value"]);
    run("expect: {output: ready}").expect(4, &["FAILED", "ready"]);
    run("metrics: {depth: {statsd: queue.depth, optional: true}}").expect(0, &["VALID"]);
}

#[test]
fn names_of_figures_are_not_shared() {
    let bed = Bed::new();
    let text = "experiment: same
nodes: {a: {run: [sleep, '9'], metrics: {v: {match: 'v (\\d+)'}}}}
workloads:
  - command: {name: a, on: a, run: [echo, v 99], metrics: {v: {match: 'v (\\d+)'}}}
  - command: {name: b.c, on: a, run: [echo, v 99], metrics: {v: {match: 'v (\\d+)'}}}
duration: 1 s
";
    bed.write("e.yaml", text);
    bed.thingbed(&["check", "e.yaml"]).expect(
        2,
        &[
            "the command and the group `a` both have metrics",
            "the command `b.c` has metrics and a dot in its name",
        ],
    );
}
