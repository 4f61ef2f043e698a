//! HTTP/1.1 by hyper. GET: the sink asks for `/SIZE` and the source answers. PUT and
//! POST: the source sends to `/SIZE` and the sink answers 204.

use super::body::Body;
use super::failure::{Failure, Reason};
use super::log::Receipts;
use super::protocol::{Driver, Outcome, Server, Turn};
use super::reactor::Reactor;
use super::sections::Section;
use super::spec::{Connection, ExchangeSpec};
use super::stream;
use super::watch::Watch;
use crate::clock::{Nanos, monotonic_now};
use crate::error::Error;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, Parts, SendRequest};
use hyper::header::HOST;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, server};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use std::convert::Infallible;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

/// What is asked of a resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Verb {
    /// The sink asks for it.
    #[default]
    Get,
    /// The source puts it there.
    Put,
    /// The source posts it.
    Post,
}

/// What can be chosen.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Options {
    method: Verb,
}

pub(super) fn driver(spec: &ExchangeSpec) -> Result<Box<dyn Driver>, Error> {
    let method = match spec.options::<Options>()?.method {
        Verb::Get => Method::GET,
        Verb::Put => Method::PUT,
        Verb::Post => Method::POST,
    };
    let (host, port) = (spec.peers[0].address, spec.port);
    let kept = spec.connection == Connection::Kept;
    let reactor = Reactor::new()?;
    Ok(Box::new(Client { link: None, reactor, host, port, method, kept }))
}

struct Client {
    link: Option<Link>,
    reactor: Reactor,
    host: Ipv4Addr,
    port: u16,
    method: Method,
    kept: bool,
}

/// A connection: where requests go in, and what carries them, which gives the stream
/// back in the end.
struct Link {
    requests: SendRequest<Full<Bytes>>,
    carrier: JoinHandle<hyper::Result<Parts<TokioIo<tokio::net::TcpStream>>>>,
}

impl Driver for Client {
    fn set_up(&mut self, turn: &mut Turn<'_, '_>) -> Result<(), Failure> {
        if self.kept {
            self.link = Some(self.connect(turn)?);
        }
        Ok(())
    }

    fn exchange(&mut self, turn: &mut Turn<'_, '_>) -> Result<Outcome, Failure> {
        let mut link = match self.link.take() {
            Some(link) => link,
            None => {
                turn.enter(Section::TransportConnect);
                self.connect(turn)?
            }
        };
        turn.enter(Section::Payload);
        let outcome = self.ask(&mut link, turn)?;
        if self.kept {
            self.link = Some(link);
        } else {
            turn.enter(Section::TransportClose);
            let stream = self.end(link, turn)?;
            stream::close(turn, stream)?;
        }
        Ok(outcome)
    }
}

impl Client {
    fn connect(&self, turn: &mut Turn<'_, '_>) -> Result<Link, Failure> {
        let stream = stream::connect(turn, self.host, self.port)?;
        self.reactor.finish(turn.watch, turn.deadline, async {
            let stream = tokio::net::TcpStream::from_std(stream);
            let stream = stream.map_err(Failure::io("wait for the connection"))?;
            let made = Builder::new().handshake(TokioIo::new(stream)).await;
            let (requests, connection) = made.map_err(|error| failure(&error))?;
            Ok(Link { requests, carrier: tokio::spawn(connection.without_shutdown()) })
        })
    }

    /// A request and its whole answer.
    fn ask(&self, link: &mut Link, turn: &mut Turn<'_, '_>) -> Result<Outcome, Failure> {
        let asks = self.method == Method::GET;
        let content = if asks { Vec::new() } else { turn.payload() };
        let request = Request::builder()
            .method(&self.method)
            .uri(format!("/{}", turn.size))
            .header(HOST, format!("{}:{}", self.host, self.port))
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
            // One byte more than is wanted tells that there is more.
            let content = Limited::new(response.into_body(), most + 1).collect().await;
            let content = content.map_err(|error| match error.downcast::<hyper::Error>() {
                Ok(error) => failure(&error),
                Err(_) => Failure::corrupt(format!("received more than {most} bytes")),
            })?;
            Ok((content.to_bytes(), monotonic_now()))
        })?;
        if !asks {
            return Ok(Outcome::default());
        }
        turn.check(&payload)?;
        Ok(Outcome { received: Some(at) })
    }

    /// Takes the stream back from who carries requests on it.
    fn end(&self, link: Link, turn: &mut Turn<'_, '_>) -> Result<TcpStream, Failure> {
        drop(link.requests);
        self.reactor.finish(turn.watch, turn.deadline, async {
            let parts = link.carrier.await;
            let parts = parts.map_err(|error| Failure::of(Reason::Other, error.to_string()))?;
            let stream = parts.map_err(|error| failure(&error))?.io.into_inner();
            stream.into_std().map_err(Failure::io("close"))
        })
    }
}

