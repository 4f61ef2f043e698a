//! The request feed: a separate thread reads or generates operations well ahead of time and
//! passes them to the senders, in bounded memory.

use crate::reasons::Reasons;
use crate::settings::Settings;
use crate::template::Template;
use std::collections::HashMap;
use std::io::BufRead;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use trace::{Method, Reader, Request, Requests, Scheme, Target};
use units::Span;

/// Operations per chunk.
const CHUNK: usize = 4_096;
/// Chunks on their way to a sender: a million operations, 16 MB.
const MAX_CHUNKS: usize = 256;
/// The maximum number of different requests.
const MAX_TEMPLATES: usize = 1_000_000;
/// The maximum number of separate series of class and node.
const MAX_SERIES: usize = 1_024;

/// Where requests come from.
pub enum Origin {
    /// A generator.
    Made(Requests),
    /// A trace.
    Read(Reader<Box<dyn BufRead + Send>>),
}

/// One operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    /// The time since the start.
    pub at: Span,
    /// The index of its request template.
    pub template: u32,
    /// The index of its class and node.
    pub series: u32,
}

/// Operations, with the templates and series that are new to the sender.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub operations: Vec<Operation>,
    pub templates: Vec<Template>,
    pub series: Vec<(Method, Option<u32>)>,
}

/// The result of reading: the number of lines that are not valid requests, and the first
/// errors.
#[derive(Debug, Default)]
pub(crate) struct FeedSummary {
    pub faults: u64,
    pub reasons: Reasons,
    /// Why reading ended early.
    pub error: Option<String>,
}

/// One sender's part.
struct Part {
    to: SyncSender<Chunk>,
    chunk: Chunk,
    templates: HashMap<(Method, Option<u32>), HashMap<String, u32>>,
    template_count: u32,
    series: HashMap<(Method, u32), u32>,
    rest: HashMap<Method, u32>,
    disconnected: bool,
}

/// Reads all requests and distributes them to the senders.
pub(crate) struct RequestFeed {
    origin: Origin,
    settings: Settings,
    parts: Vec<Part>,
    addresses: HashMap<(String, u16), Result<SocketAddr, String>>,
    scheme: Option<Scheme>,
    feed_summary: FeedSummary,
}

/// What the first request determines for all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct First {
    pub scheme: Scheme,
    pub ipv4: bool,
}

impl RequestFeed {
    /// A feed for the configured number of senders, with a receiver for each.
    pub fn new(origin: Origin, settings: &Settings) -> (Self, Vec<Receiver<Chunk>>) {
        let mut parts = Vec::new();
        let mut receivers = Vec::new();
        for _ in 0..settings.senders.max(1) {
            let (to, from) = sync_channel(MAX_CHUNKS);
            receivers.push(from);
            parts.push(Part {
                to,
                chunk: Chunk::default(),
                templates: HashMap::new(),
                template_count: 0,
                series: HashMap::new(),
                rest: HashMap::new(),
                disconnected: false,
            });
        }
        let this = Self {
            origin,
            settings: settings.clone(),
            parts,
            addresses: HashMap::new(),
            scheme: None,
            feed_summary: FeedSummary::default(),
        };
        (this, receivers)
    }

    /// Feeds requests until the end, until all receivers are gone, or until `stop`. Sends
    /// the first request's properties to `first`. Sets `ready` when the channels are full
    /// or everything is sent.
    pub fn run(
        mut self,
        first: &SyncSender<First>,
        ready: &AtomicBool,
        stop: &AtomicBool,
    ) -> FeedSummary {
        let mut flushed = 0;
        while !stop.load(Relaxed) {
            match self.next(first) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.feed_summary.error = Some(error);
                    break;
                }
            }
            if self.parts.iter().any(|part| part.chunk.operations.len() >= CHUNK) {
                flushed += 1;
                // One chunk before the channel is full and this thread blocks.
                if flushed >= MAX_CHUNKS - 1 {
                    ready.store(true, Relaxed);
                }
                self.flush();
                if self.parts.iter().all(|part| part.disconnected) {
                    break;
                }
            }
        }
        ready.store(true, Relaxed);
        self.flush();
        self.feed_summary
    }

    /// Sends all parts at once, so that no sender starves while another's channel is full.
    fn flush(&mut self) {
        for part in &mut self.parts {
            let chunk = std::mem::take(&mut part.chunk);
            part.chunk.operations.reserve(CHUNK);
            part.disconnected = part.disconnected || part.to.send(chunk).is_err();
        }
    }

    /// Processes one request. Returns whether there was one.
    fn next(&mut self, first: &SyncSender<First>) -> Result<bool, String> {
        let Self { origin, settings, parts, addresses, scheme, feed_summary } = self;
        let request = match origin {
            Origin::Made(requests) => match requests.read() {
                Some(request) => request,
                None => return Ok(false),
            },
            Origin::Read(reader) => match reader.read() {
                Ok(None) => return Ok(false),
                Ok(Some(Ok(request))) => request,
                Ok(Some(Err(fault))) => {
                    feed_summary.faults += 1;
                    if feed_summary.reasons.len() < 10 {
                        feed_summary.reasons.count(&format!("trace {fault}"));
                    }
                    return Ok(true);
                }
                Err(error) => return Err(format!("could not read the trace: {error}")),
            },
        };
        let target = Target::parse(request.uri).map_err(|error| error.to_string())?;
        let known = *scheme.get_or_insert(target.scheme);
        if !is_compatible(known, target.scheme) {
            return Err(format!(
                "{} requests among {known}:// requests: a load has one protocol; split the trace",
                request.uri
            ));
        }
        let count = parts.len();
        // A device belongs to one sender, so its requests stay in order.
        let part = &mut parts[request.device as usize % count];
        let template = match part.known(&request) {
            Some(template) => template,
            None => {
                let to = resolve(addresses, &target);
                if addresses.len() == 1 {
                    let ipv4 = to.as_ref().map_or(true, SocketAddr::is_ipv4);
                    let _ = first.try_send(First { scheme: known, ipv4 });
                }
                part.add(
                    &request,
                    Template::new(to, &target, request.method, request.size, settings),
                )?
            }
        };
        let series = part.series(request.method, request.device);
        part.chunk.operations.push(Operation { at: Span::from_ns(request.at), template, series });
        Ok(true)
    }
}

