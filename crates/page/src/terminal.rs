//! A terminal in a node: `thingbed shell` on a pseudoterminal, over a WebSocket.
//!
//! Binary messages are bytes of the terminal in both directions. A text message from the browser has the
//! size of the terminal, or the number of bytes that the browser has shown. The node gets another
//! pseudoterminal from `thingbed shell`, so nothing in it reaches this one.

use crate::app::App;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Query, State};
use axum::response::Response;
use nix::pty::{Winsize, openpty};
use serde::Deserialize;
use std::fs::File;
use std::future::pending;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::ExitStatus;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Maximum number of open terminals of a page.
const MOST: usize = 32;
/// Longest wait for the end of a shell that has closed its terminal.
const ENDING: Duration = Duration::from_secs(2);
/// Longest message from the browser, and the most input that a program may leave unread, in bytes.
const LONGEST: usize = 64 * 1024;
/// Most output that the browser may have received but not shown, in bytes. Without a limit, a program that
/// prints much fills the browser's memory, and Ctrl-C takes effect only after all of it was shown.
const AHEAD: usize = 128 * 1024;

/// The node and the size of a terminal, in characters.
#[derive(Debug, Deserialize)]
pub(crate) struct Of {
    node: String,
    rows: u16,
    cols: u16,
}

/// Size of a terminal, in characters.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Size {
    rows: u16,
    cols: u16,
}

/// A text message from the browser.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Notice {
    /// Bytes of output that were shown since the last notice.
    Shown {
        shown: usize,
    },
    Size(Size),
}

/// Opens a terminal in a node.
pub(crate) async fn terminal(
    State(app): State<App>,
    Query(of): Query<Of>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let upgrade = upgrade.protocols(["thingbed"]).max_message_size(LONGEST).max_frame_size(LONGEST);
    upgrade.on_upgrade(async move |mut socket| {
        let ended = match app.terminals.take(MOST) {
            Some(_counted) => serve(&app, &of, &mut socket).await.err().map(|e| e.to_string()),
            None => Some(format!("{MOST} terminals are open; close one")),
        };
        let text = ended.unwrap_or_else(|| "the shell has ended".to_owned());
        let _ = socket.send(Message::Text(text.into())).await;
    })
}

/// Serves a terminal until its shell ends or the browser closes it.
async fn serve(app: &App, of: &Of, socket: &mut WebSocket) -> io::Result<()> {
    let (mut shell, master) = start(app, of)?;
    // SAFETY: nothing else closes the descriptor while it is registered.
    let master = unsafe { AsyncFd::register(File::from(master)) }?;
    let (mut buffer, mut input, mut ahead) = (vec![0; 8192], Vec::new(), 0_usize);
    loop {
        tokio::select! {
            // Not read while the browser is behind, so that the program in the node waits, as at a
            // real terminal.
            read = read(&master, &mut buffer), if ahead < AHEAD => match read? {
                // All processes with the terminal open have closed it, so the shell has ended or is about to.
                0 => return timeout(ENDING, shell.wait()).await.map_or(Ok(()), |status| ended(status?)),
                length => {
                    ahead += length;
                    let bytes = buffer[..length].to_vec();
                    if socket.send(Message::Binary(bytes.into())).await.is_err() {
                        return Ok(());
                    }
                }
            },
            written = write(&master, &input) => drop(input.drain(..written?)),
            message = socket.recv() => match message {
                // As a real terminal, it loses input that no program reads.
                Some(Ok(Message::Binary(bytes))) if input.len() + bytes.len() > LONGEST => {}
                Some(Ok(Message::Binary(bytes))) => input.extend_from_slice(&bytes),
                Some(Ok(Message::Text(text))) => match serde_json::from_str(&text) {
                    Ok(Notice::Size(size)) => resize(&master, size),
                    Ok(Notice::Shown { shown }) => ahead = ahead.saturating_sub(shown),
                    Err(_) => {}
                },
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                // Closing the pseudoterminal ends the shell with SIGHUP.
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(()),
            },
            status = shell.wait() => {
                let status = status?;
                // The last output may still be in the terminal.
                while let Ok(length @ 1..) = master.get_ref().read(&mut buffer) {
                    let bytes = buffer[..length].to_vec();
                    if socket.send(Message::Binary(bytes.into())).await.is_err() {
                        break;
                    }
                }
                return ended(status);
            }
        }
    }
}

/// The result of a shell.
fn ended(status: ExitStatus) -> io::Result<()> {
    match status.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("the shell has ended: {status}"))),
    }
}

fn start(app: &App, of: &Of) -> io::Result<(Child, OwnedFd)> {
    let size = Size { rows: of.rows, cols: of.cols };
    let pty = openpty(Some(&window(size)), None)?;
    let mut command = Command::new(&*app.tool);
    command.args(["shell", "--lab", &app.lab.to_string(), "--", &of.node]);
    // A program with the token would control the lab (decision 93).
    command.env("TERM", "xterm-256color").env_remove(lab::PAGE_TOKEN).kill_on_drop(true);
    command.stdin(pty.slave.try_clone()?).stdout(pty.slave.try_clone()?).stderr(pty.slave);
    // SAFETY: only system calls between fork and exec. With a controlling terminal the shell gets
    // SIGWINCH and SIGHUP.
    unsafe {
        command.pre_exec(|| match libc::setsid() >= 0 && libc::ioctl(0, libc::TIOCSCTTY, 0) >= 0 {
            true => Ok(()),
            false => Err(io::Error::last_os_error()),
        });
    }
    let shell = command.spawn()?;
    // `AsyncFd` needs a descriptor that does not block.
    let flags = nix::fcntl::OFlag::O_NONBLOCK;
    nix::fcntl::fcntl(&pty.master, nix::fcntl::FcntlArg::F_SETFL(flags))?;
    Ok((shell, pty.master))
}

fn window(size: Size) -> Winsize {
    // The browser sends the size, so it is not trusted.
    let (ws_row, ws_col) = (size.rows.clamp(2, 500), size.cols.clamp(10, 1000));
    Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 }
}

fn resize(master: &AsyncFd<File>, size: Size) {
    let size = window(size);
    // SAFETY: reads one structure, which outlives the call.
    unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
}

/// Reads output; 0 at its end.
async fn read(master: &AsyncFd<File>, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        let mut ready = master.readable().await?;
        match ready.try_io(|fd| fd.get_ref().read(buffer)) {
            // No process has the other end open.
            Ok(Err(error)) if error.raw_os_error() == Some(libc::EIO) => return Ok(0),
            Ok(read) => return read,
            Err(_would_block) => {}
        }
    }
}

/// Writes a part of the input; waits for ever if there is none.
async fn write(master: &AsyncFd<File>, input: &[u8]) -> io::Result<usize> {
    if input.is_empty() {
        return pending().await;
    }
    loop {
        let mut ready = master.writable().await?;
        match ready.try_io(|fd| fd.get_ref().write(input)) {
            Ok(Ok(0)) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => return written,
            Err(_would_block) => {}
        }
    }
}
