//! The hidden command `task`: executes one run of a sweep on a node of a cluster.

use super::files::{path, took};
use crate::layout::SLURM;
use crate::progress::Screen;
use crate::provenance::Provenance;
use crate::sweep::{self, name};
use crate::{Status, capsule, complain, lock, remark, resume};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Executes the run `requested` of the sweep in `folder`.
pub fn task(folder: &Path, requested: &str) -> Status {
    // A task of an earlier submission may still execute this run.
    let _lock = match lock::of_run(&folder.join(SLURM), requested) {
        Ok(lock) => lock,
        Err(error) => {
            complain(error);
            return Status::Failed;
        }
    };
    // Slurm may restart a finished task, and a task of an earlier submission may start late.
    if resume::had(&folder.join(requested)).is_some()
        && took(&folder.join(SLURM), requested).is_some()
    {
        remark(format_args!("{requested}  finished before"));
        return Status::Fine;
    }
    // Before the run: until this task writes it again, the run counts as not finished.
    let _ = fs::remove_file(path(&folder.join(SLURM), requested));
    let provenance = match Provenance::read(folder) {
        Ok(provenance) => provenance,
        Err(error) => {
            complain(error);
            return Status::Failed;
        }
    };
    let mut run = provenance.run(PathBuf::from("runs"), Some(1), false);
    // As a resumed sweep: the runs of other tasks are in the same folder.
    run.resume = Some(folder.to_owned());
    let opened = match capsule::opened(&run) {
        Ok(opened) => opened,
        Err(error) => {
            complain(error);
            return Status::Failed;
        }
    };
    let (run, capsule) = match &opened {
        Some((run, capsule)) => (run, Some(capsule)),
        None => (&run, None),
    };
    let prepared = match sweep::prepare(run, capsule) {
        Ok(prepared) => prepared,
        Err(status) => return status,
    };
    let runs = prepared.runs();
    let Some((repeat, cell)) =
        runs.into_iter().find(|(repeat, cell)| name(cell, *repeat) == requested)
    else {
        complain(format!("the sweep in {} has no run {requested}", folder.display()));
        return Status::Wrong;
    };
    let (began, mut screen) = (Instant::now(), Screen::new(requested, false, None));
    match prepared.sweep().one(cell, repeat, false, &mut screen) {
        Ok(finished) => {
            screen.end(&sweep::word(&finished));
            let took = began.elapsed().as_secs_f64().to_string();
            let path = path(&folder.join(SLURM), requested);
            // Last, and durable: the submitting process takes this file as the end of the run.
            match journal::write(&path, took) {
                Ok(()) => Status::Fine,
                Err(error) => {
                    complain(format!("could not write {}: {error}", path.display()));
                    Status::Failed
                }
            }
        }
        Err(error) => {
            screen.end("failed");
            complain(&error);
            match error.is_interruption() {
                true => Status::Interrupted,
                false => Status::Failed,
            }
        }
    }
}
