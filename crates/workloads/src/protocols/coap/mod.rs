//! CoAP with libcoap: over UDP, DTLS, TCP and TLS.
//!
//! With GET, the sink is the client and drives. With PUT, POST and DELETE, the source is the
//! client and drives. With `observe`, the source is the server and drives; the sink registers once
//! as observer. This code, not libcoap, splits and reassembles blocks (RFC 7959), so that each
//! block has a separate section: `payload_1` and so on.

mod callbacks;
mod client;
mod codes;
mod endpoint;
mod ffi;
mod observe;
mod security;
mod server;
mod stack;

use crate::error::Error;
use crate::exchange::protocol::{Driver, Server};
use record::Coap;
use record::spec::ExchangeSpec;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_block_is_refused_with_what_would_have_it() {
        let error = check(&Coap { q_block: true, ..Coap::default() }).unwrap_err().to_string();
        assert!(error.contains("RFC 9177") && error.contains("remove `q_block`"), "{error}");
    }
}
