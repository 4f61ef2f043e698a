//! Random networks and sessions: the number of a draw gives all of it.

use std::fmt::Write;
use units::{Purpose, RandomStream};

/// Length of a session, in s.
pub const SECONDS: f64 = 240.0;
/// Time in which the programs of peers.py connect, in s; the same as `SETTLE` there.
const PEERS_SETTLE: f64 = 15.0;
/// Maximum share of the slower direction that messages and answers need by the physical bound.
const MOST_LOAD: f64 = 0.4;
/// Headers of a packet (Ethernet and IPv4) and of a datagram (UDP), in bytes: of the packets of a
/// datagram, only the first has the latter.
// Ethernet has 14, IPv4 20.
const PACKET_HEADERS: f64 = 34.0;
const UDP_HEADER: f64 = 8.0;
/// Small packets: RFC 1191, section 7.
const SHORT: u32 = 296;
/// Name of the interaction of cross traffic.
pub const CROSS: &str = "cross";
/// Draws from this number on may also have a shrinking path MTU and cross traffic: earlier ones stay
/// as they were in published results.
const HARDER_FROM: u64 = 1_001;

/// The network from a point in time to the next.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// Start, in s from the start of the timetable.
    pub at: f64,
    /// Rate of the hub's link in each direction, in kbit/s.
    pub up: f64,
    /// Rate to the hub, in kbit/s.
    pub down: f64,
    /// Delay of a member's link in each direction, and its jitter, in ms.
    pub delay: f64,
    /// See `delay`.
    pub jitter: f64,
    /// Frame loss of a member's link in each direction, 0 to 1.
    pub loss: f64,
    /// Mean number of frames that are lost in a row; 1 for independent losses.
    pub burst: f64,
    /// Whether the network carries multicast.
    pub multicast: bool,
}

/// Members with a worse link.
#[derive(Debug, Clone, PartialEq)]
pub struct Distant {
    /// Their number, included in the number of members.
    pub count: u32,
    /// Frame loss of their links, 0 to 1.
    pub loss: f64,
    /// Their delay, as a multiple of the other members'.
    pub delay: f64,
}

/// Links that carry nothing for a while.
#[derive(Debug, Clone, PartialEq)]
pub struct Outage {
    /// Whose: a node or a group.
    pub of: &'static str,
    /// Start, in s.
    pub at: f64,
    /// Length, in s.
    pub lasts: f64,
}

/// A path MTU that is smaller for a while, without ICMP messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Shrink {
    /// The path MTU, in bytes.
    pub mtu: u32,
    /// Start, in s.
    pub at: f64,
    /// Length, in s.
    pub lasts: f64,
}

/// Traffic of others over the hub's link, in both directions.
#[derive(Debug, Clone, PartialEq)]
pub struct Cross {
    /// Bytes of each datagram.
    pub payload: u32,
    /// Time between datagrams, in ms.
    pub every: f64,
}

/// A session over a random network.
#[derive(Debug, Clone, PartialEq)]
pub struct Draw {
    /// Number of the draw.
    pub number: u64,
    /// Number of members.
    pub members: u32,
    /// Those with a worse link.
    pub distant: Option<Distant>,
    /// Bytes of a message and of each answer.
    pub payload: u32,
    /// Time between messages, in ms.
    pub every: f64,
    /// Maximum packet size, in bytes.
    pub mtu: u32,
    /// The network over time.
    pub phases: Vec<Phase>,
    /// Interruptions.
    pub outages: Vec<Outage>,
    /// Whether the path MTU shrinks.
    pub shrink: Option<Shrink>,
    /// Cross traffic.
    pub cross: Option<Cross>,
}

struct Dice(RandomStream, u64);

