//! The three frame paths, end to end: all give the same counts.

mod common;

use common::{Bed, comparison, figure, json};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const MODELS: &str = "udp-rr, tcp-rd";

/// Runs a small comparison in the environment of `set`; returns the frame paths of its runs.
fn paths(bed: &Bed, name: &str, mut command: Command) -> Option<Vec<String>> {
    let text = common::CommandOutput::of(command.output().unwrap());
    if text.err.contains("THINGBED_FRAME_PATH does not work")
        || text.err.contains("could not create the lab")
    {
        eprintln!("NOT RUN: {}", text.err);
        return None;
    }
    text.ran(&[]);
    let sweep = bed.sweep(name);
    let mut had = Vec::new();
    for summary in bed.summaries(name) {
        assert_eq!(figure(&summary, ".messages.delivered"), 20.0, "{summary:#}");
        for group in ["utility", "consumer"] {
            let of = |key: &str| figure(&summary, &format!(".groups.{group}.{key}"));
            assert_eq!(of("kernel_tx_frames"), of("medium_tx_frames"), "{summary:#}");
            assert_eq!(of("kernel_rx_frames"), of("medium_rx_frames"), "{summary:#}");
        }
        let model = summary["cell"]["model"].as_str().unwrap();
        let run = json(&sweep.join(format!("{model}-slow-0/run.json")));
        let dropped = run["verdict"]["evidence"].as_array().unwrap().iter();
        let dropped: Vec<_> =
            dropped.filter(|e| e["name"] == "frames dropped by the kernel").collect();
        assert_eq!(dropped[0]["value"], 0.0, "{run:#}");
        assert!(run["stalls"]["count"].is_u64());
        had.push(run["frame_path"].as_str().unwrap().to_owned());
    }
    Some(had)
}

#[test]
fn each_path_carries_and_counts_the_same() {
    let bed = Bed::new();
    for path in ["ring", "tap", "packet"] {
        bed.write("e.yaml", &comparison(path, 4, MODELS, "slow", "repeats: 1"));
        let mut command = bed.command(&["run", "e.yaml", "--quiet"]);
        command.env("THINGBED_FRAME_PATH", path);
        if let Some(had) = paths(&bed, path, command) {
            assert_eq!(had, [path, path]);
        }
    }
}

#[test]
fn a_medium_that_spins_carries_the_same_and_the_run_says_so() {
    let bed = Bed::new();
    bed.write("e.yaml", &comparison("spin", 4, MODELS, "slow", "repeats: 1"));
    let command = bed.command(&["run", "e.yaml", "--quiet", "--spin"]);
    assert!(paths(&bed, "spin", command).is_some());
    assert_eq!(json(&bed.sweep("spin").join("udp-rr-slow-0/run.json"))["spin"], true);
}

#[test]
fn an_unknown_path_is_an_error_that_names_those_there_are() {
    let bed = Bed::new();
    bed.write("e.yaml", &comparison("tin", 2, MODELS, "slow", ""));
    let mut command = bed.command(&["run", "e.yaml", "--quiet"]);
    command.env("THINGBED_FRAME_PATH", "tin-can");
    let text = common::CommandOutput::of(command.output().unwrap());
    text.expect(2, &["THINGBED_FRAME_PATH is `tin-can`", "ring, tap, packet"]);
}

#[test]
fn a_user_without_rights_has_the_packet_path() {
    // SAFETY: only reads this process's user id.
    let root = unsafe { libc::geteuid() } == 0;
    let may = std::fs::metadata("/dev/net/tun").is_ok_and(|m| m.permissions().mode() & 0o006 != 0);
    let bed = Bed::new();
    bed.write("e.yaml", &comparison("less", 4, MODELS, "slow", "repeats: 1"));
    // A separate copy for the other user, who may not have access to the build folder.
    let copy = tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o755)).tempdir();
    let copy = copy.unwrap();
    let tool = std::path::Path::new(env!("CARGO_BIN_EXE_thingbed"));
    for name in ["thingbed", "thingbed-workload"] {
        std::fs::copy(tool.with_file_name(name), copy.path().join(name)).unwrap();
    }
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(bed.path(), mode(0o777)).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"]);
    command.arg(copy.path().join("thingbed"));
    command.args(["run", "e.yaml", "--quiet"]).current_dir(bed.path());
    if !root || may || !common::has("setpriv") {
        eprintln!("NOT RUN: needs root, setpriv, and a /dev/net/tun for root alone");
        return;
    }
    if let Some(had) = paths(&bed, "less", command) {
        assert_eq!(had, ["packet", "packet"]);
    }
}
