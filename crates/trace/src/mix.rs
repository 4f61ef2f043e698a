//! Weighted mixes of values.

use crate::arguments::ParseError;
use std::fmt::Display;
use std::str::FromStr;

/// Values with weights, written `GET=9,POST=1`; the default weight is 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix<T> {
    /// Each value with its cumulative share.
    parts: Vec<(T, f64)>,
}

impl<T> Mix<T> {
    /// A mix of values with weights. None if a weight is negative or not finite, or all are 0.
    pub fn new(parts: Vec<(T, f64)>) -> Option<Self> {
        let sum: f64 = parts.iter().map(|(_, weight)| weight).sum();
        let sound = parts.iter().all(|(_, weight)| weight.is_finite() && *weight >= 0.0);
        if !sound || !sum.is_finite() || sum <= 0.0 {
            return None;
        }
        let mut up_to = 0.0;
        let parts = parts
            .into_iter()
            .map(|(value, weight)| {
                up_to += weight / sum;
                (value, up_to)
            })
            .collect();
        Some(Self { parts })
    }

    /// A mix of one value.
    pub fn of(value: T) -> Self {
        Self { parts: vec![(value, 1.0)] }
    }

    /// The value for a uniform random number `u`, 0 to 1.
    pub fn pick(&self, u: f64) -> &T {
        let at = self.parts.partition_point(|(_, up_to)| *up_to <= u);
        // By rounding, the last sum may be slightly below 1.
        &self.parts[at.min(self.parts.len() - 1)].0
    }

    /// The same mix with `f` applied to each value.
    pub fn map<U>(&self, f: impl Fn(&T) -> U) -> Mix<U> {
        Mix { parts: self.parts.iter().map(|(value, up_to)| (f(value), *up_to)).collect() }
    }

    /// All values.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.parts.iter().map(|(value, _)| value)
    }
}

impl<T: FromStr<Err: Display>> FromStr for Mix<T> {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let error = |why: String| ParseError { text: text.to_owned(), why };
        let mut parts = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (value, weight) = part.split_once('=').unwrap_or((part, "1"));
            let weight: f64 = weight.trim().parse().map_err(|_| {
                error(format!(
                    "`{weight}` is not a weight; write for example \
                                            `{value}=9`"
                ))
            })?;
            parts.push((value.trim().parse().map_err(|why| error(format!("{why}")))?, weight));
        }
        Self::new(parts)
            .ok_or_else(|| error("weights must be 0 or more, and at least one above 0".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_by_their_weights() {
        let mix: Mix<u32> = "7=9,8=1,9=0".parse().unwrap();
        assert_eq!((*mix.pick(0.0), *mix.pick(0.899)), (7, 7));
        assert_eq!((*mix.pick(0.901), *mix.pick(0.999_999)), (8, 8));
        assert_eq!(*"7,8".parse::<Mix<u32>>().unwrap().pick(0.5), 8);
    }

    #[test]
    fn what_is_no_mix_is_refused() {
        for text in ["", "7=x", "7=-1", "7=0", "x=1", "7=inf", "7=nan"] {
            assert!(text.parse::<Mix<u32>>().is_err(), "{text}");
        }
    }
}
