//! What came of a load.

use crate::clock::Nanos;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use trace::{Method, Spread, SpreadSummary};

/// How many operations came to what. `scheduled` is the sum of `unsent`, `answered`,
/// `timed_out`, `unreachable` and `without_answer`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// All that the schedule asked for.
    pub scheduled: u64,
    /// Handed to the kernel.
    pub sent: u64,
    /// Not sent: the run ended before, or the machine fell too far behind.
    pub unsent: u64,
    /// Answered in time, whatever the answer says.
    pub answered: u64,
    /// Of these, answers that say that something went wrong (4.xx, 5.xx).
    pub errors: u64,
    /// Without an answer in time.
    pub timed_out: u64,
    /// The kernel, the network or the target said that nobody takes them.
    pub unreachable: u64,
    /// Sent where no answer is waited for.
    pub without_answer: u64,
}

impl Counts {
    /// Takes others in.
    pub fn add(&mut self, other: &Self) {
        self.scheduled += other.scheduled;
        self.sent += other.sent;
        self.unsent += other.unsent;
        self.answered += other.answered;
        self.errors += other.errors;
        self.timed_out += other.timed_out;
        self.unreachable += other.unreachable;
        self.without_answer += other.without_answer;
    }
}

/// Operations of one class at one node: a method and a device.
#[derive(Debug, Clone)]
pub struct Series {
    /// The class.
    pub method: Method,
    /// The node; none are those beyond the first thousand series.
    pub device: Option<u32>,
    /// What they came to.
    pub counts: Counts,
    /// From the intended moment to the answer.
    pub response: Spread,
    /// From the moment sent to the answer.
    pub service: Spread,
    /// From the intended moment to the moment sent.
    pub slip: Spread,
}

impl Series {
    /// Without operations; with times to so many significant digits.
    pub fn new(method: Method, device: Option<u32>, digits: u8) -> Self {
        let spread = || Spread::with_digits(digits);
        Self {
            method,
            device,
            counts: Counts::default(),
            response: spread(),
            service: spread(),
            slip: spread(),
        }
    }

    /// Takes another in: counts are added, nothing is averaged.
    pub fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.response.add(&other.response);
        self.service.add(&other.service);
        self.slip.add(&other.slip);
    }
}

/// The schedule's time between operations, and the one that was had.
#[derive(Debug, Clone, Default)]
pub struct Submission {
    /// As asked for.
    pub expected: Spread,
    /// As sent.
    pub submitted: Spread,
}

/// What came of a load.
#[derive(Debug, Clone)]
pub struct Figures {
    /// Whether requests waited for answers: how many users there were.
    pub closed: Option<usize>,
    /// By class and node.
    pub series: Vec<Series>,
    /// Time between operations, of each sender, together.
    pub submission: Submission,
    /// Threads that sent.
    pub senders: usize,
    /// From the start to the last operation sent, in ns.
    pub span: Nanos,
    /// Answers by what they say, e.g. 2.05.
    pub codes: BTreeMap<String, u64>,
    /// Answers that came after their time.
    pub late: u64,
    /// Answers that came again.
    pub twice: u64,
    /// What came and is no message of the protocol.
    pub garbage: u64,
    /// Answers to nothing that was asked, or from elsewhere.
    pub stray: u64,
    /// Lines of the trace that are no requests.
    pub faults: u64,
    /// What went wrong, in words, and how often.
    pub reasons: BTreeMap<String, u64>,
    /// The furthest behind the schedule, in ns.
    pub behind: Nanos,
    /// When it started on the wall clock, since 1970.
    pub began: Duration,
}

/// Percentiles over all operations that were scheduled, in us: what was never answered
/// ranks above every answer, and a percentile among those has no value.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Percentiles {
    /// The median.
    pub p50: Option<f64>,
    /// What 90 % do not exceed.
    pub p90: Option<f64>,
    /// What 99 % do not exceed.
    pub p99: Option<f64>,
    /// What 99.9 % do not exceed.
    pub p99_9: Option<f64>,
    /// The greatest.
    pub max: Option<f64>,
}

/// Whether the schedule was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// It was.
    Kept,
    /// The rate was kept, single operations were late.
    Blurred,
    /// The machine could not.
    NotKept,
}

impl Percentiles {
    /// Of the `times` of those that have one among `all`.
    pub fn of(times: &Spread, all: u64) -> Self {
        let at = |q| Self::at(times, all, q);
        Self { p50: at(0.5), p90: at(0.9), p99: at(0.99), p99_9: at(0.999), max: at(1.0) }
    }

    /// What a share `q`, 0 to 1, of `all` do not exceed, in us; nothing if that is one
    /// without a time.
    pub fn at(times: &Spread, all: u64, q: f64) -> Option<f64> {
        let rank = (q * all as f64).ceil().max(1.0);
        (times.count() > 0 && rank <= times.count() as f64)
            .then(|| times.quantile_ns(rank / times.count() as f64) as f64 / 1e3)
    }
}

impl Figures {
    /// All series in one.
    pub fn all(&self) -> Series {
        let mut all = Series::new(Method::Get, None, 3);
        self.series.iter().for_each(|series| all.add(series));
        all
    }

    /// All series of each method in one.
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

