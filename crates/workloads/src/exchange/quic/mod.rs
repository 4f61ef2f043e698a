//! QUIC by quinn: a stream for each exchange, with four bytes before the payload, its
//! number; the sink answers on the same stream with the four. Encrypted always: the
//! source holds the sink's certificate against the one it trusts.

mod client;
mod server;

pub(super) use client::driver;
pub(super) use server::server;

use super::failure::{Failure, Reason};
use super::spec::ExchangeSpec;
use crate::error::Error;
use quinn::{ConnectionError, MtuDiscoveryConfig, TransportConfig};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::Deserialize;
use std::path::Path;

/// Bytes before each payload, and of the answer.
const HEADER: usize = 4;
/// What both sides say they speak (RFC 7301).
const SPEAKS: &[u8] = b"thingbed-exchange";
/// The largest packet that every path must take for QUIC (RFC 9000, section 14): 1200 B
/// of UDP payload, and the smallest MTU of IPv6 leaves room for them.
const LEAST_MTU: u16 = 1280;
/// IPv4 and UDP headers.
const LOWER: u16 = 28;

/// What can be chosen.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Options {
    /// Whether a new connection to a known sink carries payload at once (0-RTT).
    early_data: bool,
    /// Whether larger packets than 1200 B are tried for.
    mtu_discovery: bool,
}

fn checked(spec: &ExchangeSpec) -> Result<Options, Error> {
    if spec.mtu < LEAST_MTU {
        return Err(Error::protocol(
            "exchange by quic",
            format!("the network's MTU is {} B; QUIC needs {LEAST_MTU} B or more", spec.mtu),
        ));
    }
    spec.options()
}

/// What is the same for both sides.
fn transport(spec: &ExchangeSpec, options: Options) -> TransportConfig {
    let mut config = TransportConfig::default();
    // A connection that is kept is to outlive any pause; one that is dead is noticed
    // by the exchange that it fails.
    config.max_idle_timeout(None);
    config.mtu_discovery_config(options.mtu_discovery.then(|| {
        let mut search = MtuDiscoveryConfig::default();
        search.upper_bound(spec.mtu - LOWER);
        search
    }));
    config
}

/// For `map_err`: what could not be done.
fn wrong<E: std::fmt::Display>(tried: String) -> impl FnOnce(E) -> Error {
    move |why| Error::protocol(&tried, why)
}

fn setting_up<E: std::fmt::Display>(why: E) -> Error {
    Error::protocol("set QUIC up", why)
}

/// The certificates in a file.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    read.map_err(wrong(format!("read certificates from {}", path.display())))
}

/// What quinn says went wrong, in words of ours.
fn failure(tried: &str, error: &ConnectionError) -> Failure {
    /// QUIC's code for TLS's alerts, which follow (RFC 9001, section 4.8).
    const CRYPTO: u64 = 0x100;
    /// Of TLS (RFC 8446, section 6): about certificates, and that none is to be had.
    const CERTIFICATES: [u64; 9] = [42, 43, 44, 45, 46, 48, 49, 113, 116];
    const REFUSED: u64 = 0x2;
    let of = |code: u64| match code {
        REFUSED => Reason::Refused,
        code if code >= CRYPTO && CERTIFICATES.contains(&(code - CRYPTO)) => Reason::Certificate,
        _ => Reason::Rejected,
    };
    let reason = match error {
        ConnectionError::TransportError(error) => of(error.code.into()),
        ConnectionError::ConnectionClosed(close) => of(close.error_code.into()),
        ConnectionError::VersionMismatch => Reason::Unsupported,
        ConnectionError::TimedOut => Reason::Timeout,
        ConnectionError::Reset
        | ConnectionError::ApplicationClosed(_)
        | ConnectionError::LocallyClosed => Reason::Lost,
        _ => Reason::Other,
    };
    Failure::of(reason, format!("{tried}: {error}"))
}
