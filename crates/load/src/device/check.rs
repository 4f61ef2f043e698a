//! Self-test: measures how well this machine keeps service times.

use super::resource_server::spend;
use super::settings::DeviceSettings;
use crate::scheduling;
use record::event::Checked;
use trace::Mode;
use units::{Histogram, Span};

/// The maximum number of resources to test.
const MAX_TESTED: usize = 16;
/// The test time per resource, in ns.
const TEST_TIME: Span = Span::from_ms(60);
/// The tolerance: 1 %, or 20 us if that is more.
const TOLERANCE: f64 = 0.01;
const MIN_TOLERANCE: f64 = 20_000.0;

/// Measures the mean service times of up to sixteen resources under the conditions of the
/// device: on its core, one after another. Takes about a second, or longer for service
/// times over 20 ms. Skips resources without a service time. The error says why the core
/// cannot be used.
pub fn check(settings: &DeviceSettings) -> Result<Vec<Checked>, String> {
    let tested: Vec<_> =
        settings.resources.iter().filter(|resource| resource.time.mean_ns() > 0.0).collect();
    let step = tested.len().div_ceil(MAX_TESTED).max(1);
    let measure_all = || {
        scheduling::pin_with_priority(settings.core)?;
        let margin = scheduling::margin();
        Ok(tested
            .iter()
            .step_by(step)
            .map(|resource| {
                let configured = resource.time.mean_ns();
                let spread = measure_one(resource.mode, Span::from_ns(configured as u64), margin);
                let allowed = (configured * TOLERANCE).max(MIN_TOLERANCE);
                let at = |q| spread.quantile_ns(q) as f64;
                let (mean, median, p90) = (spread.mean_ns(), at(0.5), at(0.9));
                Checked {
                    path: resource.path.clone(),
                    mode: resource.mode,
                    configured: configured / 1e3,
                    mean: mean / 1e3,
                    p90: p90 / 1e3,
                    tries: spread.count(),
                    kept: (median - configured).abs() <= allowed && p90 - configured <= allowed,
                }
            })
            .collect())
    };
    // A separate thread, since it pins itself to the device's core.
    std::thread::scope(|scope| {
        scope.spawn(measure_all).join().unwrap_or_else(|_| Err("the self-test panicked".to_owned()))
    })
}

fn measure_one(mode: Mode, configured: Span, margin: Span) -> Histogram {
    let mut spread = Histogram::new();
    let end = clock::now() + TEST_TIME;
    while spread.count() < 3 || clock::now() + configured < end && spread.count() < 1_000 {
        spread.record(spend(mode, configured, margin).as_ns());
        // One measurement is enough for long times: they are kept if short ones are.
        if configured > TEST_TIME * 10 {
            break;
        }
    }
    spread
}
