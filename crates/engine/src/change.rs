//! Changes to link settings during a run.

use link::{Direction, Keys};
use units::Span;

/// A change to a running segment.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Applies the overlay to these directions, at once or linearly over a span.
    Set {
        /// Endpoint index and direction.
        links: Vec<(usize, Direction)>,
        /// New values of keys; `null` resets a key to its default.
        set: Keys,
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
    /// Switches the radio of a node off or on, on a channel of radios (`csma`, `wifi`, `aloha`): while it
    /// is off it does not send, receive, acknowledge or sense, and what waits in it is lost.
    Power {
        /// Endpoint index.
        endpoint: usize,
        /// Whether it is on.
        is_on: bool,
    },
    /// Frames pass only between endpoints with the same partition number; the vector is
    /// indexed by endpoint. `None` ends the partition.
    Partition(Option<Vec<u32>>),
    /// Whether multicast is forwarded. `false` drops it, as a switch or an access point
    /// may.
    Multicast(bool),
}
