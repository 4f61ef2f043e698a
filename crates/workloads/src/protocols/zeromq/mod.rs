//! ZeroMQ sockets as the interaction models use them, and libzmq's features.

pub(crate) mod publish;
pub(crate) mod router;
mod uplink;

use crate::error::Error;
use record::spec::InteractionSpec;
use stacks::zeromq::{Context, Limits, Multicast, Socket, SocketType, has, version};
use std::net::{Ipv4Addr, SocketAddr};

/// Without limits, nothing is dropped or blocked inside the program: all loss happens in the
/// network, where it is measured. A socket closes at once, without waiting for queued data.
const LIMITS: Limits = Limits { queue: 0, linger_ms: 0, largest: None };

/// Version and features of the installed libzmq, as JSON.
pub fn info() -> String {
    let has = |capability| has(capability).unwrap_or(false);
    serde_json::json!({
        "version": version(),
        "pgm": has("pgm"),
        "norm": has("norm"),
        "curve": has("curve"),
        "ipc": has("ipc"),
        "draft": has("draft"),
    })
    .to_string()
}

/// A socket of this kind.
pub fn socket(context: &Context, kind: SocketType) -> Result<Socket, Error> {
    Ok(Socket::new(context, kind, LIMITS)?)
}

/// The multicast group of a spec.
pub fn multicast(spec: &InteractionSpec) -> Multicast {
    let group = spec.group.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
    Multicast {
        from: spec.address,
        group: SocketAddr::new(group, spec.port_down),
        rate_kbit_s: spec.multicast_rate_bit_s / 1_000,
        mtu: spec.mtu,
    }
}

/// The address at which this node listens on `port`.
pub fn listen(spec: &InteractionSpec, port: u16) -> SocketAddr {
    SocketAddr::new(spec.address, port)
}

/// The endpoint of the source's `port`, from this node's address.
pub fn source(spec: &InteractionSpec, port: u16) -> String {
    stacks::zeromq::connect_to(spec.address, SocketAddr::new(spec.peers[0].address, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_libzmq_can_do() {
        let info: serde_json::Value = serde_json::from_str(&info()).unwrap();
        assert_eq!(info["version"], version());
        assert!(info["pgm"].is_boolean() && info["norm"].is_boolean());
    }

    #[test]
    fn an_address_that_is_not_here_is_named_with_a_hint() {
        let context = stacks::zeromq::context().unwrap();
        let mut socket = socket(&context, stacks::zeromq::REP).unwrap();
        let error = Error::from(socket.bind("tcp://192.0.2.1:5557").unwrap_err()).to_string();
        assert!(error.contains("REP") && error.contains("192.0.2.1:5557"), "{error}");
        assert!(error.contains("ip address"), "{error}");
    }
}
