//! The same datagrams over bare sockets, without a protocol, several per system call: what sessions
//! on sockets can reach on this machine.

use crate::{Failure, Side, Speed, cpu};
use libc::{c_void, iovec, mmsghdr, pollfd, sockaddr_in, timespec};
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

/// Datagrams per system call.
const BATCH: usize = 64;
const LONGEST: usize = 2_048;
/// Bytes that `udp-arq` adds to a message, and of its shortest acknowledgement.
const HEADERS: usize = 18;
const SHORTEST: usize = 9;
/// First bytes of messages, answers and acknowledgements.
const MESSAGE: u8 = 1;
const ANSWER: u8 = 2;
const ACKNOWLEDGEMENT: u8 = 3;
/// Time without an answer after which the rest is taken for lost.
const SILENCE: Duration = Duration::from_secs(1);
const RECEIVE_BUFFER: usize = 1 << 22;

/// Datagrams of one system call.
struct Batch {
    bytes: Vec<[u8; LONGEST]>,
    lengths: [usize; BATCH],
    names: [sockaddr_in; BATCH],
    count: usize,
}

impl Batch {
    fn new() -> Self {
        // SAFETY: all bytes of these structures may be zero.
        let names = unsafe { zeroed() };
        Self { bytes: vec![[0; LONGEST]; BATCH], lengths: [0; BATCH], names, count: 0 }
    }

    /// Receives what has arrived; waits for the first datagram, at most for the socket's timeout.
    fn receive(&mut self, socket: &UdpSocket, flags: i32) {
        self.lengths = [LONGEST; BATCH];
        let (mut parts, mut heads) = self.heads(BATCH);
        point(&mut heads, &mut parts);
        let (heads, wait) = (&mut heads, std::ptr::null_mut::<timespec>());
        // SAFETY: each header points to a separate buffer and name, which outlive the call.
        let count = unsafe {
            libc::recvmmsg(socket.as_raw_fd(), heads.as_mut_ptr(), BATCH as u32, flags, wait)
        };
        self.count = usize::try_from(count).unwrap_or(0);
        for (length, head) in self.lengths.iter_mut().zip(heads) {
            *length = head.msg_len as usize;
        }
    }

    /// Adds a datagram, and sends all if the batch is full.
    fn push(&mut self, socket: &UdpSocket, to: sockaddr_in, datagram: &[u8]) {
        self.bytes[self.count][..datagram.len()].copy_from_slice(datagram);
        (self.lengths[self.count], self.names[self.count]) = (datagram.len(), to);
        self.count += 1;
        if self.count == BATCH {
            self.send(socket);
        }
    }

    fn send(&mut self, socket: &UdpSocket) {
        let (mut parts, mut heads) = self.heads(self.count);
        point(&mut heads, &mut parts);
        let (fd, count) = (socket.as_raw_fd(), self.count as u32);
        // SAFETY: each header points to a buffer and a name, which outlive the call.
        unsafe { libc::sendmmsg(fd, heads.as_mut_ptr(), count, 0) };
        self.count = 0;
    }

    fn heads(&mut self, count: usize) -> (Vec<iovec>, Vec<mmsghdr>) {
        let all = self.bytes.iter_mut().zip(&self.lengths).zip(&mut self.names).take(count);
        let head = |((bytes, length), name): ((&mut [u8; LONGEST], &usize), &mut sockaddr_in)| {
            let part = iovec { iov_base: bytes.as_mut_ptr().cast::<c_void>(), iov_len: *length };
            // SAFETY: all bytes of this structure may be zero.
            let mut head: mmsghdr = unsafe { zeroed() };
            head.msg_hdr.msg_name = (&raw mut *name).cast();
            head.msg_hdr.msg_namelen = size_of::<sockaddr_in>() as u32;
            (part, head)
        };
        all.map(head).unzip()
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], sockaddr_in)> {
        let all = self.bytes.iter().zip(self.lengths).zip(self.names).take(self.count);
        all.map(|((bytes, length), name)| (&bytes[..length], name))
    }
}

fn point(heads: &mut [mmsghdr], parts: &mut [iovec]) {
    for (head, part) in heads.iter_mut().zip(parts) {
        head.msg_hdr.msg_iov = part;
        head.msg_hdr.msg_iovlen = 1;
    }
}

