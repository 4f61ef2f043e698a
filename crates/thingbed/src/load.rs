//! `thingbed load`: sends requests on a schedule.

use crate::arguments::{Coap, Load};
use crate::signals::watch_signals;
use crate::{Status, complain, remark, say, trace};
use ::trace::{Arrivals, CoapSettings, Distribution, Reader, Target};
use load::{Closed, Figures, Origin, PaceFigures, Progress, Settings};
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

mod table;

/// Sends the requests and prints the results.
pub fn load(wanted: &Load) -> Status {
    let targets = wanted.shape.target.iter().filter(|_| wanted.trace.is_none());
    // The lines of a trace have their own schemes, which are checked when they are read.
    let scheme = targets.filter_map(|uri| Target::parse(uri).ok()).map(|to| to.scheme).next();
    let checked = coap(&wanted.coap).check(scheme, wanted.confirmable, wanted.timeout);
    let checked =
        checked.map_err(|error| format!("--{}: {}", error.key.replace('_', "-"), error.why));
    let origin = match checked.and_then(|()| origin(wanted)) {
        Ok(origin) => origin,
        Err(error) => {
            complain(error);
            return Status::Wrong;
        }
    };
    send(wanted, origin).unwrap_or_else(|error| {
        complain(error);
        Status::Failed
    })
}

fn send(wanted: &Load, origin: Origin) -> Result<Status, String> {
    let stop = watch_signals().map_err(|error| {
        format!(
            "could not install the handler for Ctrl-C: \
                                                        {error}"
        )
    })?;
    if let Some(folder) = &wanted.out {
        fs::create_dir_all(folder)
            .map_err(|error| format!("could not create {}: {error}", folder.display()))?;
    }
    let settings = settings(wanted);
    let mut warned = false;
    let open = settings.closed.is_none();
    let (figures, cut) = load::run(origin, &settings, &stop, |progress| {
        if open && !warned && progress.behind > 100_000_000 {
            warned = true;
            warn(progress, &settings);
        }
    })
    .map_err(|error| error.to_string())?;
    if let Some(folder) = &wanted.out {
        keep(folder, &figures)?;
    }
    if wanted.json {
        say(serde_json::to_string_pretty(&figures.json()).unwrap_or_default());
    } else {
        say(table::text(&figures).trim_end());
    }
    if let Some(cut) = cut {
        return Err(format!("{cut}; all requests before it were sent"));
    }
    Ok(if stop.load(Relaxed) {
        Status::Interrupted
    } else if figures.faults > 0 || figures.pace() == PaceFigures::NotKept {
        Status::Failed
    } else {
        Status::Fine
    })
}

/// Warns during the run, as soon as sending falls behind.
fn warn(progress: &Progress, settings: &Settings) {
    let seconds = progress.elapsed as f64 / 1e9;
    let fix = if settings.senders == 1 { "--senders 2, " } else { "" };
    remark(format_args!(
        "warning: this machine cannot send the schedule: it is {:.2} s behind after {seconds:.1} \
         s and sends {:.0} requests/s; lower the rate, or try {fix}--spin, --cores, or an idle \
         machine",
        progress.behind as f64 / 1e9,
        progress.sent as f64 / seconds.max(0.001)
    ));
}

fn origin(wanted: &Load) -> Result<Origin, String> {
    if let Some(file) = &wanted.trace {
        return Ok(Origin::Read(Reader::new(trace::open(file)?)));
    }
    let mut shape = wanted.shape.clone();
    // A closed loop ignores times.
    if wanted.closed.is_some() {
        shape.together = true;
        shape
            .arrivals
            .get_or_insert(Arrivals::Between(Distribution::Constant(units::Span::from_ns(1_000))));
        if shape.requests.is_none() {
            return Err("--closed needs a number of requests; add --requests N".to_owned());
        }
    }
    let recipe = trace::recipe(&shape)?;
    Ok(Origin::Made(recipe.requests().map_err(|error| error.to_string())?))
}

fn settings(wanted: &Load) -> Settings {
    let closed =
        wanted.closed.map(|users| Closed { users: users as usize, think: wanted.think.clone() });
    let operations = wanted.out.as_ref().filter(|_| wanted.operations);
    Settings {
        timeout: wanted.timeout.as_ns(),
        confirmable: wanted.confirmable,
        coap: coap(&wanted.coap),
        answers: !wanted.no_answer,
        senders: wanted.senders as usize,
        cores: wanted.cores.clone(),
        spin: wanted.spin,
        closed,
        connections: wanted.connections as usize,
        qos: wanted.qos,
        patience: wanted.patience.as_ns(),
        from: wanted.from,
        start: None,
        operations: operations.map(|folder| folder.join("operations.csv")),
        seed: wanted.shape.seed,
    }
}

fn coap(wanted: &Coap) -> CoapSettings {
    CoapSettings {
        // Invalid block sizes are rejected by the check.
        block: wanted.block.map(|size| u16::try_from(size.get()).unwrap_or(u16::MAX)),
        max_retransmit: wanted.max_retransmit,
        ack_timeout: wanted.ack_timeout,
        ack_random_factor: wanted.ack_random_factor,
        nstart: wanted.nstart,
        observe: wanted.observe,
    }
}

/// Writes summary.json and latency.hlog.
fn keep(folder: &Path, figures: &Figures) -> Result<(), String> {
    let wrong = |path: &Path, error: &dyn std::fmt::Display| {
        format!("could not write {}: {error}", path.display())
    };
    let path = folder.join("summary.json");
    let json = serde_json::to_string_pretty(&figures.json()).unwrap_or_default();
    fs::write(&path, json + "\n").map_err(|error| wrong(&path, &error))?;
    let path = folder.join("latency.hlog");
    let file = File::create(&path).map_err(|error| wrong(&path, &error))?;
    load::write_log(figures, BufWriter::new(file)).map_err(|error| wrong(&path, &error))
}
