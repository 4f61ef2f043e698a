//! Files that an experiment names may be anything, and reading must neither hang nor fill the memory.

use experiment::Experiment;
use std::path::Path;
use std::process::Command;

const BEGIN: &str = "experiment: files\nnodes: {a: {count: 2}}\nnetworks:\n  n:\n    attach: [a]\n    \
                     subnet: 10.0.0.0/24\n";

fn link(setting: &str) -> String {
    format!("{BEGIN}    links: {{a: {{up: {setting}}}}}\n")
}

/// Experiments that name `FILE` in each key that reads one.
fn experiments() -> Vec<String> {
    let workload = |what: &str| {
        format!(
            "{BEGIN}models: {{fixed: {{down: udp/request-response, up: tcp/request-reply, every: 5 s}}}}\n\
             workloads:\n  - {what}\nduration: 10 s\n"
        )
    };
    vec![
        link("{trace: FILE}"),
        link("{cellular_trace: {light: FILE, heavy: FILE, size_delays: FILE}}"),
        link("{delay: 5 ms, jitter: 1 ms, distribution: {table: FILE}}"),
        format!("{BEGIN}    profile: ./FILE\n"),
        workload("interaction: {source: a-1, sinks: a-2, model: fixed, payload: FILE}"),
        workload("load: {name: l, on: a-1, trace: FILE}"),
        workload("device: {on: a, resources: FILE}"),
    ]
}

/// What failed before: `check` hung at a FIFO, and read `/dev/zero` into the memory.
#[test]
fn pipes_devices_and_huge_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Command::new("mkfifo").arg(dir.path().join("fifo")).status().unwrap().success());
    std::fs::File::create(dir.path().join("huge")).and_then(|file| file.set_len(1 << 40)).unwrap();
    std::fs::create_dir(dir.path().join("folder")).unwrap();
    for (file, why) in [
        ("fifo", "it is a pipe (FIFO), not a regular file"),
        ("/dev/zero", "it is a device, not a regular file"),
        ("folder", "it is a folder, not a regular file"),
        ("huge", "the limit"),
    ] {
        for experiment in experiments() {
            // A trace of requests is read piece by piece: it may have any size.
            if file == "huge" && experiment.contains("load: {name") {
                continue;
            }
            let near = if file.starts_with('/') { file.to_owned() } else { format!("./{file}") };
            let text = experiment.replace("./FILE", &near).replace("FILE", file);
            let errors = Experiment::parse(&text, "any.yaml", dir.path()).unwrap_err().to_string();
            assert!(errors.contains(why), "{text}\n{errors}");
        }
    }
}

#[test]
fn the_experiment_itself_is_a_file() {
    let errors = Experiment::read(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(errors.contains("it is a device, not a regular file"), "{errors}");
}
