//! What is asked of links changes while they run.

use crate::Impairment;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use units::Span;

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
            return Err("an impairment is not a map".to_owned());
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use units::Rate;

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
}
