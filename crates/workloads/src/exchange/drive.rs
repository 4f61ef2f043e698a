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
        exchanges.save()?;
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
    exchanges.flush()?;
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
    let served = server.serve(&mut watch, &mut receipts);
    let ended = receipts.end();
    served.and(ended)
}

#[cfg(test)]
mod tests {
    use super::super::sections::Section;
    use super::super::tests::{Running, events, spec};
    use super::*;
    use record::control::Command;
    use record::event::SectionEvent;
    use serde_json::{Value, json};
    use std::collections::VecDeque;

    /// A driver whose exchanges last and end as planned.
    struct Scripted {
        set_ups: VecDeque<Result<(), Failure>>,
        exchanges: VecDeque<(Span, Result<Outcome, Failure>)>,
    }

    impl Driver for Scripted {
        fn set_up(&mut self, turn: &mut Turn<'_, '_>) -> Result<(), Failure> {
            turn.enter(Section::TransportConnect);
            self.set_ups.pop_front().unwrap_or(Ok(()))
        }

        fn exchange(&mut self, turn: &mut Turn<'_, '_>) -> Result<Outcome, Failure> {
            turn.enter(Section::Payload);
            let (length, outcome) = self.exchanges.pop_front().unwrap();
            turn.watch.sleep(clock::now() + length)?;
            outcome
        }
    }

    fn fails(reason: Reason) -> Failure {
        Failure::of(reason, "why,\nin \"two\" lines")
    }

    fn of_sizes(count: u64, more: &Value) -> (tempfile::TempDir, ExchangeSpec) {
        let folder = tempfile::tempdir().unwrap();
        let exchanges: Vec<_> = (0..count).map(|number| (number * 3, 10 * number)).collect();
        let mut all = json!({"exchanges": exchanges});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let spec = spec(folder.path(), &json!("udp"), &all);
        (folder, spec)
    }

    /// Runs the script to its end; `start` is the time of offset 0 in ns.
    fn drive(spec: &ExchangeSpec, script: Scripted, start: u64) -> Vec<ExchangeEvent> {
        std::thread::scope(|scope| {
            let mut driver =
                Running::with(scope, move |control| run(spec, control, Box::new(script)));
            driver.wait_for("ready");
            driver.send(&Command::Start { at_ns: start });
            driver.wait_for("done");
            driver.stop();
        });
        events(&spec.events)
    }

    #[test]
    fn a_failed_exchange_is_recorded_and_the_next_one_begins() {
        let (_folder, spec) = of_sizes(4, &json!({}));
        let of = |outcome| (Span::ZERO, outcome);
        let received = Outcome { received: Some(Instant::from_ns(7)) };
        let exchanges = [
            of(Ok(received)),
            of(Err(fails(Reason::Timeout))),
            of(Err(fails(Reason::Corrupt))),
            of(Ok(Outcome::default())),
        ];
        let script = Scripted { set_ups: VecDeque::new(), exchanges: exchanges.into() };
        let found = drive(&spec, script, clock::now_ns());
        let reasons: Vec<_> =
            found.iter().map(|one| (one.message, one.bytes, one.failure)).collect();
        let (timeout, corrupt) = (Some(Reason::Timeout), Some(Reason::Corrupt));
        assert_eq!(reasons, [(0, 0, None), (3, 10, timeout), (6, 20, corrupt), (9, 30, None)]);
        assert_eq!((found[0].received_ns, found[3].received_ns), (Some(7), None));
        assert_eq!(found[1].detail, "why, in \"two\" lines");
        let sections: Vec<SectionEvent> = events(&spec.sections);
        let kinds: Vec<_> = sections.iter().map(|row| (row.message, row.section)).collect();
        let payload = |number| (Some(number), Section::Payload);
        let all = [payload(0), payload(3), payload(6), payload(9), (None, Section::All)];
        assert_eq!(kinds, all, "none of the setup");
    }