fn open() -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
    let (fd, room) = (socket.as_raw_fd(), RECEIVE_BUFFER as i32);
    let (option, size) = ((&raw const room).cast::<c_void>(), size_of::<i32>() as u32);
    // SAFETY: the descriptor is open; the option is an int, which outlives the call.
    unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, option, size) };
    Ok(socket)
}

fn name_of(socket: &UdpSocket) -> std::io::Result<sockaddr_in> {
    // SAFETY: all bytes of this structure may be zero.
    let mut name: sockaddr_in = unsafe { zeroed() };
    name.sin_family = libc::AF_INET as u16;
    name.sin_port = socket.local_addr()?.port().to_be();
    name.sin_addr.s_addr = u32::from_ne_bytes(Ipv4Addr::LOCALHOST.octets());
    Ok(name)
}

/// The members: each answers with what it has received.
fn serve(members: &[UdpSocket], hub: sockaddr_in) {
    let mut polled: Vec<pollfd> = members
        .iter()
        .map(|socket| pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    let (mut received, mut sending) = (Batch::new(), Batch::new());
    loop {
        // SAFETY: the structures are ours and outlive the call.
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as u64, -1) };
        for (socket, polled) in members.iter().zip(&polled) {
            if polled.revents & libc::POLLIN == 0 {
                continue;
            }
            received.receive(socket, libc::MSG_DONTWAIT);
            for (datagram, _) in received.iter().filter(|(bytes, _)| bytes[0] == MESSAGE) {
                let mut answer = [0; LONGEST];
                answer[..datagram.len()].copy_from_slice(datagram);
                answer[0] = ANSWER;
                sending.push(socket, hub, &answer[..datagram.len()]);
            }
            sending.send(socket);
        }
    }
}

/// A hub, whose members are on another thread.
pub struct Bare {
    hub: UdpSocket,
    members: Vec<sockaddr_in>,
    message: Vec<u8>,
    sending: Batch,
}

impl Bare {
    /// Opens the sockets.
    pub fn start(members: usize, payload: usize) -> Result<Self, Failure> {
        let hub = open()?;
        hub.set_read_timeout(Some(SILENCE))?;
        let sockets = (0..members).map(|_| open()).collect::<std::io::Result<Vec<UdpSocket>>>()?;
        let names = sockets.iter().map(name_of).collect::<std::io::Result<Vec<sockaddr_in>>>()?;
        let (to, message) = (name_of(&hub)?, vec![MESSAGE; payload + HEADERS]);
        thread::Builder::new().name("members".into()).spawn(move || serve(&sockets, to))?;
        Ok(Self { hub, members: names, message, sending: Batch::new() })
    }

    fn send(&mut self, place: usize) {
        self.message[1..5].copy_from_slice(&(place as u32).to_be_bytes());
        for member in &self.members {
            self.sending.push(&self.hub, *member, &self.message);
        }
    }
}

impl Side for Bare {
    fn run(&mut self, window: usize, time: Duration) -> Result<Speed, Failure> {
        let (began, busy) = (Instant::now(), cpu());
        let mut missing = vec![self.members.len(); window];
        (0..window).for_each(|place| self.send(place));
        let (mut answers, mut open, mut received) = (0_u32, window, Batch::new());
        while open > 0 {
            self.sending.send(&self.hub);
            received.receive(&self.hub, libc::MSG_WAITFORONE);
            if received.count == 0 {
                return Err("bare sockets have lost datagrams".into());
            }
            let mut last = 0;
            for (datagram, from) in received.iter() {
                let place =
                    datagram[1..5].iter().fold(0, |all, byte| all << 8 | usize::from(*byte));
                answers += 1;
                missing[place] -= 1;
                // One for answers of a member that arrive together.
                if from.sin_port != last {
                    last = from.sin_port;
                    self.sending.push(&self.hub, from, &[ACKNOWLEDGEMENT; SHORTEST]);
                }
                if missing[place] == 0 && began.elapsed() < time {
                    missing[place] = self.members.len();
                    self.send(place);
                } else if missing[place] == 0 {
                    open -= 1;
                }
            }
        }
        self.sending.send(&self.hub);
        Ok(Speed {
            answers_s: f64::from(answers) / began.elapsed().as_secs_f64(),
            cpu_us: (cpu() - busy).as_secs_f64() * 1e6 / f64::from(answers),
        })
    }

    fn delays(&mut self, _: usize, _: Duration) -> Result<Vec<Duration>, Failure> {
        Err("not measured over bare sockets".into())
    }
}
