//! Results and statistics of frames on a CSMA channel.

use units::{Instant, Span};

/// How the transmission of a frame ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Received without collision, and acknowledged if required.
    Sent,
    /// Given up: the link lost the last transmission.
    Lost,
    /// Given up: the last transmission or its acknowledgement collided.
    Collided,
    /// Given up before another transmission: the channel was always busy.
    NoAccess,
    /// The station, or the only receiver, is off.
    Off,
}

/// The end of one frame's contention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Link of the frame.
    pub link: usize,
    /// Time at which the sender knows the result. The next frame of the link may become
    /// [`Csma::ready`](super::Csma::ready) from now on.
    pub at: Instant,
    /// How it ended.
    pub outcome: Ending,
    /// Time at which the receiver first has the whole frame, if ever. The sender may not
    /// know, if acknowledgements collided.
    pub delivered: Option<Instant>,
    /// Whether it is an acknowledgement of [`Csma::answer`](super::Csma::answer), and no frame.
    pub is_answer: bool,
}

/// What arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrivalKind {
    /// The frame.
    Frame,
    /// Its acknowledgement.
    Acknowledgement,
    /// An acknowledgement that the station of the link made itself.
    Answer,
}

/// A frame or acknowledgement received without collision; the caller decides whether it is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival<'a> {
    /// Link of the frame.
    pub link: usize,
    /// Number of earlier transmissions, 0 to `retries`.
    pub attempt: u32,
    /// Time of the last bit.
    pub at: Instant,
    /// Whether the receiver already has the frame and only its acknowledgement was lost:
    /// the frame is acknowledged again, but not delivered again.
    pub duplicate: bool,
    /// Stations at which it did not collide; `None` without a [`crate::Reception`]: all.
    pub stations: Option<&'a [usize]>,
    /// What arrived.
    pub kind: ArrivalKind,
}

/// Channel usage of a link so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Frames that became ready.
    pub frames: u64,
    /// Transmissions of frames.
    pub transmissions: u64,
    /// Airtime of the link's frames and their acknowledgements.
    pub airtime: Span,
    /// Time for which the link's station itself sent: its frames, and acknowledgements to others.
    pub sending: Span,
    /// Time for which the station received, frames for it or not, and did not send.
    pub receiving: Span,
    /// Collisions of the link's frames and their acknowledgements.
    pub collisions: u64,
    /// Frames given up because the channel was busy.
    pub access_failures: u64,
    /// Retransmissions, including those that never got channel access.
    pub retries: u64,
}

/// The frame that a link contends with.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Frame {
    /// Length in bytes, including the link header.
    pub len: usize,
    /// When it became ready.
    pub ready: Instant,
    /// Link of the receiving station; `None`: all, or not identified.
    pub to: Option<usize>,
    /// Whether the frame requires an acknowledgement.
    pub acknowledged: bool,
    /// Number of earlier transmissions.
    pub attempt: u32,
    /// Number of busy CCAs in this attempt.
    pub backoff: u32,
    /// Time of the first reception.
    pub delivered: Option<Instant>,
    /// Whether the last transmission collided.
    pub collided: bool,
    /// Whether its receiver was off then.
    pub is_deaf: bool,
}
