//! Creates the map that is shipped with the library: each model over a grid of networks and
//! applications, in virtual time, over the medium's models.

use crate::setup::Setup;
use crate::trial::{Outcome, Trial};
use director::{Conditions, Figures, ModelId, PerformanceMap, Point, Quantiles, Span};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

// Loss, and the mean number of frames lost in a row.
const LOSS: [(f64, f64); 8] = [
    (0.0, 1.0),
    (0.005, 1.0),
    (0.02, 1.0),
    (0.1, 1.0),
    (0.3, 1.0),
    (0.02, 6.0),
    (0.1, 6.0),
    (0.3, 6.0),
];
const RTT_MS: [u64; 2] = [10, 100];
const RATE: [f64; 2] = [250e3, 2e6];
const MTU: [f64; 3] = [113.0, 400.0, 1_500.0];
const GROUP: [f64; 3] = [1.0, 6.0, 30.0];
const PAYLOAD: [f64; 3] = [100.0, 700.0, 2_800.0];
/// Answers per grid point, and the minimum number of messages: slow answers are rare.
const ANSWERS: u64 = 600;
const MESSAGES: u64 = 20;
/// Time between messages, as a multiple of a message's time on air in both directions: the map
/// does not cover a full network.
const ROOM: f64 = 8.0;
const MINIMUM_S: f64 = 1.0;
const SEED: u64 = 7;

/// Creates the map and writes it to `path`, and its compact form next to it. With `models`, measures only
/// these, and takes the points of the others from the file that is there.
///
/// # Errors
/// A file cannot be written.
pub fn write(path: &Path, models: Option<&str>) -> std::io::Result<()> {
    let places = grid();
    let is_new = |model: &ModelId| {
        models.is_none_or(|models| models.split(',').any(|new| new == model.name()))
    };
    let (new, known): (Vec<ModelId>, Vec<ModelId>) =
        director::carrier::available().into_iter().partition(is_new);
    let all: Vec<(ModelId, Conditions)> =
        new.iter().flat_map(|model| places.iter().map(|here| (*model, *here))).collect();
    // Skip models that do not fit into the packets.
    let all: Vec<_> = all.into_iter().filter(|(model, here)| model.fits(here)).collect();
    let next = AtomicUsize::new(0);
    let found: Vec<Vec<(usize, Figures)>> = std::thread::scope(|scope| {
        let work = || {
            let mut found = Vec::new();
            // Runs take very different times, so a thread takes the next one when it is free.
            loop {
                let place = next.fetch_add(1, Ordering::Relaxed);
                let Some((model, here)) = all.get(place) else { return found };
                found.extend(figures(*model, here).map(|figures| (place, figures)));
                if place.is_multiple_of(100) {
                    eprintln!("{place} of {}", all.len());
                }
            }
        };
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    });
    let mut found: Vec<(usize, Figures)> = found.into_iter().flatten().collect();
    // The file does not depend on which thread was faster.
    found.sort_by_key(|(place, _)| *place);
    let mut map = PerformanceMap::new();
    if models.is_some() {
        let former = PerformanceMap::from_json(&std::fs::read_to_string(path)?);
        let former = former.map_err(std::io::Error::other)?;
        for model in known {
            former.points(model).iter().for_each(|point| map.add(model, *point));
        }
    }
    for (place, figures) in found {
        let (model, at) = all[place];
        map.add(model, Point { at, figures });
    }
    std::fs::write(path, map.to_json() + "\n")?;
    let compact = map.to_bytes().map_err(std::io::Error::other)?;
    std::fs::write(path.with_extension("bin"), compact)
}

fn grid() -> Vec<Conditions> {
    let mut places = Vec::new();
    for (loss, burst) in LOSS {
        for rtt in RTT_MS {
            for rate_bit_s in RATE {
                for mtu in MTU {
                    for group in GROUP {
                        for payload in PAYLOAD {
                            let frames = (payload / (mtu - 43.0)).ceil();
                            // Message and answers, each `group` times: no model needs more without
                            // losses.
                            let bits = 2.0 * group * (payload + frames * 57.0) * 8.0;
                            let every = (ROOM * bits / rate_bit_s).max(MINIMUM_S);
                            let messages_s = round(1.0 / every);
                            let rtt = Span::from_ms(rtt);
                            places.push(Conditions {
                                loss,
                                burst,
                                rtt,
                                rate_bit_s,
                                mtu,
                                group,
                                payload,
                                messages_s,
                            });
                        }
                    }
                }
            }
        }
    }
    places
}

/// Rounds to three digits: repeats differ by more.
fn round(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

fn figures(model: ModelId, here: &Conditions) -> Option<Figures> {
    let every = Span::from_ns_f64(1e9 / here.messages_s);
    let messages = (ANSWERS / here.group as u64).max(MESSAGES);
    let setup = Setup::at(here, model, messages, SEED);
    let outcome = Trial::new(setup, Arc::default()).run(20 * every);
    let mut durations: Vec<f64> = answers(&outcome).flatten().map(Span::as_ms).collect();
    durations.sort_by(f64::total_cmp);
    let all = answers(&outcome).count().max(1) as f64;
    let at = |share: f64| {
        let place =
            ((share * durations.len() as f64) as usize).min(durations.len().checked_sub(1)?);
        durations.get(place).copied().map(round)
    };
    // Without an answer the delay is the time waited.
    let never = 20.0 * every.as_ns_f64() / 1e6;
    let quantile = |share| at(share).unwrap_or(never);
    Some(Figures {
        delay_ms: Quantiles { p50: quantile(0.5), p90: quantile(0.9), p99: quantile(0.99) },
        delay_interval: None,
        delivery: round(durations.len() as f64 / all),
        bytes: round(outcome.bytes as f64 / all),
        energy: 0.0,
        messages: all,
    })
}

fn answers(outcome: &Outcome) -> impl Iterator<Item = Option<Span>> {
    outcome.messages.iter().flat_map(|message| message.durations.iter().copied())
}
