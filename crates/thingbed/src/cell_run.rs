//! One run of a sweep (a cell and a repeat), on this machine or in a guest.

use crate::complain;
use crate::environment::{current_exe, workload_program};
use crate::layout::CUT_SHORT;
use crate::progress::Screen;
use crate::resume;
use crate::sweep::Sweep;
use crate::sweep::name;
use crate::virtual_time::{self, Request};
use experiment::{Cell, Clock, Cpu, Plan};
use guest::{Engine, Guest, Image, Mount};
use runner::{Error, Finished, Folder, Options};
use std::fs;
use std::path::{Path, PathBuf};

impl Sweep<'_> {
    /// Executes one run of a cell.
    pub fn one(
        &self,
        cell: &Cell,
        repeat: u32,
        single: bool,
        screen: &mut Screen,
    ) -> Result<Finished, Error> {
        let path = match single {
            true => self.folder.clone(),
            false => self.folder.join(name(cell, repeat)),
        };
        // A folder that is left over here belongs to a run that was cut short or damaged; complete
        // runs are not executed again.
        if self.arguments.resume.is_some() {
            resume::put_aside(&path, CUT_SHORT)?;
        }
        // A single run is in the sweep's folder, which exists already.
        let folder = if single { Folder::take(path) } else { Folder::make(path)? };
        let plan = self.plan(cell, repeat)?;
        let finished = match self.arguments.clock(self.experiment) {
            Clock::Real => self.on_host(&plan, &folder, screen)?,
            Clock::Virtual => {
                screen.guest_starts();
                let guest = self.guest(&plan, cell, &folder)?;
                let names = || plan.nodes.iter().map(|node| node.name.clone()).collect();
                // Only `--stop-at` lets a guest reach the user's terminal (decision 43).
                let nodes = self.arguments.stop_at.map(|_| names());
                let file = fs::canonicalize(&self.arguments.file).unwrap_or_default();
                let home = file.parent().unwrap_or(Path::new("/")).to_owned();
                virtual_time::in_guest(
                    guest,
                    nodes,
                    &home,
                    folder.path(),
                    &self.interrupted,
                    screen,
                )?
            }
        };
        // Said at once and not only in the report: a user who compares figures would take the runs
        // for equal.
        if self.arguments.replay.is_some() {
            let text = departures(&finished.folder);
            screen.suspend(|| text.map(crate::remark));
        }
        if !single {
            let to = finished.folder.join("experiment.yaml");
            // After the run, so that a killed run has no file that looks complete.
            journal::write(&to, self.experiment.source()).map_err(Error::write(&to))?;
            // A page per run, so that you can view and move each run separately.
            let page = finished.folder.join("report.html");
            let drawn = report::Sweep::read(&finished.folder);
            // A page that cannot be drawn is no reason to lose the run, whose figures are on the
            // disk.
            if let Err(error) = drawn.and_then(|run| report::write_html(&run, &page)) {
                complain(error);
            }
        }
        Ok(finished)
    }

    /// The plan of a run. The cell may have the CPU axis, which the experiment does not know.
    pub(crate) fn plan(&self, cell: &Cell, repeat: u32) -> Result<Plan, Error> {
        let plan = self.experiment.plan(&cell.without_cpu(), repeat, self.seed)?;
        Ok(Plan { cell: cell.clone(), ..plan })
    }

    /// The CPU of a cell's runs in virtual time.
    fn cpu(&self, cell: &Cell) -> Cpu {
        let own = cell.cpu();
        own.unwrap_or_else(|| self.arguments.cpus()[0])
    }

    /// Starts the guest of a run in virtual time.
    fn guest(&self, plan: &Plan, cell: &Cell, folder: &Folder) -> Result<Guest, Error> {
        let results = virtual_time::results(folder.path())?;
        let guest = match self.capsule {
            // Boot only from the image, without files of this machine: a capsule may be untrusted.
            Some(capsule) => {
                let image = capsule.image(cell, plan.repeat).ok_or_else(|| Error::Guest {
                    text: format!("the capsule has no run {}", name(cell, plan.repeat)),
                    ends_sweep: true,
                })?;
                Guest::boot_image(&image, results, &virtual_time::cache())
            }
            None => Guest::boot(&virtual_time::machine(plan, self.request(plan, cell)?, results)?),
        };
        guest.map_err(virtual_time::failed)
    }

    /// The boot image of a run with a CPU of finite speed.
    ///
    /// # Errors
    /// If the run does not support virtual time, or one of its files cannot be read.
    pub(crate) fn image(&self, cell: &Cell, repeat: u32) -> Result<Image, Error> {
        let plan = self.plan(cell, repeat)?;
        // The image lists guests' paths only; the host's folder differs for each repetition.
        let mount = Mount { host: PathBuf::new(), guest: PathBuf::from(virtual_time::FOLDER) };
        let machine = virtual_time::machine(&plan, self.request(&plan, cell)?, vec![mount])?;
        match &machine.engine {
            Engine::Qemu { kernel, mips } => {
                Image::of(&machine, kernel, *mips).map_err(virtual_time::failed)
            }
            Engine::UserModeLinux { .. } => {
                let text = "a guest with an infinite CPU has no image: it uses the host's files"
                    .to_owned();
                Err(Error::Guest { text, ends_sweep: true })
            }
        }
    }

    /// The request to execute a run in a guest.
    fn request(&self, plan: &Plan, cell: &Cell) -> Result<Request, Error> {
        // Absolute: the guest resolves paths in its own root.
        let file =
            fs::canonicalize(&self.arguments.file).map_err(Error::write(&self.arguments.file))?;
        let replay = self.arguments.replay.as_deref().map(fs::canonicalize).transpose();
        let home = file.parent().unwrap_or(Path::new("/")).to_owned();
        Ok(Request {
            files: self.experiment.files.iter().map(|name| home.join(name)).collect(),
            home,
            file,
            // The guest reads the file itself, unless `--set` or variables changed it: then the
            // host's text counts.
            text: self.experiment.is_changed().then(|| self.experiment.source().to_owned()),
            cell: cell.without_cpu(),
            name: cell.clone(),
            repeat: plan.repeat,
            seed: plan.seed,
            // Set by `machine`: the request must not contain a path of this run, which would change
            // the guest's random numbers (decision 42).
            folder: PathBuf::new(),
            workload: workload_program(),
            cpu: self.cpu(cell),
            capture: self.arguments.capture,
            stop_at: self.arguments.stop_at,
            replay: replay.map_err(Error::write(Path::new("--replay")))?,
        })
    }

    /// Executes a plan on this machine, in real time.
    fn on_host(
        &self,
        plan: &Plan,
        folder: &Folder,
        screen: &mut Screen,
    ) -> Result<Finished, Error> {
        let (tool, workload) = (current_exe(), workload_program());
        let home = fs::canonicalize(&self.arguments.file).unwrap_or_default();
        let options = Options {
            frame_path: self.frame_path,
            tool: &tool,
            workload: &workload,
            home: home.parent().unwrap_or(Path::new("/")),
            threads: self.arguments.forwarding.threads(),
            spin: self.arguments.forwarding.spin,
            capture: self.arguments.capture,
            replay: self.arguments.replay.as_deref(),
            interrupted: &self.interrupted,
            clock: Clock::Real,
            cpu: Cpu::Infinite,
            version: env!("CARGO_PKG_VERSION"),
            commit: env!("THINGBED_COMMIT"),
        };
        runner::run(plan, folder, &options, screen)
    }
}

/// What a replay's programs did otherwise than in the recorded run.
fn departures(folder: &Path) -> Option<String> {
    let found = report::run_facts(folder).ok()?.replay_departures?;
    let (count, first) = (found.count, found.first?);
    Some(format!(
        "warning: {count} frames differ from the recorded run, so this is not the same run; the \
         first: {first}\n  programs sent something else, or at other times than then; decisions \
         about frames without a record are random"
    ))
}
