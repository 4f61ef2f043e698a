//! The clients of a console.

use crate::error::Error;
use nix::poll::{PollFd, PollFlags};
use record::spec::{CONSOLE_ATTACH, CONSOLE_SOCKET};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

/// What a client that attaches sees of the past, in bytes.
const PAST: usize = 1 << 14;
/// Most clients at once.
const MOST: usize = 16;
/// Output that waits for a client that reads slowly, in bytes.
const BACKLOG: usize = 16 << 20;
/// What it gets in place of more.
const SKIPPED: &[u8] = b"\r\n[output was skipped: it came faster than it was read]\r\n";

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
    /// Output that it has not read yet.
    backlog: VecDeque<u8>,
}

impl Client {
    /// Sends as much as the client takes now; returns whether it is still there.
    fn flush(&mut self) -> bool {
        while !self.backlog.is_empty() {
            match self.stream.write(self.backlog.as_slices().0) {
                Ok(length) => drop(self.backlog.drain(..length)),
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        true
    }

    /// Sends what was printed. The machine does not wait for a slow client, which misses a part then.
    fn print(&mut self, printed: &[u8]) -> bool {
        if self.backlog.len() + printed.len() > BACKLOG {
            self.backlog.clear();
            self.backlog.extend(SKIPPED);
        }
        self.backlog.extend(printed);
        self.flush()
    }
}

impl Clients {
    /// Listens in this network namespace.
    pub fn listen() -> Result<Self, Error> {
        let listener = SocketAddr::from_abstract_name(CONSOLE_SOCKET)
            .and_then(|address| UnixListener::bind_addr(&address))
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener));
        let listener = listener.map_err(Error::io("listen for users of the console"))?;
        Ok(Self::over(listener))
    }

    /// Takes the clients of a non-blocking listener.
    fn over(listener: UnixListener) -> Self {
        Self { listener, clients: Vec::new(), past: VecDeque::new() }
    }

