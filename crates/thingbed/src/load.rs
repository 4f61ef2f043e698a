//! `thingbed load`: sends requests on a schedule.

use crate::arguments::{Coap, Load};
use crate::signals::watch_signals;
use crate::{Status, complain, remark, say, trace};
use ::trace::{Arrivals, CoapSettings, Distribution, Reader, Target};
use load::{Closed, Figures, Origin, Progress, Settings};
use record::event::Pace;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use units::Span;

mod table;

/// Sends the requests and prints the results.
pub fn load(arguments: &Load) -> Status {
    let targets = arguments.shape.target.iter().filter(|_| arguments.trace.is_none());
    // The lines of a trace have their own schemes, which are checked when they are read.
    let scheme = targets.filter_map(|uri| Target::parse(uri).ok()).map(|to| to.scheme).next();
    let checked = coap(&arguments.coap).check(scheme, arguments.confirmable, arguments.timeout);
    let checked =
        checked.map_err(|error| format!("--{}: {}", error.key.replace('_', "-"), error.why));
    let origin = match checked.and_then(|()| origin(arguments)) {
        Ok(origin) => origin,
        Err(error) => {
            complain(error);
            return Status::Wrong;
        }
    };
    send(arguments, origin).unwrap_or_else(|error| {
        complain(error);
        Status::Failed
    })
}

fn send(arguments: &Load, origin: Origin) -> Result<Status, String> {
    let stop = watch_signals()
        .map_err(|error| format!("could not install the handler for Ctrl-C: {error}"))?;
    if let Some(folder) = &arguments.out {
        fs::create_dir_all(folder)
            .map_err(|error| format!("could not create {}: {error}", folder.display()))?;
    }
    let settings = settings(arguments);
    let mut warned = false;
    let open = settings.closed.is_none();
    let (figures, cut) = load::run(origin, &settings, &stop, |progress| {
        // A closed loop has no schedule to be behind.
        if open && !warned && progress.lag > Span::from_ms(100) {
            warned = true;
            warn(progress, &settings);
        }
    })
    .map_err(|error| error.to_string())?;
    if let Some(folder) = &arguments.out {
        write_results(folder, &figures)?;
    }
    if arguments.json {
        say(serde_json::to_string_pretty(&figures.results()).unwrap_or_default());
    } else {
        say(table::text(&figures).trim_end());
    }
    // After the results: what was sent before the fault in the trace is measured.
    if let Some(cut) = cut {
        return Err(format!("{cut}; all requests before it were sent"));
    }
    Ok(if stop.load(Relaxed) {
        Status::Interrupted
    } else if figures.faults > 0 || figures.pace() == Pace::NotKept {
        Status::Failed
    } else {
        Status::Fine
    })
}

/// Warns during the run, as soon as sending falls behind.
fn warn(progress: &Progress, settings: &Settings) {
    let seconds = progress.elapsed.as_ms() / 1e3;
    let fix = if settings.senders == 1 { "--senders 2, " } else { "" };
    remark(format_args!(
        "warning: this machine cannot send the schedule: it is {:.2} s behind after {seconds:.1} \
         s and sends {:.0} requests/s; lower the rate, or try {fix}--spin, --cores, or an idle \
         machine",
        progress.lag.as_ms() / 1e3,
        progress.sent as f64 / seconds.max(0.001)
    ));
}

fn origin(arguments: &Load) -> Result<Origin, String> {
    if let Some(file) = &arguments.trace {
        return Ok(Origin::Read(Reader::new(trace::open(file)?)));
    }
    let mut shape = arguments.shape.clone();
    // A closed loop ignores times.
    if arguments.closed.is_some() {
        shape.together = true;
        // A closed loop takes the requests one after the other; the times only have to exist.
        shape
            .arrivals
            .get_or_insert(Arrivals::Between(Distribution::Constant(Span::from_ns(1_000))));
        // Without times, `--for` does not end the requests.
        if shape.requests.is_none() {
            return Err("--closed needs a number of requests; add --requests N".to_owned());
        }
    }
    let trace_spec = trace::trace_spec(&shape)?;
    Ok(Origin::Made(trace_spec.requests().map_err(|error| error.to_string())?))
}

fn settings(arguments: &Load) -> Settings {
    let closed = arguments
        .closed
        .map(|users| Closed { users: users as usize, think: arguments.think.clone() });
    let operations = arguments.out.as_ref().filter(|_| arguments.operations);
    Settings {
        timeout: arguments.timeout,
        confirmable: arguments.confirmable,
        coap: coap(&arguments.coap),
        answers: !arguments.no_answer,
        senders: arguments.senders as usize,
        cores: arguments.cores.clone(),
        spin: arguments.spin,
        closed,
        connections: arguments.connections as usize,
        qos: arguments.qos,
        patience: arguments.patience,
        from: arguments.from,
        start: None,
        operations: operations.map(|folder| folder.join("operations.csv")),
        seed: arguments.shape.seed,
    }
}

fn coap(arguments: &Coap) -> CoapSettings {
    CoapSettings {
        // Invalid block sizes are rejected by the check.
        block: arguments.block.map(|size| u16::try_from(size.get()).unwrap_or(u16::MAX)),
        max_retransmit: arguments.max_retransmit,
        ack_timeout: arguments.ack_timeout,
        ack_random_factor: arguments.ack_random_factor,
        nstart: arguments.nstart,
        observe: arguments.observe,
    }
}

/// Writes summary.json and latency.hlog.
fn write_results(folder: &Path, figures: &Figures) -> Result<(), String> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        format!("could not write {}: {error}", path.display())
    };
    let path = folder.join("summary.json");
    let json = serde_json::to_string_pretty(&figures.results()).unwrap_or_default();
    fs::write(&path, json + "\n").map_err(|error| failed(&path, &error))?;
    let path = folder.join("latency.hlog");
    let file = File::create(&path).map_err(|error| failed(&path, &error))?;
    load::write_log(figures, BufWriter::new(file)).map_err(|error| failed(&path, &error))
}
