//! Metrics that programs send to their node's collector or serve on a page, and what an experiment
//! expects of programs.

mod common;

use common::{Bed, figure};

/// A program that sends StatsD metrics as libraries do, without knowing of Thingbed.
const SENDER: &str = r#"
import os, socket, sys, time
host, port = os.environ["THINGBED_METRICS"].split(":")
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(int(sys.argv[1])):
    out.sendto(f"sensor.rtt:{n + 1}|ms\nsensor.sent:2|c|@0.5\nother:1|c".encode(), (host, int(port)))
    time.sleep(0.01)
print("sent all")
if len(sys.argv) > 2:
    time.sleep(100)
"#;

/// A program with a page of Prometheus metrics, in chunks.
const SERVER: &str = r##"
import http.server, itertools
count = itertools.count(1)
class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = f"# TYPE requests_total counter\nrequests_total{{code=\"200\"}} {next(count)}\n".encode()
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
http.server.ThreadingHTTPServer(("127.0.0.1", 9100), Page).serve_forever()
"##;

/// A program with OpenTelemetry's SDK, which finds the collector by the environment.
const SDK: &str = r#"
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
provider = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())])
meter = provider.get_meter("sensor")
delay = meter.create_histogram("sensor.delay", "ms", explicit_bucket_boundaries_advisory=[10, 20, 30])
for n in range(30):
    meter.create_counter("sensor.sent").add(1, {"kind": "odd" if n % 2 else "even"})
    delay.record(n + 1)
meter.create_counter("sensor.other").add(1)
provider.shutdown()
"#;

const EXPERIMENT: &str = r#"experiment: collected
nodes:
  sensor:
    count: 2
    run: [python3, sender.py, "20", stay]
    metrics: {rtt: {statsd: sensor.rtt, unit: ms}, sent: {statsd: sensor.sent}}
  server:
    run: [python3, server.py]
    ready: {tcp: 9100}
    metrics:
      requests: {prometheus: 'requests_total{code="200"}', port: 9100, every: 100 ms}
networks: {field: {attach: [sensor, server], subnet: 10.0.0.0/24}}
workloads:
  - command: {name: again, on: server, run: [python3, sender.py, "5"], metrics: {rtt: {statsd: sensor.rtt}}}
  - command: {on: server, run: [sleep, "2.4"]}
duration: 2 s
faults:
  - {at: 0.9 s, kill: sensor-2, lasts: 0.1 s}
expect:
  - {say: largest, metric: programs.sensor.rtt.max, is: within, value: 20, tolerance: 0 %}
"#;

#[test]
fn metrics_of_statsd_and_prometheus_are_figures_also_after_a_kill() {
    let bed = Bed::new();
    bed.write("sender.py", SENDER);
    bed.write("server.py", SERVER);
    bed.write("e.yaml", EXPERIMENT);
    bed.thingbed(&["run", "e.yaml", "--clock", "virtual"]).ran(&["VALID", "1 of 1 hold"]);
    let sweep = bed.sweep("collected");
    let summary = common::json(&sweep.join("summary.json"));
    // The killed sensor sends all values twice.
    for (path, value) in [
        ("/programs/sensor/rtt/count", 60.0),
        ("/programs/sensor/rtt/max", 20.0),
        ("/programs/sensor/rtt/last", 20.0),
        // Each line stands for four.
        ("/programs/sensor/sent/sum", 240.0),
        ("/programs/again/rtt/count", 5.0),
        ("/programs/server/requests/min", 1.0),
    ] {
        assert_eq!(figure(&summary, path), value, "{path}");
    }
    let requests = figure(&summary, "/programs/server/requests/count");
    assert_eq!(figure(&summary, "/programs/server/requests/last"), requests, "read in order");
    assert!(requests >= 15.0, "{requests} pages in two seconds");
}

#[test]
fn metrics_of_opentelemetry_are_figures() {
    let Some(python) = common::peer("python") else { return };
    let import = ["-c", "import opentelemetry.sdk, grpc"];
    if !std::process::Command::new(&python).args(import).output().unwrap().status.success() {
        return eprintln!(
            "NOT RUN: OpenTelemetry for Python is missing: scripts/dependencies.sh test"
        );
    }
    let bed = Bed::new();
    bed.write("sensor.py", SDK);
    let text = |delay: &str| {
        format!(
            "experiment: sdk
nodes: {{a: {{}}}}
workloads:
  - command:
      name: sensor
      on: a
      run: [{}, sensor.py]
      metrics:
        sent: {{opentelemetry: sensor.sent}}
        odd: {{opentelemetry: 'sensor.sent{{kind=\"odd\"}}'}}
        p50: {{opentelemetry: {delay}, unit: ms}}
        mean: {{opentelemetry: sensor.delay.mean, unit: ms}}
duration: 1 s
",
            python.display()
        )
    };
    bed.write("e.yaml", &text("sensor.delay.p50"));
    bed.thingbed(&["run", "e.yaml", "--clock", "virtual"]).ran(&["VALID"]);
    let summary = common::json(&bed.sweep("sdk").join("summary.json"));
    for (metric, value) in [("sent", 30.0), ("odd", 15.0), ("p50", 15.0), ("mean", 15.5)] {
        assert_eq!(figure(&summary, &format!("/programs/sensor/{metric}/last")), value, "{metric}");
    }
    // The same over gRPC, also compressed.
    for options in ["", "compression=__import__('grpc').Compression.Gzip"] {
        let exporter = format!("OTLPMetricExporter({options})");
        let program = SDK.replace("proto.http", "proto.grpc");
        bed.write("sensor.py", &program.replace("OTLPMetricExporter()", &exporter));
        bed.thingbed(&["run", "e.yaml", "-q", "--out", "grpc"]).ran(&[]);
        let sweeps = std::fs::read_dir(bed.path().join("grpc").join("sdk")).unwrap().flatten();
        let newest = sweeps.map(|sweep| sweep.path()).max().unwrap();
        let summary = common::json(&newest.join("summary.json"));
        for (metric, value) in [("sent", 30.0), ("odd", 15.0), ("p50", 15.0), ("mean", 15.5)] {
            assert_eq!(figure(&summary, &format!("/programs/sensor/{metric}/last")), value);
        }
    }
    bed.write("sensor.py", SDK);
    bed.write("e.yaml", &text("sensor.delay"));
    bed.thingbed(&["run", "e.yaml", "-q", "--out", "again"]).failed(&[
        "the OpenTelemetry metric `sensor.delay` was not received, but these names were",
        "sensor.other",
        "sensor.delay.p99",
    ]);
}

