//! Forecast of the load that a plan puts on the machine.
//!
//! It is an estimate for warnings. It uses the schedules and the measured cost of a frame and a
//! message on one machine (docs/results/bench.md, docs/results/mqtt.md). Its goal is a factor of
//! two. It does not cover commands and nodes' `run` programs.

use crate::exchange::Exchange;
use crate::load::{Load, Made, Requests};
use crate::mqtt::Mqtt;
use crate::plan::{Interaction, Plan, Workload};
use record::ExchangeProtocol;
use std::fmt;
use trace::{Arrivals, Resource, Scheme};
use units::{Draw, Span};

/// CPU time of the medium per frame, s. Two links of `ring` take 2.4 us.
const FRAME_S: f64 = 4e-6;
/// CPU time of programs and of nodes' kernels per message sent or received, s.
const MESSAGE_S: f64 = 60e-6;
/// Bytes of a frame without payload: Ethernet, IP, TCP with options, and the models' own headers.
const FRAME_BYTES: f64 = 100.0;
/// Header bytes of a packet: IP and the smallest transport.
const HEADERS: u64 = 28;

/// Mean load of a plan during its run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Forecast {
    /// Frames that nodes send, per second.
    pub frames_s: f64,
    /// Messages, requests and answers, per second.
    pub messages_s: f64,
    /// Bytes of these frames, per second.
    pub bytes_s: f64,
    /// CPUs that the medium needs.
    pub medium_cpus: f64,
    /// CPUs that programs need, including service times of busy devices.
    pub program_cpus: f64,
    /// Number of programs that the forecast does not cover.
    pub unknown: usize,
}

impl Forecast {
    /// Estimates the load of `plan`.
    pub fn of(plan: &Plan) -> Self {
        let mut sum = Self::default();
        for workload in &plan.workloads {
            match workload {
                Workload::Interaction(interaction) => sum.interaction(plan, interaction),
                Workload::Mqtt(mqtt) => sum.mqtt(plan, mqtt),
                Workload::Exchange(exchange) => sum.exchange(plan, exchange),
                Workload::Load(load) => sum.load(plan, load),
                Workload::Command(command) => sum.unknown += command.on.len(),
                Workload::Device(_) | Workload::Probe(_) => {}
            }
        }
        sum.unknown += plan.nodes.iter().filter(|node| node.program.is_some()).count();
        sum.medium_cpus = sum.frames_s * FRAME_S;
        sum.program_cpus += sum.messages_s * MESSAGE_S;
        sum
    }

    /// Warning about overload on a machine with `cores` cores, if any.
    pub fn warning(&self, cores: u32) -> Option<String> {
        let (medium, all) = (self.medium_cpus, self.medium_cpus + self.program_cpus);
        let fix = "use fewer nodes, a lower rate or a larger machine";
        if medium > 0.7 {
            return Some(format!(
                "about {:.0} frames/s keep the forwarding thread busy for {:.0} % of its time: \
                 {fix}",
                self.frames_s,
                100.0 * medium
            ));
        }
        (all > 0.7 * f64::from(cores)).then(|| {
            format!(
                "programs and forwarding need about {all:.1} CPUs, and this machine has {cores}: \
                 the verdict may be suspect; {fix}"
            )
        })
    }

    fn interaction(&mut self, plan: &Plan, it: &Interaction) {
        let rate = per_second(it.every);
        let sinks = if it.down.is_to_all() { it.sinks.len() as f64 } else { 1.0 };
        let frames = |bytes| frames(plan, &it.network, bytes);
        // One message to each sink and one answer back, each forwarded once; over connections, also
        // an occasional acknowledgement.
        let both = frames(it.payload_bytes) + frames(it.reply_payload_bytes);
        self.frames_s += rate * sinks * both * 1.5;
        let payload = (it.payload_bytes + it.reply_payload_bytes) as f64;
        self.bytes_s += rate * sinks * (payload + both * 1.5 * FRAME_BYTES);
        // A message and its answer, each sent once and received once.
        self.messages_s += rate * sinks * 4.0;
    }

