//! Connections of browsers: their number and the time that a client without the token has are limited,
//! because all users of the machine can connect to a loopback port.

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// Maximum number of connections; others wait. A browser opens six at most, and one per terminal.
const MOST: usize = 128;
/// Time for the head of a request, and for the next request on an idle connection.
const HEAD: Duration = Duration::from_secs(10);
/// Longest life of a connection without the token.
const STRANGER: Duration = Duration::from_secs(20);
/// Longest head of a request, in bytes.
const LONGEST_HEAD: usize = 16 * 1024;
/// Wait after a failed `accept`: there are too few descriptors.
const FAILED: Duration = Duration::from_millis(200);

/// Whether a request with the token has come on a connection.
#[derive(Clone, Default)]
pub(crate) struct Known(Arc<AtomicBool>);

impl Known {
    /// A request with the token has come.
    pub(crate) fn set(&self) {
        self.0.store(true, Relaxed);
    }

    /// Returns if the connection has no right to last longer.
    async fn expired(&self) {
        sleep(STRANGER).await;
        // A connection with the token may last: states, logs and terminals are streams.
        if self.0.load(Relaxed) {
            pending::<()>().await;
        }
    }
}

/// Where connections come from.
pub(crate) enum Listener {
    Port(TcpListener),
    Socket(UnixListener),
}

/// Serves all connections until the process ends.
pub(crate) async fn serve(listener: Listener, router: Router) {
    let free = Arc::new(Semaphore::new(MOST));
    loop {
        // Taken before accepting, so that further clients wait in the kernel's queue.
        let Ok(permit) = free.clone().acquire_owned().await else { return };
        let router = router.clone();
        let accepted = match &listener {
            Listener::Port(listener) => listener.accept().await.map(|(stream, _)| {
                // Keys of a terminal are small messages.
                let _ = stream.set_nodelay(true);
                tokio::spawn(async move {
                    connection(stream, router).await;
                    drop(permit);
                });
            }),
            Listener::Socket(listener) => listener.accept().await.map(|(stream, _)| {
                tokio::spawn(async move {
                    connection(stream, router).await;
                    drop(permit);
                });
            }),
        };
        if accepted.is_err() {
            sleep(FAILED).await;
        }
    }
}

async fn connection(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, router: Router) {
    let known = Known::default();
    let service = TowerToHyperService::new(router.layer(Extension(known.clone())));
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(LONGEST_HEAD);
    let served = server.serve_connection(TokioIo::new(stream), service).with_upgrades();
    tokio::select! {
        // A client that breaks off is no error.
        _ = served => {}
        () = known.expired() => {}
    }
}
