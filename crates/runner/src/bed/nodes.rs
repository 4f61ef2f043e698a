//! The nodes of a bed, to those that start and stop programs in them.

use super::jobs::Job;
use crate::error::Error;
use units::Instant;

/// Nodes in which programs run. Nodes are numbered as in the plan, programs as by the caller.
pub(crate) trait Nodes {
    /// The nodes' clock, which is monotonic.
    fn now(&self) -> Instant;

    /// Starts the program number `id`, which was never used before.
    ///
    /// # Errors
    /// When its files cannot be created or the node is gone.
    fn start(&mut self, id: usize, job: &Job) -> Result<(), Error>;

    /// Sends `signal` to a program and its process group; ignored if it has ended.
    fn signal(&mut self, node: usize, id: usize, signal: i32);

    /// Sends `signal` to every process of a node except its first.
    fn signal_all(&mut self, node: usize, signal: i32);

    /// Switches the radios of a node off or on.
    fn set_power(&mut self, node: usize, is_on: bool);
}