    /// What to wait for: the listener, then each client in order.
    pub fn descriptors(&self) -> impl Iterator<Item = PollFd<'_>> {
        let client = |client: &'_ Client| -> PollFlags {
            match client.backlog.is_empty() {
                true => PollFlags::POLLIN,
                false => PollFlags::POLLIN | PollFlags::POLLOUT,
            }
        };
        let clients = self.clients.iter();
        std::iter::once(PollFd::new(self.listener.as_fd(), PollFlags::POLLIN))
            .chain(clients.map(move |one| PollFd::new(one.stream.as_fd(), client(one))))
    }

    /// Passes on what the machine printed.
    pub fn print(&mut self, printed: &[u8]) {
        self.clients.retain_mut(|client| !client.is_attached || client.print(printed));
        self.past.extend(printed);
        let old = self.past.len().saturating_sub(PAST);
        self.past.drain(..old);
    }

    /// Serves the descriptors that are `ready`, in the order of [`Self::descriptors`]; `typed` takes
    /// what clients enter. Clients that have gone meanwhile are the reason to match by reading, not by
    /// position.
    pub fn serve(&mut self, ready: &[PollFlags], mut typed: impl FnMut(&[u8])) {
        if ready.iter().all(|flags| flags.is_empty()) {
            return;
        }
        self.clients.retain_mut(Client::flush);
        let mut buffer = [0; 4096];
        let past = &mut self.past;
        self.clients.retain_mut(|client| match client.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(length) => {
                let mut entered = &buffer[..length];
                if !client.is_attached {
                    client.is_attached = true;
                    // The first byte says what the client wants, and is no input.
                    if entered[0] == CONSOLE_ATTACH && !client.print(past.make_contiguous()) {
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
            if self.clients.len() >= MOST {
                // One that never said what it wants must not keep others out.
                let silent = self.clients.iter().position(|client| !client.is_attached);
                silent.map(|place| self.clients.remove(place));
            }
            // Further ones are closed at once.
            if self.clients.len() < MOST && stream.set_nonblocking(true).is_ok() {
                self.clients.push(Client { stream, is_attached: false, backlog: VecDeque::new() });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::time::Duration;

    struct Bed {
        clients: Clients,
        path: PathBuf,
        _folder: tempfile::TempDir,
    }

    impl Bed {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("console");
            let listener = UnixListener::bind(&path).unwrap();
            listener.set_nonblocking(true).unwrap();
            Self { clients: Clients::over(listener), path, _folder: folder }
        }

        /// A client whose first byte is `first`.
        fn client(&mut self, first: u8) -> UnixStream {
            let mut stream = UnixStream::connect(&self.path).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            stream.write_all(&[first]).unwrap();
            self.serve();
            self.serve();
            stream
        }

        /// Serves all descriptors; returns what clients entered.
        fn serve(&mut self) -> Vec<u8> {
            let mut entered = Vec::new();
            self.clients.serve(&[PollFlags::POLLIN], |typed| entered.extend(typed));
            entered
        }
    }

    fn seen(client: &mut UnixStream, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        client.read_exact(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_client_that_attaches_sees_the_past_and_shares_the_keyboard() {
        let mut bed = Bed::new();
        bed.clients.print(b"boot ");
        let mut first = bed.client(CONSOLE_ATTACH);
        assert_eq!(seen(&mut first, 5), b"boot ");
        // Any other first byte: only what comes from now on.
        let mut second = bed.client(CONSOLE_ATTACH.wrapping_add(1));
        bed.clients.print(b"login: ");
        assert_eq!(seen(&mut first, 7), b"login: ");
        assert_eq!(seen(&mut second, 7), b"login: ");
        first.write_all(b"root").unwrap();
        second.write_all(b"\r").unwrap();
        assert_eq!(bed.serve(), b"root\r");
        drop(first);
        bed.serve();
        bed.clients.print(b"# ");
        assert_eq!((seen(&mut second, 2), bed.clients.clients.len()), (b"# ".to_vec(), 1));
    }

    #[test]
    fn the_past_and_the_number_of_clients_have_limits() {
        let mut bed = Bed::new();
        for part in 0..40_u8 {
            bed.clients.print(&[part; 1_024]);
        }
        let mut first = bed.client(CONSOLE_ATTACH);
        let expected: Vec<u8> = (24..40_u8).flat_map(|part| [part; 1_024]).collect();
        assert_eq!(seen(&mut first, PAST), expected);
        let all: Vec<_> = (1..MOST).map(|_| bed.client(CONSOLE_ATTACH)).collect();
        let mut more = UnixStream::connect(&bed.path).unwrap();
        more.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        bed.serve();
        assert_eq!(more.read(&mut [0; 1]).unwrap(), 0, "it is closed at once");
        assert_eq!((bed.clients.clients.len(), all.len()), (MOST, MOST - 1));
    }

    /// What failed: clients that connected and sent nothing kept all others out until they closed.
    #[test]
    fn clients_that_send_nothing_do_not_keep_others_out() {
        let mut bed = Bed::new();
        bed.clients.print(b"login: ");
        let mut attached = bed.client(CONSOLE_ATTACH);
        let silent: Vec<_> = (0..2 * MOST)
            .map(|_| {
                let stream = UnixStream::connect(&bed.path).unwrap();
                bed.serve();
                stream
            })
            .collect();
        let mut late = bed.client(CONSOLE_ATTACH);
        assert_eq!(seen(&mut late, 7), b"login: ");
        bed.clients.print(b"root");
        assert_eq!(seen(&mut late, 4), b"root");
        assert_eq!(seen(&mut attached, 11), b"login: root", "an attached one stays");
        assert_eq!((bed.clients.clients.len(), silent.len()), (MOST, 2 * MOST));
    }

    #[test]
    fn a_client_that_does_not_read_misses_a_part_and_sees_that() {
        let mut bed = Bed::new();
        let mut slow = bed.client(CONSOLE_ATTACH);
        let block = [b'x'; 1 << 20];
        for _ in 0..20 {
            bed.clients.print(&block);
            assert!(bed.clients.clients[0].backlog.len() <= BACKLOG);
        }
        bed.clients.print(b"the end");
        let mut text = Vec::new();
        let mut buffer = vec![0; 1 << 20];
        while !text.ends_with(b"the end") {
            let length = slow.read(&mut buffer).unwrap();
            text.extend(&buffer[..length]);
            bed.serve();
        }
        let skipped = text.windows(SKIPPED.len()).filter(|part| *part == SKIPPED).count();
        assert!(skipped >= 1 && text.len() < 20 << 20, "{skipped} of {} B", text.len());
    }
}
