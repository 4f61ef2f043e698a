//! What all members have acknowledged: they share the path, so its rate is that of all together.

use crate::Instant;
use crate::capacity::{Known, Train};
use alloc::collections::VecDeque;

/// Acknowledgements that are remembered.
const REMEMBERED: usize = 1_024;

/// What was known as delivered, over time.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    /// Times of acknowledgements, and all that was known then.
    log: VecDeque<(Instant, Known)>,
}

impl Deliveries {
    /// A member has acknowledged this at `now`. Times must not decrease.
    pub fn record(&mut self, known: Known, now: Instant) {
        let total = self.total();
        let total =
            Known { bytes: total.bytes + known.bytes, received: total.received + known.received };
        match self.log.back_mut() {
            Some(last) if last.0 == now => last.1 = total,
            _ => self.log.push_back((now, total)),
        }
        if self.log.len() > REMEMBERED {
            self.log.pop_front();
        }
    }

    /// The train of a member, acknowledged at `now`, with what others have acknowledged in the same
    /// time, as BBR counts all that a connection delivers: chunks of others that were sent before
    /// pass the bottleneck before.
    pub fn with_others(&self, train: Train, now: Instant) -> Train {
        let since = now - train.acknowledged.min(now - Instant::START);
        let after = self.log.partition_point(|(at, _)| *at <= since);
        // Without the time before the log, less counts than was delivered.
        let before = after.checked_sub(1).or((self.log.len() == REMEMBERED).then_some(0));
        let before = before.map_or(Known::default(), |place| self.log[place].1);
        let total = self.total();
        Train {
            bytes: train.bytes.max(total.bytes - before.bytes),
            received: train.received.max(total.received - before.received),
            ..train
        }
    }

    fn total(&self) -> Known {
        self.log.back().map_or(Known::default(), |(_, known)| *known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;

    const MS: Span = Span::from_ms(1);

    fn train(bytes: usize, ms: u64) -> Train {
        let acknowledged = ms * MS;
        Train { bytes, received: bytes / 10 * 9, acknowledged, alone: true, ..Train::default() }
    }

    #[test]
    fn trains_have_what_others_acknowledged_in_the_same_time() {
        let mut all = Deliveries::default();
        let at = |ms: u64| Instant::START + ms * MS;
        // Ten members in turn, a train of 1,000 bytes each, of which a tenth is lost, through a queue.
        for member in 1..=10 {
            all.record(Known { bytes: 1_000, received: 900 }, at(member * 100));
            let seen = all.with_others(train(1_000, member * 100), at(member * 100));
            assert_eq!(
                (seen.bytes, seen.received),
                (1_000 * member as usize, 900 * member as usize)
            );
        }
        let last = all.with_others(train(1_000, 300), at(1_000));
        assert_eq!((last.bytes, last.received), (3_000, 2_700));
        assert_eq!(all.with_others(train(5_000, 100), at(1_000)).bytes, 5_000, "its own at least");
    }

    #[test]
    fn a_long_session_forgets_and_counts_less_rather_than_more() {
        let mut all = Deliveries::default();
        let at = |ms: u64| Instant::START + ms * MS;
        for ms in 1..=5_000 {
            all.record(Known { bytes: 10, received: 10 }, at(ms));
        }
        assert_eq!(all.log.len(), REMEMBERED);
        assert_eq!(all.with_others(train(10, 100), at(5_000)).bytes, 1_000);
        assert_eq!(all.with_others(train(10, 4_000), at(5_000)).bytes, 10 * (REMEMBERED - 1));
    }
}
