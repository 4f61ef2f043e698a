//! The table of outstanding requests: which operations are under way, and the outcome of
//! the others.
//!
//! A sender uses it in one of two ways. If requests never wait for the target, an operation
//! is `sent` at once. If they may wait for a connection or for NSTART, an operation is
//! `queued` when it is due and `dequeued` when it is sent.

use crate::figures::{Series, Submission};
use crate::log::{FinishedOperation, Log};
use crate::reasons::Reasons;
use crate::request_feed::Operation;
use crate::slots::{Slot, State, queued, slot, time_out};
use record::{Observed, OddCounts, Timeline};
use std::collections::{BTreeMap, HashMap, VecDeque};
use units::{Instant, Span};

/// Operations in the order of their intended times. Their numbers start at 0 and have no
/// gaps.
#[derive(Debug)]
pub(crate) struct Outstanding {
    /// Operations that can still get an answer; the first has the number `base`.
    slots: VecDeque<Slot>,
    base: u64,
    /// All operations before this number have been checked for their timeout.
    checked: u64,
    waiting: usize,
    finished: usize,
    timeout: Span,
    start: Instant,
    last_intended: Option<Instant>,
    last_submitted: Option<Instant>,
    last_sent: Instant,
    /// Waits for a connection by operation number; operations that did not wait are absent.
    waits: HashMap<u64, Span>,
    queues: bool,
    log: Option<Log>,
    pub series: Vec<Series>,
    pub submission: Submission,
    pub timeline: Timeline,
    pub codes: BTreeMap<u16, u64>,
    pub others: OddCounts,
    pub observed: Observed,
    pub reasons: Reasons,
    /// The largest slip.
    pub max_lag: Span,
    /// The slip of the operation sent last; only if operations are queued.
    pub lag: Span,
}

impl Outstanding {
    pub fn new(timeout: Span, start: Instant, log: Option<Log>) -> Self {
        Self {
            // Room for this many operations before it has to grow.
            slots: VecDeque::with_capacity(1 << 16),
            base: 0,
            checked: 0,
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
            others: OddCounts::default(),
            observed: Observed::default(),
            reasons: Reasons::default(),
            max_lag: Span::ZERO,
            lag: Span::ZERO,
        }
    }

    /// The number of the next operation.
    pub fn next(&self) -> u64 {
        self.base + self.slots.len() as u64
    }

    /// Operations that wait for their answer.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Operations finished since the last call.
    pub fn take_finished(&mut self) -> usize {
        std::mem::take(&mut self.finished)
    }

    /// From the start to the last operation sent.
    pub fn span(&self) -> Span {
        self.last_sent - self.start
    }

    /// From the start to the last operation that was due.
    pub fn schedule(&self) -> Span {
        self.last_intended.map_or(Span::ZERO, |last| last - self.start)
    }

    /// The template, series and send time of an operation that waits for its answer.
    pub fn find_waiting(&self, number: u64) -> Option<(u32, u32, Instant)> {
        let at = usize::try_from(number.checked_sub(self.base)?).ok()?;
        let slot = self.slots.get(at).filter(|slot| slot.state == State::Waiting)?;
        Some((slot.template, u32::from(slot.series), slot.sent))
    }

    /// Records an operation that is due and is sent at once.
    pub fn sent(
        &mut self,
        operation: Operation,
        intended: Instant,
        sent: Instant,
        answers: bool,
    ) -> u64 {
        let number = self.next();
        self.expect(intended);
        self.submit(sent);
        self.last_sent = sent;
        self.series[operation.series as usize].counts.scheduled += 1;
        let state = self.leave(operation.series, sent - intended, answers);
        self.push(operation, intended, sent, state);
        number
    }

    /// Records an operation that is due and joins the queue of its target at `now`.
    pub fn queued(&mut self, operation: Operation, intended: Instant, now: Instant) -> u64 {
        let number = self.next();
        self.queues = true;
        self.expect(intended);
        self.series[operation.series as usize].counts.scheduled += 1;
        self.push(operation, intended, now, State::Queued);
        number
    }

