//! Cleanup: nothing is left behind, however a run ends.

mod common;

use common::{Bed, comparison, figure, is_root, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const MARK: &str = "THINGBED_TEST_MARK";

/// A run in progress, identified by a mark that all its processes inherit.
struct Run {
    child: Child,
    mark: String,
}

impl Run {
    fn start(bed: &Bed, args: &[&str], mark: &str) -> Self {
        let mark = format!("{mark}-{}", std::process::id());
        let mut command = bed.command(args);
        command.env(MARK, &mark).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A shell starts background processes with SIGINT ignored, perhaps also the tests.
        // SAFETY: signal() is safe between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
        Self { child: command.spawn().unwrap(), mark }
    }

    /// Reads the output of the run until a line contains `word`.
    fn wait_for(&mut self, word: &str) {
        let mut lines = BufReader::new(self.child.stderr.as_mut().unwrap()).lines();
        let output = lines.find(|line| line.as_ref().unwrap().contains(word));
        assert!(output.is_some(), "it ended before it said `{word}`");
    }

    fn signal(&self, signal: i32) {
        // SAFETY: sends a signal to a child that has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Processes with the mark, in any namespace.
    fn processes(&self) -> Vec<i32> {
        let entry = format!("{MARK}={}\0", self.mark);
        let marked = |pid: &i32| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.windows(entry.len()).any(|window| window == entry.as_bytes())
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(marked).collect()
    }

    /// Waits until no process has the mark; the kernel takes a moment for this.
    #[track_caller]
    fn expect_gone(&self, when: &str) {
        let deadline = Instant::now() + Duration::from_secs(120);
        while !self.processes().is_empty() {
            let pids = self.processes();
            assert!(Instant::now() < deadline, "{when}: processes {pids:?} are still there");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Cgroup folders created by the Thingbed process with this id, anywhere below a mount of the
/// hierarchies.
fn groups(pid: u32) -> BTreeSet<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounts = mounts.lines().filter(|line| line.contains(" - cgroup"));
    let mut places: Vec<PathBuf> =
        mounts.filter_map(|line| line.split(' ').nth(4).map(PathBuf::from)).collect();
    let mut found = BTreeSet::new();
    while let Some(place) = places.pop() {
        let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(&format!("thingbed-{pid}-")) {
            found.insert(place);
            continue;
        }
        let below = fs::read_dir(place).into_iter().flatten().flatten();
        places.extend(below.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
    }
    found
}

/// Network state of this namespace that a run could change: interfaces, routes.
fn host_network() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut names: Vec<String> = fs::read_dir("/sys/class/net")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    format!("{names:?}\n{}{}", read("/proc/net/route"), read("/etc/hosts"))
}

#[test]
fn an_interrupted_run_reports_what_there_is() {
    let bed = Bed::new();
    let text =
        comparison("stop", 5, "udp-rr", "ideal", "").replace("duration: 2 s", "duration: 60 s");
    bed.write("e.yaml", &text);
    let mut run = Run::start(&bed, &["run", "e.yaml", "--repeat", "3"], "interrupted");
    run.wait_for("answers");
    std::thread::sleep(Duration::from_millis(1500));
    run.signal(libc::SIGINT);
    let status = run.child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    run.expect_gone("after SIGINT");

    let mut out = String::new();
    run.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert!(out.contains("INVALID") && out.contains("the user stopped it after"), "{out}");
    let sweep = bed.sweep("stop");
    assert!(sweep.join("report.html").exists());
    let summaries = bed.summaries("stop");
    assert_eq!(summaries.len(), 1, "no other run was begun");
    assert!(figure(&summaries[0], ".messages.replies") > 2.0);
    let first = sweep.join("udp-rr-ideal-0");
    assert_eq!(json(&first.join("run.json"))["interrupted"], true);

    // Resuming runs what is missing, and keeps the interrupted run.
    bed.write("e.yaml", &text.replace("duration: 60 s", "duration: 1 s"));
    let folder = sweep.to_str().unwrap();
    bed.thingbed(&["run", "e.yaml", "-q", "--resume", folder])
        .expect(1, &["has changed since the sweep", "experiment.yaml"]);
    fs::copy(bed.path().join("e.yaml"), sweep.join("experiment.yaml")).unwrap();
    bed.thingbed(&["run", "e.yaml", "-q", "--resume", folder, "--seed", "5"])
        .expect(1, &["has the seed 1, but this command uses the seed 5"]);
    bed.thingbed(&["run", "e.yaml", "-q", "--resume", folder, "--repeat", "2"]).ran(&[]);
    assert_eq!(bed.summaries("stop").len(), 2);
    assert!(sweep.join("cut-short/udp-rr-ideal-0.0/run.json").exists());
    let output = bed.thingbed(&["run", "e.yaml", "--resume", folder, "--repeat", "2"]);
    assert_eq!(output.ran(&[]).err.matches("finished before").count(), 2);
}

#[test]
fn a_second_interrupt_ends_at_once() {
    let bed = Bed::new();
    let text =
        comparison("twice", 3, "udp-rr", "ideal", "").replace("duration: 2 s", "duration: 60 s");
    bed.write("e.yaml", &text);
    let mut run = Run::start(&bed, &["run", "e.yaml"], "twice");
    run.wait_for("answers");
    run.signal(libc::SIGINT);
    run.signal(libc::SIGINT);
    assert_eq!(run.child.wait().unwrap().code(), Some(130));
    run.expect_gone("after two SIGINTs");
}

#[test]
fn killed_at_any_moment_it_leaves_nothing_or_what_gc_removes() {
    const ROUNDS: u64 = 24;
    let bed = Bed::new();
    let mut text = comparison("kill", 40, "pgm-ps", "ideal", "");
    if is_root() {
        let limited = "consumer: {count: 40, limits: {cpus: 0.5, memory: 200 MB}}";
        text = text.replace("consumer: {count: 40}", limited);
    }
    bed.write("e.yaml", &text);
    // A foreign cgroup with a similar name.
    let others: Vec<PathBuf> = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"]
        .iter()
        .map(|mount| Path::new(mount).join(format!("thingbed-not-{}", std::process::id())))
        .filter(|group| fs::create_dir(group).is_ok())
        .collect();
    let before = host_network();

    // Kills at any time until some time into the load phase, whose start depends on the load of the
    // machine.
    let began = Instant::now();
    let mut run = Run::start(&bed, &["run", "e.yaml"], "kill-none");
    run.wait_for("answers");
    let longest = 1.5 * began.elapsed().as_secs_f64();
    run.signal(libc::SIGKILL);
    run.child.wait().unwrap();
    run.expect_gone("killed in the load");
    bed.thingbed(&["gc"]).expect(0, &[]);

    let draw = units::Draw::new(11, 0, 0);
    let (mut with_groups, mut in_load) = (0, 0);
    for round in 0..ROUNDS {
        let mut run = Run::start(&bed, &["run", "e.yaml"], &format!("kill-{round}"));
        // The first of these waits for the load; a machine that became slower since then might never
        // be killed in it otherwise.
        let is_late = round < 3;
        if is_late {
            run.wait_for("answers");
        }
        let wait = draw.uniform(units::Purpose::Jitter, round) * longest;
        std::thread::sleep(Duration::from_secs_f64(wait));
        let pid = run.child.id();
        run.signal(libc::SIGKILL);
        run.child.wait().unwrap();
        run.expect_gone(&format!("killed after {wait:.3} s"));
        let mut err = String::new();
        run.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        in_load += usize::from(is_late || err.contains("answers"));

        let left = groups(pid);
        with_groups += usize::from(!left.is_empty());
        let output = bed.thingbed(&["gc"]).expect(0, &[]);
        for group in &left {
            // The gc of another test may have been first.
            let named = output.out.contains(&group.display().to_string());
            assert!(named || !group.exists(), "{}", output.out);
        }
        assert_eq!(groups(pid), BTreeSet::new(), "killed after {wait:.3} s");
    }
    println!("of {ROUNDS} kills {in_load} in the load, {with_groups} left groups to gc");
    assert!(in_load > 0, "no kill came as late as the load");
    assert!(!is_root() || others.is_empty() || with_groups > 0);
    assert_eq!(host_network(), before);
    for group in others {
        assert!(group.is_dir(), "{} was not ours to remove", group.display());
        fs::remove_dir(group).unwrap();
    }
}

#[test]
fn a_living_runs_groups_are_not_gcs() {
    if !is_root() {
        return;
    }
    let bed = Bed::new();
    let text =
        comparison("alive", 3, "udp-rr", "ideal", "").replace("duration: 2 s", "duration: 4 s");
    bed.write("e.yaml", &text.replace("count: 3}", "count: 3, limits: {memory: 200 MB}}"));
    let mut run = Run::start(&bed, &["run", "e.yaml"], "alive");
    run.wait_for("answers");
    let held = groups(run.child.id());
    assert!(!held.is_empty());
    bed.thingbed(&["gc"]).expect(0, &[]);
    assert_eq!(groups(run.child.id()), held);
    assert!(matches!(run.child.wait().unwrap().code(), Some(0 | 3)));
    assert_eq!(groups(run.child.id()), BTreeSet::new());
}
