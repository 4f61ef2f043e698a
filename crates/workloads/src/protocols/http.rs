//! HTTP/1.1 with hyper. GET: the sink requests `/SIZE` and the source responds. PUT and POST: the
//! source sends to `/SIZE` and the sink responds with 204.

use crate::error::Error;
use crate::exchange::body::Body;
use crate::exchange::failure::{Failure, Reason};
use crate::exchange::log::Receipts;
use crate::exchange::outcome::Outcome;
use crate::exchange::protocol::{Connecting, Driver, Protocol, Server, Turn};
use crate::exchange::sections::Section;
use crate::exchange::watch::Watch;
use crate::protocols::reactor::Reactor;
use crate::protocols::tcp::{EXHAUSTED_PAUSE, listen, stream};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, Parts, SendRequest};
use hyper::header::HOST;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, server};
use hyper_util::rt::TokioIo;
use record::spec::ExchangeSpec;
use record::{Connection, Http, HttpMethod};
use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use units::Instant;

pub(super) fn driver(spec: &ExchangeSpec, options: &Http) -> Result<Box<dyn Driver>, Error> {
    let method = match options.method {
        HttpMethod::Get => Method::GET,
        HttpMethod::Put => Method::PUT,
        HttpMethod::Post => Method::POST,
    };
    let (host, port) = (spec.peers[0].address, spec.port);
    let persistent = spec.connection == Connection::Kept;
    let reactor = Reactor::new()?;
    Ok(Box::new(Connecting::new(Client { reactor, host, port, method }, persistent)))
}

struct Client {
    reactor: Reactor,
    host: IpAddr,
    port: u16,
    method: Method,
}

/// A connection: the request handle, and the task that runs the connection and returns the stream
/// at the end.
struct Link {
    requests: SendRequest<Full<Bytes>>,
    task: JoinHandle<hyper::Result<Parts<TokioIo<tokio::net::TcpStream>>>>,
}

impl Protocol for Client {
    type Connection = Link;

    fn connect(&mut self, turn: &mut Turn<'_, '_>) -> Result<Link, Failure> {
        turn.enter(Section::TransportConnect);
        let stream = stream::connect(turn, self.host, self.port)?;
        self.reactor.finish(turn.watch, turn.deadline, async {
            let stream = tokio::net::TcpStream::from_std(stream);
            let stream = stream.map_err(Failure::io("wait for the connection"))?;
            let made = Builder::new().handshake(TokioIo::new(stream)).await;
            let (requests, connection) = made.map_err(|error| failure(&error))?;
            Ok(Link { requests, task: tokio::spawn(connection.without_shutdown()) })
        })
    }

    /// Sends a request and receives the complete response.
    fn exchange(&mut self, turn: &mut Turn<'_, '_>, link: &mut Link) -> Result<Outcome, Failure> {
        turn.enter(Section::Payload);
        let is_get = self.method == Method::GET;
        let content = if is_get { Vec::new() } else { turn.payload() };
        let request = Request::builder()
            .method(&self.method)
            .uri(format!("/{}", turn.size))
            .header(HOST, SocketAddr::from((self.host, self.port)).to_string())
            .body(Full::new(Bytes::from(content)))
            .map_err(|error| Failure::of(Reason::Other, error.to_string()))?;
        let most = turn.size;
        let (payload, at) = self.reactor.finish(turn.watch, turn.deadline, async {
            link.requests.ready().await.map_err(|error| failure(&error))?;
            let sent = link.requests.send_request(request).await;
            let response = sent.map_err(|error| failure(&error))?;
            let status = response.status();
            if !status.is_success() {
                return Err(Failure::of(Reason::Status, status.to_string()));
            }
            // A limit of one extra byte detects a payload that is too long.
            let content = Limited::new(response.into_body(), most + 1).collect().await;
            let content = content.map_err(|error| match error.downcast::<hyper::Error>() {
                Ok(error) => failure(&error),
                Err(_) => Failure::corrupt(format!("received more than {most} bytes")),
            })?;
            Ok((content.to_bytes(), clock::now()))
        })?;
        if !is_get {
            return Ok(Outcome::default());
        }
        turn.check(&payload)?;
        Ok(Outcome { received: Some(at) })
    }

    fn close(&mut self, turn: &mut Turn<'_, '_>, link: Link) -> Result<(), Failure> {
        turn.enter(Section::TransportClose);
        drop(link.requests);
        // Take the stream back from the connection's task.
        let stream = self.reactor.finish(turn.watch, turn.deadline, async {
            let parts = link.task.await;
            let parts = parts.map_err(|error| Failure::of(Reason::Other, error.to_string()))?;
            let stream = parts.map_err(|error| failure(&error))?.io.into_inner();
            stream.into_std().map_err(Failure::io("close"))
        })?;
        stream::close(turn, stream)
    }
}

