//! TCP connections whose waits end at the exchange's deadline, for all protocols over TCP.

use crate::exchange::failure::{Failure, Reason};
use crate::exchange::protocol::Turn;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use units::Span;

/// The kernel has no event for an acknowledgement except the frame that carries it, and shows that
/// shortly before it processes it. A fifth of a millisecond is far below any relevant round-trip
/// time.
const TICK: Span = Span::from_us(200);
/// Maximum time between two checks without a frame.
const POLL_INTERVAL: Span = Span::from_ms(20);
/// The state of a closed connection (`TCP_CLOSE`).
const CLOSED: u8 = 7;

/// Connects; the stream is non-blocking, with TCP_NODELAY.
///
/// # Errors
/// The connection is refused or times out.
pub fn connect(turn: &mut Turn<'_, '_>, host: IpAddr, port: u16) -> Result<TcpStream, Failure> {
    let to = SocketAddr::from((host, port));
    let failed = || Failure::io(&format!("connect to {to}"));
    let socket =
        Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP)).map_err(failed())?;
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
/// The connection ends, or the write times out.
pub fn write(turn: &mut Turn<'_, '_>, mut stream: &TcpStream, bytes: &[u8]) -> Result<(), Failure> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match stream.write(rest) {
            Ok(n) => rest = &rest[n..],
            Err(error) if is_transient(&error) => turn.wait(stream.as_raw_fd(), libc::POLLOUT)?,
            Err(error) => return Err(Failure::io("send")(error)),
        }
    }
    Ok(())
}

/// Reads at least one byte into `buffer`; 0 is the end of the stream.
///
/// # Errors
/// The connection breaks, or the deadline has passed, even if there is data.
pub fn read(
    turn: &mut Turn<'_, '_>,
    mut stream: &TcpStream,
    buffer: &mut [u8],
) -> Result<usize, Failure> {
    loop {
        turn.check_time()?;
        match stream.read(buffer) {
            Ok(n) => return Ok(n),
            Err(error) if is_transient(&error) => turn.wait(stream.as_raw_fd(), libc::POLLIN)?,
            Err(error) => return Err(Failure::io("receive")(error)),
        }
    }
}

/// Fills `buffer`.
///
/// # Errors
/// The connection ends early, or the read times out.
pub fn fill(turn: &mut Turn<'_, '_>, stream: &TcpStream, buffer: &mut [u8]) -> Result<(), Failure> {
    let mut filled = 0;
    while filled < buffer.len() {
        match read(turn, stream, &mut buffer[filled..])? {
            0 => return Err(Failure::io("receive")(ErrorKind::ConnectionReset.into())),
            n => filled += n,
        }
    }
    Ok(())
}

/// Waits until the peer's kernel has acknowledged all sent data.
///
/// # Errors
/// Timeout, or the connection is reset.
pub fn drain(turn: &mut Turn<'_, '_>, fd: RawFd) -> Result<(), Failure> {
    until(turn, || {
        let mut waiting: libc::c_int = 0;
        // SAFETY: the call writes one number to a local variable.
        let failed = unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut waiting) };
        if failed < 0 {
            return Err(Failure::io("read the number of unacknowledged bytes")(
                io::Error::last_os_error(),
            ));
        }
        // After a reset, the number no longer changes.
        if waiting > 0 && !is_open(fd) {
            return Err(Failure::of(Reason::Lost, "the peer reset the connection"));
        }
        Ok(waiting == 0)
    })
}

/// Waits until `done`, which changes when frames arrive.
fn until(
    turn: &mut Turn<'_, '_>,
    mut done: impl FnMut() -> Result<bool, Failure>,
) -> Result<(), Failure> {
    while !done()? {
        if turn.wait_for_frame(clock::now() + POLL_INTERVAL)? && !done()? {
            turn.wait_until(&mut [], clock::now() + TICK)?;
        }
    }
    Ok(())
}

/// Shuts down the sending direction, then waits until the peer has done so too and has
/// acknowledged our FIN.
///
/// # Errors
/// Timeout.
pub fn close(turn: &mut Turn<'_, '_>, stream: TcpStream) -> Result<(), Failure> {
    let ended = |failure: Failure| match failure.reason {
        // A reset connection is closed.
        Reason::Lost => Ok(0),
        _ => Err(failure),
    };
    if stream.shutdown(std::net::Shutdown::Write).is_err() {
        return Ok(());
    }
    // Late data of the peer is dropped; the exchange is over.
    let mut rest = [0; 1024];
    while read(turn, &stream, &mut rest).or_else(ended)? > 0 {}
    until(turn, || Ok(!is_open(stream.as_raw_fd())))
}

