//! How well this machine keeps service times, tried before it matters.

use super::DeviceSettings;
use super::station::spend;
use crate::clock::{self, Nanos};
use serde::Serialize;
use trace::{Mode, Spread};

/// So many resources are tried.
const TRIED: usize = 16;
/// So long each.
const EACH: Nanos = 60_000_000;
/// What is allowed: a hundredth, or 20 us if that is more.
const SHARE: f64 = 0.01;
const LEAST: f64 = 20_000.0;

/// How well a service time was kept; in us.
#[derive(Debug, Clone, Serialize)]
pub struct Checked {
    /// The resource.
    pub path: String,
    /// How the time was spent.
    pub mode: &'static str,
    /// What was asked for.
    pub asked: f64,
    /// The mean of what was had.
    pub mean: f64,
    /// What nine tenths of the tries did not exceed.
    pub p90: f64,
    /// How many tries there were.
    pub tries: u64,
    /// Whether the median and nine tenths are within 1 % or 20 us: a machine that takes
    /// the CPU away once spoils a mean of a few tries.
    pub kept: bool,
}

/// Tries the mean service times of up to sixteen resources, for a second at most and as
/// the device will: on its core, one after another. Resources without service time need
/// no trying. An error says that the core cannot be had.
pub fn check(settings: &DeviceSettings) -> Result<Vec<Checked>, String> {
    let tried: Vec<_> =
        settings.resources.iter().filter(|resource| resource.time.mean_ns() > 0.0).collect();
    let step = tried.len().div_ceil(TRIED).max(1);
    let try_all = || {
        clock::place(settings.core)?;
        let margin = clock::margin();
        Ok(tried
            .iter()
            .step_by(step)
            .map(|resource| {
                let asked = resource.time.mean_ns();
                let spread = try_one(resource.mode, asked as Nanos, margin);
                let allowed = (asked * SHARE).max(LEAST);
                let at = |q| spread.quantile_ns(q) as f64;
                let (mean, median, p90) = (spread.mean_ns(), at(0.5), at(0.9));
                Checked {
                    path: resource.path.clone(),
                    mode: if resource.mode == Mode::Busy { "busy" } else { "sleep" },
                    asked: asked / 1e3,
                    mean: mean / 1e3,
                    p90: p90 / 1e3,
                    tries: spread.count(),
                    kept: (median - asked).abs() <= allowed && p90 - asked <= allowed,
                }
            })
            .collect())
    };
    // A thread of its own, since it takes itself to the device's core.
    std::thread::scope(|scope| {
        scope.spawn(try_all).join().unwrap_or_else(|_| Err("the self-test panicked".to_owned()))
    })
}

fn try_one(mode: Mode, asked: Nanos, margin: Nanos) -> Spread {
    let mut spread = Spread::new();
    let end = clock::now() + EACH;
    while spread.count() < 3 || clock::now() + asked < end && spread.count() < 1_000 {
        spread.record(spend(mode, asked, margin));
        // Seconds are kept if milliseconds are.
        if asked > 10 * EACH {
            break;
        }
    }
    spread
}
