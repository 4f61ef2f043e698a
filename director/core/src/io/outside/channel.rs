//! A channel between a session's loop and the thread of a stack: frames in both directions, and at
//! each end a descriptor that is readable when frames are queued.

use super::ExternalStack;
use crate::carrier::To;
use std::io::{ErrorKind, Read, Result, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

/// Maximum number of queued frames; further ones are dropped.
const MAX_WAITING: usize = 4_096;

/// A frame and its destination.
pub type Frame = (To, Vec<u8>);

/// One end of the channel.
pub struct Channel {
    outgoing: SyncSender<Frame>,
    incoming: Receiver<Frame>,
    wake: UnixStream,
    /// Keeps the other end's socket open in the session's end: otherwise, after that end is gone,
    /// a polling loop would wake up all the time.
    _held: Option<UnixStream>,
}

/// Creates a channel: the session's end and the thread's end.
pub fn pair() -> Result<(Channel, Channel)> {
    let ((outgoing, theirs), (back, incoming)) =
        (sync_channel(MAX_WAITING), sync_channel(MAX_WAITING));
    let (wake, other) = UnixStream::pair()?;
    wake.set_nonblocking(true)?;
    other.set_nonblocking(true)?;
    let held = Some(other.try_clone()?);
    let thread = Channel { outgoing: back, incoming: theirs, wake: other, _held: None };
    Ok((Channel { outgoing, incoming, wake, _held: held }, thread))
}

impl Channel {
    /// Queues a frame, or drops it if the queue is full.
    pub fn send(&self, frame: Frame) {
        // The frame before the byte: the other end reads the bytes, then looks for frames once
        // more.
        if self.outgoing.try_send(frame).is_ok() {
            // If the socket is full, the other end is awake anyway.
            let _ = (&self.wake).write(&[0]);
        }
    }

    /// The next frame, if any; an error if the other end is gone.
    pub fn receive(&self) -> std::result::Result<Option<Frame>, TryRecvError> {
        match self.incoming.try_recv() {
            Err(TryRecvError::Empty) => {}
            other => return other.map(Some),
        }
        // A sender queues the frame before it wakes this end, so check once more.
        let mut bytes = [0; 256];
        loop {
            match (&self.wake).read(&mut bytes) {
                Ok(length) if length == bytes.len() => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        match self.incoming.try_recv() {
            Err(TryRecvError::Empty) => Ok(None),
            other => other.map(Some),
        }
    }
}

impl ExternalStack for Channel {
    fn send(&mut self, to: To, frame: Vec<u8>) {
        Self::send(self, (to, frame));
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        Self::receive(self).ok().flatten().map(|(_, frame)| frame)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

impl AsFd for Channel {
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
        // Frames above the limit are dropped without blocking.
        (0..2 * MAX_WAITING).for_each(|_| ours.send((To::Group, Vec::new())));
        assert_eq!(std::iter::from_fn(|| theirs.receive().unwrap()).count(), MAX_WAITING);
        drop(ours);
        assert_eq!(theirs.receive(), Err(TryRecvError::Disconnected));
    }
}
