//! What happens to frames on a direction of a link.

use crate::fates::Decision;
use crate::{Frame, Instant};

/// A frame on its way over a direction.
#[derive(Debug, Clone)]
pub(crate) struct Carried {
    /// The frame, or segments that share their fate.
    pub frame: Frame,
    /// When it came into the segment.
    pub arrived: Instant,
    /// Its place in the direction that it is on now, and what chance decided
    /// there.
    pub index: u64,
    pub decision: Decision,
}

/// Why a frame went no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The link lost it.
    Lost,
    /// It found the queue full, or the queue's discipline dropped it.
    Overflow,
    /// The link was down.
    Outage,
    /// A channel that all share did not let it through.
    Denied,
    /// Sender and receiver were parted.
    Parted,
    /// It is no frame of this link: too short, too long, or with the source
    /// address of another.
    Rejected,
}

/// What happens next with frames of a direction.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// It goes out at this time.
    Release(Carried, Instant),
    /// It has left the link's own sender at this time and wants the channel.
    Offer(Carried, Instant),
    /// It goes no further.
    Drop(Cause),
    /// Chance has decided this about the frame at this place.
    Decided(u64, Decision),
    /// The direction wants to be called again, to send what waits.
    Turn(Instant),
}

/// Adds a release. A segment that follows the last one and goes out with it travels
/// on together with it; what was decided about it is told before.
#[inline]
pub(crate) fn release(frame: Carried, at: Instant, steps: &mut Vec<Step>) {
    if matches!(frame.frame, Frame::Segments(_)) {
        let decided = matches!(steps.last(), Some(Step::Decided(..)));
        let place = steps.len().checked_sub(1 + usize::from(decided));
        if let Some(place) = place
            && let Step::Release(last, due) = &mut steps[place]
            && *due == at
            && last.frame.extend(&frame.frame)
        {
            let end = steps.len() - 1;
            return steps.swap(place, end);
        }
    }
    steps.push(Step::Release(frame, at));
}
