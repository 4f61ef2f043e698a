//! Contention probes as a program of a run.

use super::{pending_commands, wait_for};
use crate::control::Control;
use crate::error::Error;
use crate::events::EventsFile;
use load::ProbeSettings;
use record::control::{Command, Status};
use record::event::Probed;
use record::spec::ProbeSpec;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use units::{Instant, Span};

/// Consecutive probes on one core, in one mode, above the limit, after which contention is
/// reported.
const CONSECUTIVE: u32 = 3;

/// Probes until a stop message; reports contention if the spec has a limit.
///
/// # Errors
/// A core or a file is not available.
pub fn run(spec: &ProbeSpec, control: &mut Control) -> Result<(), Error> {
    let mut events = EventsFile::create(&spec.events)?;
    let modes: Result<Vec<_>, String> = spec.modes.iter().map(|mode| mode.parse()).collect();
    let modes = modes.map_err(|why| Error::protocol("probe", why))?;
    control.send_status(&Status::Ready {})?;
    let start = wait_for(control, |command| match command {
        Command::Start { at_ns } => Some(Some(Instant::from_ns(*at_ns))),
        Command::Stop {} => Some(None),
    })?;
    let Some(start) = start else { return Ok(()) };
    let settings = ProbeSettings {
        cores: spec.cores.iter().map(|core| *core as usize).collect(),
        modes,
        service: Span::from_ns(spec.service_ns),
        every: Span::from_ns(spec.every_ns),
        before: spec.before,
        start,
    };
    let stop = AtomicBool::new(false);
    let contended = Mutex::new(None);
    let mut written = Ok(());
    let probed = std::thread::scope(|scope| {
        let (settings, stop, contended) = (&settings, &stop, &contended);
        let probing = scope.spawn(|| {
            let mut watch = Watch::new(spec);
            let probed = load::probe(settings, stop, |probed| {
                let row = events.push(&probed);
                if written.is_ok() {
                    written = row;
                }
                if let Some(why) = watch.observe(&probed)
                    && let Ok(mut slot) = contended.lock()
                {
                    // The first finding counts: it is reported once.
                    slot.get_or_insert(why);
                }
            });
            // Stop the main loop if probing cannot start.
            stop.store(true, Relaxed);
            probed
        });
        let control_result = listen(control, stop, contended);
        stop.store(true, Relaxed);
        let probed = probing.join();
        control_result.map(|()| probed)
    })?;
    written.and_then(|()| events.flush())?;
    match probed {
        Ok(Ok(())) => Ok(()),
        Ok(Err(why)) => Err(Error::protocol("probe", why)),
        Err(_) => Err(Error::protocol("probe", "its thread panicked")),
    }
}

/// Waits for a stop message; reports contention once.
fn listen(
    control: &mut Control,
    stop: &AtomicBool,
    contended: &Mutex<Option<String>>,
) -> Result<(), Error> {
    let mut reported = false;
    while !stop.load(Relaxed) {
        if pending_commands(control)?.contains(&Command::Stop {}) {
            return Ok(());
        }
        let why = contended.lock().ok().and_then(|why| why.clone());
        if let Some(why) = why.filter(|_| !reported) {
            reported = true;
            control.send_status(&Status::Contended { why })?;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Detects contention while probing.
struct Watch<'a> {
    spec: &'a ProbeSpec,
    /// Consecutive probes above the limit, by core and mode.
    rows: Vec<(usize, trace::Mode, u32)>,
}

impl<'a> Watch<'a> {
    fn new(spec: &'a ProbeSpec) -> Self {
        Self { spec, rows: Vec::new() }
    }

    fn observe(&mut self, probed: &Probed) -> Option<String> {
        let limit = self.spec.limit?;
        let known = |row: &(usize, trace::Mode, u32)| (row.0, row.1) == (probed.core, probed.mode);
        let place = self.rows.iter().position(known).unwrap_or_else(|| {
            self.rows.push((probed.core, probed.mode, 0));
            self.rows.len() - 1
        });
        let row = &mut self.rows[place].2;
        let deviation = probed.deviation(self.spec.service_ns);
        *row = if deviation > limit { *row + 1 } else { 0 };
        (*row >= CONSECUTIVE).then(|| {
            format!(
                "{CONSECUTIVE} consecutive probes on core {}, {} for {} ms, took more than {:.0} % \
                 longer than that, after {:.1} s",
                probed.core,
                probed.mode,
                self.spec.service_ns as f64 / 1e6,
                100.0 * limit,
                probed.sent_ns as f64 / 1e9,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::Mode;

    #[test]
    fn one_late_answer_is_no_contention() {
        let spec = ProbeSpec {
            cores: Vec::new(),
            modes: Vec::new(),
            service_ns: 10,
            every_ns: 100,
            before: false,
            limit: Some(0.5),
            events: "none".into(),
        };
        let mut watch = Watch::new(&spec);
        let mut observe = |core, took| {
            let answered_ns = Some(took);
            let probed = Probed { core, mode: Mode::Busy, answered_ns, ..Probed::default() };
            watch.observe(&probed).is_some()
        };
        let late = [(0, 16), (1, 16), (0, 16), (1, 11), (0, 16), (1, 16), (0, 12)];
        let reported: Vec<bool> = late.iter().map(|(core, took)| observe(*core, *took)).collect();
        assert_eq!(reported, [false, false, false, false, true, false, false]);
        let calm = ProbeSpec { limit: None, ..spec };
        let probed = Probed { answered_ns: Some(99), ..Probed::default() };
        assert!((0..9).all(|_| Watch::new(&calm).observe(&probed).is_none()));
    }
}
