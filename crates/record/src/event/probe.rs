//! Events of contention probes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trace::Mode;

/// Timeout of a probe's request, in ns.
pub const PROBE_TIMEOUT_NS: u64 = 5_000_000_000;

/// One request of a probe. Times are in ns since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Probed {
    /// The core under test.
    pub core: usize,
    /// How the service time was spent.
    pub mode: Mode,
    /// Intended send time.
    pub intended_ns: u64,
    /// Send time.
    pub sent_ns: u64,
    /// Time of the answer; `None` after [`PROBE_TIMEOUT_NS`].
    pub answered_ns: Option<u64>,
}

impl Probed {
    /// The normalised deviation (R - S) / S of the response time R from the service time S, in ns.
    /// An unanswered request counts with the timeout as R.
    pub fn deviation(&self, service_ns: u64) -> f64 {
        let took = self.answered_ns.map_or(PROBE_TIMEOUT_NS, |at| at.saturating_sub(self.sent_ns));
        (took as f64 - service_ns as f64) / service_ns.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{read, written};

    #[test]
    fn deviation_is_a_share_of_the_service_time() {
        let probed = Probed { sent_ns: 1, answered_ns: Some(9), ..Probed::default() };
        assert_eq!(probed.deviation(5), 0.6);
        let unanswered = Probed { answered_ns: None, ..probed };
        assert_eq!(unanswered.deviation(1_000_000_000), 4.0);
    }

    #[test]
    fn lines_are_as_documented() {
        let probed = Probed { core: 1, mode: Mode::Busy, sent_ns: 3, ..Probed::default() };
        let text = written(&[probed]);
        assert_eq!(text, "core,mode,intended_ns,sent_ns,answered_ns\n1,busy,0,3,\n");
        assert_eq!(read::<Probed>(text.as_bytes()).unwrap(), [probed]);
    }
}
