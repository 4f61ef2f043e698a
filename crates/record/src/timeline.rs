//! Requests and answers over the time of a load run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Number of time slices. When a run exceeds them, neighbouring slices are merged.
const PARTS: usize = 1024;
const FIRST_WIDTH_NS: u64 = 1_000_000;

/// Requests and answers by time, in constant memory.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "TimelineFile")]
pub struct Timeline {
    width_ns: u64,
    parts: Vec<Part>,
}

/// File format of a timeline.
#[derive(Deserialize, JsonSchema)]
struct TimelineFile {
    width_ns: u64,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
struct Part {
    /// Requests due in this slice.
    offered: u64,
    /// Requests due in this slice and answered at any time, and the sum of their response
    /// times.
    replied: u64,
    response_ns: u64,
    /// Answers received in this slice.
    answered: u64,
}

/// One quarter of a load schedule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quarter {
    /// Requests due in this quarter.
    pub offered: u64,
    /// Answers received in this quarter.
    pub answered: u64,
    /// Requests due before the end of this quarter that are answered later.
    pub outstanding: u64,
    /// Mean response time in ms of the requests due in this quarter and answered.
    pub response_ms: Option<f64>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { width_ns: FIRST_WIDTH_NS, parts: Vec::new() }
    }
}

impl TryFrom<TimelineFile> for Timeline {
    type Error = &'static str;

    fn try_from(file: TimelineFile) -> Result<Self, Self::Error> {
        let TimelineFile { width_ns, parts } = file;
        let doubled = width_ns / FIRST_WIDTH_NS;
        let last = (parts.len() as u64).saturating_sub(1);
        if last.checked_mul(width_ns).is_none() {
            return Err("timeline that is longer than any time");
        }
        // Otherwise merging with another timeline would not end, or would mix slices of different
        // borders.
        if width_ns % FIRST_WIDTH_NS != 0 || !doubled.is_power_of_two() || parts.len() > PARTS {
            return Err("timeline with an invalid slice width or too many slices");
        }
        Ok(Self { width_ns, parts })
    }
}

impl Timeline {
    /// Counts a request due at `due_ns` after the start.
    pub fn offered(&mut self, due_ns: u64) {
        self.part(due_ns).offered += 1;
    }

    /// Counts the answer at `at_ns` to a request due at `due_ns`.
    pub fn answered(&mut self, due_ns: u64, at_ns: u64) {
        self.part(at_ns).answered += 1;
        let part = self.part(due_ns);
        part.replied += 1;
        part.response_ns = part.response_ns.saturating_add(at_ns.saturating_sub(due_ns));
    }

    /// Merges another timeline with the same start.
    pub fn add(&mut self, other: &Self) {
        // Widths are powers of two of the first one, so slices of one fit into those of the other.
        while self.width_ns < other.width_ns {
            self.halve();
        }
        for (number, part) in other.parts.iter().enumerate() {
            self.part(number as u64 * other.width_ns).add(part);
        }
    }

    /// The four quarters of a schedule of `schedule_ns`, accurate to 1/500 of the schedule
    /// or better. Answers after the end of the schedule are in no quarter.
    pub fn quarters(&self, schedule_ns: u64) -> [Quarter; 4] {
        let mut quarters = [Quarter::default(); 4];
        let (mut replied, mut answered) = (0, 0);
        let mut parts = self.parts.iter().zip(0u64..).peekable();
        for (number, quarter) in (1u128..).zip(&mut quarters) {
            let end = (number * u128::from(schedule_ns) / 4) as u64;
            let (mut own, mut response_ns) = (0, 0);
            while let Some((part, _)) = parts.next_if(|(_, n)| n * self.width_ns < end) {
                quarter.offered += part.offered;
                quarter.answered += part.answered;
                own += part.replied;
                response_ns = u64::saturating_add(response_ns, part.response_ns);
            }
            replied += own;
            answered += quarter.answered;
            // A slice at the border of two quarters may have answers to requests of the next one.
            quarter.outstanding = u64::saturating_sub(replied, answered);
            quarter.response_ms = (own > 0).then(|| response_ns as f64 / own as f64 / 1e6);
        }
        quarters
    }

    fn part(&mut self, at_ns: u64) -> &mut Part {
        while at_ns / self.width_ns >= PARTS as u64 {
            self.halve();
        }
        let number = (at_ns / self.width_ns) as usize;
        if self.parts.len() <= number {
            self.parts.resize(number + 1, Part::default());
        }
        &mut self.parts[number]
    }

    fn halve(&mut self) {
        self.width_ns = self.width_ns.saturating_mul(2);
        let pairs = self.parts.chunks(2).map(|pair| {
            let mut sum = pair[0];
            pair[1..].iter().for_each(|part| sum.add(part));
            sum
        });
        self.parts = pairs.collect();
    }
}

impl Part {
    fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.replied += other.replied;
        self.response_ns = self.response_ns.saturating_add(other.response_ns);
        self.answered += other.answered;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// A queue with one server; `offered` and `served` are requests per second.
    fn queue(offered: u64, served: u64, seconds: u64) -> Timeline {
        let mut timeline = Timeline::default();
        let mut free = 0;
        for number in 0..offered * seconds {
            let due = number * S / offered;
            free = due.max(free) + S / served;
            timeline.offered(due);
            timeline.answered(due, free);
        }
        timeline
    }

