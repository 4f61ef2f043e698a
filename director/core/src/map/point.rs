//! A point of the map.

use super::figures::Figures;
use crate::conditions::Conditions;
use serde::{Deserialize, Serialize};

/// A point of the map.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Its conditions.
    pub at: Conditions,
    /// Performance of the model there.
    pub figures: Figures,
}