    /// Decision 28: a late exchange delays the next one, not all that follow.
    #[test]
    fn the_schedule_is_kept_after_a_late_exchange() {
        let (every, pause) = (Span::from_ms(40), Span::from_ms(10));
        let more =
            json!({"every_ns": every.as_ns(), "pause_ns": pause.as_ns(), "offset_ns": 5_000});
        let (_folder, spec) = of_sizes(5, &more);
        let lengths = [100, 0, 0, 0, 0].map(Span::from_ms);
        let exchanges = lengths.map(|length| (length, Ok(Outcome::default())));
        let script = Scripted { set_ups: VecDeque::new(), exchanges: exchanges.into() };
        let start = clock::now() + Span::from_ms(20);
        let found = drive(&spec, script, start.as_ns());
        // A setup that takes time delays the first one.
        let first = Instant::from_ns(found[0].intended_ns - found[0].held_ns);
        assert!(first >= start + Span::from_ns(5_000));
        let mut end = Instant::START;
        for (place, one) in found.iter().enumerate() {
            let scheduled = first + every * place as u64;
            let intended = Instant::from_ns(one.intended_ns);
            assert_eq!(one.held_ns, (intended - scheduled).as_ns(), "{place}");
            assert!(intended >= scheduled && one.begin_ns >= one.intended_ns, "{place}: {one:?}");
            assert!(place == 0 || intended >= end + pause, "{place}: {one:?}");
            end = Instant::from_ns(one.end_ns);
        }
        assert!(found[1].held_ns >= (Span::from_ms(100) + pause - every).as_ns());
    }

    #[test]
    fn a_setup_is_repeated_while_the_peer_may_still_start() {
        for (set_ups, left) in [
            (vec![Err(fails(Reason::Refused)), Err(fails(Reason::Timeout)), Ok(())], 0),
            (vec![Err(fails(Reason::Certificate)), Ok(())], 1),
        ] {
            let (_folder, spec) = of_sizes(1, &json!({}));
            let script = Scripted {
                set_ups: set_ups.into(),
                exchanges: [(Span::ZERO, Ok(Outcome::default()))].into(),
            };
            // The script is dropped with the driver, so the rest is counted in it.
            struct Counting(Scripted, std::sync::mpsc::Sender<usize>);
            impl Driver for Counting {
                fn set_up(&mut self, turn: &mut Turn<'_, '_>) -> Result<(), Failure> {
                    self.0.set_up(turn)
                }
                fn exchange(&mut self, turn: &mut Turn<'_, '_>) -> Result<Outcome, Failure> {
                    self.0.exchange(turn)
                }
                fn tear_down(&mut self) {
                    self.1.send(self.0.set_ups.len()).unwrap();
                }
            }
            let (counts, counted) = std::sync::mpsc::channel();
            std::thread::scope(|scope| {
                let driver = Counting(script, counts);
                let spec = &spec;
                let mut driver =
                    Running::with(scope, move |control| run(spec, control, Box::new(driver)));
                driver.wait_for("ready");
                driver.send(&Command::Start { at_ns: clock::now_ns() });
                driver.wait_for("done");
                driver.stop();
            });
            assert_eq!(counted.recv().unwrap(), left);
            let found: Vec<ExchangeEvent> = events(&spec.events);
            assert_eq!((found.len(), found[0].failure), (1, None), "also after a failed setup");
        }
    }

    #[test]
    fn a_stop_ends_the_exchange_under_way_and_keeps_those_before() {
        for begins in [false, true] {
            let (_folder, spec) = of_sizes(3, &json!({}));
            let long = Span::from_s(600);
            let exchanges = [Span::ZERO, long, Span::ZERO];
            let exchanges = exchanges.map(|length| (length, Ok(Outcome::default())));
            let script = Scripted { set_ups: VecDeque::new(), exchanges: exchanges.into() };
            std::thread::scope(|scope| {
                let spec = &spec;
                let mut driver =
                    Running::with(scope, move |control| run(spec, control, Box::new(script)));
                driver.wait_for("ready");
                if begins {
                    driver.send(&Command::Start { at_ns: clock::now_ns() });
                    // After the first exchange.
                    driver.wait_for("progress");
                }
                driver.stop();
            });
            let found: Vec<ExchangeEvent> = events(&spec.events);
            assert_eq!(found.len(), usize::from(begins), "{found:?}");
        }
    }
}
