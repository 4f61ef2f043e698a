//! Runs a load: one thread feeds requests, sender threads send them.

use crate::datagram;
use crate::error::Error;
use crate::figures::Figures;
use crate::log::Writer;
use crate::outstanding::Outstanding;
use crate::pacer::Pacer;
use crate::request_feed::{FeedSummary, First, Origin, RequestFeed};
use crate::scheduling;
use crate::sender::{Core, Transport};
use crate::settings::Settings;
use crate::shared::Shared;
use crate::stream;
use crate::template::code_name;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use trace::Scheme;
use units::{Draw, Instant, Span};

/// The time between the end of the preparation and time 0 of the schedule.
const LEAD: Span = Span::from_ms(100);
/// The interval of progress reports.
const PROGRESS_INTERVAL: Span = Span::from_ms(100);

/// The progress of a load.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Time since the start.
    pub elapsed: Span,
    /// How far this machine was behind the schedule at the operation sent last,
    /// without its wait for a connection.
    pub lag: Span,
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
        settings.coap.check(Some(first.scheme), settings.confirmable, settings.timeout)?;
        // The schedule begins when the channels are full, so that senders do not starve at the
        // start; but not after a start time that others share.
        let mut last_report = clock::now();
        let is_due = || settings.start.is_some_and(|start| clock::now() >= start);
        while !ready.load(Relaxed) && !is_due() && !stop.load(Relaxed) {
            thread::sleep(Duration::from_millis(1));
            // The caller may set `stop`.
            if clock::now() - last_report >= PROGRESS_INTERVAL {
                last_report = clock::now();
                on_progress(&Progress { elapsed: Span::ZERO, lag: Span::ZERO, sent: 0 });
            }
        }
        shared.stop.store(stop.load(Relaxed), Relaxed);
        let now = clock::now();
        let start = settings.start.unwrap_or(now + LEAD);
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
            + Duration::from(start - now);
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
            thread::sleep(PROGRESS_INTERVAL.into());
            if stop.load(Relaxed) {
                shared.stop.store(true, Relaxed);
            }
            on_progress(&Progress {
                elapsed: clock::now() - start,
                lag: Span::from_ns(shared.lag.load(Relaxed)),
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
    start: Instant,
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
        schedule: Span::ZERO,
        senders: all_outstanding.len(),
        span: Span::ZERO,
        codes: BTreeMap::new(),
        others: Default::default(),
        observed: Default::default(),
        faults: feed_summary.faults,
        reasons: BTreeMap::new(),
        max_lag: Span::ZERO,
        lag: Span::ZERO,
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
        figures.max_lag = figures.max_lag.max(outstanding.max_lag);
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