    fn mqtt(&mut self, plan: &Plan, mqtt: &Mqtt) {
        let rate = per_second(mqtt.every);
        let frames = frames(plan, &mqtt.network, mqtt.payload_bytes);
        // Each hop carries the message, TCP's acknowledgement and the packets of the QoS level.
        // QoS 1 adds PUBACK; QoS 2 adds PUBREC, PUBREL and PUBCOMP (MQTT 3.1.1, 4.3).
        let packets = [1.0, 2.0, 4.0][usize::from(mqtt.qos.min(2))];
        // Two hops: publisher to broker, broker to subscriber.
        self.frames_s += rate * 2.0 * (frames + packets);
        let payload = mqtt.payload_bytes as f64;
        self.bytes_s += rate * 2.0 * (payload + (frames + packets) * FRAME_BYTES);
        self.messages_s += rate * 2.0 * (1.0 + packets);
    }

    fn exchange(&mut self, plan: &Plan, it: &Exchange) {
        let rate = per_second(it.every) * it.pairs().len() as f64;
        let bytes = it.sizes.iter().sum::<u64>() as f64 / it.sizes.len().max(1) as f64;
        let frames = frames(plan, &it.network, bytes as u64);
        let around = match it.protocol {
            ExchangeProtocol::Udp => 2.0,
            // Each block needs a request.
            ExchangeProtocol::Coap(ref coap) => 2.0 * (bytes / f64::from(coap.block)).ceil(),
            // Connecting and closing; TCP acknowledges every second segment (RFC 5681, 4.2).
            _ => 10.0 + frames / 2.0,
        };
        self.frames_s += rate * (frames + around);
        self.bytes_s += rate * (bytes + (frames + around) * FRAME_BYTES);
        self.messages_s += rate * around.max(2.0);
    }

    fn load(&mut self, plan: &Plan, load: &Load) {
        // The rate of a closed loop depends on its answers, that of a trace on its lines.
        let Requests::Made(made) = &load.requests else {
            self.unknown += load.on.len();
            return;
        };
        if load.users.is_some() {
            self.unknown += load.on.len();
            return;
        }
        let rate = load.on.len() as f64 * rate(made);
        let frames = match made.protocol {
            Scheme::Coap | Scheme::Udp => 2.0,
            // TCP acknowledges the request and the answer.
            Scheme::Http | Scheme::Mqtt | Scheme::Tcp => 4.0,
        };
        self.frames_s += rate * frames;
        self.bytes_s += rate * frames * 2.0 * FRAME_BYTES;
        self.messages_s += rate * 4.0;
        self.program_cpus += rate * busy_s(plan, made);
    }
}

impl fmt::Display for Forecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "predicted: {:.0} frames/s and {:.0} messages/s, {:.2} CPUs for forwarding and {:.2} \
             for programs",
            self.frames_s, self.messages_s, self.medium_cpus, self.program_cpus
        )?;
        if self.unknown > 0 {
            write!(f, "; {} other programs are not included", self.unknown)?;
        }
        Ok(())
    }
}

fn per_second(every: Span) -> f64 {
    1e9 / (every.as_ns() as f64).max(1.0)
}

/// Frames of one message on a network.
fn frames(plan: &Plan, network: &str, bytes: u64) -> f64 {
    let mtu = plan.network(network).map_or(1_500, |network| network.mtu.get());
    bytes.max(1).div_ceil(mtu.saturating_sub(HEADERS).max(1)) as f64
}