    #[test]
    fn a_queue_that_grows_shows_in_every_quarter() {
        let quarters = queue(243, 200, 4).quarters(4 * S);
        assert_eq!(quarters.map(|q| q.offered), [243; 4]);
        // 43 requests per second exceed the service rate.
        for (quarter, expected) in quarters.iter().zip([43, 86, 129, 172]) {
            assert!(quarter.outstanding.abs_diff(expected) <= 2, "{quarters:?}");
            assert!(quarter.answered.abs_diff(200) <= 2, "{quarters:?}");
        }
        let response = quarters.map(|q| q.response_ms.unwrap());
        assert!(response.is_sorted() && response[3] > 5.0 * response[0], "{response:?}");
    }

    #[test]
    fn a_queue_that_is_served_does_not_grow() {
        let quarters = queue(190, 200, 3_600).quarters(3_600 * S);
        assert!(quarters.iter().all(|q| q.outstanding <= 1), "{quarters:?}");
        // 190 x 900, to a thousandth of the run.
        assert!(quarters.iter().all(|q| q.offered.abs_diff(171_000) < 700), "{quarters:?}");
        assert!((quarters[3].response_ms.unwrap() - 5.0).abs() < 0.01);
    }

    #[test]
    fn what_has_no_answer_is_offered_and_never_outstanding() {
        let mut timeline = Timeline::default();
        (0..100).for_each(|second| timeline.offered(second * S));
        let quarters = timeline.quarters(100 * S);
        assert!(quarters.iter().all(|q| q.offered.abs_diff(25) <= 1), "{quarters:?}");
        assert!(quarters.iter().all(|q| q.outstanding == 0));
        assert_eq!(quarters[0].response_ms, None);
        assert_eq!(Timeline::default().quarters(0), [Quarter::default(); 4]);
    }

    #[test]
    fn several_senders_come_to_one() {
        let (mut short, long) = (queue(100, 200, 1), queue(100, 200, 40));
        short.add(&long);
        let quarters = short.quarters(40 * S);
        assert_eq!(quarters.iter().map(|q| q.offered).sum::<u64>(), 4_100);
        let mut other = long.clone();
        other.add(&queue(100, 200, 1));
        assert_eq!(other.quarters(40 * S), quarters);
    }

    #[test]
    fn any_times_are_taken() {
        let mut timeline = Timeline::default();
        timeline.offered(u64::MAX);
        timeline.answered(u64::MAX, 0);
        timeline.offered(0);
        assert_eq!(timeline.quarters(u64::MAX).iter().map(|q| q.offered).sum::<u64>(), 2);
    }
    use proptest::prelude::*;

    fn any_time() -> impl Strategy<Value = u64> {
        prop_oneof![4 => 0..5_000 * FIRST_WIDTH_NS, 2 => 0..5_000 * S, 1 => any::<u64>()]
    }

    proptest! {
        /// Whatever the order of times, and however they are spread over senders: nothing is lost.
        #[test]
        fn all_requests_are_in_the_quarters_of_a_longer_schedule(
            events in prop::collection::vec((any_time(), prop::option::of(any_time()), 0..2_usize), 0..40),
        ) {
            let mut senders = [Timeline::default(), Timeline::default()];
            let mut whole = Timeline::default();
            let (mut answered, mut longest) = (0, 0);
            for (due, answer, sender) in &events {
                for timeline in [&mut senders[*sender], &mut whole] {
                    timeline.offered(*due);
                    if let Some(at) = answer {
                        timeline.answered(*due, *at);
                    }
                }
                answered += u64::from(answer.is_some());
                longest = longest.max(*due).max(answer.unwrap_or_default());
            }
            let [mut merged, other] = senders;
            merged.add(&other);
            // A time beyond the last slice.
            let end = longest.saturating_add(2 * merged.width_ns);
            for timeline in [&merged, &whole] {
                let quarters = timeline.quarters(end);
                let sum = |of: fn(&Quarter) -> u64| quarters.iter().map(of).sum::<u64>();
                if end < u64::MAX {
                    prop_assert_eq!(sum(|q| q.offered), events.len() as u64);
                    prop_assert_eq!(sum(|q| q.answered), answered);
                    prop_assert_eq!(quarters[3].outstanding, 0, "all answers are there");
                }
            }
            prop_assert_eq!(merged.width_ns, whole.width_ns);
            // What is written is read again.
            let text = serde_json::to_string(&whole).unwrap();
            let again: Timeline = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(again.quarters(end), whole.quarters(end));
        }

        /// Files of other programs, or damaged ones.
        #[test]
        fn any_file_is_refused_or_harmless(
            width in prop_oneof![(0..64_u32).prop_map(|n| FIRST_WIDTH_NS.saturating_mul(1 << n.min(63))), any::<u64>()],
            parts in 0..1_100_usize,
        ) {
            let part = Part { offered: 1, ..Part::default() };
            let file = TimelineFile { width_ns: width, parts: vec![part; parts] };
            let Ok(timeline) = Timeline::try_from(file) else { return Ok(()) };
            prop_assert!(parts <= PARTS);
            let mut sum = Timeline::default();
            sum.add(&timeline);
            timeline.quarters(u64::MAX);
            prop_assert_eq!(sum.parts.iter().map(|part| part.offered).sum::<u64>(), parts as u64);
        }
    }
}
