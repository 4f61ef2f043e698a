//! Sweeps on a real Slurm cluster, whose nodes are all on this machine.

mod common;

use common::{Bed, CommandOutput, has};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Runs that are short in virtual time, and take some seconds of real time each.
const METERS: &str = "experiment: meters
nodes: {utility: {}, meter: {count: 3}}
networks: {grid: {attach: [utility, meter], subnet: 10.0.0.0/24, links: {meter: {up: {delay: 20 ms, loss: 10 %}}}}}
models:
  udp: {down: udp/request-response, up: udp/request-response, every: 0.1 s, drain: 2 s}
  tcp: {down: tcp/router-dealer, up: tcp/request-reply, every: 0.1 s}
workloads:
  - interaction: {name: poll, source: utility, sinks: meter, model: \"${model}\", payload: payload.xml}
duration: 2 s
drain: 5 s
matrix: {model: [udp, tcp]}
";

/// A cluster that stops when dropped.
struct Cluster {
    folder: tempfile::TempDir,
}

impl Cluster {
    fn script(folder: &Path, words: &[&str]) -> CommandOutput {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slurm/cluster.sh");
        let mut command = Command::new("bash");
        command.arg(script).arg(words[0]).arg(folder).args(&words[1..]);
        command.env("CLUSTER_CONF", "SlurmdTimeout=2\nMinJobAge=20").stdin(Stdio::null());
        // Its daemons would keep a pipe open.
        let out = fs::File::create(folder.join("output")).unwrap();
        command.stdout(out.try_clone().unwrap()).stderr(out);
        let status = command.status().unwrap().code().unwrap_or(-1);
        let out = fs::read_to_string(folder.join("output")).unwrap();
        CommandOutput { status, out, err: String::new() }
    }

    /// A cluster of this number of nodes; `None` if Slurm is not installed.
    fn start(nodes: &str) -> Option<Self> {
        let there = |name: &str| has(name) || Path::new("/usr/sbin").join(name).exists();
        if !["slurmctld", "slurmd", "sbatch", "munged"].into_iter().all(there) {
            eprintln!("Slurm is not installed: not tested");
            return None;
        }
        let folder = tempfile::Builder::new().prefix("sl").tempdir_in("/tmp").unwrap();
        Self::script(folder.path(), &["start", nodes]).expect(0, &["SLURM_CONF="]);
        Some(Self { folder })
    }

    fn configuration(&self) -> PathBuf {
        self.folder.path().join("slurm.conf")
    }

    fn queue(&self) -> String {
        let mut command = Command::new("squeue");
        command.args(["-h", "-r", "-o", "%T %N"]).env("SLURM_CONF", self.configuration());
        String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
    }

    /// Waits until the queue satisfies the condition.
    fn until(&self, condition: impl Fn(&str) -> bool) {
        let end = Instant::now() + Duration::from_secs(120);
        while !condition(&self.queue()) {
            assert!(Instant::now() < end, "{}", self.queue());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn sweep(&self, bed: &Bed, more: &[&str]) -> Child {
        let words = ["run", "e.yaml", "--clock", "virtual", "--on", "slurm"];
        let mut command = bed.command(&[&words[..], more].concat());
        command.env("SLURM_CONF", self.configuration());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        Self::script(self.folder.path(), &["stop"]);
    }
}

/// The files of all runs, except those that depend on the machine.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut all, mut todo) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(next) = todo.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let own = ["host.json", "slurm", "cut-short", "report.html"];
            if own.iter().any(|name| path.ends_with(name)) {
                continue;
            }
            match path.is_dir() {
                true => todo.push(path),
                false => {
                    let name = path.strip_prefix(folder).unwrap().to_owned();
                    all.insert(name, fs::read(&path).unwrap());
                }
            }
        }
    }
    all
}

#[test]
fn runs_on_a_cluster_are_those_had_here_even_if_a_node_dies() {
    let Some(cluster) = Cluster::start("2") else { return };
    let bed = Bed::new();
    bed.write("e.yaml", METERS);
    let sweep = cluster.sweep(&bed, &["--repeat", "2"]);
    cluster.until(|queue| queue.contains("RUNNING n0"));
    Cluster::script(cluster.folder.path(), &["kill", "0"]);
    let text = CommandOutput::of(sweep.wait_with_output().unwrap());
    text.expect(0, &["4 runs as Slurm's job ", "in virtual time: 4 valid"]);
    let there = files(&bed.sweep("meters"));
    fs::remove_dir_all(bed.path().join("runs")).unwrap();
    let words = ["run", "e.yaml", "--clock", "virtual", "--repeat", "2"];
    bed.thingbed(&words).expect(0, &["4 valid"]);
    let here = files(&bed.sweep("meters"));
    let differing: Vec<_> = here.iter().filter(|(name, b)| there.get(*name) != Some(b)).collect();
    let names: Vec<_> = differing.iter().map(|(name, _)| name).collect();
    assert!(names.is_empty() && here.len() == there.len(), "{names:?}");
}

#[test]
fn ctrl_c_cancels_what_is_left_and_resume_has_it() {
    let Some(cluster) = Cluster::start("1") else { return };
    let bed = Bed::new();
    bed.write("e.yaml", METERS);
    let sweep = cluster.sweep(&bed, &["--repeat", "3"]);
    // One run is complete, another one executes.
    cluster.until(|queue| queue.lines().count() == 5 && queue.contains("RUNNING"));
    kill(Pid::from_raw(sweep.id() as i32), Signal::SIGINT).unwrap();
    CommandOutput::of(sweep.wait_with_output().unwrap()).expect(130, &[]);
    assert_eq!(cluster.queue(), "");
    let folder = bed.sweep("meters").display().to_string();
    // Another user cancels with scancel: Thingbed reports what is missing.
    let other = cluster.sweep(&bed, &["--repeat", "3", "--jobs", "1"]);
    cluster.until(|queue| queue.contains("RUNNING"));
    let mut cancel = Command::new("scancel");
    cancel.args(["--me"]).env("SLURM_CONF", cluster.configuration());
    assert!(cancel.status().unwrap().success());
    let words = ["error: a task of Slurm", "no results"];
    let text = CommandOutput::of(other.wait_with_output().unwrap());
    assert_eq!(text.status, 1, "{}{}", text.out, text.err);
    assert!(text.err.contains(words[0]), "{}", text.err);

    let words = ["run", "e.yaml", "--clock", "virtual", "--repeat", "3", "--resume", &folder];
    bed.thingbed(&words).expect(0, &["finished before", "6 valid"]);
}

#[test]
fn without_a_cluster_the_error_says_what_is_missing() {
    let bed = Bed::new();
    bed.write("e.yaml", METERS);
    let run = |clock: &str, path: &str| {
        let mut command = bed.command(&["run", "e.yaml", "--clock", clock, "--on", "slurm"]);
        CommandOutput::of(command.env("PATH", path).output().unwrap())
    };
    run("virtual", "/nowhere").expect(1, &["could not run sbatch", "apt install slurm-client"]);
    run("real", "/usr/bin:/bin").expect(2, &["--on slurm needs virtual time"]);
}
