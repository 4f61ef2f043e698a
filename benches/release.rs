//! How much later than meant frames leave a link of 30 ms.

use crate::{frames, load, nodes};
use measure::Accounting;
use medium::{Endpoint, Impairment, Limit, Taps};
use std::error::Error;
use std::time::Duration;

const ROUND: Duration = Duration::from_secs(3);
const ROUNDS: usize = 3;
/// Frames under way at 100,000 a second for 30 ms, with room.
const QUEUE: u32 = 10_000;

/// Prints the release error at three rates, idle and with a busy program for
/// each processor; medians of three rounds.
pub fn bench() -> Result<(), Box<dyn Error>> {
    println!(
        "\nrelease error at 30 ms, us\n{:>10} {:>8} {:>8} {:>8} {:>8} {:>9}",
        "frames/s", "others", "p50", "p99", "max", "got"
    );
    for rate in ["1000", "10000", "100000"] {
        for busy in [false, true] {
            let mut rounds = Vec::new();
            for _ in 0..ROUNDS {
                rounds.push(round(rate, busy)?);
            }
            let [p50, p99, max, got] =
                [0, 1, 2, 3].map(|i| crate::median(rounds.iter().map(|round| round[i]).collect()));
            println!(
                "{rate:>10} {:>8} {p50:>8.0} {p99:>8.0} {max:>8.0} {got:>9.0}",
                if busy { "busy" } else { "idle" },
            );
        }
    }
    Ok(())
}

/// p50, p99 and max in us, and frames a second that came through.
fn round(rate: &str, busy: bool) -> Result<[f64; 4], Box<dyn Error>> {
    let (lab, taps) = nodes::up(2, |i| vec![1 - i])?;
    let taps = Taps::new(taps)?;
    let delayed = Impairment {
        delay: "30 ms".parse()?,
        queue: Limit::Frames(QUEUE),
        ..Impairment::default()
    };
    let link = Endpoint { up: delayed, ..Endpoint::default() };
    let (spec, places) = frames::switch(2, &link);
    let accounting = Accounting::new(vec![vec![0, 1]], Vec::new(), None);
    let engine = frames::start(taps, vec![spec], places, accounting)?;
    load::start(&lab, 0, &[load::FLOOD, &nodes::address(1).to_string(), rate])?;
    if busy {
        for _ in 0..std::thread::available_parallelism()?.get() {
            load::start(&lab, 1, &[load::BURN])?;
        }
    }
    std::thread::sleep(ROUND);
    drop(lab);
    let seen = engine.stop()?.observer;
    let Some(late) = seen.lateness().summary(1e3) else { return Err("no frames".into()) };
    Ok([late.p50, late.p99, late.max, seen.lateness().count() as f64 / ROUND.as_secs_f64()])
}
