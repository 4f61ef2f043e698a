//! Decision time of the director with the included map: while the session stays at its place on the
//! map, and after it has moved each time.

use director::{
    Conditions, ModelId, Pattern, PerformanceMap, Policy, QosTargets, Settings, Span,
    TransportProperties,
};
use std::hint::black_box;
use std::time::Instant;

const DECISIONS: u32 = 20_000;

/// Prints a row for each case.
pub fn bench() -> Result<(), Box<dyn std::error::Error>> {
    println!("| a decision among the models that are compiled in | median, us | p99, us |");
    println!("| --- | --- | --- |");
    for (name, moves) in [("where it was", false), ("moved on the map each time", true)] {
        let (median, late) = decide(moves);
        println!("| {name} | {median:.2} | {late:.2} |");
    }
    Ok(())
}

fn decide(moves: bool) -> (f64, f64) {
    let models = director::carrier::available();
    let (map, properties) = (PerformanceMap::shipped(), TransportProperties::default());
    let targets = QosTargets { delivery_ratio: Some(0.999), ..QosTargets::default() };
    let (pattern, settings) = (Pattern::PublishCollect, Settings::default());
    let mut policy = Policy::new(pattern, properties, targets, &models, ModelId::UdpArq, settings);
    let mut times: Vec<f64> = (0..DECISIONS)
        .map(|number| {
            let far = if moves { f64::from(number % 7) } else { 0.0 };
            let here = Conditions {
                loss: 0.01 + 0.04 * far,
                rtt: Span::from_ms(40),
                rate_bit_s: 1e6 * (1.0 + far),
                group: 20.0,
                payload: 700.0,
                ..Conditions::default()
            };
            policy.may_lose(here.loss + 0.01);
            let at = director::Instant::START + Span::from_ms(number.into());
            let begin = Instant::now();
            black_box(policy.decide(at, &here, &map, false));
            begin.elapsed().as_nanos() as f64 / 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], times[times.len() * 99 / 100])
}