/// Requests per second of one sender: those of the first device's schedule, at most ten thousand.
fn rate(made: &Made) -> f64 {
    const MAX_REQUESTS: usize = 10_000;
    let Ok(arrivals) = made.arrivals.parse::<Arrivals>() else { return 0.0 };
    let end = made.duration.as_ns();
    let times = arrivals.times(Draw::new(1, 0, 0), false);
    let times: Vec<u64> = times.take_while(|at| *at < end).take(MAX_REQUESTS).collect();
    let span = match times.last() {
        Some(last) if times.len() == MAX_REQUESTS => *last,
        _ => end,
    };
    // If all times were taken, the rate is that until the last one, not until the end.
    let each = times.len() as f64 * 1e9 / span.max(1) as f64;
    let all = if made.together { each } else { each * made.to.len() as f64 };
    match made.count {
        Some(count) => all.min(count as f64 * 1e9 / end.max(1) as f64),
        None => all,
    }
}

/// CPU time of one request on the receiving device, s: the mean of the device's busy resources.
fn busy_s(plan: &Plan, made: &Made) -> f64 {
    let devices = plan.workloads.iter().filter_map(|workload| match workload {
        Workload::Device(device) if device.on.iter().any(|on| made.to.contains(on)) => Some(device),
        _ => None,
    });
    let lines = devices.flat_map(|device| &device.resources);
    let resources: Vec<Resource> = lines.filter_map(|line| line.parse().ok()).collect();
    let paths = made.path.as_deref().unwrap_or_default();
    // The mix may name resources; the others cost nothing.
    let matching = |resource: &&Resource| paths.is_empty() || paths.contains(&resource.path);
    let matching: Vec<&Resource> = resources.iter().filter(matching).collect();
    let busy = matching.iter().filter(|resource| resource.mode == trace::Mode::Busy);
    busy.map(|resource| resource.time.mean_ns() / 1e9).sum::<f64>() / matching.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Experiment;
    use crate::only::Only;

    fn forecast(workloads: &str) -> Forecast {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("e.yaml");
        let text = format!(
            "experiment: f\nnodes: {{a: {{}}, b: {{count: 10}}}}\nnetworks: {{n: {{attach: [a, b], \
             subnet: 10.0.0.0/24}}}}\nduration: 10 s\nworkloads:\n{workloads}"
        );
        std::fs::write(&path, text).unwrap();
        let experiment = Experiment::read(&path).unwrap_or_else(|errors| panic!("{errors}"));
        let cells = experiment.cells(&Only::all()).unwrap();
        Forecast::of(&experiment.plan(&cells[0], 0, 1).unwrap())
    }

    #[test]
    fn loads_have_the_rate_of_their_schedule() {
        let one = forecast("  - load: {on: a, to: b, arrivals: exponential:10ms}\n");
        assert!((one.frames_s / 2_000.0 - 1.0).abs() < 0.2, "ten devices: {one:?}");
        let together =
            forecast("  - load: {on: a, to: b, arrivals: constant:10ms, together: true}\n");
        assert!((together.frames_s - 200.0).abs() < 5.0, "{together:?}");
        assert_eq!(forecast("  - load: {on: a, to: b, users: 3, count: 9}\n").unknown, 1);
    }

    #[test]
    fn busy_devices_need_what_they_serve() {
        let both = forecast(
            "  - device: {on: b, resources: {x: {time: constant:5ms, mode: busy}, y: constant:9ms}}\n  \
             - load: {on: a, to: b, path: x, arrivals: constant:100ms}\n",
        );
        // A hundred requests per second of 5 ms each.
        assert!((both.program_cpus - 0.5 - 100.0 * 4.0 * MESSAGE_S).abs() < 0.02, "{both:?}");
        assert_eq!(both.warning(4), None);
        assert!(
            Forecast { program_cpus: 3.0, ..both }
                .warning(4)
                .unwrap()
                .contains("this machine has 4")
        );
        let flood = Forecast { frames_s: 4e5, medium_cpus: 1.6, ..both };
        assert!(flood.warning(64).unwrap().contains("the forwarding thread"));
    }
}
