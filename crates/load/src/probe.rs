//! Contention probes: a separate sender sends one request after the other to a device of
//! known service time. Time beyond the service time is due to the machine.

use crate::device::spend;
use crate::scheduling;
use record::event::{PROBE_TIMEOUT_NS, Probed};
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;
use trace::Mode;
use units::{Instant, Span};

/// The probes: one for each core and mode.
#[derive(Debug, Clone)]
pub struct ProbeSettings {
    /// The cores, each with separate probes; empty for all cores.
    pub cores: Vec<usize>,
    /// How service times are spent.
    pub modes: Vec<Mode>,
    /// The service time.
    pub service: Span,
    /// The interval between two requests of a probe.
    pub every: Span,
    /// Whether probes run at a raised priority, as the devices that they stand in for;
    /// otherwise at normal priority, as nodes' programs.
    pub before: bool,
    /// Time 0 of the results, on CLOCK_MONOTONIC.
    pub start: Instant,
}

/// Runs the probes until `stop`. Calls `on_result` with the result of each request.
///
/// # Errors
/// A core cannot be used, or sockets cannot be created.
pub fn probe(
    settings: &ProbeSettings,
    stop: &AtomicBool,
    mut on_result: impl FnMut(Probed),
) -> Result<(), String> {
    let all = thread::available_parallelism().map_or(1, usize::from);
    let cores = if settings.cores.is_empty() { (0..all).collect() } else { settings.cores.clone() };
    let pairs: Vec<(usize, Mode)> =
        cores.iter().flat_map(|core| settings.modes.iter().map(|mode| (*core, *mode))).collect();
    thread::scope(|scope| {
        let (results, received) = channel();
        let mut threads = Vec::new();
        for (place, (core, mode)) in pairs.iter().copied().enumerate() {
            let wrong =
                |error: io::Error| format!("could not create a socket for a probe: {error}");
            let (near, far) = sockets().map_err(wrong)?;
            // Probes take turns, so that they do not disturb each other.
            let offset = settings.every * place as u64 / pairs.len().max(1) as u64;
            threads.push(scope.spawn(move || serve(&far, core, mode, settings, stop)));
            let results = results.clone();
            threads.push(
                scope.spawn(move || ask(&near, (core, mode), offset, settings, stop, &results)),
            );
        }
        drop(results);
        received.iter().for_each(&mut on_result);
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err("a probe thread panicked".to_owned()))
        })
    })
}

/// Two sockets, connected to each other.
fn sockets() -> io::Result<(UdpSocket, UdpSocket)> {
    let near = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let far = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    near.connect(far.local_addr()?)?;
    far.connect(near.local_addr()?)?;
    // Both ends check regularly whether the run is over.
    far.set_read_timeout(Some(Duration::from_millis(100)))?;
    Ok((near, far))
}

/// Pins the thread to a core, with raised or normal priority: a probe must be delayed as
/// much as the devices that it stands in for.
fn set_affinity(core: usize, settings: &ProbeSettings) -> Result<(), String> {
    // Otherwise each computing device delays the probe, which then reports contention that no
    // device has (decision 31).
    if settings.before {
        scheduling::pin_with_priority(Some(core))
    } else {
        scheduling::pin(Some(core))
    }
}

/// Answers after the service time, as devices do.
fn serve(
    socket: &UdpSocket,
    core: usize,
    mode: Mode,
    settings: &ProbeSettings,
    stop: &AtomicBool,
) -> Result<(), String> {
    // A probe without its core measures nothing, and its partner would wait for it.
    set_affinity(core, settings).inspect_err(|_| stop.store(true, Relaxed))?;
    let margin = scheduling::margin();
    let mut request = [0; 16];
    while !stop.load(Relaxed) {
        if let Ok(length) = socket.recv(&mut request) {
            spend(mode, settings.service, margin);
            let _ = socket.send(&request[..length]);
        }
    }
    Ok(())
}

/// Sends a request at each intended time; skips times that pass before the last answer.
fn ask(
    socket: &UdpSocket,
    (core, mode): (usize, Mode),
    offset: Span,
    settings: &ProbeSettings,
    stop: &AtomicBool,
    results: &Sender<Probed>,
) -> Result<(), String> {
    set_affinity(core, settings).inspect_err(|_| stop.store(true, Relaxed))?;
    let margin = scheduling::margin();
    let (start, every) = (settings.start, settings.every.max(Span::from_ns(1)));
    for number in 0_u64.. {
        let intended = offset + number * every;
        if start + intended < clock::now() {
            continue;
        }
        // Short sleeps, to notice the end of the run.
        while start + intended > clock::now() + Span::from_ms(200) && !stop.load(Relaxed) {
            clock::sleep_until(clock::now() + Span::from_ms(100));
        }
        if stop.load(Relaxed) {
            break;
        }
        scheduling::wait_until(start + intended, margin);
        let sent_ns = (clock::now() - start).as_ns();
        let _ = socket.send(&number.to_be_bytes());
        let answered_ns = answer(socket, number, stop).map(|at| (at - start).as_ns());
        if answered_ns.is_none() && stop.load(Relaxed) {
            break;
        }
        let probed = Probed { core, mode, intended_ns: intended.as_ns(), sent_ns, answered_ns };
        if results.send(probed).is_err() {
            break;
        }
    }
    Ok(())
}

/// When the answer to this number arrived.
fn answer(socket: &UdpSocket, number: u64, stop: &AtomicBool) -> Option<Instant> {
    let until = clock::now() + Span::from_ns(PROBE_TIMEOUT_NS);
    let _ = socket.set_read_timeout(Some(Duration::from_millis(100)));
    let mut answer = [0; 16];
    while clock::now() < until && !stop.load(Relaxed) {
        // Answers to earlier requests, which have timed out, are skipped.
        if let Ok(length) = socket.recv(&mut answer)
            && answer[..length] == number.to_be_bytes()
        {
            return Some(clock::now());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_take_the_service_time_at_least() {
        let settings = ProbeSettings {
            cores: vec![0],
            modes: vec![Mode::Sleep, Mode::Busy],
            service: Span::from_ms(2),
            every: Span::from_ms(20),
            before: false,
            start: clock::now(),
        };
        let stop = AtomicBool::new(false);
        let mut seen = Vec::new();
        probe(&settings, &stop, |probed| {
            seen.push(probed);
            stop.store(seen.len() >= 10, Relaxed);
        })
        .unwrap();
        for mode in [Mode::Sleep, Mode::Busy] {
            let own: Vec<_> = seen.iter().filter(|probed| probed.mode == mode).collect();
            assert!(own.len() >= 3, "{seen:?}");
            assert!(own.iter().all(|probed| probed.deviation(2_000_000) >= 0.0), "{own:?}");
            assert!(own.iter().all(|probed| probed.sent_ns >= probed.intended_ns));
        }
    }

    #[test]
    fn a_core_that_is_not_there_is_said() {
        let settings = ProbeSettings {
            cores: vec![100_000],
            modes: vec![Mode::Sleep],
            service: Span::from_us(1),
            every: Span::from_ms(1),
            before: true,
            start: clock::now(),
        };
        let why = probe(&settings, &AtomicBool::new(false), |_| {}).unwrap_err();
        assert!(why.contains("core 100000"), "{why}");
    }
}
