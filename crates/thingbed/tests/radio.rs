//! Radio networks in which nodes do not all hear each other, in virtual time.

mod common;

use common::{Bed, figure};
use std::fs;
use std::path::Path;

/// Share of the frames of two independent senders that collide at a receiver, if neither waits for
/// the other: a frame survives if the other sender is off the air when the frame begins, and begins
/// none until it ends. `busy` is the share of time in which a sender is on the air. A sender that is
/// off begins at the rate of its frames, less the time in which it cannot.
fn hidden_collisions(busy: f64) -> f64 {
    1.0 - (1.0 - busy) * f64::exp(-busy / (1.0 - busy))
}

#[test]
fn hidden_stations_collide_as_often_as_theory_gives_and_others_seldom() {
    let bed = Bed::new();
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/radio/hidden-stations.yaml");
    bed.write("e.yaml", &fs::read_to_string(file).unwrap());
    bed.thingbed(&["run", "e.yaml", "--clock", "virtual"]).expect(0, &["2 valid"]);
    let share = |radio: &str| {
        let mut all = bed.summaries("hidden-stations").into_iter();
        let run = all.rfind(|run| run["cell"]["radio"] == radio).unwrap();
        assert_eq!(figure(&run, ".links.weak_signal_frames"), 0.0, "{radio}");
        let sent = figure(&run, ".loads.reports.sent");
        // 2 senders, 25 frames/s each, 60 s.
        assert!((2_700.0..3_300.0).contains(&sent), "{sent}");
        (figure(&run, ".links.contention_frames") / sent, sent)
    };
    // 133 B at 250 kbit/s, 25 times per second.
    let expected = hidden_collisions(4.256e-3 * 25.0);
    assert!((expected - 0.207).abs() < 0.001, "{expected}");
    let (hidden, sent) = share("distance");
    // Collisions come in pairs: four standard deviations, and 0.01 for the backoffs, which the formula
    // omits.
    let tolerance = 4.0 * (2.0 * expected * (1.0 - expected) / sent).sqrt() + 0.01;
    assert!((hidden - expected).abs() < tolerance, "{hidden}, not {expected}");
    let (near, _) = share("same-place");
    assert!(near < 0.05, "{near}");
}
