//! PGM options: packet size, rate and retransmission window.

use crate::error::Error;
use crate::zeromq::{Socket, version};
use record::spec::InteractionSpec;
use std::ffi::c_int;

/// How long the source can retransmit at full rate, in ms.
const RECOVERY_MS: u64 = 60_000;

/// Maximum size of the window in packets. libpgm allocates a slot of 8 bytes per packet at the
/// source and at every sink, and keeps the sent packets: 60 s at 100 Mbit/s in packets of 113
/// bytes would be 6.6 million packets, 53 MB of slots in every program. 65,536 packets are 0.5 MB
/// of slots and at most about 20 MB of packets. At 200 packets/s, from a message of 1,699 bytes
/// every 150 ms, they still cover more than five minutes.
const WINDOW_PACKETS: u64 = 65_536;

/// Sets the PGM options, before the socket is connected.
pub fn prepare(socket: &mut Socket, spec: &InteractionSpec) -> Result<(), Error> {
    if !zmq::has("pgm").unwrap_or(false) {
        return Err(Error::NoPgm { version: version() });
    }
    // The packet size includes the IP header, so it is the MTU: PGM packets are not fragmented.
    // (libpgm reserves 20 bytes for a header that libzmq never uses, so packets are 20 bytes
    // shorter.)
    let size = c_int::from(spec.mtu);
    socket.set(zmq_sys::ZMQ_MULTICAST_MAXTPDU, size, "set the packet size")?;
    let rate = spec.multicast_rate_bit_s / 1_000;
    socket.set(zmq_sys::ZMQ_RATE, int(rate), "set the multicast rate")?;
    let recovery = recovery_ms(rate, u64::from(spec.mtu));
    socket.set(zmq_sys::ZMQ_RECOVERY_IVL, int(recovery), "set the recovery interval")?;
    // The test bed's networks are a single segment.
    socket.set(zmq_sys::ZMQ_MULTICAST_HOPS, 1, "set the multicast hops")?;
    // A message arrives as a burst of small packets, and the kernel accounts each at many times
    // its size. The kernel caps this at its limit.
    socket.set(zmq_sys::ZMQ_RCVBUF, 4 << 20, "set the receive buffer")
}

/// PGM in UDP: plain `pgm://` needs root, and routers treat it worse. The interface is given by
/// address: libpgm first resolves names as hosts, and fails if that fails, as in a namespace
/// without DNS.
pub fn endpoint(spec: &InteractionSpec) -> String {
    let group = spec.group.map(|group| group.to_string()).unwrap_or_default();
    format!("epgm://{};{group}:{}", spec.address, spec.port_down)
}

/// libzmq takes the window as a time at full rate; this is the time for the configured window.
fn recovery_ms(rate_kbit_s: u64, mtu: u64) -> u64 {
    let bytes_per_ms = (rate_kbit_s / 8).max(1);
    RECOVERY_MS.min(WINDOW_PACKETS * mtu / bytes_per_ms).max(1)
}

fn int(value: u64) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_a_minute_or_the_cap() {
        assert_eq!(recovery_ms(250, 113), 60_000);
        let fast = recovery_ms(100_000, 113);
        let packets = fast * (100_000 / 8) / 113;
        assert!((65_000..=65_536).contains(&packets), "{fast} ms, {packets} packets");
        assert_eq!(recovery_ms(10_000_000, 68), 3);
    }

    #[test]
    fn names_the_interface_by_its_address() {
        let spec = serde_json::json!({"role": "source", "node": "utility",
            "down": "pgm/publish-subscribe", "up": "tcp/request-reply", "address": "10.0.0.1",
            "group": "239.192.0.1", "port_down": 5556, "mtu": 113, "peers": [],
            "payload": "/p", "reply_payload": "/r", "events": "/e", "every_ns": 1, "messages": 1});
        let spec: InteractionSpec = serde_json::from_value(spec).unwrap();
        assert_eq!(endpoint(&spec), "epgm://10.0.0.1;239.192.0.1:5556");
    }
}
