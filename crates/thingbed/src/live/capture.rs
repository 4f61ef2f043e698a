//! `thingbed capture`: captures the frames of nodes live, to a file or a pipe.

use super::find;
use crate::arguments::Capture;
use crate::signals::watch_signals;
use crate::{Status, remark};
use runner::{Reply, Request};
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Interval of checking for interruption.
// It decides how late Ctrl-C is noticed while no frame comes.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time after interruption during which remaining frames are still read.
const DRAIN_TIME: Duration = Duration::from_millis(500);
/// Maximum length of a pcapng block: a frame and its metadata.
// 16 MiB is far above any frame; a larger number means that the stream is no capture.
const MAX_BLOCK: usize = 1 << 24;

/// Writes frames until Ctrl-C, the end of the lab, or a closed pipe.
pub fn capture(arguments: &Capture) -> Result<Status, String> {
    let to_stdout = arguments.write.as_os_str() == "-";
    // A terminal would interpret control characters in frames.
    if to_stdout && io::stdout().is_terminal() {
        return Err(
            "a capture is binary and cannot be written to a terminal\n  write it to a file with \
             `-w FILE`, or pipe it: thingbed capture NODE | wireshark -k -i -"
                .to_owned(),
        );
    }
    let interrupted = watch_signals()
        .map_err(|error| format!("could not install the handler for Ctrl-C: {error}"))?;
    let lab = find(&arguments.which.lab)?;
    let request = Request::Capture {
        nodes: arguments.which.nodes.clone(),
        network: arguments.network.clone(),
        filter: arguments.filter.clone(),
        snap: arguments.snaplen.map(units::Bytes::new),
    };
    let (reply, frames) = lab.open(&request)?;
    let Reply::Frames { links } = reply else {
        return Err(
            "could not read the lab's answer: the lab runs another version of Thingbed".to_owned()
        );
    };
    let written =
        |error: io::Error| format!("could not write {}: {error}", arguments.write.display());
    let file = (!to_stdout).then(|| File::create(&arguments.write)).transpose().map_err(written)?;
    let sink: Box<dyn Write> = match &file {
        None => Box::new(io::stdout().lock()),
        Some(file) => Box::new(file),
    };
    let name = match to_stdout {
        true => "standard output".to_owned(),
        false => arguments.write.display().to_string(),
    };
    let s = if links == 1 { "" } else { "s" };
    remark(format_args!("capturing {links} link{s} to {name}; Ctrl-C stops the capture"));
    frames
        .get_ref()
        .set_read_timeout(Some(POLL_INTERVAL))
        .map_err(|error| format!("could not read from the lab's control socket: {error}"))?;
    let mut copied = Copied::default();
    let ended = copy_blocks(frames, sink, &interrupted, &mut copied);
    if ended.is_err() {
        // A full disk takes a part of a block, which readers would call damaged.
        let _ = file.map(|file| file.set_len(copied.bytes));
    }
    remark(format_args!("{} frames", copied.frames));
    ended.map_err(written).map(|()| Status::Fine)
}

/// The whole blocks that were written.
#[derive(Debug, Default, PartialEq)]
struct Copied {
    bytes: u64,
    frames: u64,
}

/// Copies blocks as they arrive, each only when complete, and counts them in `copied`.
///
/// # Errors
/// When the lab sends no capture, or when `to` does not take it, perhaps in the middle of a block.
fn copy_blocks(
    mut from: impl Read,
    mut to: impl Write,
    interrupted: &AtomicBool,
    copied: &mut Copied,
) -> io::Result<()> {
    let (mut pending, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    let mut end = None;
    loop {
        // The capture's thread in the lab may still hold frames that were on the network before
        // Ctrl-C.
        if interrupted.load(Relaxed) && end.is_none() {
            end = Some(Instant::now() + DRAIN_TIME);
        }
        let over = end.is_some_and(|end| Instant::now() > end);
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(_) if over => return Ok(()),
            Ok(length) => pending.extend_from_slice(&buffer[..length]),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut if end.is_some() => {
                    return Ok(());
                }
                io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted => continue,
                // The lab has ended; what it sent before is written.
                io::ErrorKind::ConnectionReset => return Ok(()),
                _ => return Err(error),
            },
        }
        let (whole, _) = blocks(&pending).ok_or_else(not_pcapng)?;
        let (taken, written) = write(&mut to, &pending[..whole]);
        let (bytes, frames) = blocks(&pending[..taken]).ok_or_else(not_pcapng)?;
        copied.bytes += bytes as u64;
        copied.frames += frames;
        match written {
            // The reader has closed the pipe, which is normal.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
        pending.drain(..whole);
    }
}

