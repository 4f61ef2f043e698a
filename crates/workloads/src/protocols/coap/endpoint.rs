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
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use units::Span;

/// All CoAP Nodes multicast groups (RFC 7252, section 12.8); that of IPv6 has the site's
/// scope, because nodes send to a link's group from their addresses of the link, not the plan's.
const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 1, 187);
const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 0xfd);
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

/// The multicast group of the family of the spec's address.
pub(super) fn group(spec: &ExchangeSpec) -> IpAddr {
    match spec.address {
        IpAddr::V4(_) => GROUP.into(),
        IpAddr::V6(_) => GROUP_V6.into(),
    }
}

/// A stack that listens at `host`, with the spec's port, times and credentials.
pub(super) fn listening(
    spec: &ExchangeSpec,
    options: &Coap,
    host: IpAddr,
    respond: Respond,
) -> Result<Stack, Error> {
    let mut stack = Stack::new()?;
    let Coap { leisure, ack_timeout, max_retransmit, .. } = options;
    stack.set_times(*leisure, *ack_timeout, *max_retransmit);
    let own = Peer { name: spec.node.clone(), address: spec.address };
    let joined = options.group.then_some((group(spec), spec.interface.as_str()));
    let security = security(spec, options, &own);
    let at = SocketAddr::from((host, spec.port));
    stack.listen(at, proto(options.transport), &security, joined, respond)?;
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
