//! Damaged folders of sweeps, and two processes with one sweep.

mod common;

use common::{Bed, CommandOutput, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Two cells that take little time.
const PAIR: &str = "experiment: pair
nodes: {a: {}, b: {}}
networks: {net: {attach: [a, b], subnet: 10.0.0.0/24, links: {b: {up: {delay: 5 ms, loss: 5 %}}}}}
models: {udp: {down: udp/request-response, up: udp/request-response, every: 0.05 s, drain: 1 s}}
workloads:
  - interaction: {name: poll, source: a, sinks: b, model: \"${model}\", payload: payload.xml}
  - command: {on: b, run: [sh, -c, \"echo from ${n}\"]}
duration: 1 s
drain: 1 s
matrix: {model: [udp], n: [one, two]}
";
const RUN: [&str; 6] = ["run", "e.yaml", "-q", "--clock", "virtual", "--capture"];

/// A finished sweep.
fn sweep() -> (Bed, PathBuf) {
    let bed = Bed::new();
    bed.write("e.yaml", PAIR);
    bed.thingbed(&RUN).expect(0, &["2 valid"]);
    let folder = bed.sweep("pair");
    (bed, folder)
}

/// Reproducible numbers (Knuth's MMIX generator).
fn random(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

/// The files of the run that its list names, and `run.json`.
fn listed(run: &Path) -> Vec<PathBuf> {
    let list = json(&run.join("run.json"))["files"].as_object().expect("a list").clone();
    list.keys().map(|name| run.join(name)).chain([run.join("run.json")]).collect()
}

fn cut(path: &Path, length: u64) {
    fs::File::options().write(true).open(path).unwrap().set_len(length).unwrap();
}

/// Cuts a random file at a random byte, `count` times. Each time the report must name the file and
/// show the other run.
fn cut_and_report(count: usize) {
    let (bed, folder) = sweep();
    let run = folder.join("udp-one-0");
    let files = listed(&run);
    let names: Vec<_> = files.iter().map(|f| f.file_name().unwrap().to_owned()).collect();
    for name in ["messages.parquet", "capture.pcapng", "summary.json", "b.1.out", "run.json"] {
        assert!(names.iter().any(|known| known == name), "{name} is not among {names:?}");
    }
    let mut state = 7;
    for _ in 0..count {
        let path = &files[random(&mut state, files.len() as u64) as usize];
        let whole = fs::read(path).unwrap();
        let length = random(&mut state, whole.len() as u64);
        cut(path, length);
        let answer =
            CommandOutput::of(bed.command(&["report", folder.to_str().unwrap()]).output().unwrap());
        let text: String = format!("{}{}", answer.out, answer.err).split_whitespace().collect();
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(answer.status == 0 && text.contains(name), "{name} at {length}: {text}");
        fs::write(path, whole).unwrap();
    }
    bed.thingbed(&["report", folder.to_str().unwrap()]).expect(0, &["2 valid"]);
}

#[test]
fn a_file_cut_at_any_byte_is_named() {
    cut_and_report(25);
}

/// The count of docs/results/journal.md.
#[test]
#[ignore = "takes minutes"]
fn a_thousand_cuts_are_named() {
    cut_and_report(1000);
}

#[test]
fn resume_repeats_exactly_the_damaged_run_and_gives_the_same_bytes() {
    let (bed, folder) = sweep();
    let (one, two) = (folder.join("udp-one-0"), folder.join("udp-two-0"));
    let kept = fs::metadata(two.join("run.json")).unwrap().modified().unwrap();
    let resume = [
        &["run", "e.yaml", "--clock", "virtual", "--capture", "--resume"][..],
        &[folder.to_str().unwrap()],
    ]
    .concat();
    let before = fs::read(one.join("messages.parquet")).unwrap();
    let flip = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(path, bytes).unwrap();
    };
    type Damage<'a> = (&'a str, &'a dyn Fn(&Path));
    let damages: [Damage<'_>; 3] = [
        ("messages.parquet", &|path| cut(path, 0)),
        ("nodes.parquet", &flip),
        ("run.json", &|path| cut(path, 50)),
    ];
    for (name, damage) in damages {
        damage(&one.join(name));
        let answer = bed.thingbed(&resume).expect(0, &["runs again", name, "2 valid"]);
        assert_eq!(answer.err.matches("finished before").count(), 1, "{}", answer.err);
        assert_eq!(fs::read(one.join("messages.parquet")).unwrap(), before, "{name}");
    }
    assert_eq!(fs::metadata(two.join("run.json")).unwrap().modified().unwrap(), kept);
    // Files that the user removed to save space are no damage.
    fs::remove_file(one.join("capture.pcapng")).unwrap();
    let answer = bed.thingbed(&resume).expect(0, &["2 valid"]);
    assert_eq!(answer.err.matches("finished before").count(), 2, "{}", answer.err);
    cut(&folder.join("experiment.yaml"), 20);
    bed.thingbed(&resume).expect(1, &["experiment.yaml is damaged", "first 20 B", "cp "]);
}

#[test]
fn a_second_process_learns_who_runs_the_sweep() {
    let (bed, folder) = sweep();
    let lock = fs::File::create(folder.join(".lock")).unwrap();
    lock.lock().unwrap();
    fs::write(folder.join(".lock"), "process 7 on other\n").unwrap();
    let resume = [&RUN[..], &["--resume", folder.to_str().unwrap()]].concat();
    bed.thingbed(&resume).expect(1, &["process 7 on other runs the sweep in"]);
    drop(lock);
    bed.thingbed(&resume).expect(0, &["2 valid"]);
    assert!(!folder.join(".lock").exists());
}

#[test]
fn a_killed_run_is_reported_with_what_its_programs_recorded() {
    let bed = Bed::new();
    bed.write("e.yaml", &PAIR.replace("duration: 1 s", "duration: 60 s"));
    let mut command = bed.command(&["run", "e.yaml", "-q"]);
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let programs = || bed.sweep("pair").join("udp-one-0/programs");
    let sent = || {
        let text = fs::read_to_string(programs().join("a.0.csv")).unwrap_or_default();
        text.lines().filter(|line| line.starts_with("sent")).count() > 3
    };
    // The folder of all sweeps exists a moment before this one's.
    let has_sweep = || fs::read_dir(bed.path().join("runs/pair")).is_ok_and(|all| all.count() > 0);
    while !(has_sweep() && sent()) {
        assert!(run.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    let folder = bed.sweep("pair");
    let answer = bed.thingbed(&["report", folder.to_str().unwrap()]);
    let words = ["udp-one-0 has no results", "events of its programs until then: ", " sent"];
    answer.expect(1, &words);
    // The lock ended with the process.
    bed.write("e.yaml", PAIR);
    fs::copy(bed.path().join("e.yaml"), folder.join("experiment.yaml")).unwrap();
    bed.thingbed(&["run", "e.yaml", "-q", "--resume", folder.to_str().unwrap()]).ran(&[]);
    assert!(folder.join("cut-short/udp-one-0.0/programs/a.0.csv").exists());
}
