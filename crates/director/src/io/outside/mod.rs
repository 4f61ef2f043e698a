//! Other people's stacks, by which a session's envelopes may travel: what such a stack is to
//! the loop that has the session, and what the loop needs of it.
//!
//! Only sealed envelopes travel, so these stacks need no security of their own. What they drop
//! is not acknowledged, and goes by another model, or again.

#[cfg(any(feature = "mqtt", feature = "zeromq"))]
mod line;
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
use std::net::SocketAddrV4;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::unix::AsyncFd;

/// Where a session's ends are, as the hub knows them.
#[derive(Debug, Clone)]
pub struct Ends {
    /// This end.
    pub local: SocketAddrV4,
    /// The hub.
    pub hub: SocketAddrV4,
    /// The members in order; none where this end is a member itself.
    pub members: Vec<SocketAddrV4>,
    /// The group that multicast goes to.
    pub group: SocketAddrV4,
    /// What multicast may take, in bit/s.
    pub rate_bit_s: f64,
    /// Bytes of a packet at most.
    pub mtu: u16,
}

impl Ends {
    /// Whether this end is the hub.
    pub fn is_hub(&self) -> bool {
        !self.members.is_empty()
    }
}

/// A stack at one end of a session. Nothing of it waits.
pub trait Outside: Send {
    /// Sends a frame, or drops it.
    fn send(&mut self, to: To, frame: Vec<u8>);
    /// The next frame that has come.
    fn receive(&mut self) -> Option<Vec<u8>>;
    /// Can be read when something has come, until [`Outside::receive`] gives nothing more.
    fn descriptor(&self) -> BorrowedFd<'_>;
}

/// How a stack is had.
pub trait Way: fmt::Debug + Send + Sync {
    /// The models that it carries.
    fn models(&self) -> Vec<ModelId>;
    /// Begins at one end. That nobody is there yet is no error.
    ///
    /// # Errors
    /// When something of this end cannot be had, such as a port.
    fn open(&self, ends: &Ends) -> Result<Box<dyn Outside>, Error>;
}

/// The models of several ways.
pub fn models(ways: &[Arc<dyn Way>]) -> Vec<ModelId> {
    ways.iter().flat_map(|way| way.models()).collect()
}

/// The stacks of one end.
pub struct Stacks(Vec<(Vec<ModelId>, Box<dyn Outside>)>);

impl Stacks {
    /// Begins with all of them.
    ///
    /// # Errors
    /// When one of them cannot be had.
    pub fn open(ways: &[Arc<dyn Way>], ends: &Ends) -> Result<Self, Error> {
        let open = |way: &Arc<dyn Way>| Ok((way.models(), way.open(ends)?));
        ways.iter().map(open).collect::<Result<_, Error>>().map(Self)
    }

    /// Sends what is theirs; gives back what is not.
    pub fn send(&mut self, to: To, frame: Vec<u8>) -> Option<Vec<u8>> {
        let Some(model) = carrier::model_of(&frame) else { return Some(frame) };
        if let Some((_, stack)) = self.0.iter_mut().find(|(models, _)| models.contains(&model)) {
            stack.send(to, frame);
        }
        None
    }

    /// The next frame that has come.
    pub fn receive(&mut self) -> Option<Vec<u8>> {
        self.0.iter_mut().find_map(|(_, stack)| stack.receive())
    }

    /// What can be read when something has come.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(|(_, stack)| stack.descriptor())
    }
}

/// Waits for stacks on a loop of tokio's.
pub(super) struct Woken(Vec<AsyncFd<OwnedFd>>);

impl Woken {
    pub fn of(stacks: &Stacks) -> Result<Self, Error> {
        // SAFETY: it owns the descriptor, which so stays what it is.
        let register = |fd| Ok(unsafe { AsyncFd::register(fd) }?);
        let own = stacks.descriptors().map(|fd| fd.try_clone_to_owned().and_then(register));
        let wrong = |source| Error::Socket { what: "waiting for another stack".into(), source };
        own.collect::<Result<_, _>>().map(Self).map_err(wrong)
    }

    /// Until something has come.
    pub async fn woken(&self) {
        std::future::poll_fn(|context| self.poll(context)).await;
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut woken = Poll::Pending;
        for descriptor in &self.0 {
            // What comes from here on announces itself anew.
            while let Poll::Ready(Ok(mut guard)) = descriptor.poll_read_ready(context) {
                guard.clear_ready();
                woken = Poll::Ready(());
            }
        }
        woken
    }
}
