//! Any text where a trace, a distribution or a change of a link is looked for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use link::{Distribution, Impairment, Keys, Table, Trace};
use std::path::Path;

fuzz_target!(|text: &str| {
    let file = Path::new("any");
    if let Ok(trace) = Trace::parse(file, text) {
        assert!(trace.mean_bit_s() > 0.0);
    }
    if let Ok(table) = Table::parse(file, text) {
        let shape = Distribution::Table(table);
        for u in [0.0, 0.5, 1.0 - f64::EPSILON] {
            assert!(shape.quantile(u).abs() <= 4.0);
        }
    }
    if let Ok(changes) = serde_json::from_str::<Keys>(text) {
        let _ = Impairment::default().with(&changes);
    }
});
