//! The collector of a node: receives the StatsD datagrams and OpenTelemetry exports of its programs, and
//! reads their pages of Prometheus metrics.

mod batch;
mod otlp;
mod statsd;

use crate::control::Control;
use crate::error::Error;
use crate::events::EventsFile;
use crate::log::one_line;
use batch::{Batch, REPORTED};
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use record::SeriesSelector;
use record::control::{Command, Status};
use record::event::{Collected, CollectorSource};
use record::spec::{CollectorSpec, PageSpec, StatsdSpec};
use socket2::{Domain, Socket, Type};
use statsd::Statsd;
use std::collections::BTreeSet;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Receive buffer: programs send in bursts, and the collector must not lose what they report.
const RECEIVE_BUFFER: usize = 4 << 20;
/// Largest datagram.
const DATAGRAM: usize = 65_536;
/// Largest page, in bytes.
const PAGE_LIMIT: usize = 16 << 20;
/// Longest wait for a page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Most values that a collector keeps, 40 B each on the disk: programs may send without end.
const VALUES: u64 = 2_000_000;
/// Longest name or line of a program that is reported, in characters.
const LONGEST: usize = 100;

/// Collects until a stop message.
///
/// # Errors
/// The port is in use, or the events cannot be written.
pub fn run(spec: &CollectorSpec, control: &mut Control) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(Error::io("start the collector"))?.block_on(collect(spec, control))
}

async fn collect(spec: &CollectorSpec, control: &mut Control) -> Result<(), Error> {
    let mut log = Log {
        events: EventsFile::append(&spec.events)?,
        remarks: BTreeSet::new(),
        values: 0,
        malformed: 0,
    };
    let mut receiver = spec.statsd.as_ref().map(Datagrams::bind).transpose()?;
    let (sender, mut pages) = channel(16);
    if let Some(otlp) = &spec.otlp {
        // Before the program is ready, so that no export of the node's programs is refused.
        otlp::serve(otlp, sender.clone()).await?;
    }
    for (number, page) in (0..).zip(&spec.pages) {
        tokio::spawn(read_repeatedly(number, page.clone(), sender.clone()));
    }
    // SAFETY: an `OwnedFd` is the same open descriptor until it is dropped.
    let stop = control.copy().and_then(|copy| unsafe { Ok(AsyncFd::register(copy)?) });
    let stop = stop.map_err(Error::io("wait for messages"))?;
    control.send_status(&Status::Ready {})?;
    loop {
        tokio::select! {
            found = Datagrams::next(&mut receiver) => found.and_then(|()| receive(&mut receiver, &mut log))?,
            Some(found) = pages.recv() => log.batch(&found)?,
            stopped = stopped(&stop, control) => {
                stopped?;
                break;
            }
        }
    }
    // Datagrams that programs sent before they ended.
    receive(&mut receiver, &mut log)?;
    drain(&mut pages, &mut log)?;
    log.end()
}

/// Waits for a stop message.
async fn stopped(stop: &AsyncFd<OwnedFd>, control: &mut Control) -> Result<(), Error> {
    loop {
        let mut guard = stop.readable().await.map_err(Error::io("wait for messages"))?;
        guard.clear_ready();
        if control.read()?.contains(&Command::Stop {}) {
            return Ok(());
        }
    }
}

/// The socket for StatsD.
struct Datagrams<'a> {
    socket: UdpSocket,
    spec: &'a StatsdSpec,
    statsd: Statsd,
    buffer: Vec<u8>,
}

impl<'a> Datagrams<'a> {
    fn bind(spec: &'a StatsdSpec) -> Result<Self, Error> {
        let address = spec.address;
        let failed = |source| Error::Address {
            operation: format!("receive StatsD metrics on {address}"),
            source,
        };
        let open = || {
            let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
            // Its predecessor, which a fault killed, may not have ended yet.
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            // A smaller buffer also works.
            let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
            socket.set_nonblocking(true)?;
            UdpSocket::from_std(socket.into())
        };
        let socket = open().map_err(failed)?;
        Ok(Self { socket, spec, statsd: Statsd::default(), buffer: vec![0; DATAGRAM] })
    }

    /// Waits for a datagram; for ever without a socket.
    async fn next(receiver: &mut Option<Self>) -> Result<(), Error> {
        match receiver {
            Some(own) => own.socket.readable().await.map_err(Error::io("receive StatsD metrics")),
            None => std::future::pending().await,
        }
    }
}

/// Records the datagrams that have arrived.
fn receive(receiver: &mut Option<Datagrams<'_>>, log: &mut Log) -> Result<(), Error> {
    let Some(Datagrams { socket, spec, statsd, buffer }) = receiver else { return Ok(()) };
    loop {
        let length = match socket.try_recv(buffer) {
            Ok(length) => length,
            // What has arrived survives if the node's programs are killed.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return log.events.save(),
            Err(error) => return Err(Error::io("receive StatsD metrics")(error)),
        };
        let time_ns = clock::now_ns();
        let text = String::from_utf8_lossy(&buffer[..length]);
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let is_kept = |name: &str| spec.names.iter().any(|kept| kept == name);
            match statsd.line(line, is_kept) {
                Some((name, values)) if is_kept(name) => {
                    for value in values {
                        log.value(Collected {
                            time_ns,
                            source: CollectorSource::Statsd,
                            name: name.to_owned(),
                            value: Some(value),
                            page: None,
                        })?;
                    }
                }
                Some((name, _)) => log.remark(time_ns, CollectorSource::Statsd, None, name)?,
                None => log.malformed(line),
            }
        }
    }
}

