//! Runs a load: one thread feeds requests, sender threads send them.

use crate::datagram;
use crate::figures::Figures;
use crate::log::Writer;
use crate::outstanding::Outstanding;
use crate::pacer::Pacer;
use crate::request_feed::{FeedSummary, First, Origin, RequestFeed};
use crate::scheduling;
use crate::sender::{Core, Transport};
use crate::settings::Settings;
use crate::stream;
use crate::template::code_name;
use crate::time::Nanos;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use trace::{CoapError, Scheme};
use units::{Draw, Span};

/// The time between the end of the preparation and time 0 of the schedule.
const LEAD: Nanos = 100_000_000;
/// The interval of progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Why a load cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is nothing to send.
    #[error("there is nothing to send: the trace has no requests{0}")]
    Nothing(String),
    /// Settings that contradict each other or do not fit the protocol.
    #[error("invalid settings: {0}")]
    Settings(#[from] CoapError),
    /// A socket cannot be created.
    #[error("could not bind a UDP socket to {from}: {source}")]
    Socket {
        /// The local address.
        from: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The file of operations cannot be written.
    #[error("could not write {path}: {source}")]
    Operations {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A sender thread did not start, or panicked.
    #[error("sender thread: {0}")]
    Thread(String),
}

/// State that the senders share with the thread that started them.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub stop: AtomicBool,
    pub behind: AtomicU64,
    pub sent: AtomicU64,
}

/// The progress of a load.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Time since the start, in ns.
    pub elapsed: Nanos,
    /// How far this machine was behind the schedule at the operation sent last, in ns,
    /// without its wait for a connection.
    pub behind: Nanos,
    /// Operations sent.
    pub sent: u64,
}

/// Sends the requests of `origin` until its end or until `stop`. Calls `on_progress` with the
/// progress ten times a second. Returns the results, and why the trace ended early if it
/// did.
pub fn run(
    origin: Origin,
    settings: &Settings,
    stop: &AtomicBool,
    mut on_progress: impl FnMut(&Progress),
) -> Result<(Figures, Option<String>), Error> {
    let writer = match &settings.operations {
        None => None,
        Some(path) => Some(Writer::new(path).map_err(|source| operations(path, source))?),
    };
    let (request_feed, receivers) = RequestFeed::new(origin, settings);
    let shared = Shared::default();
    let ready = AtomicBool::new(false);
    let (all_outstanding, feed_summary, began) = thread::scope(|scope| {
        let (first, first_receiver) = sync_channel(1);
        let feeder = thread::Builder::new()
            .name("supply".to_owned())
            .spawn_scoped(scope, || {
                let first = first;
                request_feed.run(&first, &ready, stop)
            })
            .map_err(|error| Error::Thread(error.to_string()))?;
        let Ok(first) = first_receiver.recv() else {
            let feed_summary = feeder.join().unwrap_or_default();
            let why = feed_summary.error.or(feed_summary.reasons.first().map(str::to_owned));
            return Err(Error::Nothing(why.map(|why| format!("; {why}")).unwrap_or_default()));
        };
        let timeout = Span::from_ns(settings.timeout);
        settings.coap.check(Some(first.scheme), settings.confirmable, timeout)?;
        while !ready.load(Relaxed) && !stop.load(Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        let now = clock::now_ns();
        let start = settings.start.unwrap_or(now + LEAD);
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
            + Duration::from_nanos(start.saturating_sub(now));
        let mut senders = Vec::new();
        for (number, from) in receivers.into_iter().enumerate() {
            let log = writer.as_ref().map(Writer::log);
            let outstanding = Outstanding::new(settings.timeout, start, log);
            senders.push(sender(
                scope,
                number,
                first,
                settings,
                &shared,
                from,
                outstanding,
                start,
            )?);
        }
        while senders.iter().any(|sender| !sender.is_finished()) {
            thread::sleep(PROGRESS_INTERVAL);
            if stop.load(Relaxed) {
                shared.stop.store(true, Relaxed);
            }
            on_progress(&Progress {
                elapsed: clock::now_ns().saturating_sub(start),
                behind: shared.behind.load(Relaxed),
                sent: shared.sent.load(Relaxed),
            });
        }
        let mut all_outstanding = Vec::new();
        for sender in senders {
            all_outstanding.push(sender.join().map_err(|_| Error::Thread("panicked".to_owned()))?);
        }
        Ok((all_outstanding, feeder.join().unwrap_or_default(), began))
    })?;
    if let (Some(writer), Some(path)) = (writer, &settings.operations) {
        writer.finish().map_err(|source| operations(path, source))?;
    }
    let error = feed_summary.error.clone();
    Ok((figures(all_outstanding, &feed_summary, settings, began), error))
}

fn operations(path: &std::path::Path, source: io::Error) -> Error {
    Error::Operations { path: path.to_owned(), source }
}

/// Starts one sender.
#[allow(clippy::too_many_arguments)]
fn sender<'scope, 'env: 'scope>(
    scope: &'scope thread::Scope<'scope, 'env>,
    number: usize,
    first: First,
    settings: &'env Settings,
    shared: &'scope Shared,
    from: Receiver<crate::request_feed::Chunk>,
    outstanding: Outstanding,
    start: Nanos,
) -> Result<ScopedJoinHandle<'scope, Outstanding>, Error> {
    let closed = settings.closed.as_ref().map(|closed| {
        // Users are distributed over the senders round robin.
        let senders = settings.senders.max(1);
        (closed, closed.users / senders + usize::from(number < closed.users % senders))
    });
    let draw = Draw::new(settings.seed, number as u64, 1);
    let pacer = Pacer::new(from, start, closed, draw);
    let core = (!settings.cores.is_empty()).then(|| settings.cores[number % settings.cores.len()]);
    let builder = thread::Builder::new().name(format!("sender-{number}"));
    let state = |ipv4| Core::new(settings, shared, pacer, outstanding, ipv4);
    let spawned = match first.scheme {
        Scheme::Coap | Scheme::Udp => {
            let ipv4 = first.ipv4;
            let sender = datagram::Sender::new(first.scheme, ipv4, state(Some(ipv4)), draw)?;
            builder.spawn_scoped(scope, move || pinned(sender, core))
        }
        Scheme::Http | Scheme::Mqtt | Scheme::Tcp => {
            let sender = stream::Sender::new(first.scheme, number, state(None))
                .map_err(|error| Error::Thread(error.to_string()))?;
            builder.spawn_scoped(scope, move || pinned(sender, core))
        }
    };
    spawned.map_err(|error| Error::Thread(error.to_string()))
}

