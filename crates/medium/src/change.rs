//! What is asked of links changes while they run.

use crate::{Impairment, Instant};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use units::{Rate, Ratio, Span};

/// One way of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// From the node into the network.
    Up,
    /// From the network to the node.
    Down,
}

/// Some of an impairment's keys with their new values, in the words of
/// [`Impairment`]; no value means the default.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Overlay(pub Map<String, Value>);

/// A change of a running segment.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// These directions, by endpoint, do what the overlay says instead, at once
    /// or on a straight line over a span.
    Set {
        /// Which.
        links: Vec<(usize, Way)>,
        /// What is new.
        set: Overlay,
        /// From the change until it is whole.
        over: Span,
    },
    /// These links carry nothing, or carry again.
    Down {
        /// Which.
        links: Vec<(usize, Way)>,
        /// Whether they are down.
        down: bool,
    },
    /// Frames pass only between endpoints of one part; the numbers are by
    /// endpoint. Nothing ends a partition.
    Partition(Option<Vec<u32>>),
    /// Multicast is passed on, or goes to nobody, as where a switch or an access point
    /// holds it back.
    Multicast(bool),
}

impl Overlay {
    /// `asked` with the overlay's values in place of its own.
    ///
    /// # Errors
    /// When a key is unknown or a value is not one of its kind.
    pub fn on(&self, asked: &Impairment) -> Result<Impairment, String> {
        let failed = |error: serde_json::Error| error.to_string();
        let Value::Object(mut all) = serde_json::to_value(asked).map_err(failed)? else {
            return Err("an impairment is no map".to_owned());
        };
        for (key, value) in &self.0 {
            match value {
                Value::Null => all.remove(key),
                value => all.insert(key.clone(), value.clone()),
            };
        }
        let mut new: Impairment = serde_json::from_value(Value::Object(all)).map_err(failed)?;
        // What a file held is not written down; it stays.
        if !self.0.contains_key("distribution") {
            new.distribution = asked.distribution.clone();
        }
        if !self.0.contains_key("trace") {
            new.trace = asked.trace.clone();
        }
        Ok(new)
    }
}

/// A change on a straight line.
#[derive(Debug, Clone)]
pub(crate) struct Ramp {
    pub from: Impairment,
    pub to: Impairment,
    pub begin: Instant,
    pub end: Instant,
}

impl Ramp {
    /// What is asked at `now`: quantities in between, all else as it will be.
    pub fn at(&self, now: Instant) -> Impairment {
        let passed = now.saturating_sub(self.begin) as f64;
        let part = (passed / self.end.saturating_sub(self.begin).max(1) as f64).min(1.0);
        let (from, to) = (&self.from, &self.to);
        let span = |of: fn(&Impairment) -> Span| {
            Span::from_ns(between(of(from).as_ns() as f64, of(to).as_ns() as f64, part) as u64)
        };
        let share = |of: fn(&Impairment) -> Ratio| {
            let share = between(of(from).fraction(), of(to).fraction(), part);
            Ratio::from_fraction(share.clamp(0.0, 1.0)).unwrap_or_default()
        };
        Impairment {
            delay: span(|i| i.delay),
            jitter: span(|i| i.jitter),
            loss: share(|i| i.loss),
            corrupt: share(|i| i.corrupt),
            duplicate: share(|i| i.duplicate),
            reorder: share(|i| i.reorder),
            rate: match (from.rate, to.rate) {
                (Some(from), Some(to)) => {
                    let rate = between(from.bit_s() as f64, to.bit_s() as f64, part);
                    Rate::from_bit_s(rate as u64).or(Some(to))
                }
                (_, to) => to,
            },
            ..to.clone()
        }
    }

    pub fn is_over(&self, now: Instant) -> bool {
        now >= self.end
    }
}

fn between(from: f64, to: f64, part: f64) -> f64 {
    from + (to - from) * part
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn overlay(value: Value) -> Overlay {
        serde_json::from_value(value).unwrap()
    }

    fn asked() -> Impairment {
        Impairment {
            delay: "30 ms".parse().unwrap(),
            loss: "10 %".parse().unwrap(),
            rate: Rate::from_bit_s(1_000_000),
            ..Impairment::default()
        }
    }

    #[test]
    fn an_overlay_changes_its_keys_alone() {
        let new = overlay(json!({"loss": "50 %", "rate": null, "queue": "9 kB"})).on(&asked());
        let want = Impairment {
            loss: "50 %".parse().unwrap(),
            rate: None,
            queue: crate::Limit::Bytes("9 kB".parse().unwrap()),
            ..asked()
        };
        assert_eq!(new, Ok(want));
    }

    #[test]
    fn what_is_no_key_or_no_value_is_refused() {
        assert!(overlay(json!({"los": "5 %"})).on(&asked()).unwrap_err().contains("los"));
        assert!(overlay(json!({"loss": "5 ms"})).on(&asked()).unwrap_err().contains("share"));
    }

    #[test]
    fn a_ramp_goes_straight_from_one_to_the_other() {
        let to = overlay(json!({"loss": "50 %", "delay": "130 ms", "rate": "3 Mbit/s"}));
        let ramp = Ramp { from: asked(), to: to.on(&asked()).unwrap(), begin: 1000, end: 2000 };
        let half = ramp.at(1500);
        assert_eq!(half.delay, "80 ms".parse().unwrap());
        assert!((half.loss.percent() - 30.0).abs() < 1e-9);
        assert_eq!(half.rate, Rate::from_bit_s(2_000_000));
        assert_eq!((ramp.at(500), ramp.at(9000)), (asked(), ramp.to.clone()));
        assert!(!ramp.is_over(1999) && ramp.is_over(2000));
    }
}
