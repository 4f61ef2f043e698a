//! Runs a load: one thread feeds requests, sender threads send them.

use crate::book::Book;
use crate::clock::{self, Nanos};
use crate::datagram;
use crate::figures::Figures;
use crate::log::Writer;
use crate::pace::Pace;
use crate::settings::Settings;
use crate::stream;
use crate::supply::{First, Origin, Supplied, Supply};
use crate::template::code_name;
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
const TOLD: Duration = Duration::from_millis(100);

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
    #[error("could not send from {from}: {source}")]
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
    pub ipv4: AtomicBool,
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

/// Sends the requests of `origin` until its end or until `stop`. Calls `tell` with the
/// progress ten times a second. Returns the results, and why the trace ended early if it
/// did.
pub fn run(
    origin: Origin,
    settings: &Settings,
    stop: &AtomicBool,
    mut tell: impl FnMut(&Progress),
) -> Result<(Figures, Option<String>), Error> {
    let writer = match &settings.operations {
        None => None,
        Some(path) => Some(Writer::new(path).map_err(|source| operations(path, source))?),
    };
    let (supply, receivers) = Supply::new(origin, settings);
    let shared = Shared::default();
    let ready = AtomicBool::new(false);
    let (books, supplied, began) = thread::scope(|scope| {
        let (first, heard) = sync_channel(1);
        let supplier = thread::Builder::new()
            .name("supply".to_owned())
            .spawn_scoped(scope, || {
                let first = first;
                supply.run(&first, &ready, stop)
            })
            .map_err(|error| Error::Thread(error.to_string()))?;
        let Ok(first) = heard.recv() else {
            let supplied = supplier.join().unwrap_or_default();
            let why = supplied.error.or(supplied.reasons.first().map(str::to_owned));
            return Err(Error::Nothing(why.map(|why| format!("; {why}")).unwrap_or_default()));
        };
        let timeout = Span::from_ns(settings.timeout);
        settings.coap.check(Some(first.scheme), settings.confirmable, timeout)?;
        shared.ipv4.store(first.ipv4, Relaxed);
        while !ready.load(Relaxed) && !stop.load(Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        let now = clock::now();
        let start = settings.start.unwrap_or(now + LEAD);
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
            + Duration::from_nanos(start.saturating_sub(now));
        let mut senders = Vec::new();
        for (number, from) in receivers.into_iter().enumerate() {
            let log = writer.as_ref().map(Writer::log);
            let book = Book::new(settings.timeout, start, log);
            senders.push(sender(scope, number, first, settings, &shared, from, book, start)?);
        }
        while senders.iter().any(|sender| !sender.is_finished()) {
            thread::sleep(TOLD);
            if stop.load(Relaxed) {
                shared.stop.store(true, Relaxed);
            }
            tell(&Progress {
                elapsed: clock::now().saturating_sub(start),
                behind: shared.behind.load(Relaxed),
                sent: shared.sent.load(Relaxed),
            });
        }
        let mut books = Vec::new();
        for sender in senders {
            books.push(sender.join().map_err(|_| Error::Thread("panicked".to_owned()))?);
        }
        Ok((books, supplier.join().unwrap_or_default(), began))
    })?;
    if let (Some(writer), Some(path)) = (writer, &settings.operations) {
        writer.finish().map_err(|source| operations(path, source))?;
    }
    let error = supplied.error.clone();
    Ok((figures(books, &supplied, settings, began), error))
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
    from: Receiver<crate::supply::Chunk>,
    book: Book,
    start: Nanos,
) -> Result<ScopedJoinHandle<'scope, Book>, Error> {
    let closed = settings.closed.as_ref().map(|closed| {
        // Users are distributed over the senders round robin.
        let senders = settings.senders.max(1);
        (closed, closed.users / senders + usize::from(number < closed.users % senders))
    });
    let draw = Draw::new(settings.seed, number as u64, 1);
    let pace = Pace::new(from, start, closed, draw);
    let core = (!settings.cores.is_empty()).then(|| settings.cores[number % settings.cores.len()]);
    let place = move |book: &mut Book| {
        if let Err(why) = clock::place(core) {
            book.explain(&why);
        }
    };
    let builder = thread::Builder::new().name(format!("sender-{number}"));
    let spawned = match first.scheme {
        Scheme::Coap | Scheme::Udp => {
            let (scheme, ipv4) = (first.scheme, first.ipv4);
            let sender = datagram::Sender::new(scheme, ipv4, settings, shared, pace, book, draw)?;
            builder.spawn_scoped(scope, move || {
                let mut sender = sender;
                place(sender.book());
                sender.run()
            })
        }
        Scheme::Http | Scheme::Mqtt | Scheme::Tcp => {
            let sender = stream::Sender::new(first.scheme, number, settings, shared, pace, book)
                .map_err(|error| Error::Thread(error.to_string()))?;
            builder.spawn_scoped(scope, move || {
                let mut sender = sender;
                place(sender.book());
                sender.run()
            })
        }
    };
    spawned.map_err(|error| Error::Thread(error.to_string()))
}

/// Merges the results of all senders.
pub(crate) fn figures(
    books: Vec<Book>,
    supplied: &Supplied,
    settings: &Settings,
    began: Duration,
) -> Figures {
    let mut figures = Figures {
        closed: settings.closed.as_ref().map(|closed| closed.users),
        series: Vec::new(),
        submission: Default::default(),
        timeline: Default::default(),
        schedule: 0,
        senders: books.len(),
        span: 0,
        codes: BTreeMap::new(),
        late: 0,
        twice: 0,
        garbage: 0,
        stray: 0,
        retransmitted: 0,
        observed: Default::default(),
        faults: supplied.faults,
        reasons: BTreeMap::new(),
        behind: 0,
        lag: 0,
        began,
    };
    let mut reasons = supplied.reasons.clone();
    for book in books {
        figures.span = figures.span.max(book.span());
        figures.submission.expected.add(&book.submission.expected);
        figures.submission.submitted.add(&book.submission.submitted);
        figures.timeline.add(&book.timeline);
        figures.schedule = figures.schedule.max(book.schedule());
        figures.late += book.late;
        figures.twice += book.twice;
        figures.garbage += book.garbage;
        figures.stray += book.stray;
        figures.retransmitted += book.retransmitted;
        figures.observed.add(&book.observed);
        figures.behind = figures.behind.max(book.behind);
        figures.lag = figures.lag.max(book.lag);
        for (code, count) in &book.codes {
            *figures.codes.entry(code_name(*code)).or_default() += count;
        }
        reasons.add(&book.reasons);
        for series in book.series {
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
