//! PGM options: packet size, rate and retransmission window.

use super::{Error, Socket, version};
use std::ffi::c_int;
use std::net::{IpAddr, SocketAddr};

/// Maximum time for which the source can retransmit at full rate, in ms.
const RECOVERY_MS: u64 = 60_000;

/// Maximum size of the window in packets. libpgm allocates a slot of 8 bytes per packet at the
/// source and at every sink, and keeps the sent packets: 60 s at 100 Mbit/s in packets of 113
/// bytes would be 6.6 million packets, 53 MB of slots in every program. 65,536 packets are 0.5 MB
/// of slots and at most about 20 MB of packets. At 200 packets/s, from a message of 1,699 bytes
/// every 150 ms, they still cover more than five minutes.
const WINDOW_PACKETS: u64 = 65_536;

/// A multicast group on one segment, with PGM in UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Multicast {
    /// Address of the interface.
    pub from: IpAddr,
    /// The group, of the same family, and its port.
    pub group: SocketAddr,
    /// Maximum rate, in kbit/s.
    pub rate_kbit_s: u64,
    /// Maximum packet size with the IP header, in bytes.
    pub mtu: u16,
}

impl Multicast {
    /// Sets a publisher's or subscriber's PGM options and connects it to the group.
    ///
    /// # Errors
    /// libzmq has no PGM, or the address or an option is unusable.
    pub fn connect(&self, socket: &mut Socket) -> Result<(), Error> {
        if !zmq::has("pgm").unwrap_or(false) {
            return Err(Error::NoPgm { version: version() });
        }
        for (option, value, what) in [
            // The packet size includes the IP header, so it is the MTU: PGM packets are not
            // fragmented. (libpgm reserves 20 bytes for a header that libzmq never uses, so
            // packets are 20 bytes shorter.)
            (zmq_sys::ZMQ_MULTICAST_MAXTPDU, u64::from(self.mtu), "set the packet size"),
            (zmq_sys::ZMQ_RATE, self.rate_kbit_s, "set the multicast rate"),
            (zmq_sys::ZMQ_RECOVERY_IVL, self.recovery_ms(), "set the recovery interval"),
            // One segment.
            (zmq_sys::ZMQ_MULTICAST_HOPS, 1, "set the multicast hops"),
            // A message arrives as a burst of small packets, and the kernel accounts each at many
            // times its size. The kernel caps this at its limit.
            (zmq_sys::ZMQ_RCVBUF, 4 << 20, "set the receive buffer"),
        ] {
            socket.set(option, c_int::try_from(value).unwrap_or(c_int::MAX), what)?;
        }
        socket.connect(&self.endpoint())
    }

    /// PGM in UDP: plain `pgm://` needs root, and routers treat it worse. The interface is given by
    /// address: libpgm first resolves names as hosts, and fails if that fails, as in a namespace
    /// without DNS. Addresses of IPv6 have no brackets: libzmq takes what is behind the last colon as the
    /// port.
    fn endpoint(&self) -> String {
        format!("epgm://{};{}:{}", self.from, self.group.ip(), self.group.port())
    }

    /// libzmq takes the window as a time at full rate; this is the time for the configured window.
    fn recovery_ms(&self) -> u64 {
        // 1 kbit/s is 1 bit/ms.
        let bytes_per_ms = (self.rate_kbit_s / 8).max(1);
        RECOVERY_MS.min(WINDOW_PACKETS * u64::from(self.mtu) / bytes_per_ms).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(from: &str, group: &str) -> Multicast {
        let (from, group) = (from.parse().unwrap(), group.parse().unwrap());
        Multicast { from, group, rate_kbit_s: 250, mtu: 113 }
    }

    #[test]
    fn the_window_is_a_minute_or_the_cap() {
        let slow = group("10.0.0.1", "239.192.0.1:5556");
        assert_eq!(slow.recovery_ms(), 60_000);
        let fast = Multicast { rate_kbit_s: 100_000, ..slow }.recovery_ms();
        let packets = fast * (100_000 / 8) / 113;
        assert!((65_000..=65_536).contains(&packets), "{fast} ms, {packets} packets");
        assert_eq!(Multicast { rate_kbit_s: 10_000_000, mtu: 68, ..slow }.recovery_ms(), 3);
    }

    #[test]
    fn names_the_interface_by_its_address() {
        let four = group("10.0.0.1", "239.192.0.1:5556");
        assert_eq!(four.endpoint(), "epgm://10.0.0.1;239.192.0.1:5556");
        let six = group("fd00::1", "[ff12::1]:5556");
        assert_eq!(six.endpoint(), "epgm://fd00::1;ff12::1:5556");
    }
}
