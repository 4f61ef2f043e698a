//! A bed as the controller of its programs sees it. Tests control programs that do not exist, on a
//! clock that does not wait.

use super::faults::Faults;
use super::jobs::Job;
use super::nodes::Nodes;
use crate::error::Error;
use lab::OutOfMemory;
use record::control::{Command, Status};
use units::Span;

/// Time from the start signal to offset 0, so that the signal reaches hundreds of programs.
pub(crate) const LEAD: Span = Span::from_ms(500);

/// News from the nodes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum News {
    /// A message of the program `id` on its control connection.
    Message { id: usize, status: Status },
    /// A program or a node started or ended.
    Event(lab::Event),
}

/// Frames of a bed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Frames {
    /// Frames that nodes have sent so far.
    pub sent: u64,
    /// Frames in flight.
    pub in_flight: u64,
    /// Whether forwarding has ended after an error.
    pub have_failed: bool,
}

/// A bed in which a controller runs programs.
pub(crate) trait Environment: Nodes {
    /// The bed's own programs, not yet started: network services and the nodes' programs.
    fn own_jobs(&mut self) -> Vec<Job>;

    /// Enables the impairments and starts counting.
    ///
    /// # Errors
    /// When the kernel refuses an impairment.
    fn begin(&mut self) -> Result<(), Error>;

    /// Waits a short time for news and for requests of control clients; returns the news, for each
    /// node in order.
    fn wait(&mut self) -> Vec<News>;

    /// Answers the requests of control clients that have arrived.
    fn serve(&mut self, jobs: &mut Vec<Job>, faults: &mut Faults);

    /// Sends a message to a program on its control connection; ignored if it has ended.
    fn send(&mut self, id: usize, command: Command);

    /// Whether a program meets its condition for readiness, checked from outside.
    fn is_ready(&self, job: &Job) -> bool;

    /// Whether a process of a node was killed for lack of memory since the last call.
    fn out_of_memory(&mut self, node: usize) -> Option<OutOfMemory>;

    /// Removes a node that has ended from the networks and from the names that other nodes know.
    ///
    /// # Errors
    /// When the names cannot be published.
    fn release(&mut self, node: usize, jobs: &[Job]) -> Result<(), Error>;

    /// Frames forwarded so far.
    fn frames(&self) -> Frames;

    /// Whether the disk of the run has hardly any space, or had so little that the output of
    /// programs was given up.
    fn is_disk_full(&self) -> bool;
}
