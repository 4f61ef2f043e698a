//! The command `pack`: executes an experiment's runs and writes a capsule.

use crate::arguments::{Pack, Run};
use crate::provenance::emulator;
use crate::sweep::{self, Prepared};
use crate::{Status, complain, remark};
use ::capsule::{Capsule, ENDING, FORMAT, Manifest, Packed, is_capsule};
use experiment::{Clock, Cpu};
use runner::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The default CPU of a capsule.
const CPU: Cpu = Cpu::Mips(1_000);

/// Creates a capsule.
pub fn pack(requested: &Pack) -> Status {
    match packed(requested) {
        Ok(status) => status,
        Err(text) => {
            complain(text);
            Status::Wrong
        }
    }
}

fn packed(requested: &Pack) -> Result<Status, String> {
    if is_capsule(&requested.file) {
        return Err(format!("{} is already a capsule", requested.file.display()));
    }
    if requested.cpu.iter().any(|cpu| cpu.is_infinite()) {
        return Err(
            "a capsule needs a CPU of finite speed: only QEMU runs capsules, which contain \
                    kernel and files\n  leave out --cpu, or use e.g. --cpu 8"
                .to_owned(),
        );
    }
    let mut name = requested.file.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{ENDING}"));
    let to = requested.out.clone().unwrap_or_else(|| PathBuf::from(name));
    if !is_capsule(&to) {
        return Err(format!("the name of a capsule must end in .{ENDING}: {}", to.display()));
    }
    let scratch = tempfile::Builder::new().prefix("thingbed-pack-").tempdir();
    let scratch = scratch.map_err(|error| format!("could not create a folder: {error}"))?;
    let run = run(requested, scratch.path());
    let prepared = match sweep::prepare(&run, None) {
        Ok(prepared) => prepared,
        Err(status) => return Ok(status),
    };
    if let Some(name) = prepared.experiment.variables.first() {
        return Err(format!(
            "{} reads the environment variable `{name}`, and a capsule gives the same results \
             everywhere\n  write the value into the file",
            requested.file.display()
        ));
    }
    // The images are complete before the first run: a run must not use a file that was changed
    // during an earlier one.
    let mut capsule = gather(&prepared, &to).map_err(|error| error.to_string())?;
    // The runs use the capsule's images, not the host's files, as every repetition will do.
    let (status, folder) = prepared.with(&capsule).run(false);
    let Some(folder) = folder.filter(|_| !matches!(status, Status::Interrupted | Status::Failed))
    else {
        return Ok(status);
    };
    let written = (0..capsule.manifest.runs.len())
        .try_for_each(|number| {
            let own = &capsule.manifest.runs[number];
            let name = sweep::name(&own.cell, own.repeat);
            let alone = folder.join("run.json").exists();
            let own = if alone { folder.clone() } else { folder.join(name) };
            capsule.expect(number, &own, crate::differences::files(&own))
        })
        .and_then(|()| capsule.write());
    written.map_err(|error| format!("could not write {}: {error}", to.display()))?;
    let size = fs::metadata(&to).map_or(0, |found| found.len());
    remark(format_args!(
        "{}: {} runs, {:.0} MB; thingbed run {0} repeats them, thingbed verify {0} compares",
        to.display(),
        capsule.manifest.runs.len(),
        size as f64 / 1e6
    ));
    Ok(status)
}

/// The options of the runs.
fn run(requested: &Pack, out: &Path) -> Run {
    Run {
        file: requested.file.clone(),
        only: requested.only.clone(),
        repeat: requested.repeat,
        seed: requested.seed,
        out: out.to_owned(),
        clock: Some(Clock::Virtual),
        cpu: if requested.cpu.is_empty() { vec![CPU] } else { requested.cpu.clone() },
        jobs: requested.jobs,
        quiet: requested.quiet,
        ..Run::default()
    }
}

/// Creates a capsule with the images of all runs, before any run has executed.
fn gather(prepared: &Prepared<'_>, to: &Path) -> Result<Capsule, Error> {
    let failed = |error: io::Error| Error::Guest {
        text: format!("could not create the capsule {}: {error}", to.display()),
        ends_sweep: true,
    };
    let arguments = prepared.arguments;
    let file = fs::canonicalize(&arguments.file).map_err(Error::write(&arguments.file))?;
    let manifest = Manifest {
        format: FORMAT,
        thingbed: env!("CARGO_PKG_VERSION").to_owned(),
        commit: env!("THINGBED_COMMIT").to_owned(),
        emulator: emulator(&arguments.cpus()),
        experiment: prepared.experiment.name.clone(),
        file: file.file_name().unwrap_or_default().into(),
        home: file.parent().unwrap_or(Path::new("/")).to_owned(),
        seed: prepared.seed,
        repeats: prepared.repeats.end,
        cpu: arguments.cpus(),
        runs: Vec::new(),
    };
    let mut capsule = Capsule::new(to, manifest).map_err(failed)?;
    let sweep = prepared.sweep();
    for (repeat, cell) in prepared.runs() {
        let mut image = sweep.image(cell, repeat)?;
        for source in image.sources() {
            *source = capsule.take(source).map_err(failed)?;
        }
        let expected = Default::default();
        capsule.manifest.runs.push(Packed { cell: cell.clone(), repeat, image, expected });
    }
    capsule.restore_home().map_err(failed)?;
    Ok(capsule)
}
