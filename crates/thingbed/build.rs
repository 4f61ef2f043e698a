//! Passes the commit to the program, as an environment variable at compile time.

use std::process::Command;

fn main() {
    let commit =
        Command::new("git").args(["describe", "--always", "--dirty", "--exclude=*"]).output();
    let commit = commit.ok().filter(|out| out.status.success()).map(|out| out.stdout);
    let commit = String::from_utf8(commit.unwrap_or_default()).unwrap_or_default();
    println!("cargo::rustc-env=THINGBED_COMMIT={}", commit.trim());
    // The log changes with each commit; without a repository there is none.
    println!("cargo::rerun-if-changed=../../.git/logs/HEAD");
    println!("cargo::rerun-if-changed=..");
}
