//! The results of a load.

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use record::event::{LoadResults, Loop, Pace, SeriesResults};
use record::{Observed, OddCounts, Percentiles, RequestCounts, Timeline};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use trace::{HistogramSummary, Method};
use units::{Histogram, Span};

/// Operations of one class at one node: a method and a device.
#[derive(Debug, Clone)]
pub struct Series {
    /// The class.
    pub method: Method,
    /// The node; None for operations beyond the first thousand series.
    pub device: Option<u32>,
    /// Operations by outcome.
    pub counts: RequestCounts,
    /// Response time: from the intended time to the answer.
    pub response: Histogram,
    /// Service time: from the send time to the answer.
    pub service: Histogram,
    /// Slip: how late this machine sent, from the intended time to the send time, without
    /// the wait.
    pub slip: Histogram,
    /// The wait for a free connection to the target, or for NSTART; None if requests never
    /// wait.
    pub wait: Option<Histogram>,
    /// Time between two notifications of an observation; None if nothing is observed.
    pub notification: Option<Histogram>,
    digits: u8,
}

impl Series {
    /// An empty series; histograms have `digits` significant digits.
    pub fn new(method: Method, device: Option<u32>, digits: u8) -> Self {
        let spread = || Histogram::with_digits(digits);
        Self {
            method,
            device,
            counts: RequestCounts::default(),
            response: spread(),
            service: spread(),
            slip: spread(),
            wait: None,
            notification: None,
            digits,
        }
    }

    /// Records the wait of an operation before it was sent.
    pub(crate) fn waited(&mut self, wait: Span) {
        self.wait.get_or_insert_with(|| Histogram::with_digits(self.digits)).record(wait.as_ns());
    }

    /// Records the time between a notification and the previous one.
    pub(crate) fn notified(&mut self, since: Span) {
        let digits = self.digits;
        self.notification
            .get_or_insert_with(|| Histogram::with_digits(digits))
            .record(since.as_ns());
    }

    /// Adds another series: counts and histograms are added, nothing is averaged.
    pub fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.response.add(&other.response);
        self.service.add(&other.service);
        self.slip.add(&other.slip);
        let digits = self.digits;
        let add = |own: &mut Option<Histogram>, other: &Option<Histogram>| {
            if let Some(other) = other {
                own.get_or_insert_with(|| Histogram::with_digits(digits)).add(other);
            }
        };
        add(&mut self.wait, &other.wait);
        add(&mut self.notification, &other.notification);
    }
}

/// Time between operations: of the schedule and as measured.
#[derive(Debug, Clone, Default)]
pub struct Submission {
    /// As scheduled.
    pub expected: Histogram,
    /// As sent.
    pub submitted: Histogram,
}

/// The results of a load.
#[derive(Debug, Clone)]
pub struct Figures {
    /// In a closed loop, the number of users; None in an open loop.
    pub closed: Option<usize>,
    /// By class and node.
    pub series: Vec<Series>,
    /// Time between operations of each sender, all senders together.
    pub submission: Submission,
    /// Requests and answers over time.
    pub timeline: Timeline,
    /// From the start to the last operation that was due.
    pub schedule: Span,
    /// The number of sender threads.
    pub senders: usize,
    /// From the start to the last operation sent.
    pub span: Span,
    /// Answers by code, e.g. 2.05.
    pub codes: BTreeMap<String, u64>,
    /// Messages that are neither a request nor its answer in time.
    pub others: OddCounts,
    /// Counts of observations.
    pub observed: Observed,
    /// Lines of the trace that are not valid requests.
    pub faults: u64,
    /// Errors by text, with their number.
    pub reasons: BTreeMap<String, u64>,
    /// The largest slip.
    pub max_lag: Span,
    /// The slip of the operation sent last; only if operations may wait for a
    /// connection.
    pub lag: Span,
    /// The start on the wall clock, since 1970.
    pub began: Duration,
}

