//! Main loops: the driver runs scheduled exchanges, the server serves.

use super::body::Body;
use super::failure::{Failure, Reason};
use super::log::{Receipts, ended};
use super::protocol::{Driver, Outcome, Server, Turn};
use super::sections::Sections;
use super::watch::Watch;
use super::wire::FrameFilter;
use crate::control::Control;
use crate::error::Error;
use crate::events::EventsFile;
use crate::time::{MILLISECOND, Nanos, SECOND};
use crate::wait::wake_precisely;
use record::control::Status;
use record::event::ExchangeEvent;
use record::spec::ExchangeSpec;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

/// Maximum time to set up a kept connection at the start. After that, each exchange reports its
/// connection error.
const SETUP_TIMEOUT: Nanos = 10 * SECOND;
/// The discard port, where no program listens, and the maximum wait for its ICMP error.
const DISCARD: u16 = 9;
const ICMP_TIMEOUT: Duration = Duration::from_millis(200);
const RETRY_AFTER: Nanos = 100 * MILLISECOND;
/// Time between progress messages.
const PROGRESS: Nanos = SECOND;

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
    while watch.start().is_none() && !watch.stopped() {
        let _ = watch.wait(&mut [], None);
    }
    sections.start();
    let start = watch.start().unwrap_or_default().saturating_add(spec.offset_ns);
    // Not before the start: TCP takes its first round-trip estimate from the handshake. A
    // handshake without the link's delay would cause retransmissions of everything that takes
    // longer than 200 ms.
    let _ = driver.rest(&mut watch, start);
    if let Err(failure) = set_up(&mut *driver, &mut watch, &mut sections, &body) {
        eprintln!("thingbed-workload: no connection yet: {failure}");
    }
    sections.forget();
    // If the setup took time, pause as between exchanges.
    let start = match clock::now_ns() {
        now if now > start + MILLISECOND => now + spec.pause_ns,
        _ => start,
    };
    let mut last_end: Option<Nanos> = None;
    let (mut succeeded, mut progress_at) = (0, 0);
    for (place, (number, size)) in spec.exchanges.iter().enumerate() {
        let scheduled = start.saturating_add(spec.every_ns.saturating_mul(place as u64));
        let intended = last_end.map_or(scheduled, |end| scheduled.max(end + spec.pause_ns));
        if driver.rest(&mut watch, intended).is_err() {
            break;
        }
        sections.begin(*number)?;
        let begin = clock::now_ns();
        let mut turn = Turn {
            number: *number,
            size: *size,
            deadline: begin.saturating_add(spec.timeout_ns),
            body: &body,
            watch: &mut watch,
            sections: &mut sections,
        };
        let outcome = driver.exchange(&mut turn);
        let end = sections.finish();
        if matches!(&outcome, Err(failure) if failure.reason == Reason::Stopped) {
            break;
        }
        last_end = Some(clock::now_ns());
        succeeded += u64::from(outcome.is_ok());
        let times = Times { intended, scheduled, begin, end };
        exchanges.push(&times.event(*number, *size, &outcome))?;
        exchanges.flush()?;
        if clock::now_ns() >= progress_at {
            watch.send_status(&Status::Progress { sent: place as u64 + 1, replies: succeeded })?;
            progress_at = clock::now_ns() + PROGRESS;
        }
    }
    if !watch.stopped() {
        // Wait for the last acknowledgements; later frames belong to no exchange.
        let _ = watch.sleep(clock::now_ns() + spec.pause_ns.clamp(RETRY_AFTER, SECOND));
    }
    sections.flush()?;
    let sent = spec.exchanges.len() as u64;
    watch.send_status(&Status::Progress { sent, replies: succeeded })?;
    watch.send_status(&Status::Done {})?;
    while !watch.stopped() {
        let _ = driver.rest(&mut watch, Nanos::MAX);
    }
    // The totals cover as long as the medium counts: after lost acknowledgements, TCP retransmits
    // long after the last exchange.
    sections.end()?;
    driver.tear_down();
    Ok(())
}

/// The times of an exchange.
struct Times {
    intended: Nanos,
    scheduled: Nanos,
    begin: Nanos,
    end: Nanos,
}

impl Times {
    fn event(&self, number: u64, size: usize, outcome: &Result<Outcome, Failure>) -> ExchangeEvent {
        ExchangeEvent {
            message: number,
            bytes: size as u64,
            intended_ns: self.intended,
            held_ns: self.intended - self.scheduled,
            begin_ns: self.begin,
            end_ns: self.end,
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
        let Ok(socket) = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)) else { return };
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
    let deadline = clock::now_ns() + SETUP_TIMEOUT;
    loop {
        let mut turn = Turn { number: 0, size: 0, deadline, body, watch, sections };
        let failure = match driver.set_up(&mut turn) {
            Ok(()) => return Ok(()),
            Err(failure) => failure,
        };
        if !failure.is_transient() || clock::now_ns() + RETRY_AFTER >= deadline {
            return Err(failure);
        }
        watch.sleep(clock::now_ns() + RETRY_AFTER)?;
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
