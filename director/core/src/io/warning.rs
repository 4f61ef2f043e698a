//! Lines for the operator of a hub.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

type Report = dyn Fn(&str) + Send + Sync;

/// Where the lines go, if anywhere.
#[derive(Clone, Default)]
pub(super) struct Warnings(Option<Arc<Report>>);

impl Warnings {
    /// Lines go to this function.
    pub fn to(report: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(report)))
    }

    /// No key opens a hello from this address.
    pub fn refused(&self, from: SocketAddr) {
        if let Some(report) = &self.0 {
            report(&format!(
                "a hello from {from} was refused: none of the session's keys opens it. Its sender has \
                 another key, was revoked, or is no member. If it is one, give it the key that the hub has \
                 for it, and start it again (one line a minute at most)"
            ));
        }
    }
}

impl fmt::Debug for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Warnings({})", if self.0.is_some() { "on" } else { "off" })
    }
}
