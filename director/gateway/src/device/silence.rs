//! A hub that does not answer.

use super::Device;
use crate::gateway::Effect;

/// Time without an answer of the hub after which a device says so, in seconds.
const UNANSWERED_S: u16 = 10;

impl Device {
    /// Says once that the hub does not answer: an operator sees nothing else of a wrong key.
    pub(super) fn report_silence(&mut self) -> Option<Effect> {
        let waits_s = self.waits_s.as_mut()?;
        *waits_s = waits_s.saturating_add(1);
        let text = format!(
            "no answer from the hub's gateway for {UNANSWERED_S} s: it does not run, --hub or --local is \
             not the address by which they reach each other, it has no place left, or its key is \
             another one; clients wait"
        );
        (*waits_s == UNANSWERED_S).then_some(Effect::Log(text))
    }
}
