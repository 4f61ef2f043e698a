//! CoAP with libcoap: over UDP, DTLS, TCP and TLS.
//!
//! With GET, the sink is the client and drives. With PUT, POST and DELETE, the source is the
//! client and drives. With `observe`, the source is the server and drives; the sink registers once
//! as observer. This code, not libcoap, splits and reassembles blocks (RFC 7959), so that each
//! block has a separate section: `payload_1` and so on.

mod callbacks;
mod client;
mod ffi;
mod observe;
mod security;
mod server;
mod stack;

use crate::error::Error;
use crate::exchange::failure::{Failure, Reason};
use crate::exchange::protocol::{Driver, Server, Turn};
use ::coap::code;
use callbacks::Respond;
use record::spec::{ExchangeSpec, Peer};
use record::{Coap, CoapTransport, Method};
use security::Security;
use stack::Stack;
use std::ffi::c_int;
use std::net::{Ipv4Addr, SocketAddrV4};
use units::Span;

/// All CoAP Nodes multicast group (RFC 7252, section 12.8).
const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 1, 187);
/// Maximum time between two calls for libcoap's timers.
const POLL_INTERVAL: Span = Span::from_ms(100);
/// Token length in bytes: enough to distinguish the blocks of an exchange.
const TOKEN: usize = 2;

/// libcoap's constant of a transport.
fn proto(transport: CoapTransport) -> c_int {
    match transport {
        CoapTransport::Udp => ffi::UDP,
        CoapTransport::Dtls => ffi::DTLS,
        CoapTransport::Tcp => ffi::TCP,
        CoapTransport::Tls => ffi::TLS,
    }
}

/// Code of a request.
fn method_code(method: Method) -> u8 {
    match method {
        Method::Get => code::GET,
        Method::Post => code::POST,
        Method::Put => code::PUT,
        Method::Delete => code::DELETE,
    }
}

pub(super) fn driver(spec: &ExchangeSpec, options: &Coap) -> Result<Box<dyn Driver>, Error> {
    check(options)?;
    match options.observe {
        true => Ok(Box::new(observe::Observed::new(spec, options)?)),
        false => Ok(client::driver(spec, options.clone())),
    }
}

pub(super) fn server(spec: &ExchangeSpec, options: &Coap) -> Result<Box<dyn Server>, Error> {
    check(options)?;
    match options.observe {
        true => Ok(Box::new(observe::Observer::new(spec, options.clone()))),
        false => Ok(Box::new(server::CoapServer::new(spec, options)?)),
    }
}

fn check(options: &Coap) -> Result<(), Error> {
    if options.q_block {
        let (version, has) = stack::version();
        let why = match has {
            true => "Thingbed sends blocks one after the other; remove `q_block`".to_owned(),
            false => format!(
                "this libcoap is {version}, and Q-Block needs 4.3.2 or later; remove `q_block`"
            ),
        };
        return Err(Error::protocol("send blocks by Q-Block (RFC 9177) with libcoap", why));
    }
    Ok(())
}

/// Credentials: certificates if configured, else a pre-shared key derived from the seed.
fn security(spec: &ExchangeSpec, options: &Coap, server: &Peer) -> Security {
    match (&spec.tls, options.transport.is_secure()) {
        (_, false) => Security::None,
        (Some(tls), true) => Security::Certificates(tls.clone(), server.name.clone()),
        (None, true) => Security::Key(format!("{:016x}", spec.seed).into_bytes()),
    }
}

/// A stack that listens at `host`, with the spec's port, times and credentials.
fn listening(
    spec: &ExchangeSpec,
    options: &Coap,
    host: Ipv4Addr,
    respond: Respond,
) -> Result<Stack, Error> {
    let mut stack = Stack::new()?;
    let Coap { leisure, ack_timeout, max_retransmit, .. } = options;
    stack.set_times(*leisure, *ack_timeout, *max_retransmit);
    let own = Peer { name: spec.node.clone(), address: spec.address };
    let group = options.group.then_some((GROUP, spec.interface.as_str()));
    let security = security(spec, options, &own);
    let at = SocketAddrV4::new(host, spec.port);
    stack.listen(at, proto(options.transport), &security, group, respond)?;
    Ok(stack)
}

/// Waits for I/O or a timer of libcoap, at most until the deadline, and processes it.
fn work(stack: &mut Stack, turn: &mut Turn<'_, '_>) -> Result<(), Failure> {
    wait(stack, turn)?;
    stack.process();
    Ok(())
}

/// Waits for I/O or a timer of libcoap, at most until the deadline.
fn wait(stack: &Stack, turn: &mut Turn<'_, '_>) -> Result<(), Failure> {
    let fd = stack.descriptor();
    let mut set = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
    turn.wait_until(&mut set, clock::now() + POLL_INTERVAL).map(drop)
}

/// The failure for libcoap's NACK reason.
fn nack(reason: c_int, secured_by_key: bool) -> Failure {
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
    fn q_block_is_refused_with_what_would_have_it() {
        let error = check(&Coap { q_block: true, ..Coap::default() }).unwrap_err().to_string();
        assert!(error.contains("RFC 9177") && error.contains("remove `q_block`"), "{error}");
    }
}
