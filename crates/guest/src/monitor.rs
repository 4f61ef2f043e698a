//! A client of the QEMU Machine Protocol (QMP): JSON, one value per line.

use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout};
use std::time::Duration;

/// The name of the snapshot's file in the folder in which QEMU writes it.
pub(crate) const STATE: &str = "state";
/// Polling interval of QEMU's progress in saving or loading a snapshot.
const LOOK: Duration = Duration::from_millis(20);

/// A connection to QEMU.
#[derive(Debug)]
pub(crate) struct Monitor<I = ChildStdin, O = BufReader<ChildStdout>> {
    input: I,
    output: O,
}

impl Monitor {
    /// Connects to a QEMU that has QMP on its standard streams.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`] if a stream of the child is no pipe, or was taken before.
    pub fn of(child: &mut Child) -> io::Result<Self> {
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => Ok(Self { input, output: BufReader::new(output) }),
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl<I: Write, O: BufRead> Monitor<I, O> {
    /// Waits until the guest pauses, and saves its state.
    ///
    /// # Errors
    /// When QEMU ends or refuses a command.
    pub fn save(&mut self) -> io::Result<()> {
        self.begin()?;
        // The event of `pvpanic`: the guest's init has written to its port.
        while self.hear()?["event"] != "STOP" {}
        let uri = format!("exec:cat >{STATE}");
        self.ask(json!({"execute": "migrate", "arguments": {"uri": uri}}))?;
        loop {
            let answer = self.ask(json!({"execute": "query-migrate"}))?;
            match answer["status"].as_str() {
                Some("completed") => return Ok(()),
                Some("failed") => {
                    return Err(io::Error::other(format!(
                        "QEMU could not save the snapshot: {answer}"
                    )));
                }
                _ => std::thread::sleep(LOOK),
            }
        }
    }

    /// Restores the guest's state from the descriptor, and resumes the guest.
    ///
    /// # Errors
    /// When QEMU ends or refuses a command.
    pub fn load(&mut self, fd: i32) -> io::Result<()> {
        self.begin()?;
        let uri = format!("fd:{fd}");
        self.ask(json!({"execute": "migrate-incoming", "arguments": {"uri": uri}}))?;
        while self.ask(json!({"execute": "query-status"}))?["status"] == "inmigrate" {
            std::thread::sleep(LOOK);
        }
        self.ask(json!({"execute": "cont"})).map(drop)
    }

    /// Excludes memory that host and guest share from the snapshot.
    fn begin(&mut self) -> io::Result<()> {
        // QMP accepts no other command before this one.
        self.ask(json!({"execute": "qmp_capabilities"}))?;
        let capabilities = json!([{"capability": "x-ignore-shared", "state": true}]);
        let arguments = json!({"capabilities": capabilities});
        let command = json!({"execute": "migrate-set-capabilities", "arguments": arguments});
        self.ask(command).map(drop)
    }

    fn ask(&mut self, command: Value) -> io::Result<Value> {
        writeln!(self.input, "{command}")?;
        self.input.flush()?;
        // Events may come before the answer.
        loop {
            let mut answer = self.hear()?;
            if let Some(answer) = answer.get_mut("return") {
                return Ok(answer.take());
            }
            if let Some(error) = answer.get("error") {
                return Err(io::Error::other(format!("QEMU refused {command}: {error}")));
            }
        }
    }

    fn hear(&mut self) -> io::Result<Value> {
        let mut line = String::new();
        match self.output.read_line(&mut line)? {
            0 => Err(io::Error::other("QEMU ended before the guest had started")),
            _ => Ok(serde_json::from_str(&line).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_qemu_says_is_heard_until_the_state_is_written() {
        let text = concat!(
            "{\"QMP\": {}}\n{\"return\": {}}\n{\"return\": {}}\n{\"event\": \"RESUME\"}\n{\"event\": \"STOP\"}\n",
            "{\"return\": {}}\n{\"event\": \"MIGRATION\"}\n{\"return\": {\"status\": \"active\"}}\n",
            "{\"return\": {\"status\": \"completed\"}}\n"
        );
        let mut monitor = Monitor { input: Vec::new(), output: text.as_bytes() };
        monitor.save().unwrap();
        let asked = String::from_utf8(monitor.input).unwrap();
        assert_eq!(asked.matches("query-migrate").count(), 2);
        for text in ["", "{\"error\": {\"desc\": \"no\"}}\n", "{\"return\": {}}\n"] {
            let mut monitor = Monitor { input: Vec::new(), output: text.as_bytes() };
            assert!(monitor.save().is_err());
        }
    }
}
