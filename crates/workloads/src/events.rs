//! The events file: one line per message event.

use crate::clock::Nanos;
use crate::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A message event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The source sent a message.
    Sent,
    /// A sink received a message.
    Received,
    /// A sink sent a reply.
    ReplySent,
    /// The source received a reply.
    ReplyReceived,
    /// A message or reply arrived again.
    Duplicate,
    /// The broker acknowledged a message.
    Acknowledged,
    /// A client connected to a broker.
    Connected,
    /// A client lost its connection to a broker.
    Disconnected,
}

impl Event {
    fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Received => "received",
            Self::ReplySent => "reply_sent",
            Self::ReplyReceived => "reply_received",
            Self::Duplicate => "duplicate",
            Self::Acknowledged => "acknowledged",
            Self::Connected => "connected",
            Self::Disconnected => "disconnected",
        }
    }
}

/// A line of the events file.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// The event.
    pub event: Event,
    /// Message number.
    pub message: u64,
    /// The peer, or `*` for all.
    pub peer: &'a str,
    /// Event time.
    pub time: Nanos,
    /// Scheduled time, for `sent` and `reply_sent`.
    pub intended: Option<Nanos>,
    /// Payload bytes.
    pub bytes: usize,
}

/// Writes records to a CSV file, batched into one system call.
#[derive(Debug)]
pub struct Events {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    oldest: Option<Nanos>,
}

impl Events {
    /// Creates or truncates the file and writes the header.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let error = |source| Error::Events { path: path.into(), source };
        let mut file = File::create(path).map_err(error)?;
        file.write_all(b"event,message,peer,time_ns,intended_ns,bytes\n").map_err(error)?;
        Ok(Self { path: path.into(), file, buffer: Vec::new(), oldest: None })
    }

    /// Buffers a record until the next flush.
    pub fn record(&mut self, record: Record<'_>) {
        let Record { event, message, peer, time, intended, bytes } = record;
        self.oldest.get_or_insert(time);
        // Writing into a Vec cannot fail.
        let _ = write!(self.buffer, "{},{message},{peer},{time},", event.name());
        if let Some(intended) = intended {
            let _ = write!(self.buffer, "{intended}");
        }
        let _ = writeln!(self.buffer, ",{bytes}");
    }

    /// Time of the oldest buffered record.
    pub fn oldest(&self) -> Option<Nanos> {
        self.oldest
    }

    /// Writes all buffered records to the file, so that they survive a killed program.
    pub fn flush(&mut self) -> Result<(), Error> {
        if self.oldest.take().is_some() {
            let written = self.file.write_all(&self.buffer);
            self.buffer.clear();
            written.map_err(|source| Error::Events { path: self.path.clone(), source })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_header_and_lines() {
        let path = std::env::temp_dir().join(format!("thingbed-events-{}.csv", std::process::id()));
        let mut events = Events::create(&path).unwrap();
        let sent = Record {
            event: Event::Sent,
            message: 3,
            peer: "*",
            time: 25,
            intended: Some(20),
            bytes: 1699,
        };
        events.record(sent);
        let received = Event::ReplyReceived;
        events.record(Record { event: received, peer: "c-1", time: 30, intended: None, ..sent });
        assert_eq!(events.oldest(), Some(25));
        events.flush().unwrap();
        assert_eq!(events.oldest(), None);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(
            text,
            "event,message,peer,time_ns,intended_ns,bytes\n\
             sent,3,*,25,20,1699\nreply_received,3,c-1,30,,1699\n"
        );
    }

    #[test]
    fn names_the_folder_that_is_not_there() {
        let error = Events::create(Path::new("/nowhere/e.csv")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/e.csv"), "{error}");
    }
}
