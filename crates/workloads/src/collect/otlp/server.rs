//! The server that programs send their metrics to, with OpenTelemetry's SDKs: over HTTP, and over gRPC,
//! which begins as HTTP/2.

use super::super::batch::Batch;
use super::export::{Body, Exports};
use super::{Selection, grpc, http};
use crate::error::Error;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use record::spec::OtlpSpec;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep, timeout};

/// Most connections at once: programs may open any number.
const CONNECTIONS: usize = 32;
/// Most calls at once on a connection of HTTP/2.
const CALLS: u32 = 4;
/// Longest wait for the head of a request, or for a sign of life of a connection of HTTP/2.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for a port in use.
const PORT_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a failed accept, before a port in use is tried again, and while the begin of a connection is incomplete.
const PAUSE: Duration = Duration::from_millis(10);
/// How a connection of HTTP/2 begins (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Starts to listen; each export becomes a batch.
///
/// # Errors
/// The port is in use.
pub(in super::super) async fn serve(spec: &OtlpSpec, sender: Sender<Batch>) -> Result<(), Error> {
    let address = spec.address;
    let failed = |source| Error::Address {
        operation: format!("receive OpenTelemetry metrics on {address}"),
        source,
    };
    let listener = listen(address).await.map_err(failed)?;
    let series = spec.series.iter().filter_map(|text| Selection::parse(text)).collect();
    tokio::spawn(accept(
        listener,
        Arc::new(Exports { series, sender, wrong: AtomicUsize::new(0) }),
    ));
    Ok(())
}

/// Listens at an address. The collector before, which a fault killed, may not have ended yet.
async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let until = Instant::now() + PORT_TIMEOUT;
    loop {
        match TcpListener::bind(address).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < until => {
                sleep(PAUSE).await;
            }
            listener => return listener,
        }
    }
}

async fn accept(listener: TcpListener, exports: Arc<Exports>) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = connections.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // For example no descriptor is left.
            sleep(PAUSE).await;
            continue;
        };
        let exports = exports.clone();
        tokio::spawn(async move {
            // A connection that says nothing must not take the place of others.
            if let Ok(Ok(is_http2)) = timeout(HEAD_TIMEOUT, is_http2(&stream)).await {
                connection(stream, is_http2, exports).await;
            }
            drop(permit);
        });
    }
}

async fn is_http2(stream: &TcpStream) -> io::Result<bool> {
    let mut begin = [0; PREFACE.len()];
    loop {
        let length = stream.peek(&mut begin).await?;
        // The end, or the begin of a request of HTTP/1.
        if length == 0 || !PREFACE.starts_with(&begin[..length]) {
            return Ok(false);
        }
        if length == PREFACE.len() {
            return Ok(true);
        }
        sleep(PAUSE).await;
    }
}

/// Serves a connection. One that breaks has no more exports.
async fn connection(stream: TcpStream, is_http2: bool, exports: Arc<Exports>) {
    let service = service_fn(move |request| {
        let exports = exports.clone();
        async move { Ok::<_, Infallible>(answer(request, &exports).await) }
    });
    let (stream, timer) = (TokioIo::new(stream), TokioTimer::new());
    if is_http2 {
        let mut server = http2::Builder::new(TokioExecutor::new());
        server.timer(timer).max_concurrent_streams(CALLS);
        server.keep_alive_interval(HEAD_TIMEOUT).keep_alive_timeout(HEAD_TIMEOUT);
        let _ = server.serve_connection(stream, service).await;
    } else {
        let mut server = http1::Builder::new();
        server.timer(timer).header_read_timeout(HEAD_TIMEOUT);
        let _ = server.serve_connection(stream, service).await;
    }
}

async fn answer(request: Request<Incoming>, exports: &Exports) -> Response<Body> {
    match grpc::is_call(request.headers()) {
        true => grpc::answer(request, exports).await,
        false => http::answer(request, exports).await,
    }
}