/// Whether one load can have requests of both schemes: a sender handles only one protocol.
fn is_compatible(one: Scheme, other: Scheme) -> bool {
    one == other
}

fn resolve(
    addresses: &mut HashMap<(String, u16), Result<SocketAddr, String>>,
    target: &Target,
) -> Result<SocketAddr, String> {
    let key = (target.host.to_owned(), target.port);
    let look = || match (target.host, target.port).to_socket_addrs() {
        // Prefers IPv4, which most devices have.
        Ok(found) => {
            let found: Vec<_> = found.collect();
            let best = found.iter().find(|address| address.is_ipv4()).or(found.first());
            best.copied().ok_or_else(|| format!("`{}` has no address", target.host))
        }
        Err(error) => Err(format!("`{}` has no address: {error}", target.host)),
    };
    addresses.entry(key).or_insert_with(look).clone()
}

impl Part {
    fn known(&self, request: &Request) -> Option<u32> {
        self.templates.get(&(request.method, request.size))?.get(request.uri).copied()
    }

    fn add(&mut self, request: &Request, template: Template) -> Result<u32, String> {
        if self.template_count as usize == MAX_TEMPLATES {
            return Err(format!("the trace has more than {MAX_TEMPLATES} different requests"));
        }
        let number = self.template_count;
        self.template_count += 1;
        self.templates
            .entry((request.method, request.size))
            .or_default()
            .insert(request.uri.to_owned(), number);
        self.chunk.templates.push(template);
        Ok(number)
    }

    fn series(&mut self, method: Method, device: u32) -> u32 {
        if let Some(known) = self.series.get(&(method, device)) {
            return *known;
        }
        let next = (self.series.len() + self.rest.len()) as u32;
        if self.series.len() < MAX_SERIES {
            self.series.insert((method, device), next);
            self.chunk.series.push((method, Some(device)));
            return next;
        }
        match self.rest.entry(method) {
            std::collections::hash_map::Entry::Occupied(known) => *known.get(),
            std::collections::hash_map::Entry::Vacant(new) => {
                self.chunk.series.push((method, None));
                *new.insert(next)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed_summary(text: &str, senders: usize) -> (FeedSummary, Vec<Vec<Chunk>>) {
        let input: Box<dyn BufRead + Send> =
            Box::new(std::io::Cursor::new(text.to_owned().into_bytes()));
        let settings = Settings { senders, ..Settings::default() };
        let (request_feed, receivers) =
            RequestFeed::new(Origin::Read(Reader::new(input)), &settings);
        let (first, receiver) = sync_channel(1);
        let ready = AtomicBool::new(false);
        let feed_summary = request_feed.run(&first, &ready, &AtomicBool::new(false));
        assert!(ready.load(Relaxed));
        drop(receiver);
        (feed_summary, receivers.into_iter().map(|from| from.into_iter().collect()).collect())
    }

    #[test]
    fn every_request_goes_to_one_sender_and_is_made_once() {
        let text = "0, 0, GET, coap://127.0.0.1/a\n1, 1, GET, coap://127.0.0.1/a\n\
                    2, 2, GET, coap://127.0.0.1/a\n0, 3, GET, coap://127.0.0.1/a\n";
        let (feed_summary, parts) = feed_summary(text, 2);
        assert!(feed_summary.error.is_none());
        assert_eq!(parts[0][0].operations.len(), 3);
        assert_eq!(parts[0][0].templates.len(), 1);
        assert_eq!(parts[0][0].series, [(Method::Get, Some(0)), (Method::Get, Some(2))]);
        assert_eq!(parts[1][0].operations.len(), 1);
    }

    #[test]
    fn mistakes_are_counted_and_the_rest_goes_on() {
        let text = "nonsense\n0, 0, GET, coap://127.0.0.1/a\n";
        let (feed_summary, parts) = feed_summary(text, 1);
        assert_eq!((feed_summary.faults, parts[0][0].operations.len()), (1, 1));
        assert!(feed_summary.reasons.first().unwrap().contains("line 1"));
    }

    #[test]
    fn protocols_do_not_mix() {
        let text = "0, 0, GET, coap://127.0.0.1/a\n0, 0, GET, http://127.0.0.1/a\n";
        assert!(feed_summary(text, 1).0.error.unwrap().contains("one protocol"));
    }

    #[test]
    fn beyond_a_thousand_devices_they_are_counted_together() {
        let text: String =
            (0..1_100).map(|i| format!("{i}, {i}, GET, coap://127.0.0.1/a\n")).collect();
        let (_, parts) = feed_summary(&text, 1);
        assert_eq!(parts[0][0].series.len(), MAX_SERIES + 1);
        assert_eq!(parts[0][0].operations[1_099].series as usize, MAX_SERIES);
    }
}