impl Figures {
    /// All series in one.
    pub fn all(&self) -> Series {
        let mut all = Series::new(Method::Get, None, 3);
        self.series.iter().for_each(|series| all.add(series));
        all
    }

    /// The series of each method, added up.
    pub fn classes(&self) -> Vec<Series> {
        let mut classes: BTreeMap<Method, Series> = BTreeMap::new();
        for series in &self.series {
            classes
                .entry(series.method)
                .or_insert_with(|| Series::new(series.method, None, 3))
                .add(series);
        }
        classes.into_values().collect()
    }

    /// Whether this machine kept the schedule: nothing unsent, the mean time between
    /// operations within 1 %, and 99 % of operations late by at most 100 us or a tenth of
    /// that mean. The wait for a connection to the target does not count. A closed loop has
    /// no schedule to keep.
    pub fn pace(&self) -> Pace {
        let all = self.all();
        if self.closed.is_some() {
            return Pace::Kept;
        }
        let (expected, submitted) =
            (self.submission.expected.mean_ns(), self.submission.submitted.mean_ns());
        // In a short burst the mean is the slip of its last operation.
        let off = (submitted - expected).abs() * self.submission.expected.count() as f64;
        let off = off.max(self.lag.as_ns() as f64);
        let wrong = off > 0.01 * self.span.as_ns().max(1) as f64 && off > 1e6;
        if all.counts.unsent > 0 || wrong {
            return Pace::NotKept;
        }
        let allowed = (expected / 10.0).max(100e3);
        if all.slip.quantile_ns(0.99) as f64 > allowed { Pace::Blurred } else { Pace::Kept }
    }

    /// The results; times in us.
    pub fn results(&self) -> LoadResults {
        let all = self.all();
        let seconds = self.span.as_ns() as f64 / 1e9;
        LoadResults {
            r#loop: if self.closed.is_some() { Loop::Closed } else { Loop::Open },
            users: self.closed,
            pace: self.pace(),
            senders: self.senders,
            seconds,
            rate: if seconds > 0.0 { all.counts.sent as f64 / seconds } else { 0.0 },
            counts: all.counts,
            quarters: self.timeline.quarters(self.schedule.as_ns()),
            codes: self.codes.clone(),
            odd: OddCounts { trace_faults: self.faults, ..self.others },
            observed: self.observed,
            reasons: self.reasons.clone(),
            max_lag_us: self.max_lag.as_ns() as f64 / 1e3,
            between_expected: HistogramSummary::from(&self.submission.expected),
            between_submitted: HistogramSummary::from(&self.submission.submitted),
            between_distance: self.submission.expected.distance(&self.submission.submitted),
            all: all.results("all".to_owned(), None),
            classes: self.classes().iter().map(|class| class.of_method(None)).collect(),
            nodes: self.series.iter().map(|series| series.of_method(series.device)).collect(),
        }
    }
}

impl Series {
    fn of_method(&self, device: Option<u32>) -> SeriesResults {
        self.results(self.method.to_string(), device)
    }

    fn results(&self, class: String, device: Option<u32>) -> SeriesResults {
        SeriesResults {
            class,
            device,
            counts: self.counts,
            response_of_all: Percentiles::of(&self.response, self.counts.scheduled),
            response: HistogramSummary::from(&self.response),
            service: HistogramSummary::from(&self.service),
            slip: HistogramSummary::from(&self.slip),
            wait: self.wait.as_ref().map(HistogramSummary::from),
            notification: self.notification.as_ref().map(HistogramSummary::from),
        }
    }
}

