//! The clients of a console.

use crate::error::Error;
use nix::poll::PollFlags;
use record::spec::{CONSOLE_ATTACH, CONSOLE_SOCKET};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

/// What a client that attaches sees of the past, in bytes.
const PAST: usize = 1 << 14;
/// Most clients at once.
const MOST: usize = 16;

/// Clients of a console, and what they see first.
#[derive(Debug)]
pub(super) struct Clients {
    listener: UnixListener,
    clients: Vec<Client>,
    past: VecDeque<u8>,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    /// Whether its first byte has arrived, from when on it sees what is printed.
    is_attached: bool,
}

impl Clients {
    /// Listens in this network namespace.
    pub fn listen() -> Result<Self, Error> {
        let listener = SocketAddr::from_abstract_name(CONSOLE_SOCKET)
            .and_then(|address| UnixListener::bind_addr(&address))
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
        let listener = listener.map_err(Error::io("listen for users of the console"))?;
        Ok(Self { listener, clients: Vec::new(), past: VecDeque::new() })
    }

    /// The descriptors to wait for: the listener, then each client in order.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.listener.as_fd())
            .chain(self.clients.iter().map(|client| client.stream.as_fd()))
    }

    /// Passes on what the machine printed. A client that does not read it is dropped, because the
    /// machine does not wait.
    pub fn print(&mut self, printed: &[u8]) {
        self.clients
            .retain_mut(|client| !client.is_attached || client.stream.write_all(printed).is_ok());
        self.past.extend(printed);
        let old = self.past.len().saturating_sub(PAST);
        self.past.drain(..old);
    }

    /// Serves the descriptors that are `ready`, in the order of [`Self::descriptors`]; `typed` takes
    /// what clients enter. Clients that `print` has dropped meanwhile are the reason to match by
    /// reading, not by position.
    pub fn serve(&mut self, ready: &[PollFlags], mut typed: impl FnMut(&[u8])) {
        if ready.iter().all(|flags| flags.is_empty()) {
            return;
        }
        let mut buffer = [0; 4096];
        let past = &mut self.past;
        self.clients.retain_mut(|client| match client.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(length) => {
                let mut entered = &buffer[..length];
                if !client.is_attached {
                    client.is_attached = true;
                    if entered[0] == CONSOLE_ATTACH
                        && client.stream.write_all(past.make_contiguous()).is_err()
                    {
                        return false;
                    }
                    entered = &entered[1..];
                }
                typed(entered);
                true
            }
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        });
        while let Ok((stream, _)) = self.listener.accept() {
            if self.clients.len() < MOST && stream.set_nonblocking(true).is_ok() {
                self.clients.push(Client { stream, is_attached: false });
            }
        }
    }
}
