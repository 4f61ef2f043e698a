//! A sender: sends requests on schedule.

use super::{pending_commands, wait_for, write_results};
use crate::control::Control;
use crate::error::Error;
use load::{Closed, Figures, Origin, Settings};
use record::control::{Command, Status};
use record::event::SenderResults;
use record::spec::LoadSpec;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use trace::{Group, Method, Mix, Reader, Scheme, Target, TraceSpec};
use units::{Instant, Span};

/// Sends requests as `spec` describes after the start message, then waits for a stop message.
///
/// # Errors
/// A text of the spec is invalid, or a file is not available.
pub fn run(spec: &LoadSpec, control: &mut Control) -> Result<(), Error> {
    // Report errors of the spec before the start.
    let origin = origin(spec)?;
    let mut settings = settings(spec)?;
    control.send_status(&Status::Ready {})?;
    let start = wait_for(control, |command| match command {
        Command::Start { at_ns } => Some(Some(Instant::from_ns(*at_ns))),
        Command::Stop {} => Some(None),
    })?;
    let Some(start) = start else { return Ok(()) };
    settings.start = Some(start);
    let figures = send(origin, &settings, control)?;
    write(spec, &figures)?;
    let all = figures.all().counts;
    control.send_status(&Status::Progress { sent: all.sent, replies: all.answered })?;
    control.send_status(&Status::Done {})?;
    wait_for(control, |command| (*command == Command::Stop {}).then_some(()))
}

fn send(origin: Origin, settings: &Settings, control: &mut Control) -> Result<Figures, Error> {
    let stop = AtomicBool::new(false);
    let mut failed = None;
    let sent = load::run(origin, settings, &stop, |progress| {
        // `load` counts answers at the end only.
        let status = Status::Progress { sent: progress.sent, replies: 0 };
        let commands = control.send_status(&status).and_then(|()| pending_commands(control));
        match commands {
            Ok(commands) if commands.contains(&Command::Stop {}) => stop.store(true, Relaxed),
            Ok(_) => {}
            Err(error) => {
                stop.store(true, Relaxed);
                failed = Some(error);
            }
        }
    });
    if let Some(error) = failed {
        return Err(error);
    }
    let (figures, truncated) = sent.map_err(|error| Error::protocol("send requests", error))?;
    match truncated {
        Some(why) => Err(Error::protocol("read the trace to its end", why)),
        None => Ok(figures),
    }
}

fn origin(spec: &LoadSpec) -> Result<Origin, Error> {
    if let Some(path) = &spec.trace {
        let file = input::open(path, input::ANY_SIZE)
            .map_err(|error| Error::protocol(&format!("read {}", path.display()), error))?;
        return Ok(Origin::Read(Reader::new(Box::new(BufReader::with_capacity(1 << 20, file)))));
    }
    let invalid = |error: &dyn std::fmt::Display| Error::protocol("generate requests", error);
    let default = spec.targets.first().and_then(|target| Target::parse(target).ok());
    let default = Method::usual(default.map_or(Scheme::Coap, |target| target.scheme));
    let sizes: Option<Mix<units::Bytes>> =
        spec.size.as_deref().map(str::parse).transpose().map_err(|e| invalid(&e))?;
    let methods = spec.method.as_deref().map(str::parse).transpose().map_err(|e| invalid(&e))?;
    let paths = spec.path.as_deref().map(str::parse).transpose().map_err(|e| invalid(&e))?;
    let group = Group {
        devices: 0..spec.targets.len() as u32,
        targets: spec.targets.clone(),
        arrivals: spec.arrivals.parse().map_err(|e| invalid(&e))?,
        together: spec.together,
        methods: methods.unwrap_or_else(|| Mix::of(default)),
        paths: paths.unwrap_or_else(|| Mix::of(String::new())),
        service: None,
        sizes: sizes.map(|sizes| sizes.map(|size| size.get() as u32)),
    };
    // A closed loop ends after a number of requests; it does not use arrival times.
    let span = spec.users.is_none().then_some(spec.duration_ns);
    let recipe = TraceSpec { seed: spec.seed, groups: vec![group], span, requests: spec.count };
    recipe.requests().map(Origin::Made).map_err(|e| invalid(&e))
}

fn settings(spec: &LoadSpec) -> Result<Settings, Error> {
    let think = spec.think.as_deref().map(str::parse).transpose();
    let think =
        think.map_err(|error: trace::ParseError| Error::protocol("read the think time", error))?;
    Ok(Settings {
        timeout: Span::from_ns(spec.timeout_ns),
        confirmable: spec.confirmable,
        coap: spec.coap,
        answers: spec.answers,
        senders: spec.senders as usize,
        spin: spec.spin,
        closed: spec.users.map(|users| Closed { users: users as usize, think }),
        connections: spec.connections as usize,
        qos: spec.qos,
        patience: Span::from_ns(spec.patience_ns),
        seed: spec.seed,
        ..Settings::default()
    })
}

fn write(spec: &LoadSpec, figures: &Figures) -> Result<(), Error> {
    let Figures { timeline, schedule, .. } = figures;
    write_results(
        &spec.events,
        &SenderResults {
            load: figures.results(),
            timeline: timeline.clone(),
            schedule_ns: schedule.as_ns(),
        },
    )?;
    let file_error = |source| Error::Events { path: spec.log.clone(), source };
    let file = File::create(&spec.log).map_err(file_error)?;
    load::write_log(figures, BufWriter::new(file)).map_err(file_error)
}