/// Maps a hyper error to a failure.
fn failure(error: &hyper::Error) -> Failure {
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        if let Some(io) = inner.downcast_ref::<std::io::Error>() {
            if let Some(code) = io.raw_os_error() {
                return Failure::io("exchange")(std::io::Error::from_raw_os_error(code));
            }
            // Errors of hyper in the body of a response.
            match io.kind() {
                ErrorKind::UnexpectedEof => return Failure::of(Reason::Lost, io.to_string()),
                ErrorKind::InvalidInput | ErrorKind::InvalidData => {
                    return Failure::corrupt(io.to_string());
                }
                _ => {}
            }
        }
        cause = inner.source();
    }
    let reason = if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        Reason::Lost
    } else if error.is_parse() {
        Reason::Corrupt
    } else {
        Reason::Other
    };
    Failure::of(reason, error.to_string())
}

pub(super) fn server(spec: &ExchangeSpec) -> Result<Box<dyn Server>, Error> {
    let listener = listen(spec)?;
    let payloads =
        Payloads { body: Body::new(spec.seed, spec.longest()), sizes: spec.sizes.clone() };
    let spec = spec.clone();
    Ok(Box::new(Origin { listener: Some(listener), reactor: Reactor::new()?, payloads, spec }))
}

/// The server.
struct Origin {
    listener: Option<TcpListener>,
    reactor: Reactor,
    payloads: Payloads,
    spec: ExchangeSpec,
}

/// Payloads to send, and sizes that are accepted.
struct Payloads {
    body: Body,
    sizes: Vec<usize>,
}

/// A received payload: peer, number, size, time.
type Receipt = (String, Option<u64>, usize, Instant);

impl Server for Origin {
    fn serve(&mut self, watch: &mut Watch<'_>, receipts: &mut Receipts) -> Result<(), Error> {
        let Some(listener) = self.listener.take() else { return Ok(()) };
        let (notes, mut received) = unbounded_channel();
        let payloads = std::mem::replace(
            &mut self.payloads,
            Payloads { body: Body::new(0, 0), sizes: vec![] },
        );
        let accepting = accept(listener, Arc::new(payloads), self.spec.clone(), notes);
        self.reactor.runtime().spawn(accepting);
        watch.ready()?;
        loop {
            match self.reactor.run(watch, None, received.recv()) {
                Ok(Some(Some((peer, number, size, at)))) => {
                    receipts.note(&peer, number, size, at)?
                }
                Ok(_) => {
                    return Err(Error::protocol("accept connections", "the accept task ended"));
                }
                Err(_) => return Ok(()),
            }
        }
    }
}

/// Accepts connections and serves each in a separate task.
async fn accept(
    listener: TcpListener,
    payloads: Arc<Payloads>,
    spec: ExchangeSpec,
    notes: UnboundedSender<Receipt>,
) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) if load::is_exhausted(&error) => {
                tokio::time::sleep(EXHAUSTED_PAUSE.into()).await;
                continue;
            }
            // A connection that closed before accept does not affect the next one.
            Err(_) => {
                tokio::task::yield_now().await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let (payloads, notes, peer) =
            (Arc::clone(&payloads), notes.clone(), spec.name_of(from.ip()));
        tokio::spawn(async move {
            let answering = service_fn(|request| answer(request, &payloads, &notes, &peer));
            // Ignore clients that disconnect or send invalid data.
            let connection = server::conn::http1::Builder::new()
                // A kept connection may pause for any time between exchanges.
                .header_read_timeout(None)
                .serve_connection(TokioIo::new(stream), answering);
            let _ = connection.await;
        });
    }
}

/// Responds to one request.
async fn answer(
    request: Request<Incoming>,
    payloads: &Payloads,
    notes: &UnboundedSender<Receipt>,
    peer: &str,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let size: Option<usize> = request.uri().path().trim_start_matches('/').parse().ok();
    // Also bounds the memory that an unrelated client can cause.
    let Some(size) = size.filter(|size| payloads.sizes.contains(size)) else {
        return Ok(plain(StatusCode::NOT_FOUND));
    };
    match *request.method() {
        Method::GET => Ok(Response::new(Full::from(payloads.body.message(None, size)))),
        Method::PUT | Method::POST => {
            let Ok(content) = Limited::new(request.into_body(), size).collect().await else {
                return Ok(plain(StatusCode::PAYLOAD_TOO_LARGE));
            };
            let (content, at) = (content.to_bytes(), clock::now());
            match payloads.body.number(&content).filter(|_| content.len() == size) {
                Some(number) => {
                    let _ = notes.send((peer.to_owned(), number, size, at));
                    Ok(plain(StatusCode::NO_CONTENT))
                }
                None => Ok(plain(StatusCode::BAD_REQUEST)),
            }
        }
        _ => Ok(plain(StatusCode::METHOD_NOT_ALLOWED)),
    }
}

fn plain(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}
