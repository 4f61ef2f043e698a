//! The source, which drives: one stream per exchange.

use super::{ALPN, HEADER, certificates, check, failure, setup_error, transport};
use crate::address::unspecified_for;
use crate::error::Error;
use crate::exchange::failure::{Failure, Reason};
use crate::exchange::outcome::Outcome;
use crate::exchange::protocol::{Connecting, Driver, Protocol, Turn};
use crate::exchange::sections::Section;
use crate::exchange::watch::Watch;
use crate::protocols::reactor::Reactor;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{
    ClientConfig, ConnectError, Connection, ConnectionError, Endpoint, ReadExactError, VarInt,
    WriteError,
};
use record::spec::ExchangeSpec;
use record::{Connection as Lasting, Quic};
use rustls::RootCertStore;
use rustls::crypto::ring::default_provider;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use units::{Instant, Span};

/// Interval and maximum number of checks whether CONNECTION_CLOSE was sent.
const CLOSE_CHECK_INTERVAL: Duration = Duration::from_millis(1);
const CLOSE_CHECKS: u32 = 100;

pub(in crate::protocols) fn driver(
    spec: &ExchangeSpec,
    options: Quic,
) -> Result<Box<dyn Driver>, Error> {
    check(spec)?;
    let Some(tls) = &spec.tls else {
        return Err(Error::protocol("use the protocol quic", "no certificates; QUIC needs them"));
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&tls.ca)? {
        roots.add(certificate).map_err(setup_error)?;
    }
    let mut crypto = rustls::ClientConfig::builder_with_provider(default_provider().into())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(setup_error)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    crypto.alpn_protocols = vec![ALPN.to_vec()];
    crypto.enable_early_data = options.early_data;
    let crypto = QuicClientConfig::try_from(crypto).map_err(setup_error)?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport(spec, options)));
    let reactor = Reactor::new()?;
    let endpoint = {
        // quinn registers its socket with the current runtime.
        let _within = reactor.runtime().enter();
        let local = unspecified_for(spec.peers[0].address);
        let endpoint = Endpoint::client(SocketAddr::from((local, 0)));
        let mut endpoint = endpoint.map_err(Error::io("open a socket for QUIC"))?;
        endpoint.set_default_client_config(config);
        endpoint
    };
    let peer = &spec.peers[0];
    let source = Source {
        endpoint,
        reactor,
        to: SocketAddr::from((peer.address, spec.port)),
        name: peer.name.clone(),
        early: options.early_data,
    };
    Ok(Box::new(Connecting::new(source, spec.connection == Lasting::Kept)))
}

struct Source {
    endpoint: Endpoint,
    reactor: Reactor,
    to: SocketAddr,
    /// Name that the sink's certificate must have.
    name: String,
    early: bool,
}

impl Protocol for Source {
    type Connection = Connection;

    fn connect(&mut self, turn: &mut Turn<'_, '_>) -> Result<Connection, Failure> {
        turn.enter(Section::TransportConnect);
        let (to, name) = (self.to, &self.name);
        self.reactor.finish(turn.watch, turn.deadline, async {
            let connecting = self.endpoint.connect(to, name).map_err(|error| match error {
                ConnectError::InvalidRemoteAddress(_) => {
                    Failure::of(Reason::Unreachable, format!("connect to {to}: {error}"))
                }
                _ => Failure::of(Reason::Unsupported, format!("connect to {to}: {error}")),
            })?;
            let connecting = match self.early {
                // 0-RTT: send data at once if the session can be resumed.
                true => match connecting.into_0rtt() {
                    Ok((connection, _)) => return Ok(connection),
                    Err(connecting) => connecting,
                },
                false => connecting,
            };
            connecting.await.map_err(|error| failure(&format!("connect to {to}"), &error))
        })
    }

    fn exchange(
        &mut self,
        turn: &mut Turn<'_, '_>,
        connection: &mut Connection,
    ) -> Result<Outcome, Failure> {
        turn.enter(Section::Payload);
        let number = (turn.number as u32).to_be_bytes();
        let payload = turn.payload();
        let lost = |error: &ConnectionError| failure("exchange", error);
        self.reactor.finish(turn.watch, turn.deadline, async {
            let (mut out, mut back) = connection.open_bi().await.map_err(|error| lost(&error))?;
            let unsent = |error: WriteError| match error {
                WriteError::ConnectionLost(error) => lost(&error),
                error => Failure::of(Reason::Rejected, format!("send: {error}")),
            };
            out.write_all(&number).await.map_err(unsent)?;
            out.write_all(&payload).await.map_err(unsent)?;
            // The stream may already be finished.
            let _ = out.finish();
            let mut answer = [0; HEADER];
            back.read_exact(&mut answer).await.map_err(|error| match error {
                ReadExactError::ReadError(quinn::ReadError::ConnectionLost(error)) => lost(&error),
                error => Failure::of(Reason::Rejected, format!("receive: {error}")),
            })?;
            match answer == number {
                true => Ok(Outcome::default()),
                false => Err(Failure::corrupt("the answer belongs to another exchange")),
            }
        })
    }

    fn close(&mut self, turn: &mut Turn<'_, '_>, connection: Connection) -> Result<(), Failure> {
        turn.enter(Section::TransportClose);
        self.abandon(turn, connection)
    }

    /// Closes the connection; QUIC has no response to that.
    fn abandon(&mut self, turn: &mut Turn<'_, '_>, connection: Connection) -> Result<(), Failure> {
        self.reactor.run(turn.watch, None, leave(&connection)).map(|_| ())
    }

    fn is_open(&self, connection: &Connection) -> bool {
        connection.close_reason().is_none()
    }

    fn rest(
        &mut self,
        _: &mut Option<Connection>,
        watch: &mut Watch<'_>,
        until: Instant,
    ) -> Result<(), Failure> {
        // The runtime's timers have millisecond resolution; sleep the rest precisely.
        let soon = until - Span::from_ms(3);
        if soon > clock::now() {
            self.reactor.run(watch, Some(soon), std::future::pending::<()>())?;
        }
        watch.sleep(until)
    }

    fn tear_down(&mut self, connection: Connection) {
        self.reactor.runtime().block_on(leave(&connection));
    }
}

/// Closes a connection and waits until CONNECTION_CLOSE has left this node.
async fn leave(connection: &Connection) {
    if connection.close_reason().is_some() {
        return;
    }
    // `close` only queues the frame; the endpoint's task sends it.
    let before = connection.stats().udp_tx.datagrams;
    connection.close(VarInt::from_u32(0), b"");
    for _ in 0..CLOSE_CHECKS {
        tokio::task::yield_now().await;
        if connection.stats().udp_tx.datagrams > before {
            return;
        }
        sleep(CLOSE_CHECK_INTERVAL).await;
    }
}
