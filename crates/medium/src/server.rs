//! What sends the frames of one direction, one after another.

use crate::trace::Follower;
use crate::{Impairment, Instant, Serialiser};

/// A link's own means of sending.
#[derive(Debug, Clone)]
pub(crate) enum Server {
    /// At a rate.
    Rate(Serialiser),
    /// When a recorded link did.
    Trace(Follower),
}

impl Server {
    /// What `asked` wants, if frames have to wait for anything.
    pub fn new(asked: &Impairment) -> Option<Self> {
        match (&asked.trace, asked.rate) {
            (Some(trace), _) => Some(Self::Trace(Follower::new(trace.clone()))),
            (None, Some(rate)) => Some(Self::Rate(Serialiser::new(rate, asked.burst))),
            (None, None) => None,
        }
    }

    /// Goes on by what is asked now. What has been sent stays sent.
    pub fn change(server: &mut Option<Self>, asked: &Impairment) {
        match (server, &asked.trace, asked.rate) {
            (Some(Self::Rate(serialiser)), None, Some(rate)) => {
                serialiser.change(rate, asked.burst);
            }
            (Some(Self::Trace(follower)), Some(trace), _) if follower.follows(trace) => {}
            (server, ..) => *server = Self::new(asked),
        }
    }

    /// When the last bit of `bytes` has left that begin at `now`; `epoch` is when
    /// impairments began.
    pub fn send(&mut self, bytes: u64, now: Instant, epoch: Instant) -> Instant {
        match self {
            Self::Rate(serialiser) => serialiser.send(bytes, now),
            Self::Trace(follower) => epoch + follower.send(bytes, now.saturating_sub(epoch)),
        }
    }
}
