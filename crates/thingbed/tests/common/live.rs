//! A live lab, and commands to it from another terminal.

use super::{Bed, CommandOutput};
use serde_json::Value;
use std::time::{Duration, Instant};

/// A lab with a unique name, which ends with the test in any case.
pub struct Live<'a> {
    pub bed: &'a Bed,
    pub name: String,
}

impl<'a> Live<'a> {
    /// Starts the experiment `text`, in which `NAME` is replaced by its name.
    pub fn up(bed: &'a Bed, name: &str, text: &str) -> Self {
        Self::by(bed, name, text, None).unwrap()
    }

    /// The same with options of `up`.
    pub fn up_with(bed: &'a Bed, name: &str, text: &str, options: &[&str]) -> Self {
        let name = format!("{name}-{}", std::process::id());
        bed.write("lab.yaml", &text.replace("NAME", &name));
        let words = [&["up", "lab.yaml", "--detach"], options].concat();
        bed.thingbed(&words).expect(0, &["nodes up", "ADDRESSES", "runs in the background"]);
        Self { bed, name }
    }

    /// The same with a frame path; `None` if that is unavailable.
    pub fn by(bed: &'a Bed, name: &str, text: &str, path: Option<&str>) -> Option<Self> {
        let name = format!("{name}-{}", std::process::id());
        bed.write("lab.yaml", &text.replace("NAME", &name));
        let mut command = bed.command(&["up", "lab.yaml", "--detach"]);
        if let Some(path) = path {
            command.env("THINGBED_FRAME_PATH", path);
        }
        let output = CommandOutput::of(command.output().unwrap());
        if path.is_some() && output.err.contains("THINGBED_FRAME_PATH does not work") {
            eprintln!("NOT RUN: {}", output.err);
            return None;
        }
        output.expect(0, &["nodes up", "ADDRESSES", "runs in the background"]);
        Some(Self { bed, name })
    }

    pub fn ask(&self, words: &[&str]) -> CommandOutput {
        CommandOutput::of(self.command(words).output().unwrap())
    }

    /// A command to this lab.
    pub fn command(&self, words: &[&str]) -> std::process::Command {
        let (command, rest) = words.split_first().unwrap();
        self.bed.command(&[&[command, "--lab", &self.name], rest].concat())
    }

    pub fn nodes(&self) -> Vec<Value> {
        let output = self.ask(&["ps", "--json"]).expect(0, &[]);
        serde_json::from_str::<Value>(&output.out).unwrap().as_array().unwrap().clone()
    }

    pub fn state(&self, node: &str) -> String {
        let nodes = self.nodes();
        let node = nodes.iter().find(|shown| shown["name"] == node).expect(node);
        node["program"][1].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the program of a node is in this state.
    pub fn awaits(&self, node: &str, state: &str) {
        until(|| self.state(node) == state, || format!("{node} is {}", self.state(node)));
    }

    /// Waits until a node's programs have printed `word` this often: on a busy machine, a started
    /// program may not have run yet.
    pub fn awaits_word(&self, node: &str, word: &str, times: usize) {
        let logs = || self.ask(&["logs", node]).out;
        until(|| logs().matches(word).count() == times, logs);
    }

    pub fn tool(&self) -> u32 {
        // On a busy machine a lab may not answer in time: then its name is not known.
        let labs = || self.bed.thingbed(&["labs"]).expect(0, &[]).out;
        let process = |labs: &str| -> Option<u32> {
            let line = labs.lines().find(|line| line.contains(&self.name))?;
            line.split_whitespace().nth(1)?.parse().ok()
        };
        let found = std::cell::Cell::new(None);
        let is_found = || {
            found.set(process(&labs()));
            found.get().is_some()
        };
        until(is_found, labs);
        found.get().unwrap()
    }
}

impl Drop for Live<'_> {
    fn drop(&mut self) {
        let _ = self.bed.command(&["down", "--lab", &self.name]).output();
    }
}

/// Waits until a condition holds; after a timeout, fails with the current state.
#[track_caller]
pub fn until(holds: impl Fn() -> bool, what: impl Fn() -> String) {
    let limit = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < limit, "{}", what());
        std::thread::sleep(Duration::from_millis(50));
    }
}
