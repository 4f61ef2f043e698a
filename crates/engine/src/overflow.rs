//! What endpoints sent beyond the limits of the tables that depend on it.

/// Counters of one endpoint: entries that its frames called for and that a table had no room for.
/// All of them are 0 unless the node invents addresses, groups or flows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Overflow {
    /// Ethernet addresses behind the endpoint that the switch forgot; it flooded frames to them.
    pub addresses: u64,
    /// Multicast groups that it joined beyond the limit; it then received all groups.
    pub groups: u64,
    /// Its flows that random decisions forgot, on all links; their indices began anew.
    pub flows: u64,
}

impl Overflow {
    /// Whether anything was beyond a limit.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}
