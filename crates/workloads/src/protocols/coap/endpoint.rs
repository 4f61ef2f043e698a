//! What both sides do with a stack: listen, and wait for I/O.

use super::callbacks::Respond;
use super::codes::proto;
use super::security::Security;
use super::stack::Stack;
use crate::error::Error;
use crate::exchange::failure::Failure;
use crate::exchange::protocol::Turn;
use record::Coap;
use record::spec::{ExchangeSpec, Peer};
use std::net::{Ipv4Addr, SocketAddrV4};
use units::Span;

/// All CoAP Nodes multicast group (RFC 7252, section 12.8).
pub(super) const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 1, 187);
/// Name of the stack in errors.
pub(super) const STACK: &str = "CoAP by libcoap";
/// Maximum time between two calls for libcoap's timers.
pub(super) const POLL_INTERVAL: Span = Span::from_ms(100);

/// Credentials: certificates if configured, else a pre-shared key derived from the seed.
pub(super) fn security(spec: &ExchangeSpec, options: &Coap, server: &Peer) -> Security {
    match (&spec.tls, options.transport.is_secure()) {
        (_, false) => Security::None,
        (Some(tls), true) => Security::Certificates(tls.clone(), server.name.clone()),
        (None, true) => Security::Key(format!("{:016x}", spec.seed).into_bytes()),
    }
}

/// A stack that listens at `host`, with the spec's port, times and credentials.
pub(super) fn listening(
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
pub(super) fn work(stack: &mut Stack, turn: &mut Turn<'_, '_>) -> Result<(), Failure> {
    wait(stack, turn)?;
    stack.process();
    Ok(())
}

/// Waits for I/O or a timer of libcoap, at most until the deadline.
pub(super) fn wait(stack: &Stack, turn: &mut Turn<'_, '_>) -> Result<(), Failure> {
    let fd = stack.descriptor();
    let mut set = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
    turn.wait_until(&mut set, clock::now() + POLL_INTERVAL).map(drop)
}
