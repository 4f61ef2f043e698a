//! Codes of CoAP and of libcoap.

use super::ffi;
use crate::exchange::failure::{Failure, Reason};
use ::coap::code;
use record::{CoapTransport, Method};
use std::ffi::c_int;

/// Token length in bytes: enough to distinguish the blocks of an exchange.
pub(super) const TOKEN: usize = 2;

/// libcoap's constant of a transport.
pub(super) fn proto(transport: CoapTransport) -> c_int {
    match transport {
        CoapTransport::Udp => ffi::UDP,
        CoapTransport::Dtls => ffi::DTLS,
        CoapTransport::Tcp => ffi::TCP,
        CoapTransport::Tls => ffi::TLS,
    }
}

/// Code of a request.
pub(super) fn method_code(method: Method) -> u8 {
    match method {
        Method::Get => code::GET,
        Method::Post => code::POST,
        Method::Put => code::PUT,
        Method::Delete => code::DELETE,
    }
}

/// The failure for libcoap's NACK reason.
pub(super) fn nack(reason: c_int, secured_by_key: bool) -> Failure {
    match reason {
        ffi::NACK_TOO_MANY_RETRIES => {
            Failure::of(Reason::Timeout, "not acknowledged after the maximum of retransmissions")
        }
        ffi::NACK_RST => Failure::of(Reason::Rejected, "answered with a CoAP reset"),
        ffi::NACK_ICMP => Failure::of(Reason::Refused, "no server listens on the port"),
        ffi::NACK_TLS_FAILED if secured_by_key => {
            Failure::of(Reason::Rejected, "the handshake failed; both sides need the same key")
        }
        ffi::NACK_TLS_FAILED => Failure::of(
            Reason::Certificate,
            "the handshake failed: the certificate must be valid now, signed by `ca`, and name \
             the server's node",
        ),
        ffi::NACK_NOT_DELIVERABLE => Failure::of(Reason::Lost, "not delivered"),
        other => Failure::of(Reason::Other, format!("not delivered (libcoap's reason {other})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libcoap_reports_has_a_reason_and_a_hint() {
        for (code, by_key, reason, words) in [
            (ffi::NACK_TOO_MANY_RETRIES, false, Reason::Timeout, "maximum of retransmissions"),
            (ffi::NACK_RST, false, Reason::Rejected, "reset"),
            (ffi::NACK_ICMP, false, Reason::Refused, "no server listens"),
            (ffi::NACK_TLS_FAILED, true, Reason::Rejected, "the same key"),
            (ffi::NACK_TLS_FAILED, false, Reason::Certificate, "signed by `ca`"),
            (ffi::NACK_NOT_DELIVERABLE, false, Reason::Lost, "not delivered"),
            (99, false, Reason::Other, "reason 99"),
        ] {
            let failure = nack(code, by_key);
            assert_eq!(failure.reason, reason, "{code}");
            assert!(failure.detail.contains(words), "{failure}");
        }
    }

    /// RFC 7252, section 12.1.1.
    #[test]
    fn methods_have_the_codes_of_the_standard() {
        let codes = [Method::Get, Method::Post, Method::Put, Method::Delete].map(method_code);
        assert_eq!(codes, [1, 2, 3, 4]);
    }
}
