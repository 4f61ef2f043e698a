//! Detects overload: whether a run was long enough to show that its load is sustainable.
//!
//! A queue that grows slowly meets any target for a while. So this compares answers with requests
//! over the last three quarters of the schedule, and the response times of the last quarter with
//! those of the first.

use record::{Load, Messages, Quarter, Summary};
use serde::Deserialize;
use serde_json::Value;

/// Growth of the queue, as a share of the requests, that counts as overload.
pub(super) const GROWTH: f64 = 0.05;
/// Growth of the outstanding requests below this many standard deviations of the number of requests
/// counts as random.
// 3: one of 700 steady runs exceeds it by chance, if arrivals are Poisson (the variance of their
// number is their number).
const DEVIATIONS: f64 = 3.0;
/// Response times that rise in each quarter, and by this factor overall, count as overload.
// 1.5 in addition to rising in each quarter: four random figures are sorted once in 24 runs.
const MIN_RISE: f64 = 1.5;
/// Minimum rise of response times, ms; smaller ones are ignored.
const MIN_RISE_MS: f64 = 1.0;

/// Load balance over the quarters of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Steadiness {
    /// Answers keep up with requests. The value is the smallest growth of a queue that the run
    /// could have shown, as a share of the requests.
    Steady(f64),
    /// A queue grows; the text says why.
    Grows(String),
}

/// Checks all loads and the messages of a run's summary.
pub fn steadiness(summary: &Value) -> Steadiness {
    let loads = Summary::loads.of(summary).and_then(Value::as_object).into_iter().flatten();
    let mut all: Vec<(String, Option<&Value>)> =
        loads.map(|(name, load)| (format!("load {name}: "), Load::quarters.of(load))).collect();
    let messages = Summary::messages.of(summary);
    all.push((String::new(), messages.and_then(|messages| Messages::quarters.of(messages))));
    let mut visible = 0.0_f64;
    for (name, quarters) in all {
        let Some(Ok(quarters)) = quarters.map(<[Quarter; 4]>::deserialize) else { continue };
        match of(&quarters) {
            Some(Steadiness::Grows(why)) => return Steadiness::Grows(format!("{name}{why}")),
            Some(Steadiness::Steady(share)) => visible = visible.max(share),
            None => {}
        }
    }
    Steadiness::Steady(visible)
}

/// Checks one load; `None` without requests.
fn of(quarters: &[Quarter; 4]) -> Option<Steadiness> {
    // The first quarter is the warm-up: connections open, and the queue fills to its steady length.
    let offered: u64 = quarters[1..].iter().map(|quarter| quarter.offered).sum();
    if offered == 0 {
        return None;
    }
    let offered = offered as f64;
    // At the end of the quarters, so growth happens over the last three, as `offered`.
    let grown = quarters[3].outstanding as f64 - quarters[0].outstanding as f64;
    let random_growth = DEVIATIONS * offered.sqrt();
    if grown > (GROWTH * offered).max(random_growth) {
        let share = 100.0 * (1.0 - grown / offered);
        return Some(Steadiness::Grows(format!(
            "the queue grows: the target answers only {share:.0} % of the requests at their \
             arrival rate"
        )));
    }
    let times: Option<Vec<f64>> = quarters.iter().map(|quarter| quarter.response_ms).collect();
    if let Some(times) = times {
        let rises = times.is_sorted_by(|a, b| a < b) && times[3] > MIN_RISE * times[0];
        if rises && times[3] - times[0] > MIN_RISE_MS {
            return Some(Steadiness::Grows(format!(
                "response times rise during the run: on average {:.1} ms in the first quarter, \
                 {:.1} ms in the last",
                times[0], times[3]
            )));
        }
    }
    Some(Steadiness::Steady((random_growth / offered).max(GROWTH)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Timeline;
    use serde_json::json;

    const S: u64 = 1_000_000_000;

    /// A single-queue server in virtual time, with Poisson arrivals.
    fn summary(offered: u64, served: u64, seconds: u64) -> Value {
        let mut timeline = Timeline::default();
        let draw = units::Draw::new(7, offered, served);
        let (mut due, mut free) = (0.0_f64, 0.0_f64);
        let mean = S as f64 / offered as f64;
        for number in 0.. {
            let u = draw.uniform(units::Purpose::Arrival, number);
            due -= mean * (1.0 - u).ln();
            if due > (seconds * S) as f64 {
                break;
            }
            free = due.max(free) + S as f64 / served as f64;
            timeline.offered(due as u64);
            timeline.answered(due as u64, free as u64);
        }
        json!({"loads": {"readings": {"quarters": timeline.quarters(seconds * S)}}})
    }

    #[test]
    fn more_than_is_served_is_no_capacity_however_short_the_run() {
        let Steadiness::Grows(why) = steadiness(&summary(243, 200, 4)) else { panic!("steady") };
        assert!(
            why.starts_with("load readings: the queue grows: the target answers only 8"),
            "{why}"
        );
        assert!(matches!(steadiness(&summary(220, 200, 60)), Steadiness::Grows(_)));
    }

    #[test]
    fn what_is_served_is_steady_and_says_what_would_have_been_seen() {
        for seconds in [4, 20, 120] {
            for offered in [20, 100, 160] {
                let found = steadiness(&summary(offered, 200, seconds));
                assert!(matches!(found, Steadiness::Steady(_)), "{offered} {seconds}: {found:?}");
            }
        }
        let Steadiness::Steady(short) = steadiness(&summary(27, 200, 4)) else { panic!() };
        let Steadiness::Steady(long) = steadiness(&summary(160, 200, 120)) else { panic!() };
        assert!(short > 0.3 && long == GROWTH, "{short} {long}");
    }

    #[test]
    fn responses_that_rise_without_a_queue_are_seen_too() {
        let quarter = |ms: f64| json!({"offered": 1000, "answered": 1000, "outstanding": ms as u64, "response_ms": ms});
        let of = |ms: [f64; 4]| json!({"messages": {"quarters": ms.map(quarter)}});
        let found = steadiness(&of([1.0, 5.0, 12.0, 30.0]));
        assert!(matches!(&found, Steadiness::Grows(why) if why.contains("1.0 ms")), "{found:?}");
        assert!(matches!(steadiness(&of([1.0, 5.0, 4.0, 3.0])), Steadiness::Steady(_)));
        assert!(matches!(steadiness(&of([0.1, 0.2, 0.3, 0.4])), Steadiness::Steady(_)));
    }

    #[test]
    fn a_run_without_loads_is_steady() {
        assert_eq!(steadiness(&json!({})), Steadiness::Steady(0.0));
    }
}