/// Runs a sender on a core, or on any.
fn pinned<'a>(mut sender: impl Transport<'a>, core: Option<usize>) -> Outstanding {
    if let Err(why) = scheduling::pin_with_priority(core) {
        sender.core().outstanding.explain(&why);
    }
    sender.run()
}

/// Merges the results of all senders.
pub(crate) fn figures(
    all_outstanding: Vec<Outstanding>,
    feed_summary: &FeedSummary,
    settings: &Settings,
    began: Duration,
) -> Figures {
    let mut figures = Figures {
        closed: settings.closed.as_ref().map(|closed| closed.users),
        series: Vec::new(),
        submission: Default::default(),
        timeline: Default::default(),
        schedule: 0,
        senders: all_outstanding.len(),
        span: 0,
        codes: BTreeMap::new(),
        others: Default::default(),
        observed: Default::default(),
        faults: feed_summary.faults,
        reasons: BTreeMap::new(),
        behind: 0,
        lag: 0,
        began,
    };
    let mut reasons = feed_summary.reasons.clone();
    for outstanding in all_outstanding {
        figures.span = figures.span.max(outstanding.span());
        figures.submission.expected.add(&outstanding.submission.expected);
        figures.submission.submitted.add(&outstanding.submission.submitted);
        figures.timeline.add(&outstanding.timeline);
        figures.schedule = figures.schedule.max(outstanding.schedule());
        figures.others.add(&outstanding.others);
        figures.observed.add(&outstanding.observed);
        figures.behind = figures.behind.max(outstanding.behind);
        figures.lag = figures.lag.max(outstanding.lag);
        for (code, count) in &outstanding.codes {
            *figures.codes.entry(code_name(*code)).or_default() += count;
        }
        reasons.add(&outstanding.reasons);
        for series in outstanding.series {
            // A device belongs to one sender; only the series for devices beyond the first
            // thousand are shared.
            let known = figures
                .series
                .iter_mut()
                .find(|known| known.method == series.method && known.device == series.device);
            match known {
                Some(known) => known.add(&series),
                None => figures.series.push(series),
            }
        }
    }
    figures.reasons = reasons.into_inner();
    figures.series.sort_by_key(|series| (series.method, series.device.is_none(), series.device));
    figures
}
