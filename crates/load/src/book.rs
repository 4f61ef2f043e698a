//! The book of operations: which are under way, and what became of the others.
//!
//! A sender uses it in one of two ways. Where requests never wait for the target, an operation
//! is `sent` at once. Where they may have to wait for a connection or for NSTART, it is
//! `queued` when it is due and `dequeued` when it is sent.

use crate::clock::Nanos;
use crate::counts::Observed;
use crate::figures::{Series, Submission};
use crate::log::{Done, Log};
use crate::reasons::Reasons;
use crate::slots::{Slot, State, queued, slot, time_out};
use crate::supply::Operation;
use std::collections::{BTreeMap, HashMap, VecDeque};
use units::Timeline;

/// Operations in the order in which they were due. Their numbers begin at 0 and have no gaps.
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
    last_intended: Option<Nanos>,
    last_submitted: Option<Nanos>,
    last_sent: Nanos,
    /// Waits for a connection of those operations that had one, by number.
    waits: HashMap<u64, Nanos>,
    queues: bool,
    log: Option<Log>,
    pub series: Vec<Series>,
    pub submission: Submission,
    pub timeline: Timeline,
    pub codes: BTreeMap<u16, u64>,
    pub late: u64,
    pub twice: u64,
    pub garbage: u64,
    pub stray: u64,
    pub retransmitted: u64,
    pub observed: Observed,
    pub reasons: Reasons,
    /// The greatest slip.
    pub behind: Nanos,
    /// The slip of the operation sent last, where operations are queued.
    pub lag: Nanos,
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
            last_intended: None,
            last_submitted: None,
            last_sent: start,
            waits: HashMap::new(),
            queues: false,
            log,
            series: Vec::new(),
            submission: Submission::default(),
            timeline: Timeline::default(),
            codes: BTreeMap::new(),
            late: 0,
            twice: 0,
            garbage: 0,
            stray: 0,
            retransmitted: 0,
            observed: Observed::default(),
            reasons: Reasons::default(),
            behind: 0,
            lag: 0,
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
        self.last_sent.saturating_sub(self.start)
    }

    /// From the start to the last operation that was due.
    pub fn schedule(&self) -> Nanos {
        self.last_intended.map_or(0, |last| last.saturating_sub(self.start))
    }

    /// An operation that waits for its answer: its template and series, and when it was sent.
    pub fn outstanding(&self, number: u64) -> Option<(u32, u32, Nanos)> {
        let at = usize::try_from(number.checked_sub(self.base)?).ok()?;
        let slot = self.slots.get(at).filter(|slot| slot.state == State::Waiting)?;
        Some((slot.template, u32::from(slot.series), slot.sent))
    }

    /// An operation was sent as soon as this machine could.
    pub fn sent(
        &mut self,
        operation: Operation,
        intended: Nanos,
        sent: Nanos,
        answers: bool,
    ) -> u64 {
        let number = self.next();
        self.expect(intended);
        self.submit(sent);
        self.last_sent = sent;
        self.series[operation.series as usize].counts.scheduled += 1;
        let state = self.leave(operation.series, sent.saturating_sub(intended), answers);
        self.push(operation, intended, sent, state);
        number
    }

    /// An operation is due and joins the queue of its target, at `now`.
    pub fn queued(&mut self, operation: Operation, intended: Nanos, now: Nanos) -> u64 {
        let number = self.next();
        self.queues = true;
        self.expect(intended);
        self.series[operation.series as usize].counts.scheduled += 1;
        self.push(operation, intended, now, State::Queued);
        number
    }

    /// A queued operation was sent, after it had waited for a connection for `wait`. What is
    /// left of its delay is slip.
    pub fn dequeued(&mut self, number: u64, sent: Nanos, wait: Nanos, answers: bool) {
        let Some(slot) = queued(&mut self.slots, self.base, number) else { return };
        slot.sent = sent;
        let (series, delay) = (u32::from(slot.series), sent.saturating_sub(slot.intended));
        let wait = wait.min(delay);
        if wait > 0 {
            self.waits.insert(number, wait);
        }
        self.series[series as usize].waited(wait);
        self.last_sent = self.last_sent.max(sent);
        self.lag = delay - wait;
        let state = self.leave(series, delay - wait, answers);
        if let Some(slot) = queued(&mut self.slots, self.base, number) {
            slot.state = state;
        }
    }

    /// A queued operation is not sent: no connection to its target became free in time, or
    /// there can be none.
    pub fn no_connection(&mut self, number: u64) {
        let Some(slot) = queued(&mut self.slots, self.base, number) else { return };
        slot.state = State::NoConnection;
        let counts = &mut self.series[usize::from(slot.series)].counts;
        counts.timed_out += 1;
        counts.no_connection += 1;
        self.finished += 1;
    }

    /// A queued operation is not sent, since this machine was too late.
    pub fn too_late(&mut self, number: u64) {
        let Some(slot) = queued(&mut self.slots, self.base, number) else { return };
        slot.state = State::Unsent;
        self.series[usize::from(slot.series)].counts.unsent += 1;
        self.finished += 1;
    }

    /// An operation was not sent, and will not be.
    pub fn unsent(&mut self, series: u32) {
        let counts = &mut self.series[series as usize].counts;
        counts.scheduled += 1;
        counts.unsent += 1;
        self.finished += 1;
    }

    /// What is common to all operations that are sent; the state in which they are then.
    fn leave(&mut self, series: u32, slip: Nanos, answers: bool) -> State {
        self.behind = self.behind.max(slip);
        let of = &mut self.series[series as usize];
        of.counts.sent += 1;
        of.slip.record(slip);
        if answers {
            self.waiting += 1;
            State::Waiting
        } else {
            of.counts.without_answer += 1;
            self.finished += 1;
            State::WithoutAnswer
        }
    }

    fn push(&mut self, operation: Operation, intended: Nanos, sent: Nanos, state: State) {
        let (template, series) = (operation.template, operation.series as u16);
        self.slots.push_back(Slot {
            intended,
            sent,
            answered: 0,
            template,
            series,
            code: 0,
            state,
        });
    }

    /// The next operation of the schedule was due.
    fn expect(&mut self, intended: Nanos) {
        if let Some(before) = self.last_intended {
            self.submission.expected.record(intended.saturating_sub(before));
        }
        self.last_intended = Some(intended);
        self.timeline.offered(intended.saturating_sub(self.start));
    }

    /// This machine was ready to send the next operation of the schedule. One that was ready
    /// before another that is due sooner counts from then: the mean stays that of all.
    fn submit(&mut self, at: Nanos) {
        let before = self.last_submitted.unwrap_or(at);
        if self.last_submitted.is_some() {
            self.submission.submitted.record(at.saturating_sub(before));
        }
        self.last_submitted = Some(at.max(before));
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
                let of = &mut self.series[usize::from(slot.series)];
                of.counts.answered += 1;
                of.counts.errors += u64::from(bad);
                of.response.record(at.saturating_sub(slot.intended));
                of.service.record(at.saturating_sub(slot.sent));
                *self.codes.entry(code).or_default() += 1;
                let since = |moment: Nanos| moment.saturating_sub(self.start);
                self.timeline.answered(since(slot.intended), since(at));
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
            _ => self.stray += 1,
        }
    }

    /// An operation waits for its answer no longer.
    pub fn time_out(&mut self, number: u64) {
        let Some(slot) = slot(&mut self.slots, self.base, number) else { return };
        if slot.state == State::Waiting {
            time_out(slot, &mut self.series);
            self.waiting -= 1;
            self.finished += 1;
        }
    }

    /// The target cannot be reached, or refuses the operation; says why.
    pub fn unreachable(&mut self, number: u64, why: &str) {
        let Some(slot) = slot(&mut self.slots, self.base, number) else { return };
        slot.state = match slot.state {
            State::Waiting => State::Unreachable,
            State::Queued => State::Refused,
            _ => return,
        };
        self.waiting -= usize::from(slot.state == State::Unreachable);
        self.series[usize::from(slot.series)].counts.unreachable += 1;
        self.finished += 1;
        self.explain(why);
    }

    /// A notification came so long after the one before, of the observation of this operation.
    pub fn notified(&mut self, series: u32, since: Nanos) {
        self.series[series as usize].notified(since);
    }

    /// Counts something that went wrong, in words.
    pub fn explain(&mut self, why: &str) {
        self.reasons.count(why);
    }

    /// Looks for operations whose time is over, and forgets those that are long past.
    pub fn expire(&mut self, now: Nanos) {
        while let Some(slot) = slot(&mut self.slots, self.base, self.looked) {
            // Their queue looks after those that still wait to be sent.
            if slot.state == State::Queued || now.saturating_sub(slot.sent) <= self.timeout {
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
        for number in self.base..self.next() {
            self.no_connection(number);
            self.time_out(number);
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
        let wait = if self.waits.is_empty() { None } else { self.waits.remove(&self.base) };
        let wait = wait.unwrap_or(0);
        self.base += 1;
        // In the order of the schedule, and without what the target added.
        if self.queues {
            self.submit(slot.sent - wait);
        }
        if let Some(log) = &mut self.log {
            let of = &self.series[usize::from(slot.series)];
            let never = matches!(slot.state, State::NoConnection | State::Unsent | State::Refused);
            log.add(Done {
                method: of.method,
                device: of.device,
                intended: slot.intended.saturating_sub(self.start),
                sent: if never { 0 } else { slot.sent.saturating_sub(self.start) },
                answered: slot.answered.saturating_sub(self.start),
                code: slot.code,
                state: slot.state,
                wait,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::Method;

    const FIRST: Operation = Operation { at: 0, template: 7, series: 0 };

    fn book() -> Book {
        let mut book = Book::new(100, 0, None);
        book.series.push(Series::new(Method::Get, Some(0), 3));
        book
    }

    #[test]
    fn three_latencies_from_three_times() {
        let mut book = book();
        let number = book.sent(FIRST, 1_000, 1_030, true);
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
            book.sent(FIRST, i, i, true);
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
        book.sent(FIRST, 0, 0, true);
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
        book.sent(FIRST, 0, 0, true);
        book.sent(FIRST, 0, 0, false);
        book.unsent(0);
        book.close();
        let counts = book.series[0].counts;
        assert_eq!((counts.timed_out, counts.without_answer, counts.unsent), (1, 1, 1));
        assert_eq!((counts.scheduled, counts.sent), (3, 2));
    }

    #[test]
    fn a_wait_for_a_connection_is_no_slip() {
        let mut book = book();
        let number = book.queued(FIRST, 1_000, 1_001);
        assert_eq!((book.series[0].counts.sent, book.waiting()), (0, 0));
        assert_eq!(book.outstanding(number), None);
        book.dequeued(number, 1_050, 45, true);
        assert_eq!(book.outstanding(number), Some((7, 0, 1_050)));
        book.answered(number, 1_100, 0x45, false);
        let of = &book.series[0];
        assert_eq!(of.response.quantile_ns(1.0), 100, "a user sees both");
        assert_eq!(of.service.quantile_ns(1.0), 50);
        assert_eq!(of.wait.as_ref().unwrap().quantile_ns(1.0), 45);
        assert_eq!((of.slip.quantile_ns(1.0), book.behind, book.lag), (5, 5, 5));
    }

    #[test]
    fn what_never_gets_a_connection_has_timed_out_and_what_this_machine_missed_is_unsent() {
        let mut book = book();
        let numbers: Vec<u64> = (0..4).map(|i| book.queued(FIRST, i, i)).collect();
        book.no_connection(numbers[0]);
        book.too_late(numbers[1]);
        book.unreachable(numbers[2], "refused");
        book.no_connection(numbers[2]);
        book.dequeued(numbers[0], 9, 0, true);
        book.close();
        let counts = book.series[0].counts;
        assert_eq!((counts.scheduled, counts.sent, counts.unsent), (4, 0, 1));
        assert_eq!((counts.timed_out, counts.no_connection, counts.unreachable), (2, 2, 1));
        assert_eq!((book.take_finished(), book.waiting()), (4, 0));
    }

    /// Two targets: the first keeps its requests waiting, so that they are sent out of order.
    #[test]
    fn time_between_operations_is_without_what_the_target_added() {
        let mut book = book();
        let numbers: Vec<u64> = (0..4).map(|i| book.queued(FIRST, i * 10, i * 10)).collect();
        book.dequeued(numbers[1], 11, 0, false);
        book.dequeued(numbers[3], 32, 0, false);
        book.dequeued(numbers[0], 90, 89, false);
        book.dequeued(numbers[2], 95, 73, false);
        book.close();
        assert_eq!(book.submission.expected.mean_ns(), 10.0);
        // 1, 11, 22, 32.
        let submitted = &book.submission.submitted;
        assert_eq!((submitted.count(), submitted.summary().min), (3, 0.01));
        assert!((submitted.mean_ns() - 31.0 / 3.0).abs() < 1e-9);
        assert_eq!(book.span(), 95);
    }

    #[test]
    fn time_between_operations_is_kept_as_asked_and_as_had() {
        let mut book = book();
        for (intended, sent) in [(0, 5), (10, 12), (20, 40)] {
            book.sent(FIRST, intended, sent, false);
        }
        assert_eq!(book.submission.expected.mean_ns(), 10.0);
        assert_eq!(book.submission.submitted.mean_ns(), 17.5);
        assert_eq!(book.span(), 40);
    }
}
