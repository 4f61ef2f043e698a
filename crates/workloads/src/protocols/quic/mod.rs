//! QUIC with quinn: one stream per exchange, with the exchange number in four bytes before the
//! payload. The sink answers with these four bytes on the same stream. Always encrypted; the
//! source verifies the sink's certificate.

mod client;
mod server;

pub(super) use client::driver;
pub(super) use server::server;

use crate::error::Error;
use crate::exchange::failure::{Failure, Reason};
use quinn::{ConnectionError, MtuDiscoveryConfig, TransportConfig};
use record::Quic;
use record::spec::ExchangeSpec;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::path::Path;

/// Bytes before each payload, and of the answer.
const HEADER: usize = 4;
/// ALPN protocol identifier (RFC 7301).
const ALPN: &[u8] = b"thingbed-exchange";
/// Minimum MTU for QUIC: a path must carry 1200 B of UDP payload (RFC 9000, section 14), which
/// fits in the minimum MTU of IPv6.
const MIN_MTU: u16 = 1280;
/// Headers of UDP, and of IPv4 and IPv6 without options.
const UDP: u16 = 8;
const IPV4: u16 = 20;
const IPV6: u16 = 40;

fn check(spec: &ExchangeSpec) -> Result<(), Error> {
    if spec.mtu < MIN_MTU {
        return Err(Error::protocol(
            "use the protocol quic",
            format!("the network's MTU is {} B; QUIC needs {MIN_MTU} B or more", spec.mtu),
        ));
    }
    Ok(())
}

/// Transport configuration of both sides.
fn transport(spec: &ExchangeSpec, options: Quic) -> TransportConfig {
    let mut config = TransportConfig::default();
    // A kept connection must survive any pause; an exchange fails on a dead one.
    config.max_idle_timeout(None);
    // Off by default: its probes of 1,452 B would be a large part of a short exchange (decision
    // 29).
    config.mtu_discovery_config(options.mtu_discovery.then(|| {
        let mut search = MtuDiscoveryConfig::default();
        let network = if spec.address.is_ipv4() { IPV4 } else { IPV6 };
        search.upper_bound(spec.mtu - network - UDP);
        search
    }));
    config
}

/// For `map_err`: a protocol error of `operation`.
fn protocol_error<E: std::fmt::Display>(operation: String) -> impl FnOnce(E) -> Error {
    move |why| Error::protocol(&operation, why)
}

fn setup_error<E: std::fmt::Display>(why: E) -> Error {
    Error::protocol("set up QUIC", why)
}

/// Reads the certificates in a file.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    read.map_err(protocol_error(format!("read certificates from {}", path.display())))
}

/// Maps a quinn error to a failure.
fn failure(operation: &str, error: &ConnectionError) -> Failure {
    /// Base of QUIC's error codes for TLS alerts (RFC 9001, section 4.8).
    const CRYPTO: u64 = 0x100;
    /// TLS alerts about certificates (RFC 8446, section 6), including a missing one.
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
    Failure::of(reason, format!("{operation}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quinn::{ApplicationClose, ConnectionClose, TransportErrorCode, VarInt};

    fn closed(error_code: TransportErrorCode) -> ConnectionError {
        ConnectionError::ConnectionClosed(ConnectionClose {
            error_code,
            frame_type: None,
            reason: "why".into(),
        })
    }

    /// Codes of RFC 9000, section 20.1, and alerts of RFC 8446, section 6.
    #[test]
    fn the_end_of_a_connection_has_a_reason() {
        use Reason::{Certificate, Lost, Refused, Rejected, Timeout, Unsupported};
        let application = ApplicationClose { error_code: VarInt::from_u32(0), reason: "".into() };
        for (error, reason) in [
            (closed(TransportErrorCode::CONNECTION_REFUSED), Refused),
            (closed(TransportErrorCode::INTERNAL_ERROR), Rejected),
            (closed(TransportErrorCode::PROTOCOL_VIOLATION), Rejected),
            (closed(TransportErrorCode::crypto(42)), Certificate),
            (closed(TransportErrorCode::crypto(48)), Certificate),
            (closed(TransportErrorCode::crypto(116)), Certificate),
            // No application protocol, and a handshake failure: not about certificates.
            (closed(TransportErrorCode::crypto(120)), Rejected),
            (closed(TransportErrorCode::crypto(40)), Rejected),
            (ConnectionError::VersionMismatch, Unsupported),
            (ConnectionError::TimedOut, Timeout),
            (ConnectionError::Reset, Lost),
            (ConnectionError::LocallyClosed, Lost),
            (ConnectionError::ApplicationClosed(application), Lost),
            (ConnectionError::CidsExhausted, Reason::Other),
        ] {
            let failure = failure("connect", &error);
            assert_eq!(failure.reason, reason, "{error}");
            assert!(failure.detail.starts_with("connect: "), "{failure}");
        }
    }

    #[test]
    fn a_network_with_small_frames_and_missing_files_are_named() {
        let protocol = serde_json::json!({"quic": {"early_data": false, "mtu_discovery": false}});
        let spec = |more| crate::exchange::tests::spec(Path::new("x"), &protocol, &more);
        let error = check(&spec(serde_json::json!({"mtu": 1_279}))).unwrap_err().to_string();
        assert!(error.contains("1279 B") && error.contains("1280 B"), "{error}");
        check(&spec(serde_json::json!({"mtu": 1_280}))).unwrap();
        let error = certificates(Path::new("/nowhere/ca.pem")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/ca.pem"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        std::fs::write(&path, "-----BEGIN CERTIFICATE-----\n%%%\n").unwrap();
        assert!(certificates(&path).is_err());
    }
}
