//! A sender: sends requests on schedule.

use super::{heard, keep, wait_for};
use crate::clock::Nanos;
use crate::control::{Control, Order, Said};
use crate::error::Error;
use crate::load::LoadSpec;
use load::{Closed, Figures, Origin, Settings};
use serde::Serialize;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use trace::{Group, Method, Mix, Reader, Recipe, Scheme, Target};
use units::Timeline;

/// Sends requests as `spec` describes after the start message, then waits for a stop message.
///
/// # Errors
/// A text of the spec is invalid, or a file is not available.
pub fn run(spec: &LoadSpec, control: &mut Control) -> Result<(), Error> {
    // Report errors of the spec before the start.
    let origin = origin(spec)?;
    let mut settings = settings(spec)?;
    control.say(&Said::Ready {})?;
    let start = wait_for(control, |order| match order {
        Order::Start { at_ns } => Some(Some(*at_ns)),
        Order::Stop {} => Some(None),
    })?;
    let Some(start) = start else { return Ok(()) };
    settings.start = Some(start);
    let figures = send(origin, &settings, control)?;
    write(spec, &figures)?;
    let all = figures.all().counts;
    control.say(&Said::Progress { sent: all.sent, replies: all.answered })?;
    control.say(&Said::Done {})?;
    wait_for(control, |order| (*order == Order::Stop {}).then_some(()))
}

fn send(origin: Origin, settings: &Settings, control: &mut Control) -> Result<Figures, Error> {
    let stop = AtomicBool::new(false);
    let mut failed = None;
    let sent = load::run(origin, settings, &stop, |progress| {
        let said = Said::Progress { sent: progress.sent, replies: 0 };
        let orders = control.say(&said).and_then(|()| heard(control));
        match orders {
            Ok(orders) if orders.contains(&Order::Stop {}) => stop.store(true, Relaxed),
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
    let (figures, cut) = sent.map_err(|error| Error::protocol("send requests", error))?;
    match cut {
        Some(why) => Err(Error::protocol("read the trace to its end", why)),
        None => Ok(figures),
    }
}

fn origin(spec: &LoadSpec) -> Result<Origin, Error> {
    if let Some(path) = &spec.trace {
        let file = File::open(path)
            .map_err(|error| Error::protocol(&format!("read {}", path.display()), error))?;
        return Ok(Origin::Read(Reader::new(Box::new(BufReader::with_capacity(1 << 20, file)))));
    }
    let wrong = |error: &dyn std::fmt::Display| Error::protocol("generate requests", error);
    let usual = spec.targets.first().and_then(|target| Target::parse(target).ok());
    let usual = Method::usual(usual.map_or(Scheme::Coap, |target| target.scheme));
    let sizes: Option<Mix<units::Bytes>> =
        spec.size.as_deref().map(str::parse).transpose().map_err(|e| wrong(&e))?;
    let methods = spec.method.as_deref().map(str::parse).transpose().map_err(|e| wrong(&e))?;
    let paths = spec.path.as_deref().map(str::parse).transpose().map_err(|e| wrong(&e))?;
    let group = Group {
        devices: 0..spec.targets.len() as u32,
        targets: spec.targets.clone(),
        arrivals: spec.arrivals.parse().map_err(|e| wrong(&e))?,
        together: spec.together,
        methods: methods.unwrap_or_else(|| Mix::of(usual)),
        paths: paths.unwrap_or_else(|| Mix::of(String::new())),
        service: None,
        sizes: sizes.map(|sizes| sizes.map(|size| size.get() as u32)),
    };
    // A closed loop ends after a number of requests; it does not use arrival times.
    let span = spec.users.is_none().then_some(spec.duration_ns);
    let recipe = Recipe { seed: spec.seed, groups: vec![group], span, requests: spec.count };
    recipe.requests().map(Origin::Made).map_err(|e| wrong(&e))
}

fn settings(spec: &LoadSpec) -> Result<Settings, Error> {
    let think = spec.think.as_deref().map(str::parse).transpose();
    let think =
        think.map_err(|error: trace::ParseError| Error::protocol("read the think time", error))?;
    Ok(Settings {
        timeout: spec.timeout_ns,
        confirmable: spec.confirmable,
        coap: spec.coap,
        answers: spec.answers,
        senders: spec.senders,
        spin: spec.spin,
        closed: spec.users.map(|users| Closed { users, think }),
        connections: spec.connections,
        qos: spec.qos,
        patience: spec.patience_ns as Nanos,
        seed: spec.seed,
        ..Settings::default()
    })
}

/// Output of a sender: its results, and its timeline, which can be added to that of other senders.
#[derive(Serialize)]
struct Kept<'a, F> {
    #[serde(flatten)]
    figures: F,
    timeline: &'a Timeline,
    schedule_ns: Nanos,
}

fn write(spec: &LoadSpec, figures: &Figures) -> Result<(), Error> {
    let Figures { timeline, schedule, .. } = figures;
    keep(&spec.events, &Kept { figures: figures.json(), timeline, schedule_ns: *schedule })?;
    let wrong = |source| Error::Events { path: spec.log.clone(), source };
    let file = File::create(&spec.log).map_err(wrong)?;
    load::write_log(figures, BufWriter::new(file)).map_err(wrong)
}
