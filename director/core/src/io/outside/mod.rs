//! External stacks that carry a session's envelopes: the interface between such a stack and the
//! session's loop.
//!
//! These stacks carry only sealed envelopes, so they need no encryption. Dropped envelopes are
//! not acknowledged, so the session sends them again, over this or another model.

#[cfg(any(feature = "mqtt", feature = "zeromq"))]
mod channel;
#[cfg(feature = "mqtt")]
mod mqtt;
#[cfg(feature = "zeromq")]
mod zeromq;

#[cfg(feature = "mqtt")]
pub use mqtt::Mqtt;
#[cfg(feature = "zeromq")]
pub use zeromq::Zeromq;

use super::Error;
use crate::carrier::{self, To};
use crate::model::ModelId;
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::unix::AsyncFd;

/// Addresses of a session's endpoints, as the hub knows them, all of one family.
#[derive(Debug, Clone)]
pub struct Endpoints {
    /// This end.
    pub local: SocketAddr,
    /// The hub.
    pub hub: SocketAddr,
    /// The members in order; empty at a member.
    pub members: Vec<SocketAddr>,
    /// The multicast group.
    pub group: SocketAddr,
    /// Maximum multicast rate, in bit/s.
    pub rate_bit_s: f64,
    /// MTU, in bytes.
    pub mtu: u16,
}

impl Endpoints {
    /// Whether this end is the hub.
    pub fn is_hub(&self) -> bool {
        !self.members.is_empty()
    }
}

/// A stack at one endpoint of a session. Its calls do not block.
pub trait ExternalStack: Send {
    /// Sends a frame, or drops it.
    fn send(&mut self, to: To, frame: Vec<u8>);
    /// The next received frame.
    fn receive(&mut self) -> Option<Vec<u8>>;
    /// Readable when frames have arrived, until [`ExternalStack::receive`] returns `None`.
    fn descriptor(&self) -> BorrowedFd<'_>;
}

/// A factory for a stack.
pub trait StackFactory: fmt::Debug + Send + Sync {
    /// The models that the stack carries.
    fn models(&self) -> Vec<ModelId>;
    /// Starts the stack at one endpoint. An unreachable peer or broker is no error.
    ///
    /// # Errors
    /// [`Error`] if a local resource, such as a port, is not available.
    fn open(&self, ends: &Endpoints) -> Result<Box<dyn ExternalStack>, Error>;
}

/// The models of several stacks.
pub fn models(factories: &[Arc<dyn StackFactory>]) -> Vec<ModelId> {
    factories.iter().flat_map(|factory| factory.models()).collect()
}

/// The stacks of one endpoint; by default none.
#[derive(Default)]
pub struct Stacks(Vec<(Vec<ModelId>, Box<dyn ExternalStack>)>);

impl Stacks {
    /// Starts all stacks.
    ///
    /// # Errors
    /// [`Error`] if one of them cannot start.
    pub fn open(factories: &[Arc<dyn StackFactory>], ends: &Endpoints) -> Result<Self, Error> {
        let open = |factory: &Arc<dyn StackFactory>| Ok((factory.models(), factory.open(ends)?));
        factories.iter().map(open).collect::<Result<_, Error>>().map(Self)
    }

    /// Sends a frame if it belongs to a stack; returns it otherwise.
    pub fn send(&mut self, to: To, frame: Vec<u8>) -> Option<Vec<u8>> {
        let Some(model) = carrier::model_of(&frame) else { return Some(frame) };
        // Without the stack it is dropped: frames have any length, so they do not go as datagrams.
        if let Some((_, stack)) = self.0.iter_mut().find(|(models, _)| models.contains(&model)) {
            stack.send(to, frame);
        }
        None
    }

    /// The next received frame.
    pub fn receive(&mut self) -> Option<Vec<u8>> {
        self.0.iter_mut().find_map(|(_, stack)| stack.receive())
    }

    /// The stacks' descriptors.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(|(_, stack)| stack.descriptor())
    }
}

/// Waits for stacks in a tokio task.
pub(super) struct Readiness(Vec<AsyncFd<OwnedFd>>);

impl Readiness {
    pub fn of(stacks: &Stacks) -> Result<Self, Error> {
        // SAFETY: `AsyncFd` owns the descriptor, so it stays valid.
        let register = |fd| Ok(unsafe { AsyncFd::register(fd) }?);
        let own = stacks.descriptors().map(|fd| fd.try_clone_to_owned().and_then(register));
        let wrong = |source| Error::Socket { what: "cannot poll an external stack".into(), source };
        own.collect::<Result<_, _>>().map(Self).map_err(wrong)
    }

    /// Waits until a stack has received frames.
    pub async fn woken(&self) {
        std::future::poll_fn(|context| self.poll(context)).await;
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut woken = Poll::Pending;
        for descriptor in &self.0 {
            // Frames from here on set readiness again.
            while let Poll::Ready(Ok(mut guard)) = descriptor.poll_read_ready(context) {
                guard.clear_ready();
                woken = Poll::Ready(());
            }
        }
        woken
    }
}
