//! Metrics of a run's summary that a check can name.

use crate::nearest::advice;
use serde_json::Value;

/// Metrics of the whole run.
const MESSAGES: [&str; 14] = [
    "sent",
    "received",
    "answered",
    "lost_pct",
    "unanswered_pct",
    "delivered",
    "replies",
    "unsent",
    "acknowledged",
    "acknowledged_lost",
    "reordered",
    "loss_pct",
    "duplicates",
    "late",
];
const DELAYS: [&str; 5] = ["rtd_ms", "rtd_from_sent_ms", "down_ms", "acknowledged_ms", "slip_ms"];
/// Metrics of MQTT workloads, after all clients have joined.
const ROLES: [&str; 3] = ["broker", "subscriber", "publisher"];
const ROLE: [&str; 4] = ["nodes", "cpu_pct", "tx_bytes_s", "rx_bytes_s"];
const DELAY: [&str; 5] = ["mean", "p50", "p95", "p99", "max"];
const LINKS: [&str; 7] = [
    "frames",
    "delay_error_us.p50",
    "delay_error_us.p99",
    "delay_error_us.max",
    "loss_asked_pct",
    "loss_got_pct",
    "overflow_frames",
];
/// Metrics of an exchange workload, of one of its sizes, and of a section of a size.
const EXCHANGES: [&str; 4] = ["exchanges", "failed", "late", "undelivered"];
const EXCHANGE: [&str; 9] = [
    "exchanges",
    "failed",
    "time_ms",
    "time_low_ms",
    "time_high_ms",
    "received_ms",
    "bytes",
    "bytes_low",
    "bytes_high",
];
const SECTION: [&str; 9] = [
    "exchanges",
    "time_ms",
    "time_low_ms",
    "time_high_ms",
    "bytes",
    "bytes_low",
    "bytes_high",
    "out_bytes",
    "in_bytes",
];
/// Metrics of a load: counts, times, and statistics of each time.
const LOAD: [&str; 11] = [
    "scheduled",
    "sent",
    "unsent",
    "answered",
    "errors",
    "timed_out",
    "no_connection",
    "unreachable",
    "retransmitted",
    "rate",
    "unanswered_pct",
];
const TIMES: [&str; 5] = ["response_ms", "service_ms", "slip_ms", "wait_ms", "notification_ms"];
const OBSERVED: [&str; 8] = [
    "registered",
    "refused",
    "notifications",
    "outdated",
    "stale",
    "deregistered",
    "unanswered",
    "ended",
];
const TIME: [&str; 7] = ["mean", "p50", "p90", "p95", "p99", "p99_9", "max"];
/// Metrics of each group of nodes; the group `*` is all nodes.
const GROUP: [&str; 26] = [
    "nodes",
    "tx_bytes",
    "rx_bytes",
    "tx_frames",
    "rx_frames",
    "payload_bytes",
    "overhead_bytes",
    "lower_bytes",
    "transport_bytes",
    "carried_bytes",
    "control_frames",
    "control_bytes",
    "retransmitted_frames",
    "retransmitted_bytes",
    "rx_lower_bytes",
    "rx_transport_bytes",
    "rx_carried_bytes",
    "rx_control_frames",
    "rx_control_bytes",
    "cpu_ms",
    "cpu_us_per_message",
    "energy_j",
    "energy_j_per_message",
    "battery_days",
    "rss_max_bytes",
    "run_delay_ms",
];

/// Checks that a summary has `metric`. The error names the nearest known metric.
pub(crate) fn check<'a>(
    metric: &str,
    groups: impl IntoIterator<Item = &'a String>,
) -> Result<(), String> {
    let mut known: Vec<String> = MESSAGES.iter().map(|name| format!("messages.{name}")).collect();
    for delay in DELAYS {
        let names = DELAY.iter().chain(&["p90"]);
        known.extend(names.map(|name| format!("messages.{delay}.{name}")));
    }
    known.extend(LINKS.iter().map(|name| format!("links.{name}")));
    for role in ROLES {
        known.extend(ROLE.iter().map(|name| format!("mqtt.{role}.{name}")));
    }
    known.push("mqtt.host_cpu_pct".to_owned());
    for group in groups {
        known.extend(GROUP.iter().map(|name| format!("groups.{group}.{name}")));
    }
    known.extend(GROUP.iter().map(|name| format!("groups.*.{name}")));
    if let Some(rest) = metric.strip_prefix("exchanges.") {
        return exchange(rest);
    }
    if let Some(rest) = metric.strip_prefix("probes.") {
        return probe(rest);
    }
    if let Some(rest) = metric.strip_prefix("loads.") {
        return load(rest);
    }
    if known.iter().any(|name| name == metric) { Ok(()) } else { Err(advice(metric, &known)) }
}

