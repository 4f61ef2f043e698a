//! Transmission of one direction's frames, one after another.

use crate::trace::Follower;
use crate::{Grant, Impairment, Instant, Serialiser};

/// Transmission model of a link.
#[derive(Debug, Clone)]
pub(crate) enum Server {
    /// At a rate.
    Rate(Serialiser),
    /// At the opportunities of a recorded link.
    Trace(Follower),
    /// In time blocks that a network grants.
    Grant(Grant),
}

impl Server {
    /// The model that the settings select; `None` if frames never wait.
    pub fn new(config: &Impairment) -> Option<Self> {
        match (&config.grant, &config.trace, config.rate) {
            (Some(grant), ..) => Some(Self::Grant(Grant::new(grant.clone()))),
            (None, Some(trace), _) => Some(Self::Trace(Follower::new(trace.clone()))),
            (None, None, Some(rate)) => Some(Self::Rate(Serialiser::new(rate, config.burst))),
            (None, None, None) => None,
        }
    }

    /// Whether it needs frames on arrival: several frames share a block, so a frame cannot
    /// wait until the previous one has left.
    pub fn looks_ahead(&self) -> bool {
        matches!(self, Self::Grant(_))
    }

    /// Applies the new settings. Frames already sent are not affected.
    pub fn change(server: &mut Option<Self>, before: &Impairment, config: &Impairment) {
        if config.grant.is_some() && before.grant == config.grant {
            return;
        }
        match (server, &config.trace, config.rate) {
            (Some(Self::Rate(serialiser)), None, Some(rate)) => {
                serialiser.change(rate, config.burst);
            }
            (Some(Self::Trace(follower)), Some(trace), _) if follower.follows(trace) => {}
            (server, ..) => *server = Self::new(config),
        }
    }

    /// Departure time of the last bit of a frame of `len` bytes (`on_wire` bytes on the
    /// link) that starts at `now`; `epoch` is the start of impairments.
    pub fn send(&mut self, len: usize, on_wire: u64, now: Instant, epoch: Instant) -> Instant {
        let since = now.saturating_sub(epoch);
        match self {
            Self::Rate(serialiser) => serialiser.send(on_wire, now),
            Self::Trace(follower) => epoch + follower.send(on_wire, since),
            Self::Grant(grant) => epoch + grant.send(len, since),
        }
    }
}
