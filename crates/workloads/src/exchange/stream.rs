//! TCP connections that wait with an exchange's patience, for all protocols on TCP.

use super::failure::{Failure, Reason};
use super::protocol::Turn;
use crate::clock::{MILLISECOND, Nanos, monotonic_now};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// The kernel has no event for an acknowledgement but the frame that it comes in, which it
/// shows a little before it takes it in; a fifth of a millisecond is far below any link's
/// round trip that matters.
const TICK: Nanos = MILLISECOND / 5;
/// After so long it is looked at without a frame, too.
const LOOK: Nanos = 20 * MILLISECOND;
/// The state of a connection that is no more (`TCP_CLOSE`).
const CLOSED: u8 = 7;

/// Connects; the stream does not block, and sends small segments at once.
///
/// # Errors
/// When nobody listens there, or nobody answers in time.
pub fn connect(turn: &mut Turn<'_, '_>, host: Ipv4Addr, port: u16) -> Result<TcpStream, Failure> {
    let to = SocketAddr::from((host, port));
    let failed = || Failure::io(&format!("connect to {to}"));
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).map_err(failed())?;
    socket.set_nonblocking(true).map_err(failed())?;
    socket.set_tcp_nodelay(true).map_err(failed())?;
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => {
            return Err(failed()(error));
        }
        _ => turn.wait(socket.as_raw_fd(), libc::POLLOUT)?,
    }
    match socket.take_error().map_err(failed())? {
        Some(error) => Err(failed()(error)),
        None => Ok(socket.into()),
    }
}

/// Writes all of `bytes`.
///
/// # Errors
/// When the connection ends, or takes it not in time.
pub fn write(turn: &mut Turn<'_, '_>, mut stream: &TcpStream, bytes: &[u8]) -> Result<(), Failure> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match stream.write(rest) {
            Ok(n) => rest = &rest[n..],
            Err(error) if passing(&error) => turn.wait(stream.as_raw_fd(), libc::POLLOUT)?,
            Err(error) => return Err(Failure::io("send")(error)),
        }
    }
    Ok(())
}

/// Reads what has come into `buffer`, at least a byte; 0 is the end of the stream.
///
/// # Errors
/// When the connection breaks, or nothing comes in time.
pub fn read(
    turn: &mut Turn<'_, '_>,
    mut stream: &TcpStream,
    buffer: &mut [u8],
) -> Result<usize, Failure> {
    loop {
        match stream.read(buffer) {
            Ok(n) => return Ok(n),
            Err(error) if passing(&error) => turn.wait(stream.as_raw_fd(), libc::POLLIN)?,
            Err(error) => return Err(Failure::io("receive")(error)),
        }
    }
}

/// Fills `buffer`.
///
/// # Errors
/// When the connection ends before, or not all comes in time.
pub fn fill(turn: &mut Turn<'_, '_>, stream: &TcpStream, buffer: &mut [u8]) -> Result<(), Failure> {
    let mut had = 0;
    while had < buffer.len() {
        match read(turn, stream, &mut buffer[had..])? {
            0 => return Err(Failure::io("receive")(ErrorKind::ConnectionReset.into())),
            n => had += n,
        }
    }
    Ok(())
}

/// Waits until the other side's kernel has all that was sent.
///
/// # Errors
/// When it has not in time, or the connection is reset.
pub fn drain(turn: &mut Turn<'_, '_>, fd: RawFd) -> Result<(), Failure> {
    until(turn, || {
        let mut waiting: libc::c_int = 0;
        // SAFETY: the call writes one number, which is ours.
        let failed = unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut waiting) };
        if failed < 0 {
            return Err(Failure::io("read the number of unacknowledged bytes")(
                io::Error::last_os_error(),
            ));
        }
        if waiting > 0 && !is_open(fd) {
            return Err(Failure::of(Reason::Lost, "the peer reset the connection"));
        }
        Ok(waiting == 0)
    })
}

/// Waits until something is done that frames bring about.
fn until(
    turn: &mut Turn<'_, '_>,
    mut done: impl FnMut() -> Result<bool, Failure>,
) -> Result<(), Failure> {
    while !done()? {
        if turn.wait_for_frame(monotonic_now() + LOOK)? && !done()? {
            turn.wait_until(&mut [], monotonic_now() + TICK)?;
        }
    }
    Ok(())
}

/// Says that no more comes and waits until the other side has said so, too, and has
/// acknowledged ours.
///
/// # Errors
/// When it does not in time.
pub fn close(turn: &mut Turn<'_, '_>, stream: TcpStream) -> Result<(), Failure> {
    let ended = |failure: Failure| match failure.reason {
        // Who is reset meanwhile has a connection that is closed.
        Reason::Lost => Ok(0),
        _ => Err(failure),
    };
    if stream.shutdown(std::net::Shutdown::Write).is_err() {
        return Ok(());
    }
    let mut rest = [0; 1024];
    while read(turn, &stream, &mut rest).or_else(ended)? > 0 {}
    until(turn, || Ok(!is_open(stream.as_raw_fd())))
}

/// Whether the kernel still has something to do for a connection that both sides have
/// ended.
fn is_open(fd: RawFd) -> bool {
    // SAFETY: an all-zero structure is valid; it is ours, as long as said, and lives
    // over the call.
    unsafe {
        let mut info: libc::tcp_info = std::mem::zeroed();
        let mut size = size_of::<libc::tcp_info>() as libc::socklen_t;
        let (level, what) = (libc::IPPROTO_TCP, libc::TCP_INFO);
        let failed = libc::getsockopt(fd, level, what, (&raw mut info).cast(), &raw mut size);
        failed == 0 && info.tcpi_state != CLOSED
    }
}

/// Has a connection that somebody else opened send small segments at once.
pub fn no_delay(fd: RawFd) {
    // SAFETY: the descriptor is open for as long as its owner lives, who called.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    // Where it cannot be had, segments go as they went.
    let _ = socket2::SockRef::from(&socket).set_tcp_nodelay(true);
}

/// Whether trying again later is all that an error asks for.
pub fn passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
