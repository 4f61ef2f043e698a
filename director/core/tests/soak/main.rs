//! A hub and five members over loopback sockets and a relay that drops, duplicates, reorders,
//! delays, corrupts and replays datagrams, cuts lines and changes addresses, while members restart
//! and the session changes its model. Each message must end as exactly one of acknowledged, failed
//! and unknown, and the logs of the applications must agree: what is acknowledged was received, what
//! has failed was not, and nothing was received twice by a start of a member. After the last fault,
//! all members exchange messages with the hub again.
//!
//! The faults are drawn from a seed; the timing is that of the machine.
#![cfg(feature = "io")]

mod draws;
mod log;
mod relay;
mod round;
#[cfg(feature = "coap")]
mod stopped;
mod storm;
mod weather;

use log::Ends;
use round::{PATTERNS, Setup};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use weather::{Faults, Weather};

/// Round `number` of a seed.
fn setup(seed: u64, number: u64, time: Duration) -> Setup {
    let mut draws = draws::Draws::new(seed, number + 100);
    Setup {
        seed: seed.wrapping_add(number.wrapping_mul(0x1234_5678_9abc_def1)),
        pattern: PATTERNS[(number % 3) as usize],
        keys: number / 3 % 2 == 1,
        rate_bit_s: if number % 4 == 3 { 0.0 } else { 100e6 },
        weather: Weather::draw(&mut draws),
        time,
    }
}

/// Runs rounds, `sessions` of them at a time, until this number of faults or the end of `rounds`;
/// panics on a violation.
async fn soak(
    seed: u64,
    mut rounds: impl Iterator<Item = u64>,
    sessions: usize,
    time: Duration,
    enough: u64,
) -> Faults {
    let (mut faults, mut all, mut count) = (Faults::default(), Ends::default(), 0);
    let (began, mut running) = (Instant::now(), JoinSet::new());
    loop {
        while running.len() < sessions
            && faults.total() < enough
            && let Some(number) = rounds.next()
        {
            let setup = setup(seed, number, time);
            running.spawn(async move { (number, setup, round::run(setup).await) });
        }
        let Some(round) = running.join_next().await else { break };
        let (number, setup, (met, ends, violations)) = round.expect("a round");
        println!("round {number}, {:?}: {} faults, {ends:?}", setup.pattern, met.total());
        let some = violations.iter().take(20).collect::<Vec<_>>();
        assert!(violations.is_empty(), "{} violations, {setup:?}: {some:#?}", violations.len());
        assert!(met.total() > 0 && ends.acknowledged > 0, "{setup:?}: {met} {ends:?}");
        faults.add(&met);
        all.add(&ends);
        count += 1;
    }
    println!("seed {seed}, {count} rounds, {} s: {faults}, {all:?}", began.elapsed().as_secs());
    faults
}

/// A number of the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[tokio::test]
async fn messages_end_truly_whatever_the_path_does() {
    // Each pattern, one key for all and a key for each, with and without a configured rate.
    let rounds = [0, 4, 11].into_iter();
    soak(1, rounds, 3, Duration::from_millis(1_500), u64::MAX).await;
}

/// For evidence: `DIRECTOR_SOAK_SEED`, `DIRECTOR_SOAK_FAULTS` (1,000,000), `DIRECTOR_SOAK_SECONDS`
/// (1,200 at most), `DIRECTOR_SOAK_SESSIONS` (16 at a time: a session waits most of the time).
#[tokio::test]
#[ignore = "takes 20 minutes"]
async fn a_million_faults() {
    let seed = number("DIRECTOR_SOAK_SEED").unwrap_or(1);
    let enough = number("DIRECTOR_SOAK_FAULTS").unwrap_or(1_000_000);
    let limit = Duration::from_secs(number("DIRECTOR_SOAK_SECONDS").unwrap_or(1_200));
    let sessions = number("DIRECTOR_SOAK_SESSIONS").unwrap_or(16) as usize;
    let began = Instant::now();
    let rounds = (0..).take_while(|_| began.elapsed() < limit);
    soak(seed, rounds, sessions, Duration::from_secs(15), enough).await;
}