/// Whether the kernel still has work for a connection that both sides have ended.
fn is_open(fd: RawFd) -> bool {
    // SAFETY: an all-zero structure is valid; it is local, has the given size and outlives the
    // call.
    unsafe {
        let mut info: libc::tcp_info = std::mem::zeroed();
        let mut size = size_of::<libc::tcp_info>() as libc::socklen_t;
        let (level, what) = (libc::IPPROTO_TCP, libc::TCP_INFO);
        let failed = libc::getsockopt(fd, level, what, (&raw mut info).cast(), &raw mut size);
        failed == 0 && info.tcpi_state != CLOSED
    }
}

/// Sets TCP_NODELAY on a connection that other code opened.
pub fn no_delay(fd: RawFd) {
    // SAFETY: the caller owns the descriptor and keeps it open.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    // On failure, the setting stays unchanged.
    let _ = socket2::SockRef::from(&socket).set_tcp_nodelay(true);
}

/// Whether the operation can simply be retried later.
pub fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::tests::with_turn;
    use std::net::TcpListener;
    use units::Instant;

    /// Both ends of a connection; the first one is non-blocking.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_nonblocking(true).unwrap();
        (near, listener.accept().unwrap().0)
    }

    fn patient() -> Instant {
        clock::now() + Span::from_s(120)
    }

    fn soon() -> Instant {
        clock::now() + Span::from_ms(50)
    }

    /// What failed: a peer that always had more data could keep an exchange going.
    #[test]
    fn the_deadline_ends_a_read_though_there_is_data() {
        let (near, mut far) = pair();
        far.write_all(b"data").unwrap();
        let mut buffer = [0; 4];
        with_turn(patient(), |turn| fill(turn, &near, &mut buffer)).unwrap();
        assert_eq!(&buffer, b"data");
        far.write_all(b"more").unwrap();
        let late = with_turn(clock::now(), |turn| read(turn, &near, &mut buffer));
        assert_eq!(late.unwrap_err().reason, Reason::Timeout);
    }

    #[test]
    fn a_connection_that_ends_early_is_lost_and_a_silent_one_times_out() {
        let (near, mut far) = pair();
        far.write_all(b"abc").unwrap();
        let mut buffer = [0; 4];
        let late = with_turn(soon(), |turn| fill(turn, &near, &mut buffer));
        assert_eq!(late.unwrap_err().reason, Reason::Timeout);
        let (near, mut far) = pair();
        far.write_all(b"abc").unwrap();
        drop(far);
        let lost = with_turn(patient(), |turn| fill(turn, &near, &mut buffer));
        assert_eq!(lost.unwrap_err().reason, Reason::Lost);
        // More than both kernels keep for a peer that does not read.
        let (near, _far) = pair();
        let late = with_turn(soon(), |turn| write(turn, &near, &vec![0; 64 << 20]));
        assert_eq!(late.unwrap_err().reason, Reason::Timeout);
    }

    #[test]
    fn a_close_waits_for_the_peer_and_takes_a_reset_for_one() {
        let (near, far) = pair();
        let late = with_turn(soon(), |turn| close(turn, near));
        assert_eq!(late.unwrap_err().reason, Reason::Timeout, "the peer does not close");
        drop(far);
        let (near, mut far) = pair();
        far.write_all(&[7; 5_000]).unwrap();
        far.shutdown(std::net::Shutdown::Write).unwrap();
        with_turn(patient(), |turn| close(turn, near)).unwrap();
        // A peer that closes with unread data resets the connection.
        let (mut near, far) = pair();
        near.write_all(b"unread").unwrap();
        drop(far);
        with_turn(patient(), |turn| close(turn, near)).unwrap();
    }

    #[test]
    fn sent_data_is_drained_when_the_peers_kernel_has_it() {
        let (mut near, far) = pair();
        near.write_all(&[7; 10_000]).unwrap();
        // The peer need not read.
        with_turn(patient(), |turn| drain(turn, near.as_raw_fd())).unwrap();
        // More than it takes while its program does not read.
        let late = with_turn(soon(), |turn| write(turn, &near, &vec![7; 64 << 20]));
        assert_eq!(late.unwrap_err().reason, Reason::Timeout);
        let late = with_turn(soon(), |turn| drain(turn, near.as_raw_fd()));
        assert_eq!(late.unwrap_err().reason, Reason::Timeout);
        // The program ends, so its kernel resets the connection.
        drop(far);
        let lost = with_turn(patient(), |turn| drain(turn, near.as_raw_fd()));
        assert_eq!(lost.unwrap_err().reason, Reason::Lost);
    }
}
