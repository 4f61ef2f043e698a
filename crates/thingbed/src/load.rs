//! `thingbed load`: sends requests when they are meant to be sent.

use crate::arguments::Load;
use crate::signals::watch_signals;
use crate::{Status, complain, remark, say, trace};
use ::trace::{Arrivals, Distribution, Reader};
use load::{Closed, Figures, Origin, PaceFigures, Progress, Settings};
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

mod table;

/// Sends, and says what came of it.
pub fn load(wanted: &Load) -> Status {
    let origin = match origin(wanted) {
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
    let stop = watch_signals().map_err(|error| format!("cannot hear of signals: {error}"))?;
    if let Some(folder) = &wanted.out {
        fs::create_dir_all(folder)
            .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
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
        return Err(format!("{cut}; what came before it was sent"));
    }
    Ok(if stop.load(Relaxed) {
        Status::Interrupted
    } else if figures.faults > 0 || figures.pace() == PaceFigures::NotKept {
        Status::Failed
    } else {
        Status::Fine
    })
}

/// Said at once, while it goes on.
fn warn(progress: &Progress, settings: &Settings) {
    let seconds = progress.elapsed as f64 / 1e9;
    let mend = if settings.senders == 1 { "--senders 2, " } else { "" };
    remark(format_args!(
        "warning: this machine cannot submit the schedule: {:.2} s behind after {seconds:.1} s, \
         {:.0} requests a second sent; ask for less, or try {mend}--spin, --cores, a quiet machine",
        progress.behind as f64 / 1e9,
        progress.sent as f64 / seconds.max(0.001)
    ));
}

fn origin(wanted: &Load) -> Result<Origin, String> {
    if let Some(file) = &wanted.trace {
        return Ok(Origin::Read(Reader::new(trace::open(file)?)));
    }
    let mut shape = wanted.shape.clone();
    // A closed loop needs no times.
    if wanted.closed.is_some() {
        shape.together = true;
        shape
            .arrivals
            .get_or_insert(Arrivals::Between(Distribution::Constant(units::Span::from_ns(1_000))));
        if shape.requests.is_none() {
            return Err("a closed loop ends by number: add --requests".to_owned());
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

/// Writes summary.json and latency.hlog.
fn keep(folder: &Path, figures: &Figures) -> Result<(), String> {
    let wrong = |path: &Path, error: &dyn std::fmt::Display| {
        format!("cannot write {}: {error}", path.display())
    };
    let path = folder.join("summary.json");
    let json = serde_json::to_string_pretty(&figures.json()).unwrap_or_default();
    fs::write(&path, json + "\n").map_err(|error| wrong(&path, &error))?;
    let path = folder.join("latency.hlog");
    let file = File::create(&path).map_err(|error| wrong(&path, &error))?;
    load::write_log(figures, BufWriter::new(file)).map_err(|error| wrong(&path, &error))
}
