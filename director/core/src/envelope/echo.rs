//! What a member's control message answers.

/// What a `Ready` message answers: the low bits of its count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Echo {
    /// The member has not said it.
    Unknown,
    /// An invitation.
    Invitation(u16),
    /// A multicast probe.
    Probe(u16),
}

/// Bits of a count in an echo; the highest bit is that of a probe.
const ECHOED: u16 = 0x7fff;

impl Echo {
    /// The echo of the invitation with this count.
    pub fn of_invitation(count: u32) -> Self {
        Self::Invitation(count as u16 & ECHOED)
    }

    /// The echo of the multicast probe with this count.
    pub fn of_probe(count: u32) -> Self {
        Self::Probe(count as u16 & ECHOED)
    }

    pub(super) fn encode(self) -> u16 {
        match self {
            Self::Unknown => 0,
            // Every 32,768th is 0 like an unknown one: it gives no round trip, and nothing else.
            Self::Invitation(count) => count & ECHOED,
            Self::Probe(count) => count | !ECHOED,
        }
    }

    pub(super) fn decode(echo: u16) -> Self {
        match echo {
            0 => Self::Unknown,
            count if count & !ECHOED == 0 => Self::Invitation(count),
            count => Self::Probe(count & ECHOED),
        }
    }
}