#[test]
fn a_name_that_was_not_received_is_compared_with_those_that_were() {
    let bed = Bed::new();
    bed.write("sender.py", SENDER);
    let text = "experiment: none
nodes: {a: {}}
workloads:
  - command:
      on: a
      run: [python3, sender.py, '1']
      metrics: {rtt: {statsd: sensor.rrt}, page: {prometheus: up, port: 9}}
duration: 1 s
";
    bed.write("e.yaml", text);
    let output = bed.thingbed(&["run", "e.yaml", "-q"]);
    output.failed(&[
        "the StatsD metric `sensor.rrt` was not received, but these names were",
        "sensor.rtt",
        "the series `up` of http://127.0.0.1:9/metrics was not found",
    ]);
}

/// What failed before: the message said only that the series was not found, and sent the user to the port.
#[test]
fn a_page_that_cannot_be_read_says_why() {
    let bed = Bed::new();
    bed.write(
        "page.py",
        "import http.server, sys, time
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if sys.argv[1] == 'slow':
            time.sleep(100)
        self.send_response(302)
        self.end_headers()
http.server.ThreadingHTTPServer(('', 9100), Page).serve_forever()
",
    );
    let node = |mode: &str| {
        format!(
            "{{run: [python3, page.py, {mode}], ready: {{tcp: 9100}}, \
             metrics: {{up: {{prometheus: up, port: 9100}}}}}}"
        )
    };
    let text = format!(
        "experiment: pages
clock: virtual
nodes: {{slow: {}, moved: {}}}
networks: {{n: {{attach: [slow, moved], subnet: 10.0.0.0/24}}}}
workloads: [{{command: {{on: slow, run: [sleep, 8]}}}}]
duration: 10 s
",
        node("slow"),
        node("moved")
    );
    bed.write("e.yaml", &text);
    let output = bed.thingbed(&["run", "e.yaml", "-q"]).expect(4, &["FAILED"]);
    // Lines are wrapped at the width of a terminal.
    let words = output.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for why in ["there was no whole answer within 5 s", "the answer had the status 302 Found"] {
        assert!(words.contains(&format!("was not found: {why}.")), "no `{why}` in:\n{words}");
    }
}

#[test]
fn a_program_must_do_what_the_experiment_expects() {
    let bed = Bed::new();
    let run = |expect: &str, program: &str| {
        let text = format!(
            "experiment: checked
nodes: {{a: {{}}}}
workloads:
  - command: {{on: a, run: [sh, -c, '{program}'], expect: {expect}}}
duration: 1 s
"
        );
        bed.write("e.yaml", &text);
        bed.thingbed(&["run", "e.yaml", "-q"])
    };
    run("{exit: 3}", "exit 3").ran(&["checked"]);
    run("{exit: [0, 3], output: {contains: all}}", "echo all good; exit 3").ran(&["checked"]);
    let both = "{output: [{matches: '^[0-9]+ ok'}, {contains: warn, from: stderr}]}";
    run(both, "echo 5 ok; echo warn >&2").ran(&["checked"]);
    run("{within: 5 s}", "sleep 1").ran(&["checked"]);
    let failed = run("{exit: 3}", "echo what happened; exit 0");
    failed.failed(&["ended with status 0 instead of 3: what happened"]);
    let failed = run("{output: {contains: '5 received'}}", "echo 4 received");
    failed.failed(&["no line with `5 received` in its standard output", "its last line is"]);
    run("{within: 0.2 s}", "sleep 0.6").failed(&["`within` allows 200 ms"]);
    for (wrong, word) in [
        ("{exit: 256}", "0 to 255"),
        ("{output: {from: stderr}}", "`contains` or `matches`"),
        ("{output: {matches: '('}}", "unclosed group"),
        ("{within: 0 s}", "longer than 0"),
    ] {
        run(wrong, "true").expect(2, &[word]);
    }
}
