//! Main loops: the driver runs scheduled exchanges, the server serves.

use super::body::Body;
use super::failure::{Failure, Reason};
use super::log::{Receipts, ended};
use super::outcome::Outcome;
use super::protocol::{Driver, Server, Turn};
use super::sections::Sections;
use super::watch::Watch;
use super::wire::FrameFilter;
use crate::address::unspecified_for;
use crate::control::Control;
use crate::error::Error;
use crate::events::EventsFile;
use crate::wait::wake_precisely;
use record::control::Status;
use record::event::ExchangeEvent;
use record::spec::ExchangeSpec;
use std::net::UdpSocket;
use std::time::Duration;
use units::{Instant, Span};

/// Maximum time to set up a kept connection at the start. After that, each exchange reports its
/// connection error.
const SETUP_TIMEOUT: Span = Span::from_s(10);
/// The discard port, where no program listens, and the maximum wait for its ICMP error.
const DISCARD: u16 = 9;
const ICMP_TIMEOUT: Duration = Duration::from_millis(200);
const RETRY_AFTER: Span = Span::from_ms(100);
/// Time between progress messages.
const PROGRESS: Span = Span::from_s(1);

/// Runs all exchanges, then waits for the stop message.
pub fn run(
    spec: &ExchangeSpec,
    control: &mut Control,
    mut driver: Box<dyn Driver>,
) -> Result<(), Error> {
    let mut watch = Watch::new(control);
    let mut sections = Sections::create(&spec.interface, FrameFilter::of(spec), &spec.sections)?;
    let mut exchanges = EventsFile::create(&spec.events)?;
    let body = Body::new(spec.seed, spec.longest());
    wake_precisely();
    resolve_peers(spec);
    watch.ready()?;
    let start = wait_for_start(&mut watch) + Span::from_ns(spec.offset_ns);
    sections.start();
    // Not before the start: TCP takes its first round-trip estimate from the handshake. A
    // handshake without the link's delay would cause retransmissions of everything that takes
    // longer than 200 ms.
    let _ = driver.rest(&mut watch, start);
    if let Err(failure) = set_up(&mut *driver, &mut watch, &mut sections, &body) {
        crate::log!("no connection yet: {failure}");
    }
    // Also after a failed setup, whose frames belong to no exchange.
    sections.forget();
    let pause = Span::from_ns(spec.pause_ns);
    // If the setup took time, pause as between exchanges.
    let start = match clock::now() {
        now if now > start + Span::from_ms(1) => now + pause,
        _ => start,
    };
    let mut last_end: Option<Instant> = None;
    let (mut succeeded, mut progress_at) = (0, Instant::START);
    for (place, (number, size)) in spec.exchanges.iter().enumerate() {
        let scheduled = start + Span::from_ns(spec.every_ns) * place as u64;
        // A late exchange delays the next one, not all that follow (decision 28).
        let intended = last_end.map_or(scheduled, |end| scheduled.max(end + pause));
        if driver.rest(&mut watch, intended).is_err() {
            break;
        }
        sections.begin(*number)?;
        let begin = clock::now();
        let mut turn = Turn {
            number: *number,
            size: *size,
            deadline: begin + Span::from_ns(spec.timeout_ns),
            body: &body,
            watch: &mut watch,
            sections: &mut sections,
        };
        let outcome = driver.exchange(&mut turn);
        let end = sections.finish();
        if matches!(&outcome, Err(failure) if failure.reason == Reason::Stopped) {
            break;
        }
        last_end = Some(clock::now());
        succeeded += u64::from(outcome.is_ok());
        let times = Times { intended, scheduled, begin, end };
        exchanges.push(&times.event(*number, *size, &outcome))?;
        // At once, so that the exchange survives a killed program.
        exchanges.flush()?;
        if clock::now() >= progress_at {
            watch.send_status(&Status::Progress { sent: place as u64 + 1, replies: succeeded })?;
            progress_at = clock::now() + PROGRESS;
        }
    }
    if !watch.stopped() {
        // Wait for the last acknowledgements; later frames belong to no exchange.
        let _ = watch.sleep(clock::now() + pause.clamp(RETRY_AFTER, Span::from_s(1)));
    }
    sections.flush()?;
    let sent = spec.exchanges.len() as u64;
    watch.send_status(&Status::Progress { sent, replies: succeeded })?;
    watch.send_status(&Status::Done {})?;
    while !watch.stopped() {
        let _ = driver.rest(&mut watch, Instant::NEVER);
    }
    // The totals cover as long as the medium counts: after lost acknowledgements, TCP retransmits
    // long after the last exchange.
    sections.end()?;
    driver.tear_down();
    Ok(())
}

/// Waits for the time of offset 0; the clock's start after a stop message.
fn wait_for_start(watch: &mut Watch<'_>) -> Instant {
    while watch.start().is_none() && !watch.stopped() {
        // An error is a stop message, which the condition sees.
        let _ = watch.wait(&mut [], None);
    }
    watch.start().unwrap_or_default()
}

/// The times of an exchange.
struct Times {
    intended: Instant,
    scheduled: Instant,
    begin: Instant,
    end: Instant,
}

impl Times {
    fn event(&self, number: u64, size: usize, outcome: &Result<Outcome, Failure>) -> ExchangeEvent {
        ExchangeEvent {
            message: number,
            bytes: size as u64,
            intended_ns: self.intended.as_ns(),
            held_ns: (self.intended - self.scheduled).as_ns(),
            begin_ns: self.begin.as_ns(),
            end_ns: self.end.as_ns(),
            ..ended(outcome)
        }
    }
}

/// Sends an empty datagram to a closed port of each peer, whose kernel answers with an ICMP error.
/// The switch then knows both addresses. Otherwise the first frame to each would be flooded to all
/// links, and would keep grants and radios of other pairs awake.
fn resolve_peers(spec: &ExchangeSpec) {
    for peer in &spec.peers {
        // If this fails, the switch learns the addresses in the first exchange.
        let Ok(socket) = UdpSocket::bind((unspecified_for(peer.address), 0)) else { return };
        let sent = socket.connect((peer.address, DISCARD)).and_then(|()| socket.send(&[]));
        if sent.is_ok() && socket.set_read_timeout(Some(ICMP_TIMEOUT)).is_ok() {
            // Wait for the ICMP error, so that no frame is in flight at the start.
            let _ = socket.recv(&mut [0]);
        }
    }
}

/// Sets up the driver's kept connection; retries until the peer answers.
fn set_up(
    driver: &mut dyn Driver,
    watch: &mut Watch<'_>,
    sections: &mut Sections,
    body: &Body,
) -> Result<(), Failure> {
    let deadline = clock::now() + SETUP_TIMEOUT;
    loop {
        let mut turn = Turn { number: 0, size: 0, deadline, body, watch, sections };
        let failure = match driver.set_up(&mut turn) {
            Ok(()) => return Ok(()),
            Err(failure) => failure,
        };
        if !failure.is_transient() || clock::now() + RETRY_AFTER >= deadline {
            return Err(failure);
        }
        watch.sleep(clock::now() + RETRY_AFTER)?;
    }
}

/// Serves until the stop message.
pub fn serve(
    spec: &ExchangeSpec,
    control: &mut Control,
    mut server: Box<dyn Server>,
) -> Result<(), Error> {
    let mut watch = Watch::new(control);
    let mut receipts = Receipts::create(&spec.events)?;
    server.serve(&mut watch, &mut receipts)
}
