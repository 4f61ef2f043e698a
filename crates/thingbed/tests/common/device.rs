//! Standalone devices, and loads for them.

use super::{Bed, CommandOutput};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A device on a unique port of the loopback address.
pub struct Device {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    /// Its URI.
    pub uri: String,
}

impl Device {
    pub fn new(bed: &Bed, scheme: &str, args: &[&str]) -> Self {
        let listen = ["device", &format!("--{scheme}"), "127.0.0.1:0", "--no-check", "--json"];
        let mut command: Command = bed.command(&[&listen, args].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let uri = line.trim().strip_prefix("serving ").expect("where it serves").to_owned();
        Self { child, out, uri }
    }

    /// Stops it, and returns its statistics.
    pub fn end(mut self) -> Value {
        // SAFETY: sends a signal to a child that has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) };
        let served = serde_json::from_reader(&mut self.out).unwrap();
        assert!(self.child.wait().unwrap().success());
        served
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a load that may be late: tests share the machine.
#[track_caller]
pub fn figures(output: CommandOutput) -> Value {
    assert!([0, 1].contains(&output.status), "{}\n{}", output.out, output.err);
    serde_json::from_str(&output.out).unwrap_or_else(|error| panic!("{error}: {}", output.out))
}
