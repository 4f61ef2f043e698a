//! TCP connections.

pub(crate) mod exchange;
pub(crate) mod stream;

use crate::error::Error;
use record::spec::ExchangeSpec;
use std::net::TcpListener;
use units::Span;

/// How long a server waits for descriptors or memory that accepting a connection lacked.
pub(crate) const EXHAUSTED_PAUSE: Span = Span::from_ms(100);

/// A non-blocking listener at the address of an exchange.
///
/// # Errors
/// [`Error::Address`]: the address is not one of this node, or the port is in use.
pub(crate) fn listen(spec: &ExchangeSpec) -> Result<TcpListener, Error> {
    let ExchangeSpec { address, port, .. } = spec;
    let listener = TcpListener::bind((*address, *port)).map_err(|source| {
        let operation = format!("listen on {address}:{port}");
        Error::Address { operation, source }
    })?;
    listener.set_nonblocking(true).map_err(Error::io("make a socket non-blocking"))?;
    Ok(listener)
}