/// The output of a collector.
struct Log {
    events: EventsFile<Collected>,
    /// The page and the text of each remark.
    remarks: BTreeSet<(Option<u32>, String)>,
    /// Number of values so far.
    values: u64,
    malformed: u64,
}

impl Log {
    fn value(&mut self, value: Collected) -> Result<(), Error> {
        self.values += 1;
        if self.values > VALUES {
            return Err(Error::protocol(
                "collect metrics",
                format!(
                    "the programs sent more than {VALUES} values; the later ones are missing. Send \
                     fewer, for example with a sample rate, or sums instead of single values"
                ),
            ));
        }
        self.events.push(&value)
    }

    /// Records once a name that is not in the spec, so that a misspelt one can be corrected, or why a page
    /// was not read.
    fn remark(
        &mut self,
        time_ns: u64,
        source: CollectorSource,
        page: Option<u32>,
        text: &str,
    ) -> Result<(), Error> {
        // It becomes part of a message to the user.
        let name = one_line(text, LONGEST);
        if self.remarks.len() >= REPORTED || !self.remarks.insert((page, name.clone())) {
            return Ok(());
        }
        self.events.push(&Collected { time_ns, source, name, value: None, page })
    }

    fn malformed(&mut self, line: &str) {
        self.malformed += 1;
        if self.malformed <= REPORTED as u64 {
            let line = one_line(line, LONGEST);
            crate::log!("not StatsD's line format (name:value|type): {line:?}");
        }
    }

    fn batch(&mut self, batch: &Batch) -> Result<(), Error> {
        for (name, value) in &batch.values {
            self.value(Collected {
                time_ns: batch.time_ns,
                source: batch.source,
                name: name.clone(),
                value: Some(*value),
                page: batch.page,
            })?;
        }
        for text in &batch.remarks {
            self.remark(batch.time_ns, batch.source, batch.page, text)?;
        }
        self.events.save()
    }

    fn end(&mut self) -> Result<(), Error> {
        if self.malformed > 0 {
            crate::log!("{} lines were not in StatsD's line format", self.malformed);
        }
        self.events.flush()
    }
}

fn drain(pages: &mut Receiver<Batch>, log: &mut Log) -> Result<(), Error> {
    while let Ok(page) = pages.try_recv() {
        log.batch(&page)?;
    }
    Ok(())
}

/// Reads a page at regular intervals. A program that does not listen, or not yet, has no values.
async fn read_repeatedly(number: u32, page: PageSpec, sender: Sender<Batch>) {
    let selectors: Vec<_> =
        page.series.iter().map(|text| (text, SeriesSelector::parse(text))).collect();
    let mut ticks = interval(Duration::from_nanos(page.every_ns));
    // A slow page is read less often, but never several times in a row.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let text = timeout(PAGE_TIMEOUT, read(&page)).await.unwrap_or_else(|_| {
            Err(format!("there was no whole answer within {} s", PAGE_TIMEOUT.as_secs()))
        });
        let (text, remarks) = match text {
            Ok(Some(text)) => (text, Vec::new()),
            Ok(None) => continue,
            Err(why) => (String::new(), vec![why]),
        };
        let values = selectors
            .iter()
            .filter_map(|(name, selector)| Some(((*name).clone(), selector.as_ref()?.sum(&text)?)));
        let found = Batch {
            time_ns: clock::now_ns(),
            source: CollectorSource::Prometheus,
            page: Some(number),
            values: values.collect(),
            remarks,
        };
        if sender.send(found).await.is_err() {
            return;
        }
    }
}

/// The text of a page; none if nothing listens there.
async fn read(page: &PageSpec) -> Result<Option<String>, String> {
    match TcpStream::connect((Ipv4Addr::LOCALHOST, page.port)).await {
        Ok(stream) => read_from(stream, page).await.map(Some).map_err(|error| match error
            .is::<LengthLimitError>(
        ) {
            true => format!("the page has more than {} MiB", PAGE_LIMIT >> 20),
            false => error.to_string(),
        }),
        Err(_) => Ok(None),
    }
}

async fn read_from(
    stream: TcpStream,
    page: &PageSpec,
) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let (mut client, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = Request::get(&page.path)
        .header("host", format!("127.0.0.1:{}", page.port))
        .header("accept", "text/plain;version=0.0.4")
        .body(Empty::<bytes::Bytes>::new())?;
    let answer = client.send_request(request).await;
    let body = match answer {
        Ok(answer) if answer.status().is_success() => {
            Limited::new(answer.into_body(), PAGE_LIMIT).collect().await.map(|all| all.to_bytes())
        }
        Ok(answer) => Err(format!("the answer had the status {}", answer.status()).into()),
        Err(error) => Err(error.into()),
    };
    // The connection serves one request, whatever the server would like.
    connection.abort();
    Ok(String::from_utf8_lossy(&body?).into_owned())
}

#[cfg(test)]
mod tests;