/// What hyper says went wrong, in words of ours.
fn failure(error: &hyper::Error) -> Failure {
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        if let Some(io) = inner.downcast_ref::<std::io::Error>()
            && let Some(code) = io.raw_os_error()
        {
            return Failure::io("exchange")(std::io::Error::from_raw_os_error(code));
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
    spec.options::<Options>()?;
    let listener = TcpListener::bind((spec.address, spec.port)).map_err(|source| {
        let tried = format!("listen on {}:{}", spec.address, spec.port);
        Error::Address { tried, source }
    })?;
    listener.set_nonblocking(true).map_err(Error::io("make a socket not wait"))?;
    let shelf = Shelf { body: Body::new(spec.seed, spec.longest()), sizes: spec.sizes.clone() };
    let spec = spec.clone();
    Ok(Box::new(Origin { listener: Some(listener), reactor: Reactor::new()?, shelf, spec }))
}

/// The server.
struct Origin {
    listener: Option<TcpListener>,
    reactor: Reactor,
    shelf: Shelf,
    spec: ExchangeSpec,
}

/// What there is to be had, and what may come.
struct Shelf {
    body: Body,
    sizes: Vec<usize>,
}

/// A payload that has come: from whom, its number, its length, when.
type Receipt = (String, Option<u64>, usize, Nanos);

impl Server for Origin {
    fn serve(&mut self, watch: &mut Watch<'_>, receipts: &mut Receipts) -> Result<(), Error> {
        let Some(listener) = self.listener.take() else { return Ok(()) };
        let (notes, mut noted) = unbounded_channel();
        let shelf =
            std::mem::replace(&mut self.shelf, Shelf { body: Body::new(0, 0), sizes: vec![] });
        let accepting = accept(listener, Arc::new(shelf), self.spec.clone(), notes);
        self.reactor.runtime().spawn(accepting);
        watch.ready()?;
        loop {
            match self.reactor.run(watch, None, noted.recv()) {
                Ok(Some(Some((peer, number, size, at)))) => {
                    receipts.note(&peer, number, size, at)?
                }
                Ok(_) => {
                    return Err(Error::protocol("wait for connections", "no process accepts them"));
                }
                Err(_) => return Ok(()),
            }
        }
    }
}

/// Takes every connection that comes, each by itself.
async fn accept(
    listener: TcpListener,
    shelf: Arc<Shelf>,
    spec: ExchangeSpec,
    notes: UnboundedSender<Receipt>,
) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    loop {
        // One that was gone before it was taken says nothing of the next.
        let Ok((stream, from)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (shelf, notes, peer) = (Arc::clone(&shelf), notes.clone(), spec.name_of(from.ip()));
        tokio::spawn(async move {
            let answering = service_fn(|request| answer(request, &shelf, &notes, &peer));
            // Who leaves, or speaks something else, is told as far as that can be.
            let connection = server::conn::http1::Builder::new()
                .header_read_timeout(None)
                .serve_connection(TokioIo::new(stream), answering);
            let _ = connection.await;
        });
    }
}

/// The answer to one request.
async fn answer(
    request: Request<Incoming>,
    shelf: &Shelf,
    notes: &UnboundedSender<Receipt>,
    peer: &str,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let size: Option<usize> = request.uri().path().trim_start_matches('/').parse().ok();
    let Some(size) = size.filter(|size| shelf.sizes.contains(size)) else {
        return Ok(plain(StatusCode::NOT_FOUND));
    };
    match *request.method() {
        Method::GET => Ok(Response::new(Full::from(shelf.body.message(None, size)))),
        Method::PUT | Method::POST => {
            let Ok(content) = Limited::new(request.into_body(), size).collect().await else {
                return Ok(plain(StatusCode::PAYLOAD_TOO_LARGE));
            };
            let (content, at) = (content.to_bytes(), monotonic_now());
            match shelf.body.number(&content).filter(|_| content.len() == size) {
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
