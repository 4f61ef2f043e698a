//! The book of operations: which are under way, and what became of the others.

use crate::clock::Nanos;
use crate::figures::{Series, Submission};
use crate::log::{Done, Log};
use std::collections::{BTreeMap, VecDeque};

/// How many different reasons are kept in words.
const REASONS: usize = 20;

/// What an operation has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Waiting,
    Answered,
    TimedOut,
    Unreachable,
    WithoutAnswer,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    intended: Nanos,
    sent: Nanos,
    answered: Nanos,
    series: u32,
    code: u16,
    state: State,
}

/// Operations in the order they were sent. Their numbers begin at 0 and have no gaps.
#[derive(Debug)]
pub(crate) struct Book {
    /// Those that may still be asked about; the first has the number `base`.
    slots: VecDeque<Slot>,
    base: u64,
    /// Those before it have been looked at for their timeout.
    looked: u64,
    waiting: usize,
    finished: usize,
    timeout: Nanos,
    start: Nanos,
    last: Option<(Nanos, Nanos)>,
    log: Option<Log>,
    pub series: Vec<Series>,
    pub submission: Submission,
    pub codes: BTreeMap<u16, u64>,
    pub late: u64,
    pub twice: u64,
    pub garbage: u64,
    pub stray: u64,
    pub reasons: BTreeMap<String, u64>,
    pub behind: Nanos,
}

impl Book {
    pub fn new(timeout: Nanos, start: Nanos, log: Option<Log>) -> Self {
        Self {
            // So many are under way before it has to grow.
            slots: VecDeque::with_capacity(1 << 16),
            base: 0,
            looked: 0,
            waiting: 0,
            finished: 0,
            timeout,
            start,
            last: None,
            log,
            series: Vec::new(),
            submission: Submission::default(),
            codes: BTreeMap::new(),
            late: 0,
            twice: 0,
            garbage: 0,
            stray: 0,
            reasons: BTreeMap::new(),
            behind: 0,
        }
    }

    /// The number that the next operation will have.
    pub fn next(&self) -> u64 {
        self.base + self.slots.len() as u64
    }

    /// How many wait for their answer.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many were finished since it was last asked.
    pub fn take_finished(&mut self) -> usize {
        std::mem::take(&mut self.finished)
    }

    /// From the start to the last operation sent.
    pub fn span(&self) -> Nanos {
        self.last.map_or(0, |(_, sent)| sent.saturating_sub(self.start))
    }

    /// An operation was sent.
    pub fn sent(&mut self, series: u32, intended: Nanos, sent: Nanos, answers: bool) -> u64 {
        let number = self.next();
        let slip = sent.saturating_sub(intended);
        self.behind = self.behind.max(slip);
        if let Some((intended_before, sent_before)) = self.last {
            self.submission.expected.record(intended.saturating_sub(intended_before));
            self.submission.submitted.record(sent.saturating_sub(sent_before));
        }
        self.last = Some((intended, sent));
        let of = &mut self.series[series as usize];
        of.counts.scheduled += 1;
        of.counts.sent += 1;
        of.slip.record(slip);
        let state = if answers {
            self.waiting += 1;
            State::Waiting
        } else {
            of.counts.without_answer += 1;
            self.finished += 1;
            State::WithoutAnswer
        };
        self.slots.push_back(Slot { intended, sent, answered: 0, series, code: 0, state });
        number
    }

    /// An operation was not sent, and will not be.
    pub fn unsent(&mut self, series: u32) {
        let counts = &mut self.series[series as usize].counts;
        counts.scheduled += 1;
        counts.unsent += 1;
        self.finished += 1;
    }

    /// An answer has come: to which, when, and what it says; `bad` if that is that
    /// something went wrong.
    pub fn answered(&mut self, number: u64, at: Nanos, code: u16, bad: bool) {
        let Some(slot) = slot(&mut self.slots, self.base, number) else {
            self.stray += 1;
            return;
        };
        match slot.state {
            State::Waiting if at.saturating_sub(slot.sent) <= self.timeout => {
                slot.state = State::Answered;
                (slot.answered, slot.code) = (at, code);
                let of = &mut self.series[slot.series as usize];
                of.counts.answered += 1;
                of.counts.errors += u64::from(bad);
                of.response.record(at.saturating_sub(slot.intended));
                of.service.record(at.saturating_sub(slot.sent));
                *self.codes.entry(code).or_default() += 1;
                self.waiting -= 1;
                self.finished += 1;
            }
            State::Waiting => {
                time_out(slot, &mut self.series);
                slot.answered = at;
                self.waiting -= 1;
                self.finished += 1;
                self.late += 1;
            }
            // The first answer after its time is late, further ones are repeats.
            State::TimedOut if slot.answered == 0 => {
                slot.answered = at;
                self.late += 1;
            }
            State::Answered | State::TimedOut => self.twice += 1,
            State::Unreachable | State::WithoutAnswer => self.stray += 1,
        }
    }

    /// Nobody takes an operation; says why.
    pub fn unreachable(&mut self, number: u64, why: &str) {
        let Some(slot) = slot(&mut self.slots, self.base, number) else { return };
        if slot.state != State::Waiting {
            return;
        }
        slot.state = State::Unreachable;
        self.series[slot.series as usize].counts.unreachable += 1;
        self.waiting -= 1;
        self.finished += 1;
        self.explain(why);
    }

    /// Counts something that went wrong, in words.
    pub fn explain(&mut self, why: &str) {
        if let Some(count) = self.reasons.get_mut(why) {
            *count += 1;
        } else if self.reasons.len() < REASONS {
            self.reasons.insert(why.to_owned(), 1);
        } else {
            *self.reasons.entry("other reasons".to_owned()).or_default() += 1;
        }
    }

