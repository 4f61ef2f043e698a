//! A folder to run Thingbed in, as a user does, and the results of commands.
#![allow(dead_code, reason = "each test file has its own needs")]

pub mod device;
pub mod live;

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Words of commands that need a guest kernel; `--run` is that of `compare`.
const VIRTUAL: [&str; 7] = ["virtual", "--cpu", "--run", "verify", "pack", "demo", "doctor"];

/// Builds the guest kernel, or waits until another process has built it.
fn guest_kernel() {
    static BUILT: std::sync::Once = std::sync::Once::new();
    BUILT.call_once(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/kernel.sh");
        let built = Command::new(script).output().unwrap();
        let text = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "make kernel: {text}");
    });
}

/// A folder with a payload, for experiments.
pub struct Bed(TempDir);

/// Exit status and output of a command.
pub struct CommandOutput {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Bed {
    pub fn new() -> Self {
        let bed = Self(tempfile::tempdir().unwrap());
        let number = "<update number=\"##########\"/>";
        bed.write("payload.xml", &format!("{number}{}", " ".repeat(1699 - number.len())));
        bed
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Thingbed, in this folder.
    pub fn command(&self, args: &[&str]) -> Command {
        let tool = Path::new(env!("CARGO_BIN_EXE_thingbed"));
        let workload = tool.with_file_name("thingbed-workload");
        assert!(workload.exists(), "cargo build -p workloads first");
        if args.iter().any(|word| self.needs_kernel(word)) {
            guest_kernel();
        }
        let mut command = Command::new(tool);
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        command
    }

    /// Whether a word of a command, or the file that it names, asks for virtual time.
    fn needs_kernel(&self, word: &str) -> bool {
        let text = || fs::read_to_string(self.path().join(word)).unwrap_or_default();
        VIRTUAL.contains(&word) || word.ends_with(".capsule") || text().contains("clock: virtual")
    }

    pub fn thingbed(&self, args: &[&str]) -> CommandOutput {
        CommandOutput::of(self.command(args).output().unwrap())
    }

    /// The newest folder of a sweep in `runs/<experiment>`.
    pub fn sweep(&self, experiment: &str) -> PathBuf {
        let parent = self.path().join("runs").join(experiment);
        let entries = fs::read_dir(&parent).unwrap_or_else(|e| panic!("{}: {e}", parent.display()));
        entries.map(|entry| entry.unwrap().path()).max().expect("a folder of a sweep")
    }

    /// The summaries of a sweep of many runs.
    pub fn summaries(&self, experiment: &str) -> Vec<Value> {
        let list = json(&self.sweep(experiment).join("summary.json"));
        list.as_array().expect("a list").clone()
    }
}

impl CommandOutput {
    pub fn of(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let status = output.status.code().unwrap_or(-1);
        let answer = Self { status, out: text(&output.stdout), err: text(&output.stderr) };
        assert!(!answer.err.contains("panicked"), "{}", answer.err);
        answer
    }

    /// Checks that it ended with `status` and printed each of `words`.
    #[track_caller]
    pub fn expect(self, status: i32, words: &[&str]) -> Self {
        assert_eq!(self.status, status, "{}\n{}", self.out, self.err);
        let all = format!("{}{}", self.out, self.err);
        for word in words {
            assert!(all.contains(word), "no `{word}` in:\n{all}");
        }
        self
    }

    /// Checks a completed run and its output. Tests share the machine, so any verdict is allowed,
    /// except for failures of the run itself.
    #[track_caller]
    pub fn ran(self, words: &[&str]) -> Self {
        let status = if self.status == 3 { 3 } else { 0 };
        for failure in ["the program of", "ignored SIGTERM", "forwarding thread failed"] {
            assert!(!self.out.contains(failure), "{}", self.out);
        }
        self.expect(status, words)
    }

    /// Checks a run in which a program failed: status 4, or 3 if the machine disturbed the run as
    /// well, since tests share the machine.
    #[track_caller]
    pub fn failed(self, words: &[&str]) -> Self {
        assert!(self.out.contains("failed   a program failed: "), "{}\n{}", self.out, self.err);
        let status = if self.out.contains("\n  invalid  ") { 3 } else { 4 };
        self.expect(status, words)
    }
}

pub fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// A metric of a summary, by the path of its keys.
#[track_caller]
pub fn figure(summary: &Value, path: &str) -> f64 {
    let found = summary.pointer(&path.replace('.', "/")).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("no {path} in {summary:#}"))
}

/// A small comparison: four models over these networks, each with one of the profiles `ideal`,
/// `slow` and `lossy`.
/// `ideal`, `slow` and `lossy` each.
pub fn comparison(name: &str, consumers: u32, models: &str, networks: &str, more: &str) -> String {
    format!(
        "experiment: {name}
nodes:
  utility: {{count: 1}}
  consumer: {{count: {consumers}}}
networks:
  field:
    attach: [utility, consumer]
    subnet: 10.0.0.0/24
    mtu: 113 B
    profile: ${{network}}
profiles:
  ideal: {{}}
  slow:
    links:
      consumer:
        up: {{delay: 5 ms, rate: 1 Mbit/s}}
        down: {{delay: 10 ms, rate: 1 Mbit/s}}
  lossy:
    links:
      consumer:
        up: {{delay: 5 ms, loss: 5 %}}
        down: {{delay: 5 ms, loss: 5 %}}
models:
  udp-rr: {{down: udp/request-response, up: udp/request-response, every: 0.1 s, drain: 3 s}}
  tcp-rd: {{down: tcp/router-dealer, up: tcp/request-reply, every: 0.1 s}}
  tcp-ps: {{down: tcp/publish-subscribe, up: tcp/request-reply, every: 1 s}}
  pgm-ps: {{down: pgm/publish-subscribe, up: tcp/request-reply, every: 1 s}}
workloads:
  - interaction:
      source: utility
      sinks: consumer
      model: ${{model}}
      payload: payload.xml
matrix:
  model: [{models}]
  network: [{networks}]
duration: 2 s
drain: 20 s
{more}"
    )
}

pub fn is_root() -> bool {
    // SAFETY: only reads this process's user id.
    unsafe { libc::geteuid() == 0 }
}

/// A third-party Python program that `scripts/dependencies.sh test` has installed; prints a message
/// if it is missing.
pub fn peer(program: &str) -> Option<PathBuf> {
    let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/interop/bin");
    let path = peers.join(program);
    if !path.exists() {
        eprintln!("{program} is not installed: part of a test is skipped");
    }
    path.exists().then_some(path)
}

/// Whether a program of this name is in PATH; prints a message if it is missing.
pub fn has(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&paths).any(|dir| dir.join(program).exists());
    if !there {
        eprintln!("{program} is not installed: part of a test is skipped");
    }
    there
}

/// The director's C library in cargo's target folder: the newer one, because `cargo test` renews only that in
/// `deps`.
pub fn director_library() -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_thingbed")).parent().unwrap().to_owned();
    let places = ["libdirector_c.so", "deps/libdirector_c.so"].map(|place| target.join(place));
    let built = |place: &&PathBuf| fs::metadata(place).and_then(|file| file.modified()).ok();
    let newest = places.iter().filter(|place| place.exists()).max_by_key(built);
    newest.unwrap_or_else(|| panic!("cargo build -p director-c first: none of {places:?}")).clone()
}
