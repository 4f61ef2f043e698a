//! Round trips over the profile `leo`, compared with those of APNIC's measurement of Starlink (G. Huston, 28 November
//! 2022): a minimum of 20 ms, quartiles of 40, 50 and 60 ms.

use experiment::LinkProfile;
use link::Impairment;
use std::path::Path;
use units::{Draw, Span};

const MS: u64 = 1_000_000;
/// Published: minimum, first quartile, median, third quartile; ms.
const PUBLISHED: [f64; 4] = [20.0, 40.0, 50.0, 60.0];

/// Delay of a frame that leaves at `at` ns, without the time for its bytes.
fn delay(way: &Impairment, draw: Draw, at: u64) -> u64 {
    (way.delay.mean + way.handover.0.unwrap().delay(draw, Span::from_ns(at))).as_ns()
}

#[test]
fn round_trips_over_a_low_orbit_are_those_published() {
    let profile = LinkProfile::find("leo", Path::new("")).unwrap();
    let [up, down] = [Draw::new(1, 1, 0), Draw::new(1, 1, 1)];
    let round_trip = |at: u64| {
        let there = at + delay(&profile.up, up, at);
        (there + delay(&profile.down, down, there) - at) as f64 / MS as f64
    };
    // A ping every 0.999 s, whose phase within an interval of 15 s moves, over 55 hours.
    let mut times: Vec<f64> = (0..200_000).map(|n| round_trip(n * 999 * MS)).collect();
    times.sort_by(f64::total_cmp);
    let found = [0, 50_000, 100_000, 150_000].map(|place: usize| times[place]);
    println!("round trips {found:.1?} ms, published {PUBLISHED:?}; longest {:.0}", times[199_999]);
    for (found, published) in found.iter().zip(PUBLISHED) {
        // 13,000 intervals: four standard errors of a quartile are below 1 ms.
        assert!((found - published).abs() < 2.5, "{found} for {published}");
    }
    // The spike at the beginning of an interval.
    let spike = round_trip(15_000 * MS) - round_trip(15_500 * MS);
    assert!((spike - 140.0).abs() < 1.0, "{spike}");
}