    /// The operation of those sent last whose number ends in these 16 bits.
    pub fn ending(&self, bits: u16) -> Option<u64> {
        let next = self.next();
        let back = u64::from((next as u16).wrapping_sub(bits).wrapping_sub(1)) + 1;
        next.checked_sub(back).filter(|number| *number >= self.base)
    }

    /// Looks for operations whose time is over, and forgets those that are long past.
    pub fn expire(&mut self, now: Nanos) {
        while let Some(slot) = slot(&mut self.slots, self.base, self.looked) {
            if now.saturating_sub(slot.sent) <= self.timeout {
                break;
            }
            if slot.state == State::Waiting {
                time_out(slot, &mut self.series);
                self.waiting -= 1;
                self.finished += 1;
            }
            self.looked += 1;
        }
        // Late and repeated answers are known as such for as long again.
        while let Some(first) = self.slots.front() {
            if self.base >= self.looked || now.saturating_sub(first.sent) <= 2 * self.timeout {
                break;
            }
            self.forget();
        }
    }

    /// Those that still wait have had their time.
    pub fn close(&mut self) {
        for i in 0..self.slots.len() {
            if self.slots[i].state == State::Waiting {
                time_out(&mut self.slots[i], &mut self.series);
                self.waiting -= 1;
            }
        }
        while !self.slots.is_empty() {
            self.forget();
        }
        // The writer ends when the last log is gone.
        if let Some(mut log) = self.log.take() {
            log.flush();
        }
    }

    fn forget(&mut self) {
        let Some(slot) = self.slots.pop_front() else { return };
        self.base += 1;
        if let Some(log) = &mut self.log {
            let of = &self.series[slot.series as usize];
            log.add(Done {
                method: of.method,
                device: of.device,
                intended: slot.intended.saturating_sub(self.start),
                sent: slot.sent.saturating_sub(self.start),
                answered: slot.answered.saturating_sub(self.start),
                code: slot.code,
                state: slot.state,
            });
        }
    }
}

fn slot(slots: &mut VecDeque<Slot>, base: u64, number: u64) -> Option<&mut Slot> {
    let at = usize::try_from(number.checked_sub(base)?).ok()?;
    slots.get_mut(at)
}

fn time_out(slot: &mut Slot, series: &mut [Series]) {
    slot.state = State::TimedOut;
    series[slot.series as usize].counts.timed_out += 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::Method;

    fn book() -> Book {
        let mut book = Book::new(100, 0, None);
        book.series.push(Series::new(Method::Get, Some(0), 3));
        book
    }

    #[test]
    fn three_latencies_from_three_times() {
        let mut book = book();
        let number = book.sent(0, 1_000, 1_030, true);
        book.answered(number, 1_100, 0x45, false);
        let of = &book.series[0];
        assert_eq!(of.response.quantile_ns(1.0), 100);
        assert_eq!(of.service.quantile_ns(1.0), 70);
        assert_eq!(of.slip.quantile_ns(1.0), 30);
        assert_eq!((of.counts.answered, book.waiting(), book.behind), (1, 0, 30));
    }

    #[test]
    fn what_is_late_or_twice_or_never_is_counted_as_such() {
        let mut book = book();
        for i in 0..4 {
            book.sent(0, i, i, true);
        }
        book.answered(0, 50, 0x45, false);
        book.answered(0, 51, 0x45, false);
        book.expire(150);
        book.answered(1, 160, 0x45, false);
        book.answered(1, 161, 0x45, false);
        book.answered(99, 60, 0x45, false);
        book.unreachable(2, "refused");
        let counts = book.series[0].counts;
        assert_eq!((counts.answered, counts.timed_out, counts.unreachable), (1, 3, 0));
        assert_eq!((book.late, book.twice, book.stray), (1, 2, 1));
        assert_eq!(book.take_finished(), 4);
        // Long past, they are known no more.
        book.expire(1_000);
        book.answered(3, 1_001, 0x45, false);
        assert_eq!((book.late, book.stray), (1, 2));
    }

    #[test]
    fn an_answer_in_the_very_moment_of_the_timeout_counts_once() {
        let mut book = book();
        book.sent(0, 0, 0, true);
        book.answered(0, 101, 0x45, false);
        book.expire(500);
        book.close();
        let counts = book.series[0].counts;
        assert_eq!((counts.timed_out, counts.answered, book.late), (1, 0, 1));
        assert_eq!(counts.scheduled, counts.timed_out);
    }

    #[test]
    fn what_waits_at_the_end_has_timed_out() {
        let mut book = book();
        book.sent(0, 0, 0, true);
        book.sent(0, 0, 0, false);
        book.unsent(0);
        book.close();
        let counts = book.series[0].counts;
        assert_eq!((counts.timed_out, counts.without_answer, counts.unsent), (1, 1, 1));
        assert_eq!((counts.scheduled, counts.sent), (3, 2));
    }

    #[test]
    fn numbers_are_found_by_their_end() {
        let mut book = book();
        for i in 0..70_000 {
            book.sent(0, i, i, false);
        }
        assert_eq!(book.ending(69_999u64 as u16), Some(69_999));
        assert_eq!(book.ending(4_464), Some(4_464));
        assert_eq!(book.ending(4_463), Some(69_999));
        assert_eq!(super::tests::book().ending(5), None);
    }

    #[test]
    fn time_between_operations_is_kept_as_asked_and_as_had() {
        let mut book = book();
        for (intended, sent) in [(0, 5), (10, 12), (20, 40)] {
            book.sent(0, intended, sent, false);
        }
        assert_eq!(book.submission.expected.mean_ns(), 10.0);
        assert_eq!(book.submission.submitted.mean_ns(), 17.5);
        assert_eq!(book.span(), 40);
    }
}
