//! The metrics of a node's programs.

use experiment::{OTLP, Plan, ProgramMetric, Rule, STATSD, Workload};

/// Environment variable of programs with the address of their node's collector.
pub(crate) const VARIABLE: &str = "THINGBED_METRICS";

/// Environment variable of OpenTelemetry's SDKs with the same.
pub(crate) const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Environment variables of the programs on a node that send metrics.
/// <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>
pub(crate) fn variables(plan: &Plan, node: &str) -> Vec<(&'static str, String)> {
    let node = plan.nodes.iter().position(|planned| planned.name == node);
    let rules: Vec<_> =
        node.into_iter().flat_map(|node| metrics(plan, node)).map(|metric| &metric.rule).collect();
    let mut all = Vec::new();
    if rules.iter().any(|rule| matches!(rule, Rule::Statsd(_))) {
        all.push((VARIABLE, STATSD.to_string()));
    }
    if rules.iter().any(|rule| matches!(rule, Rule::Opentelemetry(_))) {
        all.push((ENDPOINT, format!("http://{OTLP}")));
        all.push(("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf".to_owned()));
        all.push(("OTEL_METRICS_EXPORTER", "otlp".to_owned()));
        // The default is a minute, longer than many runs.
        all.push(("OTEL_METRIC_EXPORT_INTERVAL", "1000".to_owned()));
    }
    all
}

/// The metrics of all programs of a node.
pub(crate) fn metrics(plan: &Plan, node: usize) -> impl Iterator<Item = &ProgramMetric> {
    let planned = &plan.nodes[node];
    let commands = plan.workloads.iter().filter_map(|workload| match workload {
        Workload::Command(command) if command.on.contains(&planned.name) => Some(&command.metrics),
        _ => None,
    });
    let own = planned.program.iter().map(|program| &program.metrics);
    commands.chain(own).flatten()
}
