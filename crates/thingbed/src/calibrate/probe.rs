//! The probes of a calibration and their expected results.

use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::path::Path;

/// Configured impairment of the direction from the near node to the far one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Impairment {
    /// None: measures what the machine adds.
    Nothing,
    /// Delay in ms on each link, and the number of links.
    Delay(f64, u32),
    /// Loss in percent.
    Loss(f64),
    /// Rate in bit/s.
    Rate(f64),
}

/// One configured impairment and the datagrams that probe it.
#[derive(Debug, Clone)]
pub struct Probe {
    /// Name of the probe and of its folder.
    pub name: String,
    /// Configured impairment.
    pub configured: Impairment,
    count: u64,
    every_us: u64,
    size: u64,
}

/// Bytes of a datagram that are not its payload: UDP, IPv4 and Ethernet headers.
const HEADERS: u64 = 8 + 20 + 14;
/// Payload bytes of a probe, unless it measures a rate.
const SMALL: u64 = 64;
const FULL: u64 = 1000;

/// All probes; the baseline without impairments comes first.
pub fn all(seconds: u32) -> Vec<Probe> {
    let evenly_spaced = |name: String, configured, every_us: u64| Probe {
        name,
        configured,
        count: u64::from(seconds) * 1_000_000 / every_us,
        every_us,
        size: SMALL,
    };
    let mut probes = vec![evenly_spaced("bare".to_owned(), Impairment::Nothing, 2_000)];
    for ms in [0.1, 1.0, 5.0, 20.0, 100.0, 500.0] {
        probes.push(evenly_spaced(format!("delay-{ms}ms"), Impairment::Delay(ms, 1), 2_000));
    }
    for percent in [0.1, 1.0, 10.0, 30.0, 50.0] {
        // Rare losses need more probes.
        probes.push(evenly_spaced(format!("loss-{percent}"), Impairment::Loss(percent), 500));
    }
    for bit_s in [64_000.0, 1_000_000.0, 10_000_000.0, 100_000_000.0] {
        let frame = ((FULL + HEADERS) * 8) as f64 / bit_s * 1e6;
        // 25 % more than the link's rate.
        let every_us = (frame / 1.25).max(1.0) as u64;
        let name = format!("rate-{}k", bit_s / 1e3);
        let count = u64::from(seconds) * 1_000_000 / every_us;
        probes.push(Probe {
            name,
            configured: Impairment::Rate(bit_s),
            count,
            every_us,
            size: FULL,
        });
    }
    probes.push(evenly_spaced("chain-of-10".to_owned(), Impairment::Delay(5.0, 10), 2_000));
    probes
}

impl Probe {
    /// The experiment file of the probe; its programs are subcommands of `workload`.
    pub fn experiment(&self, workload: &Path) -> String {
        let links = if let Impairment::Delay(_, links) = self.configured { links } else { 1 };
        let up = match self.configured {
            Impairment::Nothing => String::new(),
            Impairment::Delay(ms, _) => format!("delay: {ms} ms"),
            Impairment::Loss(percent) => format!("loss: {percent} %"),
            Impairment::Rate(bit_s) => format!("rate: {bit_s} bit/s, queue: 20"),
        };
        let node = |place: u32| match place {
            0 => "near".to_owned(),
            last if last == links => "far".to_owned(),
            hop => format!("hop{hop}"),
        };
        let program = |words: &str| {
            let mut all = vec![serde_json::json!(workload)];
            all.extend(words.split(' ').map(serde_json::Value::from));
            serde_json::Value::Array(all)
        };
        let mut text = String::from("experiment: calibrate\nnodes:\n");
        let mut add = |line: String| {
            let _ = writeln!(text, "{line}");
        };
        (0..=links).for_each(|place| add(format!("  {}: {{}}", node(place))));
        add("networks:".to_owned());
        for link in 0..links {
            let (here, there) = (node(link), node(link + 1));
            add(format!("  link{link}: {{attach: [{here}, {there}], subnet: 10.{link}.0.0/24,"));
            add(format!("    links: {{{here}: {{up: {{{up}}}}}}}}}"));
        }
        add("workloads:".to_owned());
        let far = program("echo 7");
        add(format!("  - command: {{on: far, run: {far}, background: true}}"));
        let (count, every, size) = (self.count, self.every_us, self.size);
        // By address: a node on two networks has two.
        let ping = program(&format!("ping 10.0.0.2:7 {count} {every} {size}"));
        add(format!("  - command: {{on: near, run: {ping}}}"));
        for hop in 1..links {
            let relay = program(&format!("relay 7 10.{hop}.0.2:7"));
            let name = node(hop);
            add(format!("  - command: {{on: {name}, run: {relay}, background: true}}"));
        }
        add("duration: 1 s\ndrain: 1 h".to_owned());
        text
    }
}

/// Results of the probe program.
#[derive(Debug, Clone, Deserialize)]
pub struct ProbeResults {
    sent: u64,
    returned: u64,
    rtt_ns: Vec<Option<u64>>,
    span_ns: u64,
}

