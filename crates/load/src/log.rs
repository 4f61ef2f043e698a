//! The log of operations, written by a separate thread.

use crate::slots::State;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use trace::Method;
use units::Span;

/// Operations per chunk.
const CHUNK: usize = 4_096;
/// Chunks that may wait for the disk before senders block.
const MAX_CHUNKS: usize = 64;

/// A finished operation; times since the start, 0 for none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FinishedOperation {
    pub method: Method,
    pub device: Option<u32>,
    pub intended: Span,
    pub sent: Span,
    pub answered: Span,
    pub code: u16,
    pub state: State,
    /// How long it waited for a free connection.
    pub wait: Span,
}

/// A sender's end of the log.
#[derive(Debug)]
pub(crate) struct Log {
    chunk: Vec<FinishedOperation>,
    to: SyncSender<Vec<FinishedOperation>>,
}

/// The writer thread.
#[derive(Debug)]
pub(crate) struct Writer {
    to: SyncSender<Vec<FinishedOperation>>,
    thread: JoinHandle<io::Result<()>>,
}

impl Log {
    pub fn add(&mut self, done: FinishedOperation) {
        self.chunk.push(done);
        if self.chunk.len() == CHUNK {
            self.flush();
        }
    }

    pub fn flush(&mut self) {
        let full = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK));
        // A writer that has failed reports its error itself.
        let _ = self.to.send(full);
    }
}

impl Writer {
    /// Opens the file and writes the CSV header.
    pub fn new(path: &Path) -> io::Result<Self> {
        let mut file = BufWriter::with_capacity(1 << 18, File::create(path)?);
        writeln!(file, "device,method,intended_ns,sent_ns,answered_ns,code,outcome,wait_ns")?;
        let (to, from) = sync_channel(MAX_CHUNKS);
        let thread = std::thread::Builder::new()
            .name("operations".to_owned())
            .spawn(move || write(&from, &mut file))?;
        Ok(Self { to, thread })
    }

    /// A log for one more sender.
    pub fn log(&self) -> Log {
        Log { chunk: Vec::with_capacity(CHUNK), to: self.to.clone() }
    }

    /// Waits until everything is written.
    pub fn finish(self) -> io::Result<()> {
        drop(self.to);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the writer thread panicked")))
    }
}

fn write(from: &Receiver<Vec<FinishedOperation>>, file: &mut impl Write) -> io::Result<()> {
    while let Ok(chunk) = from.recv() {
        for done in chunk {
            match done.device {
                Some(device) => write!(file, "{device}")?,
                None => file.write_all(b"rest")?,
            }
            write!(file, ",{},{},", done.method, done.intended.as_ns())?;
            for time in [done.sent, done.answered] {
                if time > Span::ZERO {
                    write!(file, "{}", time.as_ns())?;
                }
                file.write_all(b",")?;
            }
            let outcome = match done.state {
                State::Answered => "answered",
                State::Unreachable | State::Refused => "unreachable",
                State::WithoutAnswer => "without-answer",
                State::Waiting | State::TimedOut => "timed-out",
                State::Queued | State::NoConnection => "no-connection",
                State::Unsent => "unsent",
            };
            if done.code > 0 {
                write!(file, "{}", crate::template::code_name(done.code))?;
            }
            writeln!(file, ",{outcome},{}", done.wait.as_ns())?;
        }
    }
    file.flush()
}
