//! The server of the page.

use crate::app::App;
use crate::assets;
use crate::connections::{self, Listener};
use crate::count::Count;
use crate::feed::Feed;
use crate::gate;
use crate::liveness::Process;
use crate::logs::logs;
use crate::place::Place;
use crate::requests::{events, metrics, request};
use crate::terminal::terminal;
use crate::token::Token;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};

/// Threads that wait for the lab's answers.
const WAITING: usize = 16;
/// Longest request, in bytes; as of the control socket.
const LONGEST: usize = 1 << 16;

/// Options of a page.
pub struct Options {
    /// Process id of the lab's tool. The page ends with it.
    pub lab: u32,
    /// Where it listens.
    pub place: Place,
    /// The tool, whose commands show logs and open shells.
    pub tool: PathBuf,
}

/// Serves the page until the lab's process ends, or until SIGTERM, SIGINT or SIGHUP. Calls `ready` with
/// its URL. The secret in it is random, or that of the variable `THINGBED_PAGE_TOKEN`.
///
/// # Errors
/// If the place is taken, or there is no such process.
pub fn serve(options: Options, ready: impl FnOnce(&str)) -> io::Result<()> {
    // One thread: the page must not take CPUs from a measured run (decision 92).
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(WAITING).build()?;
    let served = runtime.block_on(serve_until_end(options, ready));
    // A lab that hangs must not keep the page.
    runtime.shutdown_background();
    served
}

async fn serve_until_end(options: Options, ready: impl FnOnce(&str)) -> io::Result<()> {
    let Options { lab, place, tool } = options;
    // First, so that a later process with the same number is not taken for the lab's.
    let process = Process::open(lab)?;
    let token =
        Arc::new(std::env::var(lab::PAGE_TOKEN).map_or_else(|_| Token::random(), Token::chosen)?);
    let router = router(App {
        lab,
        tool: Arc::from(tool),
        token: token.clone(),
        feed: Feed::new(lab),
        terminals: Count::default(),
        logs: Count::default(),
    });
    let ended = async {
        let mut signals = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()]
            .map(signal)
            .into_iter()
            .collect::<io::Result<Vec<_>>>()?;
        let [a, b, c] = &mut signals[..] else { return Ok(()) };
        tokio::select! {
            ended = process.ended() => ended,
            _ = a.recv() => Ok(()),
            _ = b.recv() => Ok(()),
            _ = c.recv() => Ok(()),
        }
    };
    let token = token.text();
    let (listener, url, _remove) = match place {
        Place::Port(port) => {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
            let url = format!("http://{}/#token={token}", listener.local_addr()?);
            (Listener::Port(listener), url, None)
        }
        Place::Socket(path) => {
            let listener = listen(&path).await?;
            let url = format!("{} with the token {token}", path.display());
            (Listener::Socket(listener), url, Some(Remove(path)))
        }
    };
    ready(&url);
    tokio::select! {
        () = connections::serve(listener, router) => Ok(()),
        ended = ended => ended,
    }
}

fn router(app: App) -> Router {
    let routes = assets::routes()
        .route("/api/events", get(events))
        .route("/api/request", post(request))
        .route("/api/logs", get(logs))
        .route("/api/terminal", get(terminal))
        .route("/metrics", get(metrics));
    routes
        .layer(DefaultBodyLimit::max(LONGEST))
        // The outermost layer: nothing of a request that it refuses is read.
        .layer(from_fn_with_state(app.clone(), gate::check))
        .with_state(app)
}

/// A socket file that only its user may open.
async fn listen(path: &Path) -> io::Result<UnixListener> {
    // The socket of a page that was killed is of no use to anyone.
    let is_socket = fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    if is_socket && UnixStream::connect(path).await.is_err() {
        fs::remove_file(path)?;
    }
    // No other thread creates files now.
    let before = nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o177));
    let listener = UnixListener::bind(path);
    nix::sys::stat::umask(before);
    listener
}

/// Removes a socket file when the page ends.
struct Remove(PathBuf);

impl Drop for Remove {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