    /// Records that a queued operation was sent. `wait` is its wait for a connection; the
    /// rest of its delay is slip.
    pub fn dequeued(&mut self, number: u64, sent: Instant, wait: Span, answers: bool) {
        let Some(slot) = queued(&mut self.slots, self.base, number) else { return };
        slot.sent = sent;
        let (series, delay) = (u32::from(slot.series), sent - slot.intended);
        let wait = wait.min(delay);
        if wait > Span::ZERO {
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

    /// Records that a queued operation is not sent: no connection to its target became free
    /// in time, or none can be made.
    pub fn no_connection(&mut self, number: u64) {
        let Some(slot) = queued(&mut self.slots, self.base, number) else { return };
        slot.state = State::NoConnection;
        let counts = &mut self.series[usize::from(slot.series)].counts;
        counts.timed_out += 1;
        counts.no_connection += 1;
        self.finished += 1;
    }

    /// Records that a queued operation is not sent because this machine was too late.
    pub fn too_late(&mut self, number: u64) {
        let Some(slot) = queued(&mut self.slots, self.base, number) else { return };
        slot.state = State::Unsent;
        self.series[usize::from(slot.series)].counts.unsent += 1;
        self.finished += 1;
    }

    /// Records an operation that is not sent and will not be.
    pub fn unsent(&mut self, series: u32) {
        let counts = &mut self.series[series as usize].counts;
        counts.scheduled += 1;
        counts.unsent += 1;
        self.finished += 1;
    }

    /// Counts an operation as sent. Returns its new state.
    fn leave(&mut self, series: u32, slip: Span, answers: bool) -> State {
        self.max_lag = self.max_lag.max(slip);
        let of = &mut self.series[series as usize];
        of.counts.sent += 1;
        of.slip.record(slip.as_ns());
        if answers {
            self.waiting += 1;
            State::Waiting
        } else {
            of.counts.without_answer += 1;
            self.finished += 1;
            State::WithoutAnswer
        }
    }

    fn push(&mut self, operation: Operation, intended: Instant, sent: Instant, state: State) {
        let (template, series) = (operation.template, operation.series as u16);
        self.slots.push_back(Slot {
            intended,
            sent,
            answered: Instant::START,
            template,
            series,
            code: 0,
            state,
        });
    }

    /// Records the scheduled time of the next operation.
    fn expect(&mut self, intended: Instant) {
        if let Some(before) = self.last_intended {
            self.submission.expected.record((intended - before).as_ns());
        }
        self.last_intended = Some(intended);
        self.timeline.offered((intended - self.start).as_ns());
    }

    /// Records when this machine was ready to send the next operation of the schedule. An
    /// operation that was ready before its predecessor counts as ready at the predecessor's
    /// time; the mean interval does not change.
    fn submit(&mut self, at: Instant) {
        let before = self.last_submitted.unwrap_or(at);
        if self.last_submitted.is_some() {
            self.submission.submitted.record((at - before).as_ns());
        }
        self.last_submitted = Some(at.max(before));
    }

    /// Records an answer to an operation, its arrival time and code; `bad` marks an error
    /// code.
    pub fn answered(&mut self, number: u64, at: Instant, code: u16, bad: bool) {
        let Some(slot) = slot(&mut self.slots, self.base, number) else {
            self.others.unexpected += 1;
            return;
        };
        match slot.state {
            State::Waiting if at - slot.sent <= self.timeout => {
                slot.state = State::Answered;
                (slot.answered, slot.code) = (at, code);
                let of = &mut self.series[usize::from(slot.series)];
                of.counts.answered += 1;
                of.counts.errors += u64::from(bad);
                of.response.record((at - slot.intended).as_ns());
                of.service.record((at - slot.sent).as_ns());
                *self.codes.entry(code).or_default() += 1;
                let since = |moment: Instant| (moment - self.start).as_ns();
                self.timeline.answered(since(slot.intended), since(at));
                self.waiting -= 1;
                self.finished += 1;
            }
            // The timeout passed before the loop checked it.
            State::Waiting => {
                time_out(slot, &mut self.series);
                slot.answered = at;
                self.waiting -= 1;
                self.finished += 1;
                self.others.late += 1;
            }
            // The first answer after the timeout is late; further ones are duplicates.
            State::TimedOut if slot.answered == Instant::START => {
                slot.answered = at;
                self.others.late += 1;
            }
            State::Answered | State::TimedOut => self.others.duplicates += 1,
            _ => self.others.unexpected += 1,
        }
    }

    /// Records the timeout of an operation that waits for its answer.
    pub fn time_out(&mut self, number: u64) {
        let Some(slot) = slot(&mut self.slots, self.base, number) else { return };
        if slot.state == State::Waiting {
            time_out(slot, &mut self.series);
            self.waiting -= 1;
            self.finished += 1;
        }
    }

    /// Records that the target cannot be reached or refuses the operation, with the reason.
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

    /// Records a notification of an observation and the time since the previous one.
    pub fn notified(&mut self, series: u32, since: Span) {
        self.series[series as usize].notified(since);
    }

    /// Counts an error by its text.
    pub fn explain(&mut self, why: &str) {
        self.reasons.count(why);
    }

    /// Times out operations and forgets old ones.
    pub fn expire(&mut self, now: Instant) {
        while let Some(slot) = slot(&mut self.slots, self.base, self.checked) {
            // The queue handles the timeout of queued operations.
            if slot.state == State::Queued || now - slot.sent <= self.timeout {
                break;
            }
            if slot.state == State::Waiting {
                time_out(slot, &mut self.series);
                self.waiting -= 1;
                self.finished += 1;
            }
            self.checked += 1;
        }
        // Operations stay for a second timeout, to recognise late and duplicate answers.
        while let Some(first) = self.slots.front() {
            if self.base >= self.checked || now - first.sent <= 2 * self.timeout {
                break;
            }
            self.forget();
        }
    }

    /// Times out all operations that still wait.
    pub fn close(&mut self) {
        for number in self.base..self.next() {
            self.no_connection(number);
            self.time_out(number);
        }
        while !self.slots.is_empty() {
            self.forget();
        }
        // The writer ends when the last log is dropped.
        if let Some(mut log) = self.log.take() {
            log.flush();
        }
    }

    fn forget(&mut self) {
        let Some(slot) = self.slots.pop_front() else { return };
        let wait = if self.waits.is_empty() { None } else { self.waits.remove(&self.base) };
        let wait = wait.unwrap_or(Span::ZERO);
        self.base += 1;
        // In schedule order, and without the wait that the target added.
        if self.queues {
            self.submit(slot.sent - wait);
        }
        if let Some(log) = &mut self.log {
            let of = &self.series[usize::from(slot.series)];
            let never = matches!(slot.state, State::NoConnection | State::Unsent | State::Refused);
            log.add(FinishedOperation {
                method: of.method,
                device: of.device,
                intended: slot.intended - self.start,
                sent: if never { Span::ZERO } else { slot.sent - self.start },
                answered: slot.answered - self.start,
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

    const FIRST: Operation = Operation { at: Span::ZERO, template: 7, series: 0 };

    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    fn span(ns: u64) -> Span {
        Span::from_ns(ns)
    }

    fn outstanding() -> Outstanding {
        let mut outstanding = Outstanding::new(span(100), at(0), None);
        outstanding.series.push(Series::new(Method::Get, Some(0), 3));
        outstanding
    }

    #[test]
    fn three_latencies_from_three_times() {
        let mut outstanding = outstanding();
        let number = outstanding.sent(FIRST, at(1_000), at(1_030), true);
        outstanding.answered(number, at(1_100), 0x45, false);
        let of = &outstanding.series[0];
        assert_eq!(of.response.quantile_ns(1.0), 100);
        assert_eq!(of.service.quantile_ns(1.0), 70);
        assert_eq!(of.slip.quantile_ns(1.0), 30);
        assert_eq!(
            (of.counts.answered, outstanding.waiting(), outstanding.max_lag),
            (1, 0, span(30))
        );
    }

    #[test]
    fn what_is_late_or_twice_or_never_is_counted_as_such() {
        let mut outstanding = outstanding();
        for i in 0..4 {
            outstanding.sent(FIRST, at(i), at(i), true);
        }
        outstanding.answered(0, at(50), 0x45, false);
        outstanding.answered(0, at(51), 0x45, false);
        outstanding.expire(at(150));
        outstanding.answered(1, at(160), 0x45, false);
        outstanding.answered(1, at(161), 0x45, false);
        outstanding.answered(99, at(60), 0x45, false);
        outstanding.unreachable(2, "refused");
        let counts = outstanding.series[0].counts;
        assert_eq!((counts.answered, counts.timed_out, counts.unreachable), (1, 3, 0));
        assert_eq!(
            (outstanding.others.late, outstanding.others.duplicates, outstanding.others.unexpected),
            (1, 2, 1)
        );
        assert_eq!(outstanding.take_finished(), 4);
        // After twice the timeout, the operations are unknown.
        outstanding.expire(at(1_000));
        outstanding.answered(3, at(1_001), 0x45, false);
        assert_eq!((outstanding.others.late, outstanding.others.unexpected), (1, 2));
    }

    #[test]
    fn an_answer_in_the_very_moment_of_the_timeout_counts_once() {
        let mut outstanding = outstanding();
        outstanding.sent(FIRST, at(0), at(0), true);
        outstanding.answered(0, at(101), 0x45, false);
        outstanding.expire(at(500));
        outstanding.close();
        let counts = outstanding.series[0].counts;
        assert_eq!((counts.timed_out, counts.answered, outstanding.others.late), (1, 0, 1));
        assert_eq!(counts.scheduled, counts.timed_out);
    }

    #[test]
    fn what_waits_at_the_end_has_timed_out() {
        let mut outstanding = outstanding();
        outstanding.sent(FIRST, at(0), at(0), true);
        outstanding.sent(FIRST, at(0), at(0), false);
        outstanding.unsent(0);
        outstanding.close();
        let counts = outstanding.series[0].counts;
        assert_eq!((counts.timed_out, counts.without_answer, counts.unsent), (1, 1, 1));
        assert_eq!((counts.scheduled, counts.sent), (3, 2));
    }

    #[test]
    fn a_wait_for_a_connection_is_no_slip() {
        let mut outstanding = outstanding();
        let number = outstanding.queued(FIRST, at(1_000), at(1_001));
        assert_eq!((outstanding.series[0].counts.sent, outstanding.waiting()), (0, 0));
        assert_eq!(outstanding.find_waiting(number), None);
        outstanding.dequeued(number, at(1_050), span(45), true);
        assert_eq!(outstanding.find_waiting(number), Some((7, 0, at(1_050))));
        outstanding.answered(number, at(1_100), 0x45, false);
        let of = &outstanding.series[0];
        assert_eq!(of.response.quantile_ns(1.0), 100, "a user sees both");
        assert_eq!(of.service.quantile_ns(1.0), 50);
        assert_eq!(of.wait.as_ref().unwrap().quantile_ns(1.0), 45);
        assert_eq!(
            (of.slip.quantile_ns(1.0), outstanding.max_lag, outstanding.lag),
            (5, span(5), span(5))
        );
    }

    #[test]
    fn what_never_gets_a_connection_has_timed_out_and_what_this_machine_missed_is_unsent() {
        let mut outstanding = outstanding();
        let numbers: Vec<u64> = (0..4).map(|i| outstanding.queued(FIRST, at(i), at(i))).collect();
        outstanding.no_connection(numbers[0]);
        outstanding.too_late(numbers[1]);
        outstanding.unreachable(numbers[2], "refused");
        outstanding.no_connection(numbers[2]);
        outstanding.dequeued(numbers[0], at(9), span(0), true);
        outstanding.close();
        let counts = outstanding.series[0].counts;
        assert_eq!((counts.scheduled, counts.sent, counts.unsent), (4, 0, 1));
        assert_eq!((counts.timed_out, counts.no_connection, counts.unreachable), (2, 2, 1));
        assert_eq!((outstanding.take_finished(), outstanding.waiting()), (4, 0));
    }

    /// Two targets: the first keeps its requests waiting, so that they are sent out of
    /// order.
    #[test]
    fn time_between_operations_is_without_what_the_target_added() {
        let mut outstanding = outstanding();
        let numbers: Vec<u64> =
            (0..4).map(|i| outstanding.queued(FIRST, at(i * 10), at(i * 10))).collect();
        outstanding.dequeued(numbers[1], at(11), span(0), false);
        outstanding.dequeued(numbers[3], at(32), span(0), false);
        outstanding.dequeued(numbers[0], at(90), span(89), false);
        outstanding.dequeued(numbers[2], at(95), span(73), false);
        outstanding.close();
        assert_eq!(outstanding.submission.expected.mean_ns(), 10.0);
        // 1, 11, 22, 32.
        let submitted = &outstanding.submission.submitted;
        assert_eq!((submitted.count(), submitted.min_ns()), (3, 10));
        assert!((submitted.mean_ns() - 31.0 / 3.0).abs() < 1e-9);
        assert_eq!(outstanding.span(), span(95));
    }

    #[test]
    fn time_between_operations_is_kept_as_asked_and_as_had() {
        let mut outstanding = outstanding();
        for (intended, sent) in [(0, 5), (10, 12), (20, 40)] {
            outstanding.sent(FIRST, at(intended), at(sent), false);
        }
        assert_eq!(outstanding.submission.expected.mean_ns(), 10.0);
        assert_eq!(outstanding.submission.submitted.mean_ns(), 17.5);
        assert_eq!(outstanding.span(), span(40));
    }
}