impl Dice {
    /// Uniform in [0, 1).
    fn uniform(&mut self) -> f64 {
        self.1 += 1;
        self.0.uniform(self.1)
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Uniform in the logarithm.
    fn scale(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }

    fn chance(&mut self, share: f64) -> bool {
        self.uniform() < share
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[((self.uniform() * of.len() as f64) as usize).min(of.len() - 1)]
    }
}

impl Draw {
    /// The draw with this number.
    pub fn new(number: u64) -> Self {
        let mut dice = Dice(units::Draw::new(number, 0, 0).of(Purpose::Choice), 0);
        let members = dice.one(&[1, 2, 5, 10, 20, 50]);
        let distant = (members > 1 && dice.chance(0.3)).then(|| Distant {
            count: (members / 10).max(1),
            loss: dice.between(0.2, 0.6),
            delay: dice.scale(1.0, 4.0),
        });
        let payload = dice.scale(20.0, 4_000.0) as u32;
        // 113: a frame of 127 B with Ethernet's header. 576: RFC 1191, section 7. 1,280: the least of
        // IPv6 (RFC 8200, section 5).
        let mtu = dice.one(&[113, SHORT, 576, 1_280, 1_500]);
        let phases = phases(&mut dice);
        let outages = outages(&mut dice, members);
        // A schedule that some phase cannot carry would only measure how its queue grows.
        let slowest = phases.iter().map(|phase| phase.up.min(phase.down));
        let slowest = slowest.fold(f64::INFINITY, f64::min);
        let least = bits(payload, mtu) * f64::from(members) / slowest / MOST_LOAD;
        let every = dice.scale(500.0, 5_000.0).max(least).round();
        let (shrink, cross) = (shrink(&mut dice, mtu), cross(&mut dice, mtu, slowest));
        let is_harder = number >= HARDER_FROM;
        let (shrink, cross) = (shrink.filter(|_| is_harder), cross.filter(|_| is_harder));
        Self { number, members, distant, payload, every, mtu, phases, outages, shrink, cross }
    }

    /// The draw as an experiment file, for nodes as well. The axis `model` has the director and each
    /// of its models.
    pub fn text(&self, models: &[&str]) -> String {
        let mut text = self.network("random", 0.0);
        let _ = writeln!(text, "\nmodels:");
        for model in models {
            let way = if *model == "director" { model } else { &*format!("director/{model}") };
            let _ = writeln!(
                text,
                "  {model}: {{down: {way}, up: {way}, every: {} ms, assume_nothing: true, lifetime: {} ms}}",
                self.every,
                self.every * crate::DEADLINE as f64
            );
        }
        let (model, others) = self.cross_texts();
        text.push_str(&model);
        let _ = write!(
            text,
            "\nworkloads:\n  - interaction: {{name: update, source: hub, sinks: [{}], model: \"${{model}}\", payload: payload-{}}}{others}\n\nmatrix:\n  model: [{}]\n\nseed: {}\nduration: {SECONDS} s\ndrain: 30 s\n",
            self.groups(),
            self.payload,
            models.join(", "),
            self.number
        );
        text
    }

    /// The draw with the programs of peers.py, which connect through the first phase of the network
    /// for `PEERS_SETTLE` seconds. The axis `protocol` has theirs.
    pub fn peers(&self, protocols: &[&str]) -> String {
        let mut text = self.network("peers", PEERS_SETTLE);
        let every = self.every / 1e3;
        let python = "../peers/bin/python, ../../director/evidence/peers.py";
        let (model, others) = self.cross_texts();
        if self.cross.is_some() {
            let _ = writeln!(text, "\nmodels:\n{model}");
        }
        let _ = writeln!(text, "\nworkloads:{others}");
        for group in self.groups().split(", ") {
            let before = if group == "distant" { self.near() } else { 0 };
            let _ = writeln!(
                text,
                "  - command: {{on: {group}, background: true, run: [{python}, member, \"${{protocol}}\"], env: {{PEERS_BEFORE: {before}}}}}"
            );
        }
        let messages = (SECONDS / every).ceil();
        let _ = writeln!(
            text,
            "  - command: {{name: hub, on: hub, run: [{python}, hub, \"${{protocol}}\", \"{}\", payload-{}, \"{messages}\"], env: {{PEERS_EVERY: {every}}}, metrics: {{cost: {{json: cost_ms, unit: ms}}, delivered: {{json: delivered}}}}}}",
            self.members, self.payload
        );
        let duration = PEERS_SETTLE + (messages + crate::DEADLINE as f64) * every + 10.0;
        let _ = write!(
            text,
            "\nmatrix:\n  protocol: [{}]\n\nseed: {}\nduration: {duration:.0} s\n",
            protocols.join(", "),
            self.number
        );
        text
    }

    /// Lines of the model and of the interaction of cross traffic; empty without.
    fn cross_texts(&self) -> (String, String) {
        let Some(Cross { payload, every }) = &self.cross else { return Default::default() };
        let way = "udp/request-response";
        (
            format!("  {CROSS}: {{down: {way}, up: {way}, every: {every:.1} ms, drain: 0 s}}\n"),
            format!(
                "\n  - interaction: {{name: {CROSS}, source: hub, sinks: other, model: {CROSS}, payload: payload-{payload}}}"
            ),
        )
    }

    /// Members with the ordinary link.
    fn near(&self) -> u32 {
        self.members - self.distant.as_ref().map_or(0, |distant| distant.count)
    }

