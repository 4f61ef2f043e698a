//! Draws as experiment files.

use crate::draw::{CROSS, Cross, Draw, Outage, Phase, SECONDS, Shrink};
use std::fmt::Write;

/// Time in which the programs of peers.py connect, in s; the same as `SETTLE` there.
const PEERS_SETTLE: f64 = 15.0;

impl Draw {
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