/// Writes all bytes; returns how many `to` has taken, also of a failed write.
fn write(to: &mut impl Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut taken = 0;
    while taken < bytes.len() {
        match to.write(&bytes[taken..]) {
            Ok(0) => return (taken, Err(io::ErrorKind::WriteZero.into())),
            Ok(length) => taken += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (taken, Err(error)),
        }
    }
    // Wireshark at the other end of a pipe shows frames as they come.
    (taken, to.flush())
}

fn not_pcapng() -> io::Error {
    io::Error::other("the lab did not send a pcapng capture")
}

/// An enhanced packet block (pcapng, section 4.3).
const FRAME: u32 = 6;

/// Length of the complete blocks at the start of `bytes`, and the frames in them; `None` if they
/// are not pcapng blocks.
fn blocks(bytes: &[u8]) -> Option<(usize, u64)> {
    let (mut at, mut frames) = (0, 0);
    while let Some(head) = bytes.get(at..at + 8) {
        let [kind, length] = [0, 4].map(|i| {
            let word = [head[i], head[i + 1], head[i + 2], head[i + 3]];
            // The lab is a process of this machine and writes pcapng in its byte order.
            u32::from_ne_bytes(word)
        });
        let length = length as usize;
        // A block has at least its type and two lengths, and is padded to 32 bits (pcapng, section
        // 3.1). A wrong length would make the loop read on for ever.
        if !(12..=MAX_BLOCK).contains(&length) || !length.is_multiple_of(4) {
            return None;
        }
        if at + length > bytes.len() {
            break;
        }
        frames += u64::from(kind == FRAME);
        at += length;
    }
    Some((at, frames))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(kind: u32, words: usize) -> Vec<u8> {
        let length = (12 + 4 * words) as u32;
        let mut block = [kind, length].map(u32::to_ne_bytes).concat();
        block.resize(block.len() + 4 * words, 7);
        block.extend(length.to_ne_bytes());
        block
    }

    /// A reader that returns a few bytes at a time.
    struct Drops<'a>(&'a [u8], usize);

    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(self.0.len());
            buffer[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    #[test]
    fn only_whole_blocks_go_on() {
        let all = [block(0x0a0d_0d0a, 4), block(1, 2), block(6, 9), block(6, 1)].concat();
        let go = AtomicBool::new(false);
        for cut in 0..=all.len() {
            for step in [1, 7, 4096] {
                let mut output = Vec::new();
                let mut copied = Copied::default();
                copy_blocks(Drops(&all[..cut], step), &mut output, &go, &mut copied).unwrap();
                let ends = [0, 28, 48, 96, 112];
                let end = ends.into_iter().filter(|end| *end <= cut).max().unwrap();
                assert_eq!(output, all[..end]);
                let frames = [96, 112].into_iter().filter(|end| *end <= cut).count() as u64;
                assert_eq!(copied, Copied { bytes: end as u64, frames });
            }
        }
    }

    /// A disk with this much space, in bytes.
    struct Disk(usize);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let length = bytes.len().min(self.0);
            self.0 -= length;
            match length {
                0 => Err(io::ErrorKind::StorageFull.into()),
                _ => Ok(length),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What failed before: a full disk left a part of a block at the end of the file.
    #[test]
    fn the_blocks_that_a_full_disk_has_taken_whole_are_counted() {
        let all = [block(0x0a0d_0d0a, 4), block(1, 2), block(6, 9), block(6, 1)].concat();
        let go = AtomicBool::new(false);
        for space in 0..all.len() {
            for step in [1, 7, 4096] {
                let mut copied = Copied::default();
                let ended = copy_blocks(Drops(&all, step), Disk(space), &go, &mut copied);
                assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::StorageFull);
                let end = [0, 28, 48, 96].into_iter().filter(|end| *end <= space).max().unwrap();
                assert_eq!(copied, Copied { bytes: end as u64, frames: u64::from(end == 96) });
            }
        }
    }

    #[test]
    fn what_is_no_capture_is_not_passed_on() {
        let go = AtomicBool::new(false);
        for bytes in [&b"GET / HTTP/1.1\r\n"[..], &[0; 16]] {
            let mut output = Vec::new();
            let mut copied = Copied::default();
            assert!(copy_blocks(Drops(bytes, 99), &mut output, &go, &mut copied).is_err());
            assert!(output.is_empty());
        }
    }
}