    fn groups(&self) -> &'static str {
        if self.distant.is_some() { "member, distant" } else { "member" }
    }

    /// Nodes and network of an experiment file whose name starts with `what`; the timetable begins
    /// `later` seconds later.
    fn network(&self, what: &str, later: f64) -> String {
        let number = self.number;
        let mut text = format!(
            "# Draw {number} of director/evidence/draw.rs.\nexperiment: {what}-{number}\n\nnodes:\n  hub: {{}}\n  member: {{count: {}}}\n",
            self.near()
        );
        if let Some(distant) = &self.distant {
            let _ = writeln!(text, "  distant: {{count: {}}}", distant.count);
        }
        let other = if self.cross.is_some() { ", other" } else { "" };
        if self.cross.is_some() {
            let _ = writeln!(text, "  other: {{}}");
        }
        let groups = self.groups();
        let _ = write!(
            text,
            "\nnetworks:\n  field:\n    attach: [hub, {groups}{other}]\n    subnet: 10.0.0.0/24\n    mtu: {} B\n",
            self.mtu
        );
        let first = &self.phases[0];
        let _ = writeln!(text, "    links:");
        for (of, way) in self.settings(first) {
            let [up, down] = way;
            let _ = writeln!(text, "      {of}: {{up: {{{up}}}, down: {{{down}}}}}");
        }
        let _ = writeln!(text, "    timetable:");
        self.timetable(&mut text, later);
        text
    }

    fn timetable(&self, text: &mut String, later: f64) {
        for (before, phase) in self.phases.iter().zip(&self.phases[1..]) {
            let _ = writeln!(text, "      # At {:.1} s:", phase.at);
            let (old, new) = (self.settings(before), self.settings(phase));
            for ((of, [up, down]), (_, before)) in new.into_iter().zip(old) {
                for (way, set, before) in [("up", up, &before[0]), ("down", down, &before[1])] {
                    if set != *before {
                        let at = phase.at + later;
                        let _ = writeln!(
                            text,
                            "      - {{at: {at:.1} s, links: {of}, way: {way}, set: {{{set}}}}}"
                        );
                    }
                }
            }
        }
        // One entry for phases in a row.
        for same in self.phases.chunk_by(|a, b| a.multicast == b.multicast) {
            let next = self.phases.iter().find(|phase| phase.at > same[same.len() - 1].at);
            let (at, end) = (same[0].at, next.map_or(SECONDS + 60.0, |next| next.at));
            if same[0].multicast {
                continue;
            }
            let (at, lasts) = if at == 0.0 { (at, end + later) } else { (at + later, end - at) };
            let _ =
                writeln!(text, "      - {{at: {at:.1} s, multicast: false, lasts: {lasts:.1} s}}");
        }
        if let Some(Shrink { mtu, at, lasts }) = &self.shrink {
            let (at, end) = (at + later, at + lasts + later);
            for way in ["up", "down"] {
                let change = |at: f64, to: &str| {
                    format!(
                        "      - {{at: {at:.1} s, links: hub, way: {way}, set: {{path_mtu: {to}}}}}\n"
                    )
                };
                text.push_str(&change(at, &format!("{mtu} B")));
                text.push_str(&change(end, "null"));
            }
        }
        for Outage { of, at, lasts } in &self.outages {
            let at = at + later;
            let _ = writeln!(text, "      - {{at: {at:.1} s, down: {of}, lasts: {lasts:.1} s}}");
        }
    }

    /// The settings of the links in a phase: of each group, up and down.
    fn settings(&self, phase: &Phase) -> Vec<(&'static str, [String; 2])> {
        let rate = |rate: f64| format!("rate: {rate:.0} kbit/s");
        let mut all = vec![
            ("hub", [rate(phase.up), rate(phase.down)]),
            ("member", radio(phase.delay, phase.jitter, phase.loss, phase.burst)),
        ];
        if let Some(distant) = &self.distant {
            let delay = phase.delay * distant.delay;
            let loss = phase.loss.max(distant.loss);
            all.push(("distant", radio(delay, phase.jitter, loss, phase.burst)));
        }
        all
    }

    /// The least size of a message on the wire, in bits.
    pub fn bits(&self) -> f64 {
        bits(self.payload, self.mtu)
    }
}

/// The least size of a message on the wire, in bits: one datagram, in as few packets as it needs.
fn bits(payload: u32, mtu: u32) -> f64 {
    let datagram = f64::from(payload) + UDP_HEADER;
    // 20: the IPv4 header, which the MTU includes.
    let packets = (datagram / f64::from(mtu - 20)).ceil();
    (datagram + packets * PACKET_HEADERS) * 8.0
}

