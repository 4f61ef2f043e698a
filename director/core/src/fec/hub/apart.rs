//! Members for which multicast alone is not enough: those that lose far more than the others, and
//! those that it does not reach. The hub sends them symbols by unicast, of the same encoding, before
//! they ask for any.

use super::{FecHub, Way};
use crate::fec::plan::FecSettings;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::switch::{MemberId, MessageId};
use alloc::collections::BTreeMap;

/// One of this many messages is sent to an unreachable member by multicast only: multicast may
/// reach it again.
const TRIAL: MessageId = 8;

/// Messages in which a member must have reported that it receives no multicast: in one, requests
/// may have been lost. With one, a queue that dropped requests made many members unreachable, and
/// the symbols for each of them made it longer (decision 103).
const SURE: u8 = 2;

impl FecHub {
    /// Sets the members that lose far more than the others, and their loss, 0 to 1.
    pub fn set_apart(&mut self, apart: &BTreeMap<MemberId, f64>) {
        let known = |(member, loss): (&MemberId, &f64)| Some((u16::try_from(*member).ok()?, *loss));
        self.apart = apart.iter().filter_map(known).collect();
    }

    /// The parameters with a member's loss.
    pub(super) fn settings_of(&self, member: u16) -> FecSettings {
        let loss = self.apart.get(&member).copied().unwrap_or(self.settings.loss);
        FecSettings { loss, ..self.settings }
    }

    /// Plans symbols by unicast for members that will lack some after the first burst.
    pub(super) fn send_ahead(&mut self, message: MessageId) {
        let Some(sending) = self.sending.get(&Way::group(message)) else { return };
        let (symbols, burst) = (sending.encoder.symbols(), sending.left);
        let trial = message.is_multiple_of(TRIAL);
        let ahead = |member: u16| {
            let own = self.settings_of(member);
            let needed = own.burst(symbols, 1);
            let known = self.unreachable.get(&member);
            let reached = trial || known.is_none_or(|known| !known.proved || known.missed < SURE);
            match reached {
                true if !self.apart.contains_key(&member) => 0,
                true => needed.saturating_sub(burst),
                false => needed,
            }
        };
        let ahead: Vec<(u16, u16)> =
            sending.awaited.keys().map(|member| (*member, ahead(*member))).collect();
        let Some(sending) = self.sending.get_mut(&Way::group(message)) else { return };
        for (member, ahead) in ahead.into_iter().filter(|(_, ahead)| *ahead > 0) {
            if let Some(awaited) = sending.awaited.get_mut(&member) {
                (awaited.unicast, awaited.ahead) = (ahead, true);
            }
        }
    }
}
