//! `thingbed analyze`: what is in a capture.

use crate::arguments::Analyze;
use crate::{Status, complain, say};
use ::analyze::{Analysis, Error, Options, analyze as look};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// Reads the capture, prints what is in it, and draws its page if one is wanted.
pub fn analyze(wanted: &Analyze) -> Status {
    let analysis = match read(wanted) {
        Ok(analysis) => analysis,
        Err(error) => {
            complain(format_args!("{}: {error}", wanted.file.display()));
            return Status::Failed;
        }
    };
    if wanted.json {
        say(serde_json::to_string_pretty(&analysis).unwrap_or_default());
    }
    if analysis.complete { Status::Fine } else { Status::Failed }
}

fn read(wanted: &Analyze) -> Result<Analysis, Error> {
    let options = Options {
        points: wanted.point.clone(),
        between: wanted.from.clone().zip(wanted.to.clone()),
        within: Duration::from_nanos(wanted.within.as_ns()),
        ports: wanted.port.clone(),
        ..Options::default()
    };
    if wanted.file == Path::new("-") {
        return look(std::io::stdin(), &options);
    }
    look(File::open(&wanted.file)?, &options)
}