impl ProbeResults {
    fn quantile_ns(&self, share: f64) -> Option<f64> {
        let mut times: Vec<u64> = self.rtt_ns.iter().flatten().copied().collect();
        times.sort_unstable();
        let last = times.len().checked_sub(1)?;
        Some(times[(share * last as f64).round() as usize] as f64)
    }

    /// Median round trip time in ns.
    pub fn median_ns(&self) -> Option<f64> {
        self.quantile_ns(0.5)
    }
}

/// A row of the result table.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Name of the probe.
    pub name: String,
    /// Configured value, in `unit`.
    #[serde(rename = "asked")]
    pub configured: f64,
    /// Measured value, in `unit`.
    #[serde(rename = "got")]
    pub measured: f64,
    /// Maximum difference of both, in `unit`.
    pub tolerance: f64,
    /// ms, % or kbit/s.
    pub unit: &'static str,
    /// For delays: 99th percentile, in ms.
    pub p99: Option<f64>,
    /// For delays: maximum, in ms.
    pub max: Option<f64>,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams returned.
    pub returned: u64,
    /// Verdict of the probe's run.
    pub verdict: record::Status,
}

/// Tolerance in standard errors. By chance, about one probe in 16,000 exceeds it (two-sided normal
/// distribution).
const DEVIATIONS: f64 = 4.0;

impl Row {
    /// The result of `probe`; `bare_ns` is the round trip time of a link without impairments.
    pub fn of(
        probe: &Probe,
        results: &ProbeResults,
        baseline_ns: f64,
        verdict: record::Status,
    ) -> Self {
        let ms =
            |share: f64| results.quantile_ns(share).map(|ns| (ns - baseline_ns).max(0.0) / 1e6);
        let raw = |share: f64| results.quantile_ns(share).map(|ns| ns / 1e6);
        let (configured, measured, tolerance, unit, times) = match probe.configured {
            // A round trip of more than 1 ms without impairments is not a local network.
            Impairment::Nothing => {
                (0.0, raw(0.5).unwrap_or(f64::NAN), 1.0, "ms", (raw(0.99), raw(1.0)))
            }
            Impairment::Delay(each, links) => {
                let configured = each * f64::from(links);
                // Each further relay is a program that wakes up twice per round trip.
                let relays = 2.0 * f64::from(links - 1) * baseline_ns / 1e6;
                let measured = ms(0.5).unwrap_or(f64::NAN);
                (configured, measured, 0.05 * configured + 0.1 + relays, "ms", (ms(0.99), ms(1.0)))
            }
            Impairment::Loss(percent) => {
                let sent = results.sent.max(1) as f64;
                let measured = 100.0 * (1.0 - results.returned as f64 / sent);
                let share = percent / 100.0;
                let error = 100.0 * (share * (1.0 - share) / sent).sqrt();
                (percent, measured, DEVIATIONS * error, "%", (None, None))
            }
            Impairment::Rate(bit_s) => {
                let frames = results.returned.saturating_sub(1) as f64;
                let bits = frames * ((probe.size + HEADERS) * 8) as f64;
                let measured = bits / (results.span_ns.max(1) as f64 / 1e9);
                (bit_s / 1e3, measured / 1e3, 0.02 * bit_s / 1e3, "kbit/s", (None, None))
            }
        };
        let (p99, max) = times;
        let (sent, returned, name) = (results.sent, results.returned, probe.name.clone());
        Self { name, configured, measured, tolerance, unit, p99, max, sent, returned, verdict }
    }

    /// Whether the measured value is within tolerance.
    pub fn is_within_tolerance(&self) -> bool {
        (self.measured - self.configured).abs() <= self.tolerance
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use experiment::Experiment;

    #[test]
    fn every_probe_is_an_experiment() {
        for probe in all(5) {
            let text = probe.experiment(Path::new("/usr/bin/a \"program\""));
            let read = Experiment::parse(&text, "calibrate.yaml", ".");
            assert!(read.is_ok(), "{}\n{}", text, read.err().unwrap());
        }
    }

    #[test]
    fn a_row_is_held_to_its_tolerance() {
        let probe =
            |configured| Probe { name: "x".into(), configured, count: 4, every_us: 1, size: FULL };
        let results = |ns: u64, returned: u64| ProbeResults {
            sent: 1000,
            returned,
            rtt_ns: vec![Some(ns); returned as usize],
            span_ns: 1_000_000_000,
        };
        let row = |configured, results| {
            Row::of(&probe(configured), &results, 50_000.0, record::Status::Valid)
        };
        assert!(row(Impairment::Delay(20.0, 1), results(20_100_000, 1000)).is_within_tolerance());
        assert!(!row(Impairment::Delay(20.0, 1), results(22_000_000, 1000)).is_within_tolerance());
        assert!(row(Impairment::Loss(30.0), results(1, 720)).is_within_tolerance());
        assert!(!row(Impairment::Loss(30.0), results(1, 800)).is_within_tolerance());
        // 119 frames of 1042 B in a second after the first.
        assert!(row(Impairment::Rate(1_000_000.0), results(1, 121)).is_within_tolerance());
        assert!(!row(Impairment::Rate(1_000_000.0), results(1, 100)).is_within_tolerance());
    }
}