fn radio(delay: f64, jitter: f64, loss: f64, burst: f64) -> [String; 2] {
    let loss = match burst > 1.0 && loss > 0.0 {
        true => {
            // In the bad state all frames are lost, so its mean length 1 / r is the burst, and its
            // share p / (p + r) the loss.
            let r = 1.0 / burst;
            let p = (loss * r / (1.0 - loss)).min(1.0);
            format!("gilbert_elliott: {{p: {:.3} %, r: {:.3} %}}", p * 100.0, r * 100.0)
        }
        false => format!("loss: {:.2} %", loss * 100.0),
    };
    let way = format!("delay: {delay:.1} ms, jitter: {jitter:.1} ms, {loss}");
    [way.clone(), way]
}

/// A network that changes up to five times. In each change every property has an even chance to
/// stay as it is.
fn phases(dice: &mut Dice) -> Vec<Phase> {
    let mut times: Vec<f64> = (0..dice.one(&[0, 1, 2, 3, 4, 5]))
        .map(|_| dice.between(20.0, SECONDS - 20.0).round())
        .collect();
    times.sort_by(f64::total_cmp);
    times.dedup_by(|later, earlier| *later - *earlier < 10.0);
    let mut phases: Vec<Phase> = Vec::new();
    for at in std::iter::once(0.0).chain(times) {
        let fresh = phase(dice, at);
        let next = match phases.last() {
            None => fresh,
            Some(last) => {
                // All values are drawn even if they are not used, so that a choice here does not
                // change the later draws.
                let mut next = Phase { at, ..last.clone() };
                if dice.chance(0.5) {
                    (next.up, next.down) = (fresh.up, fresh.down);
                }
                if dice.chance(0.5) {
                    (next.delay, next.jitter) = (fresh.delay, fresh.jitter);
                }
                if dice.chance(0.5) {
                    (next.loss, next.burst) = (fresh.loss, fresh.burst);
                }
                if dice.chance(0.5) {
                    next.multicast = fresh.multicast;
                }
                next
            }
        };
        phases.push(next);
    }
    phases
}

fn phase(dice: &mut Dice, at: f64) -> Phase {
    let up = dice.scale(50.0, 10_000.0).round();
    let down = if dice.chance(0.3) { (up * dice.scale(0.1, 1.0)).max(30.0).round() } else { up };
    let delay = dice.scale(2.0, 200.0);
    let jitter = delay * dice.between(0.0, 0.2);
    let loss = if dice.chance(0.4) { 0.0 } else { dice.between(0.0, 0.3) };
    let burst = if dice.chance(0.25) { dice.scale(2.0, 15.0) } else { 1.0 };
    Phase { at, up, down, delay, jitter, loss, burst, multicast: !dice.chance(0.2) }
}

fn outages(dice: &mut Dice, members: u32) -> Vec<Outage> {
    let mut outages = Vec::new();
    if dice.chance(0.15) {
        let (at, lasts) = (dice.between(20.0, 200.0).round(), dice.between(2.0, 10.0).round());
        outages.push(Outage { of: "hub", at, lasts });
    }
    if members > 2 && dice.chance(0.2) {
        // A member leaves and comes back.
        let (at, lasts) = (dice.between(20.0, 180.0).round(), dice.between(5.0, 40.0).round());
        outages.push(Outage { of: "member-1", at, lasts });
    }
    outages
}

/// In a third of the draws, where packets can be shorter than the path's.
fn shrink(dice: &mut Dice, mtu: u32) -> Option<Shrink> {
    let (happens, share) = (dice.chance(0.33), dice.between(0.4, 0.8));
    let (at, lasts) = (dice.between(20.0, 160.0).round(), dice.between(30.0, 120.0).round());
    let long = mtu >= 576;
    let mtu = ((f64::from(mtu) * share) as u32).max(SHORT);
    (happens && long).then_some(Shrink { mtu, at, lasts })
}

/// In half of the draws: datagrams and answers at 10 to 40 % of the slowest rate, in kbit/s.
fn cross(dice: &mut Dice, mtu: u32, slowest: f64) -> Option<Cross> {
    let (happens, share) = (dice.chance(0.5), dice.between(0.1, 0.4));
    // 20: the IPv4 header. One packet each.
    let payload = (mtu - 20 - UDP_HEADER as u32).min(dice.scale(40.0, 1_200.0) as u32);
    let every = bits(payload, mtu) / (slowest * share);
    happens.then_some(Cross { payload, every })
}
