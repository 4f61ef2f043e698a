//! `thingbed analyze`: analyzes a packet capture and prints the results.

use crate::arguments::Analyze;
use crate::show::{colour, width};
use crate::{Status, complain, say, say_styled};
use ::analyze::{Analysis, Error, Options, analyze as analyze_capture};
use std::path::Path;
use std::time::Duration;

/// Reads the capture, prints the analysis, and writes the page if the arguments name one.
pub fn analyze(arguments: &Analyze) -> Status {
    if let Some(number) = arguments.context_given_twice() {
        complain(format_args!("--context {number}=... is given twice; keep one of them"));
        return Status::Wrong;
    }
    let analysis = match read(arguments) {
        Ok(analysis) => analysis,
        Err(error) => {
            complain(format_args!("{}: {error}", arguments.file.display()));
            return Status::Failed;
        }
    };
    if let Err(error) = print(arguments, &analysis) {
        complain(error);
        return Status::Failed;
    }
    // A few packets of an unsupported protocol are no failure; the analysis contains a note.
    let unread: u64 = analysis.unread.iter().map(|row| row.packets).sum();
    let nothing = unread > 0 && unread == analysis.packets;
    if analysis.read_to_end && !nothing { Status::Fine } else { Status::Failed }
}

/// Tables and page are generated from the JSON form, so that all three agree.
fn print(arguments: &Analyze, analysis: &Analysis) -> Result<(), report::Error> {
    let json = serde_json::to_string_pretty(analysis).unwrap_or_default();
    let capture = report::Capture::parse(&json, &arguments.file)?;
    if arguments.json {
        say(&json);
    } else {
        say_styled(
            report::capture_terminal(&capture, width(), colour(), arguments.flows).trim_end(),
        );
    }
    if let Some(html) = &arguments.html {
        let name = arguments.file.file_name().unwrap_or(arguments.file.as_os_str());
        report::write_capture_html(&capture, &name.to_string_lossy(), html)?;
        crate::remark(format_args!("page: {}", html.display()));
    }
    Ok(())
}

fn read(arguments: &Analyze) -> Result<Analysis, Error> {
    let options = Options {
        points: arguments.point.clone(),
        between: arguments.from.clone().zip(arguments.to.clone()),
        within: Duration::from_nanos(arguments.within.as_ns()),
        ports: arguments.port.clone(),
        contexts: arguments.context.clone(),
        ..Options::default()
    };
    if arguments.file == Path::new("-") {
        return analyze_capture(std::io::stdin(), &options);
    }
    // Captures can be larger than memory; `analyze` reads them as a stream.
    analyze_capture(input::open(&arguments.file, input::ANY_SIZE)?, &options)
}
