//! A planned route of a node.

use crate::destination::Destination;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

/// A route of a node, in addition to those of its interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PlannedRoute {
    /// Destinations.
    pub to: Destination,
    /// Address of the next hop.
    pub via: IpAddr,
}

impl fmt::Display for PlannedRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { to, via } = self;
        match to.prefix() {
            0 => write!(f, "default via {via}"),
            _ => write!(f, "{to} via {via}"),
        }
    }
}
