//! Main loops: the driver runs scheduled exchanges, the server serves.

use super::body::Body;
use super::failure::{Failure, Reason};
use super::log::{Exchanges, Over, Receipts};
use super::protocol::{Driver, Server, Turn};
use super::sections::Sections;
use super::spec::ExchangeSpec;
use super::watch::Watch;
use crate::clock::{MILLISECOND, Nanos, SECOND, monotonic_now};
use crate::control::{Control, Said};
use crate::error::Error;
use crate::wait::punctual;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

/// Maximum time to set up a kept connection at the start. After that, each exchange reports its
/// connection error.
const SET_UP: Nanos = 10 * SECOND;
/// The discard port, where no program listens, and the maximum wait for its ICMP error.
const DISCARD: u16 = 9;
const HEARD: Duration = Duration::from_millis(200);
const AGAIN: Nanos = 100 * MILLISECOND;
/// Time between progress messages.
const PROGRESS: Nanos = SECOND;

/// Runs all exchanges, then waits for the stop message.
pub fn run(
    spec: &ExchangeSpec,
    control: &mut Control,
    mut driver: Box<dyn Driver>,
) -> Result<(), Error> {
    let mut watch = Watch::new(control);
    let mut sections = Sections::create(&spec.interface, spec.ours(), &spec.sections)?;
    let mut exchanges = Exchanges::create(&spec.events)?;
    let body = Body::new(spec.seed, spec.longest());
    punctual();
    greet(spec);
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
    let start = match monotonic_now() {
        now if now > start + MILLISECOND => now + spec.pause_ns,
        _ => start,
    };
    let mut ended: Option<Nanos> = None;
    let (mut went_well, mut said_at) = (0, 0);
    for (place, (number, size)) in spec.exchanges.iter().enumerate() {
        let scheduled = start.saturating_add(spec.every_ns.saturating_mul(place as u64));
        let intended = ended.map_or(scheduled, |end| scheduled.max(end + spec.pause_ns));
        if driver.rest(&mut watch, intended).is_err() {
            break;
        }
        sections.begin(*number)?;
        let begin = monotonic_now();
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
        ended = Some(monotonic_now());
        went_well += u64::from(outcome.is_ok());
        let held = intended - scheduled;
        let over = Over { number: *number, size: *size, intended, held, begin, end };
        exchanges.note(&over, &outcome)?;
        if monotonic_now() >= said_at {
            watch.say(&Said::Progress { sent: place as u64 + 1, replies: went_well })?;
            said_at = monotonic_now() + PROGRESS;
        }
    }
    if !watch.stopped() {
        // Wait for the last acknowledgements; later frames belong to no exchange.
        let _ = watch.sleep(monotonic_now() + spec.pause_ns.clamp(AGAIN, SECOND));
    }
    sections.flush()?;
    let sent = spec.exchanges.len() as u64;
    watch.say(&Said::Progress { sent, replies: went_well })?;
    watch.say(&Said::Done {})?;
    while !watch.stopped() {
        let _ = driver.rest(&mut watch, Nanos::MAX);
    }
    // The totals cover as long as the medium counts: after lost acknowledgements, TCP retransmits
    // long after the last exchange.
    sections.end()?;
    driver.tear_down();
    Ok(())
}

/// Sends an empty datagram to a closed port of each peer, whose kernel answers with an ICMP error.
/// The switch then knows both addresses. Otherwise the first frame to each would be flooded to all
/// links, and would keep grants and radios of other pairs awake.
fn greet(spec: &ExchangeSpec) {
    for peer in &spec.peers {
        // If this fails, the switch learns the addresses in the first exchange.
        let Ok(socket) = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)) else { return };
        let said = socket.connect((peer.address, DISCARD)).and_then(|()| socket.send(&[]));
        if said.is_ok() && socket.set_read_timeout(Some(HEARD)).is_ok() {
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
    let deadline = monotonic_now() + SET_UP;
    loop {
        let mut turn = Turn { number: 0, size: 0, deadline, body, watch, sections };
        let failure = match driver.set_up(&mut turn) {
            Ok(()) => return Ok(()),
            Err(failure) => failure,
        };
        if !failure.may_pass() || monotonic_now() + AGAIN >= deadline {
            return Err(failure);
        }
        watch.sleep(monotonic_now() + AGAIN)?;
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
