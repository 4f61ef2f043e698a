//! What sends the frames of one direction, one after another.

use crate::trace::Follower;
use crate::{Grant, Impairment, Instant, Serialiser};

/// A link's own means of sending.
#[derive(Debug, Clone)]
pub(crate) enum Server {
    /// At a rate.
    Rate(Serialiser),
    /// When a recorded link did.
    Trace(Follower),
    /// In blocks of time that a network grants.
    Grant(Grant),
}

impl Server {
    /// What `asked` wants, if frames have to wait for anything.
    pub fn new(asked: &Impairment) -> Option<Self> {
        match (&asked.grant, &asked.trace, asked.rate) {
            (Some(grant), ..) => Some(Self::Grant(Grant::new(grant.clone()))),
            (None, Some(trace), _) => Some(Self::Trace(Follower::new(trace.clone()))),
            (None, None, Some(rate)) => Some(Self::Rate(Serialiser::new(rate, asked.burst))),
            (None, None, None) => None,
        }
    }

    /// Whether it has to know of frames as soon as they come: several share a
    /// block, so that the next cannot wait for the last to have left.
    pub fn looks_ahead(&self) -> bool {
        matches!(self, Self::Grant(_))
    }

    /// Goes on by what is asked now. What has been sent stays sent.
    pub fn change(server: &mut Option<Self>, before: &Impairment, asked: &Impairment) {
        if asked.grant.is_some() && before.grant == asked.grant {
            return;
        }
        match (server, &asked.trace, asked.rate) {
            (Some(Self::Rate(serialiser)), None, Some(rate)) => {
                serialiser.change(rate, asked.burst);
            }
            (Some(Self::Trace(follower)), Some(trace), _) if follower.follows(trace) => {}
            (server, ..) => *server = Self::new(asked),
        }
    }

    /// When the last bit of a frame of `len` bytes, `on_wire` on the link's own
    /// wire, has left that begins at `now`; `epoch` is when impairments began.
    pub fn send(&mut self, len: usize, on_wire: u64, now: Instant, epoch: Instant) -> Instant {
        let since = now.saturating_sub(epoch);
        match self {
            Self::Rate(serialiser) => serialiser.send(on_wire, now),
            Self::Trace(follower) => epoch + follower.send(on_wire, since),
            Self::Grant(grant) => epoch + grant.send(len, since),
        }
    }
}