/// Writes a log of histograms in HdrHistogram's format. Each class and node has three to
/// five histograms, distinguished by tags, e.g. `GET;3;response`; in ns.
pub fn write_log(figures: &Figures, mut out: impl io::Write) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let wrong = |error: String| io::Error::other(error);
    let began = figures.began;
    let span = Duration::from(figures.span);
    let base = std::time::UNIX_EPOCH + began;
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("thingbed load: class;device;latency, in ns")
        .with_start_time(base)
        .with_base_time(base)
        .begin_log_with(&mut out, &mut serializer)
        .map_err(|error| wrong(format!("{error:?}")))?;
    for series in &figures.series {
        let device = series.device.map_or("rest".to_owned(), |device| device.to_string());
        let wait = series.wait.as_ref().map(|times| ("wait", times));
        let notification = series.notification.as_ref().map(|times| ("notification", times));
        let always =
            [("response", &series.response), ("service", &series.service), ("slip", &series.slip)];
        for (name, spread) in always.into_iter().chain(wait).chain(notification) {
            let tag = format!("{};{device};{name}", series.method);
            let tag = Tag::new(&tag).ok_or_else(|| wrong(format!("`{tag}` is not a tag")))?;
            log.write_histogram(spread.buckets(), Duration::ZERO, span, Some(tag))
                .map_err(|error| wrong(format!("{error:?}")))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        let mut one = Series::new(Method::Get, Some(1), 3);
        let mut two = Series::new(Method::Get, Some(2), 3);
        for i in 1..=90 {
            one.response.record(i * 1_000);
            two.response.record(i * 10_000);
            two.waited(Span::from_ns(i * 100));
        }
        one.counts =
            RequestCounts { scheduled: 100, sent: 100, answered: 90, timed_out: 10, ..one.counts };
        two.counts = RequestCounts { scheduled: 90, sent: 90, answered: 90, ..two.counts };
        Figures {
            closed: None,
            series: vec![one, two],
            submission: Submission::default(),
            timeline: Timeline::default(),
            schedule: Span::ZERO,
            senders: 1,
            span: Span::from_s(1),
            codes: BTreeMap::new(),
            others: OddCounts::default(),
            observed: Observed::default(),
            faults: 0,
            reasons: BTreeMap::new(),
            max_lag: Span::ZERO,
            lag: Span::ZERO,
            began: Duration::from_secs(1),
        }
    }

    #[test]
    fn what_was_never_answered_ranks_above_every_answer() {
        let figures = figures();
        let one = Percentiles::of(&figures.series[0].response, 100);
        assert!((one.p50.unwrap() - 50.0).abs() < 0.1);
        assert!((one.p90.unwrap() - 90.0).abs() < 0.1);
        assert_eq!((one.p99, one.max), (None, None));
        let two = Percentiles::of(&figures.series[1].response, 90);
        assert!(two.max.is_some());
        assert!(Percentiles::of(&Histogram::new(), 0).p50.is_none());
    }

    #[test]
    fn series_are_merged_and_not_averaged() {
        let all = figures().all();
        assert_eq!((all.counts.scheduled, all.response.count()), (190, 180));
        // The median of both together; the average of the two medians would be 275.
        let median = all.response.quantile_ns(0.5);
        assert!((80_000..=90_100).contains(&median), "{median}");
        assert_eq!(figures().classes().len(), 1);
    }

    #[test]
    fn logs_read_back() {
        let mut log = Vec::new();
        write_log(&figures(), &mut log).unwrap();
        let read = crate::read_log(&log).unwrap();
        let of = |place: usize| {
            let history: &crate::History = &read[place];
            (history.method, history.device, history.latency, history.times.count())
        };
        assert_eq!(read.len(), 7);
        assert_eq!(of(6), (Method::Get, Some(2), crate::Latency::Wait, 90));
        assert_eq!(of(0), (Method::Get, Some(1), crate::Latency::Response, 90));
        assert_eq!(of(3), (Method::Get, Some(2), crate::Latency::Response, 90));
        let written = HistogramSummary::from(&figures().series[0].response);
        let read = HistogramSummary::from(&read[0].times);
        for (read, written) in [(read.mean, written.mean), (read.p99, written.p99)] {
            assert!((read / written - 1.0).abs() < 0.002, "{read} {written}");
        }
    }
}
