//! Changes to link settings during a run.

use crate::Impairment;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use units::Span;

/// Direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the node into the network.
    Up,
    /// From the network to the node.
    Down,
}

/// Some keys of an [`Impairment`] with new values. `null` resets a key to its default.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Overlay(pub Map<String, Value>);

/// A change to a running segment.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Applies the overlay to these directions, at once or linearly over a span.
    Set {
        /// Endpoint index and direction.
        links: Vec<(usize, Direction)>,
        /// New values.
        set: Overlay,
        /// Time from the start of the change until the new values apply in full.
        over: Span,
    },
    /// Takes these links down or up.
    Down {
        /// Endpoint index and direction.
        links: Vec<(usize, Direction)>,
        /// Whether the links go down.
        down: bool,
    },
    /// Frames pass only between endpoints with the same partition number; the vector is
    /// indexed by endpoint. `None` ends the partition.
    Partition(Option<Vec<u32>>),
    /// Whether multicast is forwarded. `false` drops it, as a switch or an access point
    /// may.
    Multicast(bool),
}

impl Overlay {
    /// `config` with the overlay's values applied.
    ///
    /// # Errors
    /// If a key is unknown or a value has the wrong type.
    pub fn on(&self, config: &Impairment) -> Result<Impairment, String> {
        let failed = |error: serde_json::Error| error.to_string();
        let Value::Object(mut all) = serde_json::to_value(config).map_err(failed)? else {
            return Err("an impairment is not a map".to_owned());
        };
        for (key, value) in &self.0 {
            match value {
                Value::Null => all.remove(key),
                value => all.insert(key.clone(), value.clone()),
            };
        }
        let mut new: Impairment = serde_json::from_value(Value::Object(all)).map_err(failed)?;
        // Data loaded from a file is not serialised; keep it.
        if !self.0.contains_key("distribution") {
            new.distribution = config.distribution.clone();
        }
        if !self.0.contains_key("trace") {
            new.trace = config.trace.clone();
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

    fn config() -> Impairment {
        Impairment {
            delay: "30 ms".parse().unwrap(),
            loss: "10 %".parse().unwrap(),
            rate: Rate::from_bit_s(1_000_000),
            ..Impairment::default()
        }
    }

    #[test]
    fn an_overlay_changes_its_keys_alone() {
        let new = overlay(json!({"loss": "50 %", "rate": null, "queue": "9 kB"})).on(&config());
        let want = Impairment {
            loss: "50 %".parse().unwrap(),
            rate: None,
            queue: crate::Limit::Bytes("9 kB".parse().unwrap()),
            ..config()
        };
        assert_eq!(new, Ok(want));
    }

    #[test]
    fn what_is_no_key_or_no_value_is_refused() {
        assert!(overlay(json!({"los": "5 %"})).on(&config()).unwrap_err().contains("los"));
        assert!(overlay(json!({"loss": "5 ms"})).on(&config()).unwrap_err().contains("share"));
    }
}
