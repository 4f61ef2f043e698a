//! `thingbed analyze`: what is in a capture.

use crate::arguments::Analyze;
use crate::show::width;
use crate::{Status, complain, say};
use ::analyze::{Analysis, Error, Options, analyze as look};
use std::fs::File;
use std::io::IsTerminal;
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
    if let Err(error) = show(wanted, &analysis) {
        complain(error);
        return Status::Failed;
    }
    if analysis.complete { Status::Fine } else { Status::Failed }
}

/// What is printed as JSON is what tables and pages are made of.
fn show(wanted: &Analyze, analysis: &Analysis) -> Result<(), report::Error> {
    let json = serde_json::to_string_pretty(analysis).unwrap_or_default();
    let capture = report::Capture::parse(&json, &wanted.file)?;
    if wanted.json {
        say(&json);
    } else {
        let colour = std::io::stdout().is_terminal();
        say(report::capture_terminal(&capture, width(), colour, wanted.flows).trim_end());
    }
    if let Some(html) = &wanted.html {
        let name = wanted.file.file_name().unwrap_or(wanted.file.as_os_str());
        report::write_capture_html(&capture, &name.to_string_lossy(), html)?;
        crate::remark(format_args!("page: {}", html.display()));
    }
    Ok(())
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
