//! Runs without results, and damaged files.

use crate::columns::Columns;
use record::event::{Tally, add_events};
use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// Whether the folder is that of a run that has no results.
pub(crate) fn is_cut(folder: &Path) -> bool {
    // The plan is written at the start of a run, the summary at its end.
    folder.join("plan.json").exists() && !folder.join("summary.json").exists()
}

/// What is left of a run that has no results: it was killed, or failed.
pub(crate) fn what_is_left(folder: &Path) -> String {
    // The events files are the journal of a run until its tables are written (decision 60).
    let mut tally = Tally::new();
    for path in entries(&folder.join("programs")) {
        if path.extension().is_some_and(|kind| kind == "csv")
            // A FIFO in a folder of unknown origin would block.
            && let Ok(file) = input::open(&path, input::ANY_SIZE)
        {
            // Events before an unreadable place count.
            let _ = add_events(BufReader::new(file), &mut tally);
        }
    }
    let name = folder.file_name().unwrap_or_default().display();
    let events: Vec<String> =
        tally.iter().map(|(name, count)| format!("{count} {}", name.replace('_', " "))).collect();
    let left = match events.is_empty() {
        true => "no events of its programs are left".to_owned(),
        false => format!("events of its programs until then: {}", events.join(", ")),
    };
    format!(
        "{name} has no results: the run was killed, failed, or has not ended yet; {left}; \
         `thingbed run FILE --resume FOLDER` runs it again"
    )
}

/// The tables in a run's folder that cannot be read, as text. `messages.parquet` must exist.
pub fn damaged_tables(folder: &Path) -> Vec<String> {
    let mut tables = entries(folder);
    tables.retain(|path| path.extension().is_some_and(|kind| kind == "parquet"));
    let messages = folder.join("messages.parquet");
    // Written in every run; other tables depend on the workloads.
    if !tables.contains(&messages) {
        tables.push(messages);
    }
    let opened = tables.iter().filter_map(|path| Columns::open(path).err());
    opened.map(|error| error.to_string()).collect()
}

/// The paths in a folder, in order.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_killed_run_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("udp-0");
        fs::create_dir_all(run.join("programs")).unwrap();
        assert!(!is_cut(&run));
        fs::write(run.join("plan.json"), "{}").unwrap();
        assert!(is_cut(&run));
        assert!(what_is_left(&run).contains("no events"), "{}", what_is_left(&run));
        fs::write(run.join("programs/a.0.csv"), "event,n\nsent,1\nsent,2\nsen").unwrap();
        fs::write(run.join("programs/b.0.csv"), "event,n\nreply_sent,1\n").unwrap();
        let text = what_is_left(&run);
        assert!(text.contains("udp-0 has no results") && text.contains("1 reply sent, 2 sent"));
        fs::write(run.join("summary.json"), "").unwrap();
        assert!(!is_cut(&run));
    }

    #[test]
    fn a_pipe_in_a_folder_of_unknown_origin_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let programs = dir.path().join("programs");
        fs::create_dir(&programs).unwrap();
        let made = std::process::Command::new("mkfifo").arg(programs.join("a.0.csv")).status();
        assert!(made.unwrap().success());
        assert!(what_is_left(dir.path()).contains("no events"));
    }

    #[test]
    fn tables_without_an_end_are_named() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(damaged_tables(dir.path()).len(), 1, "messages.parquet is missing");
        fs::write(dir.path().join("messages.parquet"), "").unwrap();
        fs::write(dir.path().join("nodes.parquet"), "PAR1").unwrap();
        let found = damaged_tables(dir.path());
        assert_eq!(found.len(), 2);
        assert!(found[0].contains("messages.parquet") && found[1].contains("nodes.parquet"));
    }
}
