//! The state of each operation.

use crate::figures::Series;
use std::collections::VecDeque;
use units::Instant;

/// The state or outcome of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits for a free connection.
    Queued,
    Waiting,
    Answered,
    TimedOut,
    /// Never sent: no connection became free in time.
    NoConnection,
    Unreachable,
    /// Never sent: no connection to its target can be made.
    Refused,
    WithoutAnswer,
    /// Never sent: this machine was too late.
    Unsent,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub intended: Instant,
    /// The send time. For an operation that is queued or never sent: when this machine was
    /// ready to send it.
    pub sent: Instant,
    /// [`Instant::START`] if there is no answer: an `Option` would take 8 bytes more of each slot.
    pub answered: Instant,
    pub template: u32,
    pub series: u16,
    pub code: u16,
    pub state: State,
}

/// The operation of this number, if it is still stored; the first slot has the number
/// `base`.
pub(crate) fn slot(slots: &mut VecDeque<Slot>, base: u64, number: u64) -> Option<&mut Slot> {
    let at = usize::try_from(number.checked_sub(base)?).ok()?;
    slots.get_mut(at)
}

/// The operation of this number, if it is queued.
pub(crate) fn queued(slots: &mut VecDeque<Slot>, base: u64, number: u64) -> Option<&mut Slot> {
    slot(slots, base, number).filter(|slot| slot.state == State::Queued)
}

/// Marks an operation as timed out.
pub(crate) fn time_out(slot: &mut Slot, series: &mut [Series]) {
    slot.state = State::TimedOut;
    series[usize::from(slot.series)].counts.timed_out += 1;
}
