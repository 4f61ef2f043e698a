//! The sink, which serves: receives the payload of each stream and answers.

use super::{ALPN, HEADER, certificates, check, protocol_error, setup_error, transport};
use crate::error::Error;
use crate::exchange::body::Body;
use crate::exchange::log::Receipts;
use crate::exchange::protocol::Server;
use crate::exchange::watch::Watch;
use crate::protocols::reactor::Reactor;
use crate::protocols::tcp::exchange::short;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, ServerConfig};
use record::Quic;
use record::spec::ExchangeSpec;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use std::net::UdpSocket;
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use units::Instant;

pub(in crate::protocols) fn server(
    spec: &ExchangeSpec,
    options: Quic,
) -> Result<Box<dyn Server>, Error> {
    check(spec)?;
    let Some((cert, key)) =
        spec.tls.as_ref().and_then(|tls| tls.cert.as_ref().zip(tls.key.as_ref()))
    else {
        return Err(Error::protocol("use the protocol quic", "no certificate; QUIC needs one"));
    };
    let key = PrivateKeyDer::from_pem_file(key)
        .map_err(protocol_error(format!("read a key from {}", key.display())))?;
    let mut crypto = rustls::ServerConfig::builder_with_provider(default_provider().into())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(setup_error)?
        .with_no_client_auth()
        .with_single_cert(certificates(cert)?, key)
        .map_err(setup_error)?;
    crypto.alpn_protocols = vec![ALPN.to_vec()];
    crypto.max_early_data_size = if options.early_data { u32::MAX } else { 0 };
    let crypto = QuicServerConfig::try_from(crypto).map_err(setup_error)?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(Arc::new(transport(spec, options)));
    let socket = UdpSocket::bind((spec.address, spec.port)).map_err(|source| {
        let operation = format!("listen on {}:{} for QUIC", spec.address, spec.port);
        Error::Address { operation, source }
    })?;
    let reactor = Reactor::new()?;
    let endpoint = {
        let _within = reactor.runtime().enter();
        let runtime = Arc::new(quinn::TokioRuntime);
        let endpoint =
            Endpoint::new(quinn::EndpointConfig::default(), Some(config), socket, runtime);
        endpoint.map_err(Error::io("open a socket for QUIC"))?
    };
    Ok(Box::new(Sink { endpoint, reactor, spec: Arc::new(spec.clone()) }))
}

struct Sink {
    endpoint: Endpoint,
    reactor: Reactor,
    spec: Arc<ExchangeSpec>,
}

/// A received payload: peer, number, size, time.
type Receipt = (String, u64, usize, Instant);

impl Server for Sink {
    fn serve(&mut self, watch: &mut Watch<'_>, receipts: &mut Receipts) -> Result<(), Error> {
        let (notes, mut received) = unbounded_channel();
        let body = Arc::new(Body::new(self.spec.seed, self.spec.longest()));
        let accepting = accept(self.endpoint.clone(), Arc::clone(&self.spec), body, notes);
        self.reactor.runtime().spawn(accepting);
        watch.ready()?;
        loop {
            match self.reactor.run(watch, None, received.recv()) {
                Ok(Some(Some((peer, number, size, at)))) => {
                    receipts.note(&peer, Some(number), size, at)?;
                }
                Ok(_) => {
                    let why = "the accept task ended";
                    return Err(Error::protocol("accept connections", why));
                }
                Err(_) => return Ok(()),
            }
        }
    }
}

/// Accepts connections and serves each in a separate task.
async fn accept(
    endpoint: Endpoint,
    spec: Arc<ExchangeSpec>,
    body: Arc<Body>,
    notes: UnboundedSender<Receipt>,
) {
    while let Some(incoming) = endpoint.accept().await {
        let (spec, body, notes) = (Arc::clone(&spec), Arc::clone(&body), notes.clone());
        tokio::spawn(async move {
            let peer = spec.name_of(incoming.remote_address().ip());
            let Ok(connecting) = incoming.accept() else { return };
            // 0-RTT data is accepted before the handshake completes.
            let connection = match connecting.into_0rtt() {
                Ok((connection, _)) => connection,
                Err(connecting) => match connecting.await {
                    Ok(connection) => connection,
                    Err(_) => return,
                },
            };
            while let Ok((out, back)) = connection.accept_bi().await {
                let (peer, body, notes) = (peer.clone(), Arc::clone(&body), notes.clone());
                tokio::spawn(serve_stream(out, back, spec.longest(), peer, body, notes));
            }
        });
    }
}

/// Receives a payload and answers. A foreign payload gets no answer; its stream is closed.
async fn serve_stream(
    mut out: quinn::SendStream,
    mut back: quinn::RecvStream,
    longest: usize,
    peer: String,
    body: Arc<Body>,
    notes: UnboundedSender<Receipt>,
) {
    let Ok(message) = back.read_to_end(HEADER + longest).await else { return };
    let at = clock::now();
    let Some((header, payload)) = message.split_first_chunk::<HEADER>() else { return };
    let Some(known) = body.number(payload) else { return };
    let number = known.unwrap_or_else(|| u64::from(short(header)));
    let _ = notes.send((peer, number, payload.len(), at));
    let _ = out.write_all(header).await;
    let _ = out.finish();
    let _ = out.stopped().await;
}
