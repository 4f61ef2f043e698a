//! Output on a terminal.

mod common;

use common::{Bed, comparison, has};
use std::process::Command;

#[test]
fn colours_are_for_terminals_whose_user_wants_them() {
    if !has("script") {
        return;
    }
    let bed = Bed::new();
    bed.write("e.yaml", &comparison("e", 3, "udp-rr", "ideal", ""));
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    let report = format!("{} report {}", env!("CARGO_BIN_EXE_thingbed"), bed.sweep("e").display());
    let at_terminal = |variables: &[(&str, &str)]| {
        let mut command = Command::new("script");
        command.args(["-qec", &report, "/dev/null"]).current_dir(bed.path());
        command.env("TERM", "xterm").env_remove("NO_COLOR").envs(variables.iter().copied());
        String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
    };
    let plain = at_terminal(&[]);
    assert!(plain.contains("\u{1b}[") && plain.contains("udp-rr"), "{plain}");
    for quiet in [&[("NO_COLOR", "1")][..], &[("TERM", "dumb")]] {
        let text = at_terminal(quiet);
        assert!(!text.contains("\u{1b}[") && text.contains("udp-rr"), "{text}");
    }
    assert!(at_terminal(&[("NO_COLOR", "")]).contains("\u{1b}["), "set to nothing is not set");
}
