//! What records of stored messages have in common: times, outcomes, fields.

use super::folder_clock::FolderClock;
use crate::rng::Seed;
use crate::uplink::{Failure, Outcome};
use crate::{Instant, Span};
use std::io;

/// Random bytes that identify a storage.
pub(super) fn fresh<const N: usize>() -> io::Result<[u8; N]> {
    let bits = Seed::from_system().map_err(io::Error::other)?.bits();
    bits.first_chunk().copied().ok_or(io::Error::other("too few random bytes"))
}

/// A time of a session's clock, and the same time of a folder's records in ms: lifetimes go on while the program
/// does not run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wall {
    now: Instant,
    ms: u64,
}

impl Wall {
    /// The time of this folder's records at `now`. What the clock needs to go on is written there.
    pub fn of(clock: &mut FolderClock, now: Instant) -> Self {
        if clock.is_due() {
            clock.mark();
        }
        Self { now, ms: clock.now_ms() }
    }

    pub fn ms_of(self, at: Instant) -> u64 {
        let left = if at > self.now { (at - self.now).as_ns() / 1_000_000 } else { 0 };
        self.ms.saturating_add(left)
    }

    pub fn of_ms(self, ms: u64) -> Instant {
        // 30 years: what a session's clock can add.
        let left = ms.saturating_sub(self.ms).min(1_000_000_000_000);
        self.now + Span::from_ms(left)
    }
}

/// Takes a field of `N` bytes from the start of `rest`.
pub(super) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (field, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*field)
}

pub(super) fn encode_outcome(outcome: &Outcome) -> Vec<u8> {
    match outcome {
        Outcome::Acknowledged(None) => vec![0],
        Outcome::Acknowledged(Some(answer)) => [&[1][..], answer].concat(),
        Outcome::Unknown => vec![2],
        Outcome::Failed(Failure::Unsent) => vec![3],
        Outcome::Failed(Failure::Refused) => vec![4],
        Outcome::Failed(Failure::TooLong { bytes, most }) => {
            let sizes = [*bytes as u64, *most as u64].map(u64::to_be_bytes);
            [&[5][..], &sizes.concat()].concat()
        }
    }
}

pub(super) fn decode_outcome(bytes: &[u8]) -> Option<Outcome> {
    let (kind, answer) = bytes.split_first()?;
    Some(match kind {
        0 => Outcome::Acknowledged(None),
        1 => Outcome::Acknowledged(Some(answer.to_vec())),
        2 => Outcome::Unknown,
        3 => Outcome::Failed(Failure::Unsent),
        4 => Outcome::Failed(Failure::Refused),
        5 => {
            // Earlier versions have no sizes.
            let size = |at: usize| {
                let size = answer.get(at..at + 8).and_then(|size| size.try_into().ok());
                size.map_or(0, |size| u64::from_be_bytes(size) as usize)
            };
            Outcome::Failed(Failure::TooLong { bytes: size(0), most: size(8) })
        }
        _ => return None,
    })
}
