//! A line between a session's loop and the thread of a stack: frames both ways, and a descriptor
//! at each end that can be read when some are there.

use crate::carrier::To;
use std::io::{ErrorKind, Read, Result, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

/// Frames that wait at most; what is too much is dropped.
const MOST_WAITING: usize = 4_096;

/// A frame, and where it goes.
pub type Frame = (To, Vec<u8>);

/// One end.
pub struct Line {
    out: SyncSender<Frame>,
    come: Receiver<Frame>,
    wake: UnixStream,
    /// The other end's, where it is to be silent rather than over when that end is gone: a loop
    /// that polls would be woken all the time.
    _held: Option<UnixStream>,
}

/// The end of a session's loop, and that of a stack's thread.
pub fn pair() -> Result<(Line, Line)> {
    let ((out, theirs), (back, come)) = (sync_channel(MOST_WAITING), sync_channel(MOST_WAITING));
    let (wake, other) = UnixStream::pair()?;
    wake.set_nonblocking(true)?;
    other.set_nonblocking(true)?;
    let held = Some(other.try_clone()?);
    let thread = Line { out: back, come: theirs, wake: other, _held: None };
    Ok((Line { out, come, wake, _held: held }, thread))
}

impl Line {
    /// Sends a frame, or drops it.
    pub fn send(&self, frame: Frame) {
        if self.out.try_send(frame).is_ok() {
            // If there is no room, the other end is awake.
            let _ = (&self.wake).write(&[0]);
        }
    }

    /// The next frame; an error if the other end is gone.
    pub fn receive(&self) -> std::result::Result<Option<Frame>, TryRecvError> {
        match self.come.try_recv() {
            Err(TryRecvError::Empty) => {}
            other => return other.map(Some),
        }
        // Whoever sends has put the frame in before it wakes.
        let mut bytes = [0; 256];
        loop {
            match (&self.wake).read(&mut bytes) {
                Ok(length) if length == bytes.len() => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        match self.come.try_recv() {
            Err(TryRecvError::Empty) => Ok(None),
            other => other.map(Some),
        }
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_go_both_ways_and_the_end_is_told() {
        let (ours, theirs) = pair().unwrap();
        assert_eq!(ours.receive(), Ok(None));
        for at in 0..3_u8 {
            ours.send((To::Member(1), vec![at]));
        }
        theirs.send((To::Hub, vec![9]));
        let all: Vec<_> = std::iter::from_fn(|| theirs.receive().unwrap()).collect();
        assert_eq!(all.len(), 3);
        assert_eq!((&all[2], theirs.receive()), (&(To::Member(1), vec![2]), Ok(None)));
        assert_eq!(ours.receive(), Ok(Some((To::Hub, vec![9]))));
        // More than there is room for is dropped, and nobody waits.
        (0..2 * MOST_WAITING).for_each(|_| ours.send((To::Group, Vec::new())));
        assert_eq!(std::iter::from_fn(|| theirs.receive().unwrap()).count(), MOST_WAITING);
        drop(ours);
        assert_eq!(theirs.receive(), Err(TryRecvError::Disconnected));
    }
}