    /// Whether the schedule was kept: nothing left unsent, the mean time between operations
    /// right to 1 %, and 99 % of operations late by no more than 100 us or a tenth of that
    /// mean. A closed loop has no schedule to keep.
    pub fn pace(&self) -> Pace {
        let all = self.all();
        if self.closed.is_some() {
            return Pace::Kept;
        }
        let (expected, submitted) =
            (self.submission.expected.mean_ns(), self.submission.submitted.mean_ns());
        // Of a short burst the mean is the slip of its last one.
        let off = (submitted - expected).abs() * self.submission.expected.count() as f64;
        let wrong = off > 0.01 * self.span.max(1) as f64 && off > 1e6;
        if all.counts.unsent > 0 || wrong {
            return Pace::NotKept;
        }
        let allowed = (expected / 10.0).max(100e3);
        if all.slip.quantile_ns(0.99) as f64 > allowed { Pace::Blurred } else { Pace::Kept }
    }

    /// As JSON for the summary; times in us.
    pub fn json(&self) -> impl Serialize + use<> {
        let all = self.all();
        let seconds = self.span as f64 / 1e9;
        Json {
            r#loop: if self.closed.is_some() { "closed" } else { "open" },
            users: self.closed,
            pace: self.pace(),
            senders: self.senders,
            seconds,
            rate: if seconds > 0.0 { all.counts.sent as f64 / seconds } else { 0.0 },
            counts: all.counts,
            codes: self.codes.clone(),
            late: self.late,
            twice: self.twice,
            garbage: self.garbage,
            stray: self.stray,
            trace_faults: self.faults,
            reasons: self.reasons.clone(),
            behind_us: self.behind as f64 / 1e3,
            between_expected: self.submission.expected.summary(),
            between_submitted: self.submission.submitted.summary(),
            between_distance: self.submission.expected.distance(&self.submission.submitted),
            all: JsonSeries::new("all".to_owned(), None, &all),
            classes: self
                .classes()
                .iter()
                .map(|series| JsonSeries::new(series.method.to_string(), None, series))
                .collect(),
            nodes: self
                .series
                .iter()
                .map(|series| JsonSeries::new(series.method.to_string(), series.device, series))
                .collect(),
        }
    }
}

#[derive(Serialize)]
struct Json {
    r#loop: &'static str,
    users: Option<usize>,
    pace: Pace,
    senders: usize,
    seconds: f64,
    rate: f64,
    counts: Counts,
    codes: BTreeMap<String, u64>,
    late: u64,
    twice: u64,
    garbage: u64,
    stray: u64,
    trace_faults: u64,
    reasons: BTreeMap<String, u64>,
    behind_us: f64,
    between_expected: SpreadSummary,
    between_submitted: SpreadSummary,
    between_distance: f64,
    all: JsonSeries,
    classes: Vec<JsonSeries>,
    nodes: Vec<JsonSeries>,
}

#[derive(Serialize)]
struct JsonSeries {
    class: String,
    device: Option<u32>,
    counts: Counts,
    response_of_all: Percentiles,
    response: SpreadSummary,
    service: SpreadSummary,
    slip: SpreadSummary,
}

impl JsonSeries {
    fn new(class: String, device: Option<u32>, series: &Series) -> Self {
        Self {
            class,
            device,
            counts: series.counts,
            response_of_all: Percentiles::of(&series.response, series.counts.scheduled),
            response: series.response.summary(),
            service: series.service.summary(),
            slip: series.slip.summary(),
        }
    }
}

/// Writes a log of histograms as HdrHistogram's tools read it: for each class and node
/// three, told apart by their tags, e.g. `GET;3;response`; in ns.
pub fn write_log(figures: &Figures, mut out: impl io::Write) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let wrong = |error: String| io::Error::other(error);
    let began = figures.began;
    let span = Duration::from_nanos(figures.span);
    let base = std::time::UNIX_EPOCH + began;
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment("thingbed load: class;device;latency, in ns")
        .with_start_time(base)
        .with_base_time(base)
        .begin_log_with(&mut out, &mut serializer)
        .map_err(|error| wrong(format!("{error:?}")))?;
    for series in &figures.series {
        let device = series.device.map_or("rest".to_owned(), |device| device.to_string());
        for (name, spread) in
            [("response", &series.response), ("service", &series.service), ("slip", &series.slip)]
        {
            let tag = format!("{};{device};{name}", series.method);
            let tag = Tag::new(&tag).ok_or_else(|| wrong(format!("`{tag}` is no tag")))?;
            log.write_histogram(spread.histogram(), Duration::ZERO, span, Some(tag))
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
        }
        one.counts =
            Counts { scheduled: 100, sent: 100, answered: 90, timed_out: 10, ..one.counts };
        two.counts = Counts { scheduled: 90, sent: 90, answered: 90, ..two.counts };
        Figures {
            closed: None,
            series: vec![one, two],
            submission: Submission::default(),
            senders: 1,
            span: 1_000_000_000,
            codes: BTreeMap::new(),
            late: 0,
            twice: 0,
            garbage: 0,
            stray: 0,
            faults: 0,
            reasons: BTreeMap::new(),
            behind: 0,
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
        assert!(Percentiles::of(&Spread::new(), 0).p50.is_none());
    }

    #[test]
    fn series_are_merged_and_not_averaged() {
        let all = figures().all();
        assert_eq!((all.counts.scheduled, all.response.count()), (190, 180));
        // Of both together; the average of the medians would be 275.
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
        assert_eq!(read.len(), 6);
        assert_eq!(of(0), (Method::Get, Some(1), crate::Latency::Response, 90));
        assert_eq!(of(3), (Method::Get, Some(2), crate::Latency::Response, 90));
        let written = figures().series[0].response.summary();
        let read = read[0].times.summary();
        for (read, written) in [(read.mean, written.mean), (read.p99, written.p99)] {
            assert!((read / written - 1.0).abs() < 0.002, "{read} {written}");
        }
    }
}
