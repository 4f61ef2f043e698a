//! Configuration of QUIC endpoints: keys and limits.

use super::count::Counter;
use super::pinned::{self, Pinned};
use crate::Span;
use crate::carrier::interface::Params;
use crate::keys::{Party, Scope, Use};
use ::ring::hmac;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, Endpoint, EndpointConfig, RandomConnectionIdGenerator, ServerConfig,
    TransportConfig, VarInt,
};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::version;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// Maximum message size, in bytes.
pub const MAX_MESSAGE: usize = crate::carrier::interface::MAX_STREAM;
/// Maximum bytes in flight per direction.
const WINDOW: u32 = 2 << 20;
/// Maximum messages in flight per direction; others are queued.
const MAX_STREAMS: u32 = 64;
/// Idle timeout of a connection; the next message opens another one.
const IDLE_MS: u32 = 600_000;
/// Length of a connection id in bytes: short, since an end has few connections.
pub const ID: usize = 4;
/// ALPN protocol name.
const PROTOCOL: &[u8] = b"director/1";

/// Header size before a QUIC packet, in bytes.
pub const MARK: usize = 2;
/// Minimum packet size in bytes (RFC 9000, section 14).
const MIN_PACKET: usize = 1_200;
/// Maximum packet size in bytes; the first packets are padded to it.
const MAX_PACKET: usize = 1_472;
/// Maximum duration of a turn, in ns.
const MAX_TURN: f64 = 60e9;

/// How envelopes are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// In a stream, with retransmission.
    Streams,
    /// In a datagram, sent once.
    Datagrams,
}

/// Packet size in bytes; `None` if datagrams are too small for QUIC.
pub fn packet(params: &Params) -> Option<u16> {
    let room = params.datagram.checked_sub(MARK)?.min(MAX_PACKET);
    u16::try_from(room).ok().filter(|_| room >= MIN_PACKET)
}

/// Duration of a turn: one packet per member.
pub fn turn(params: &Params) -> Span {
    let airtime = (params.datagram + params.below) as f64 * 8e9 / params.rate_bit_s.max(1.0);
    Span::from_ns_f64((airtime * f64::from(params.members)).min(MAX_TURN))
}

/// An end's configuration for all connections with one other end.
pub struct Ends {
    /// The QUIC endpoint.
    pub endpoint: Endpoint,
    /// The client configuration.
    pub client: ClientConfig,
    /// Number of acknowledged packets.
    pub received: Arc<AtomicU32>,
}

/// The configuration of `own` towards `other`; one of them is the hub, the other the member with
/// this number. `None` if the model does not work with these parameters.
pub fn ends(params: &Params, kind: Kind, own: Party, other: Party, member: u16) -> Option<Ends> {
    // A hub has a separate key pair per member.
    let seed = |what, from| {
        let scope = Scope::new(what, params.epoch, from);
        params.root.seed(&Scope { peer: u32::from(member) + 1, ..scope })
    };
    let kx_groups = vec![ring::kx_group::X25519];
    let provider = Arc::new(CryptoProvider { kx_groups, ..ring::default_provider() });
    let own_key = Arc::new(pinned::own(&seed(Use::Connection, own))?);
    let other_key = Arc::new(Pinned::of(&seed(Use::Connection, other), provider.clone())?);

    let shown = Arc::new(AlwaysResolvesClientRawPublicKeys::new(own_key.clone()));
    let mut client = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&version::TLS13])
        .ok()?
        .dangerous()
        .with_custom_certificate_verifier(other_key.clone())
        .with_client_cert_resolver(shown);
    client.alpn_protocols = vec![PROTOCOL.to_vec()];
    // Another epoch has other keys, so there is nothing to resume.
    client.resumption = Resumption::disabled();
    client.enable_sni = false;

    let shown = Arc::new(AlwaysResolvesServerRawPublicKeys::new(own_key));
    let mut server = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13])
        .ok()?
        .with_client_cert_verifier(other_key)
        .with_cert_resolver(shown);
    server.alpn_protocols = vec![PROTOCOL.to_vec()];
    server.send_tls13_tickets = 0;

    let received = Arc::new(AtomicU32::new(0));
    let transport = Arc::new(transport(params, kind, received.clone())?);
    let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(client).ok()?));
    client.transport_config(transport.clone());
    let mut server = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(server).ok()?));
    // The session moves members between addresses itself; QUIC sees one placeholder (`OTHER`).
    server.transport_config(transport).migration(false);

    // Same key after a restart, so that a restarted end can send stateless resets.
    let reset = hmac::Key::new(hmac::HMAC_SHA256, &seed(Use::Reset, own));
    let mut config = EndpointConfig::new(Arc::new(reset));
    config.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(ID)));
    let seed_bytes = params.seed.child(member.into()).bits();
    let endpoint = Endpoint::new(Arc::new(config), Some(Arc::new(server)), false, Some(seed_bytes));
    Some(Ends { endpoint, client, received })
}

fn transport(params: &Params, kind: Kind, received: Arc<AtomicU32>) -> Option<TransportConfig> {
    let mtu = packet(params)?;
    let (streams, datagrams) = match kind {
        Kind::Streams => (MAX_STREAMS, None),
        Kind::Datagrams => (0, Some(WINDOW as usize)),
    };
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(streams))
        .stream_receive_window(VarInt::from_u32(MAX_MESSAGE as u32))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(u64::from(WINDOW))
        .datagram_receive_buffer_size(datagrams)
        .datagram_send_buffer_size(WINDOW as usize)
        .max_idle_timeout(Some(VarInt::from_u32(IDLE_MS).into()))
        // All members may start at once; early retransmissions would fill a narrow channel.
        .initial_rtt((params.round_trip + turn(params)).into())
        // The MTU is known; losses do not mean that it has changed.
        .initial_mtu(mtu)
        .min_mtu(mtu)
        .mtu_discovery_config(None)
        .enable_segmentation_offload(false)
        .congestion_controller_factory(Arc::new(Counter(received)));
    Some(config)
}
