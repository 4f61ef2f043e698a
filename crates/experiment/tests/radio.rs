//! The shipped experiments about radio: their plans, on the channel alone, compared with theory.

use experiment::{Experiment, Only, Plan};
use link::{Channel, Csma, Ending};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use units::{Draw, Instant, Purpose};

/// Frames per second of each sender, and their number.
const RATE: f64 = 25.0;
const FRAMES: u64 = 20_000;

fn plan(radio: &str) -> Plan {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/radio");
    let experiment = Experiment::read(&root.join("hidden-stations.yaml")).unwrap();
    let cells = experiment.cells(&Only::parse(&format!("radio={radio}")).unwrap()).unwrap();
    experiment.plan(&cells[0], 0, 7).unwrap()
}

/// Share of frames that collide if both sensors send to the sink at random times.
fn collisions(plan: &Plan) -> f64 {
    let network = &plan.networks[0];
    let Channel::Csma(spec) = &network.channel else { panic!("{:?}", network.channel) };
    let reception = plan.reception(network).map(Arc::new);
    let names: Vec<_> = plan.members(network).map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["sink", "sensor-1", "sensor-2"]);
    let mut csma = Csma::new(spec, names.len(), Draw::new(31, 0, 0));
    csma.set_reception(reception);
    let arrivals = |sensor: u64| -> VecDeque<Instant> {
        let (draw, mut at) = (Draw::new(32, sensor, 0), 0.0);
        let next = |number| {
            at -= f64::ln(1.0 - draw.uniform(Purpose::Arrival, number)) / RATE;
            Instant::from_ns((at * 1e9) as u64)
        };
        (0..FRAMES).map(next).collect()
    };
    let mut waiting = [VecDeque::new(), arrivals(1), arrivals(2)];
    let frame = network.mtu.get() as usize + 14;
    let mut collided = 0u64;
    for link in [1, 2] {
        csma.ready_for(link, 0, frame, waiting[link].pop_front().unwrap());
    }
    while let Some(attempt) = csma.step(Instant::NEVER, &mut |_| true) {
        collided += u64::from(attempt.outcome == Ending::Collided);
        // One after another: a frame that arrived meanwhile waited.
        if let Some(next) = waiting[attempt.link].pop_front() {
            csma.ready_for(attempt.link, 0, frame, next.max(attempt.at));
        }
    }
    collided as f64 / (2 * FRAMES) as f64
}

#[test]
fn hidden_sensors_collide_as_often_as_theory_gives_and_others_seldom() {
    // A sender is on the air for 133 B at 250 kbit/s per frame: b = 10.6 % of the time. A frame survives
    // if the other sender is off the air, 1 - b, and begins no frame for as long as this one takes;
    // while it is off, it begins frames at RATE / (1 - b).
    let busy = 133.0 * 8.0 / 250e3 * RATE;
    let expected = 1.0 - (1.0 - busy) * f64::exp(-busy / (1.0 - busy));
    assert!((expected - 0.207).abs() < 0.001, "{expected}");
    let hidden = collisions(&plan("distance"));
    // Collisions come in pairs: four standard deviations, and 0.01 for the backoffs, which prolong the
    // time off the air and which the formula omits.
    let deviation = (2.0 * expected * (1.0 - expected) / (2 * FRAMES) as f64).sqrt();
    assert!((hidden - expected).abs() < 4.0 * deviation + 0.01, "{hidden}, not {expected}");
    let near = collisions(&plan("same-place"));
    assert!(near < 0.05, "{near}");
}

#[test]
fn the_plan_says_who_is_hidden() {
    let text = plan("distance").to_string();
    for line in [
        "radio links, with the loss of frames of 127 B: 2\n",
        "    sink - sensor-1: 25.0 m, -82.1 dBm, loss 0.000 %\n",
        "    sink - sensor-2: 25.0 m, -82.1 dBm, loss 0.000 %\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    assert!(!text.contains("sensor-1 - sensor-2"), "{text}");
    assert!(!plan("same-place").to_string().contains("radio links"));
}