/// Checks a metric of exchanges: `NAME.failed`, `NAME.sizes.2500.time_ms`,
/// `NAME.sizes.2500.sections.payload_1.bytes` and so on.
fn exchange(rest: &str) -> Result<(), String> {
    let advise = |word: &str, known: &[&str]| match known.contains(&word) {
        true => Ok(()),
        false => Err(advice(word, known)),
    };
    match rest.split('.').collect::<Vec<_>>()[..] {
        [_, figure] => advise(figure, &EXCHANGES),
        [_, "sizes", size, figure] if size.parse::<u64>().is_ok() => advise(figure, &EXCHANGE),
        [_, "sizes", size, "sections", _, figure] if size.parse::<u64>().is_ok() => {
            advise(figure, &SECTION)
        }
        _ => Err("write for example `exchanges.NAME.sizes.2500.time_ms`, or \
                  `exchanges.NAME.sizes.2500.sections.payload.bytes`"
            .to_owned()),
    }
}

/// Checks a metric of loads: `NAME.answered`, `NAME.response_ms.p99` and so on.
fn load(rest: &str) -> Result<(), String> {
    match rest.split('.').collect::<Vec<_>>()[..] {
        [_, figure] if LOAD.contains(&figure) => Ok(()),
        [_, figure] => Err(advice(figure, LOAD.iter().chain(&TIMES))),
        [_, "observed", figure] => match OBSERVED.contains(&figure) {
            true => Ok(()),
            false => Err(advice(figure, &OBSERVED)),
        },
        [_, times, figure] if TIMES.contains(&times) => match TIME.contains(&figure) {
            true => Ok(()),
            false => Err(advice(figure, &TIME)),
        },
        _ => Err("write for example `loads.NAME.response_ms.p99`".to_owned()),
    }
}

/// Checks a metric of probes: `NAME.over_limit_pct`, `NAME.deviation.p50`, `NAME.cores.1.busy.mean`
/// and so on.
fn probe(rest: &str) -> Result<(), String> {
    let known = |figure: &str| match DELAY.contains(&figure) {
        true => Ok(()),
        false => Err(advice(figure, &DELAY)),
    };
    match rest.split('.').collect::<Vec<_>>()[..] {
        [_, "over_limit_pct" | "requests"] => Ok(()),
        [_, "deviation", figure] => known(figure),
        [_, "cores", core, "sleep" | "busy", figure] if core.parse::<u32>().is_ok() => {
            known(figure)
        }
        _ => Err("write for example `probes.NAME.over_limit_pct`, `probes.NAME.deviation.p50` or \
                  `probes.NAME.cores.1.busy.mean`"
            .to_owned()),
    }
}

/// Value of `metric` in `summary`; `*` sums over all groups.
pub(crate) fn value(metric: &str, summary: &Value) -> Option<f64> {
    match metric.split_once('.') {
        None => summary.get(metric)?.as_f64(),
        Some(("*", rest)) => {
            let parts: Vec<f64> =
                summary.as_object()?.values().filter_map(|part| value(rest, part)).collect();
            (!parts.is_empty()).then(|| parts.iter().sum())
        }
        Some((name, rest)) => value(rest, summary.get(name)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_and_the_nearest_is_named() {
        let groups = ["utility".to_owned()];
        assert_eq!(check("messages.rtd_ms.mean", &groups), Ok(()));
        assert_eq!(check("groups.utility.tx_bytes", &groups), Ok(()));
        let near = check("groups.utilty.tx_byte", &groups).unwrap_err();
        assert_eq!(near, "did you mean `groups.utility.tx_bytes`?");
    }

    #[test]
    fn figures_of_exchanges_are_known_by_their_form() {
        let groups: [String; 0] = [];
        for good in [
            "exchanges.coap.failed",
            "exchanges.coap.sizes.2500.time_ms",
            "exchanges.coap.sizes.2500.sections.payload_1.bytes",
        ] {
            assert_eq!(check(good, &groups), Ok(()), "{good}");
        }
        let near = check("exchanges.coap.sizes.2500.time", &groups).unwrap_err();
        assert!(near.contains("time_ms"), "{near}");
        assert!(check("exchanges.coap.sizes.2500", &groups).is_err());
        assert_eq!(check("loads.polling.response_ms.p99", &groups), Ok(()));
        assert_eq!(check("loads.polling.unanswered_pct", &groups), Ok(()));
        assert!(check("loads.polling.response_ms", &groups).is_err());
        assert!(check("loads.polling.slip_ms.p98", &groups).is_err());
    }

    #[test]
    fn a_value_that_is_null_or_missing_is_none() {
        let summary = serde_json::json!({"messages": {"rtd_ms": {"mean": null, "max": 3}}});
        assert_eq!(value("messages.rtd_ms.max", &summary), Some(3.0));
        assert_eq!(value("messages.rtd_ms.mean", &summary), None);
        assert_eq!(value("messages.sent", &summary), None);
    }

    #[test]
    fn a_star_sums_over_groups() {
        let summary = serde_json::json!({"groups": {"a": {"nodes": 1}, "b": {"nodes": 2}}});
        assert_eq!(value("groups.*.nodes", &summary), Some(3.0));
        assert_eq!(value("groups.*.cpu_ms", &summary), None);
    }
}
