//! What a channel says of the frames that contend for it.

use crate::Instant;

/// How the sending of a frame ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// On air without collision, received, and acknowledged where asked.
    Sent,
    /// Given up: the last time it was on air, the link lost it.
    Lost,
    /// Given up: the last time it was on air, it or its acknowledgement collided.
    Collided,
    /// Given up before it was on air once more: the channel was always busy.
    NoAccess,
}

/// The end of one frame's stay at the head of its link's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Whose frame.
    pub link: usize,
    /// When its sender knew. The next frame of the link may be made
    /// [`Csma::ready`](super::Csma::ready) from now on.
    pub at: Instant,
    /// How it ended.
    pub outcome: Ending,
    /// When its last bit first came to the receiver, if it did. It may have and
    /// the sender not know, when acknowledgements collided.
    pub delivered: Option<Instant>,
}

/// A frame that came through the air without collision; the caller says
/// whether the link loses it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Whose frame.
    pub link: usize,
    /// How often it was sent before: 0 to `retries`.
    pub attempt: u32,
    /// When its last bit came.
    pub at: Instant,
    /// Whether the receiver has it already and only the acknowledgement was
    /// lost: it is acknowledged again, but not to be delivered again.
    pub duplicate: bool,
}

/// What a link did with the channel so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Frames that were made ready.
    pub frames: u64,
    /// Times that a frame was on air.
    pub transmissions: u64,
    /// Time on air of its frames and of their acknowledgements, in nanoseconds.
    pub airtime: u64,
    /// Times that a frame or the acknowledgement to it collided.
    pub collisions: u64,
    /// Frames given up because the channel was busy.
    pub access_failures: u64,
    /// Times that a frame was sent, or tried to be, once more.
    pub retries: u64,
}

/// The frame that a link contends for the channel with.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Frame {
    /// Its length, link header included.
    pub len: usize,
    /// Whether it is to be acknowledged.
    pub acknowledged: bool,
    /// How often it was sent before.
    pub attempt: u32,
    /// How often the channel was busy for this attempt.
    pub backoff: u32,
    /// When the receiver first had it.
    pub delivered: Option<Instant>,
    /// Whether the last time on air ended in a collision.
    pub collided: bool,
}
