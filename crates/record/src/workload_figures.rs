//! The figures of loads, probes and exchanges in `summary.json`.

use crate::Part;
use crate::figure::{Over, figures};
use crate::pace::{Loop, Pace};
use crate::timeline::Quarter;
use std::collections::BTreeMap;
use trace::HistogramSummary;

impl Part for HistogramSummary {}

figures! {
    /// A load. Times of several senders are merged, not averaged.
    pub struct Load {
        /// `open` or `closed`
        r#loop: Loop,
        /// number of users of a closed loop
        users: Option<u32>,
        /// the requests by outcome
        #[serde(flatten)]
        counts: RequestCounts => .flat(),
        /// what else was counted
        #[serde(flatten)]
        odd: OddCounts => .flat(),
        /// share of the scheduled requests that expected an answer and got none
        unanswered_pct: f64 => .unit("%").head("unanswered"),
        /// for each quarter of the schedule: requests scheduled (`offered`), answers received
        /// (`answered`), requests that waited at its end and were answered later (`outstanding`),
        /// and the mean `response_ms` of the requests scheduled in it
        quarters: [Quarter; 4],
        /// requests sent per second by all senders
        rate: f64 => .unit("1/s"),
        /// duration
        seconds: f64 => .unit("s").over(Over::Max),
        /// answers by code, with counts
        codes: BTreeMap<String, u64>,
        /// errors by reason, with counts
        reasons: BTreeMap<String, u64>,
        /// time from the scheduled send to the answer, over all scheduled requests: those without
        /// an answer rank above all answers, and appear as null
        response_ms: LoadTimes => .unit("ms").head("response"),
        /// time from the actual send to the answer, over the same requests
        service_ms: LoadTimes => .unit("ms"),
        /// time from the scheduled to the actual send without the wait for a connection
        slip_ms: LoadTimes => .unit("ms").head("slip"),
        /// how long requests waited for a free connection to their target; requests that never got
        /// one rank above all others. Null where requests never wait, as over UDP
        wait_ms: Option<LoadTimes> => .unit("ms").head("wait"),
        /// observations, for loads that observe; else null
        observed: Option<Observed>,
        /// time between two notifications of an observation, for loads that observe; else null
        notification_ms: Option<LoadTimes> => .unit("ms"),
        /// how well each sender node kept its schedule
        senders: BTreeMap<String, Sender>,
    }

    /// The requests of a load by outcome: each scheduled request is `unsent`, `answered`,
    /// `timed_out`, `unreachable` or `without_answer`.
    #[derive(Copy)]
    pub struct RequestCounts {
        /// requests of the schedule
        scheduled: u64 => .head("requests"),
        /// requests handed to the kernel
        sent: u64,
        /// requests not sent: the run ended first, or this machine fell too far behind the schedule
        unsent: u64,
        /// requests answered in time, with any code
        answered: u64,
        /// of these, answers that report an error (4.xx, 5.xx)
        errors: u64,
        /// requests without an answer within the timeout
        timed_out: u64,
        /// of these, requests that were never sent, because no connection was free in time
        no_connection: u64,
        /// requests whose target was reported as unreachable by the kernel, the network or itself
        unreachable: u64,
        /// requests sent without waiting for an answer
        without_answer: u64,
    }

    /// What a load counted in addition to its requests.
    #[derive(Copy)]
    pub struct OddCounts {
        /// answers after the timeout
        late: u64,
        /// duplicate answers
        #[serde(alias = "twice")]
        duplicates: u64 => .earlier(&["twice"]),
        /// malformed messages
        #[serde(alias = "garbage")]
        malformed: u64 => .earlier(&["garbage"]),
        /// answers to no request
        #[serde(alias = "stray")]
        unexpected: u64 => .earlier(&["stray"]),
        /// CoAP retransmissions
        retransmitted: u64,
        /// invalid lines of a trace
        trace_faults: u64,
    }

    /// The observations of a load (RFC 7641).
    #[derive(Copy)]
    pub struct Observed {
        /// observations that the target accepted
        registered: u64,
        /// observations that the target refused: it answered without observing
        refused: u64,
        /// notifications with a newer representation
        notifications: u64,
        /// notifications that arrived after a newer one (section 3.4)
        outdated: u64,
        /// notifications that arrived when the previous value was no longer fresh (Max-Age)
        stale: u64,
        /// observations that the load cancelled and the target confirmed
        deregistered: u64,
        /// observations that the load cancelled without an answer in time
        unanswered: u64,
        /// observations that the target ended
        ended: u64,
    }

    /// Statistics of the times of a load, in the unit of their key; null for a time that only
    /// requests without an answer reach.
    pub struct LoadTimes {
        /// arithmetic mean; null unless all have an answer
        mean: Option<f64>,
        /// median
        p50: Option<f64>,
        /// 90th percentile
        p90: Option<f64>,
        /// 95th percentile
        p95: Option<f64>,
        /// 99th percentile
        p99: Option<f64>,
        /// 99.9th percentile
        p99_9: Option<f64>,
        /// maximum
        max: Option<f64>,
    }

    /// How well a node kept its schedule.
    pub struct Sender {
        /// `kept`, `blurred` or `not-kept`
        pace: Pace,
        /// requests sent per second
        rate: f64 => .unit("1/s"),
        /// maximum lag of the sender behind its schedule
        #[serde(alias = "behind_us")]
        max_lag_us: f64 => .unit("us").over(Over::Max).earlier(&["behind_us"]),
        /// scheduled interval between requests
        between_expected_us: HistogramSummary => .unit("us"),
        /// actual interval between requests
        between_submitted_us: HistogramSummary => .unit("us"),
        /// distance of the two distributions (Kolmogorov-Smirnov), 0 to 1
        between_distance: f64 => .over(Over::Max),
    }

    /// A workload of contention probes.
    pub struct Probes {
        /// configured service time
        service_ms: f64 => .unit("ms"),
        /// limit of the deviation, as a share of the service time
        limit: f64,
        /// requests
        requests: u64,
        /// share of the requests whose deviation is over the limit
        over_limit_pct: f64 => .unit("%"),
        /// deviation from the service time, as a share of it
        deviation: Option<ProbeStatistics>,
        /// deviations by core, and by mode (`sleep` or `busy`)
        cores: BTreeMap<u64, BTreeMap<String, Option<ProbeStatistics>>>,
    }

    /// Statistics of deviations, as shares of the service time.
    pub struct ProbeStatistics {
        /// arithmetic mean
        mean: f64,
        /// median
        p50: f64,
        /// 95th percentile
        p95: f64,
        /// 99th percentile
        p99: f64,
        /// maximum
        max: f64,
    }

    /// The values of one metric of programs.
    pub struct Samples {
        /// its unit, as in the experiment file; empty without one
        unit: String,
        /// values that the programs printed; for a pattern without a group, its matches, without
        /// other figures
        count: u64,
        /// their sum
        sum: f64,
        /// arithmetic mean
        mean: Option<f64> => .over(Over::Anew),
        /// minimum
        min: Option<f64> => .over(Over::Min),
        /// median
        p50: Option<f64> => .over(Over::Max),
        /// 90th percentile
        p90: Option<f64> => .over(Over::Max),
        /// 95th percentile
        p95: Option<f64> => .over(Over::Max),
        /// 99th percentile
        p99: Option<f64> => .over(Over::Max),
        /// maximum
        max: Option<f64> => .over(Over::Max),
        /// mean over the programs of the last value that each printed
        last: Option<f64> => .over(Over::Anew),
    }

    /// A workload of exchanges.
    pub struct Exchanges {
        /// name of the protocol
        protocol: String,
        /// exchanges started, without those of the `warmup`
        exchanges: u64,
        /// exchanges of the warm-up started
        warmup: u64,
        /// exchanges that failed
        failed: u64,
        /// exchanges delayed by the previous one
        late: u64,
        /// exchanges that did not fail at the driver but were never received: an MQTT broker may
        /// lose them
        undelivered: u64,
        /// failures by reason, with counts
        failures: BTreeMap<String, u64>,
        /// by payload size in bytes
        sizes: BTreeMap<u64, SizeFigures>,
    }

    /// The exchanges of one payload size; medians over those that succeeded. `low` and `high` are
    /// the ends of the median's 95 % confidence interval.
    pub struct SizeFigures {
        /// exchanges started
        exchanges: u64,
        /// exchanges that failed
        failed: u64,
        /// time from start to end
        time_ms: Option<f64> => .unit("ms"),
        /// lower end of its confidence interval
        time_low_ms: Option<f64> => .unit("ms"),
        /// upper end of its confidence interval
        time_high_ms: Option<f64> => .unit("ms"),
        /// time from start to the sink's receipt
        received_ms: Option<f64> => .unit("ms"),
        /// lower end of its confidence interval
        received_low_ms: Option<f64> => .unit("ms"),
        /// upper end of its confidence interval
        received_high_ms: Option<f64> => .unit("ms"),
        /// bytes of all frames
        bytes: Option<f64> => .unit("B"),
        /// lower end of its confidence interval
        bytes_low: Option<f64> => .unit("B"),
        /// upper end of its confidence interval
        bytes_high: Option<f64> => .unit("B"),
        /// by section of the exchange
        sections: BTreeMap<String, SectionFigures>,
    }

    /// One section of the exchanges of one payload size; medians.
    pub struct SectionFigures {
        /// exchanges with this section
        exchanges: u64,
        /// time from start to end
        time_ms: Option<f64> => .unit("ms"),
        /// lower end of its confidence interval
        time_low_ms: Option<f64> => .unit("ms"),
        /// upper end of its confidence interval
        time_high_ms: Option<f64> => .unit("ms"),
        /// bytes of all frames
        bytes: Option<f64> => .unit("B"),
        /// lower end of its confidence interval
        bytes_low: Option<f64> => .unit("B"),
        /// upper end of its confidence interval
        bytes_high: Option<f64> => .unit("B"),
        /// bytes that the driving node sent
        out_bytes: Option<f64> => .unit("B"),
        /// bytes that the driving node received
        in_bytes: Option<f64> => .unit("B"),
    }
}
