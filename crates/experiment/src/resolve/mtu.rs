//! Maximum sizes of packets.

use crate::file::Network;
use crate::problem::Problem;
use crate::read::Sink;
use units::Bytes;

/// Minimum MTU of IPv4, B.
/// Each host and router must forward it unfragmented (RFC 791, section 3.2).
const MIN_MTU: u64 = 68;
/// Maximum MTU, B: the packet and its Ethernet header fit the 65,535 B of a TAP.
const MAX_MTU: u64 = 65_521;
const DEFAULT_MTU: Bytes = Bytes::new(1500);
/// Whether IPv4 and a TAP support packets of this size.
pub(crate) fn is_mtu(mtu: Bytes) -> bool {
    (MIN_MTU..=MAX_MTU).contains(&mtu.get())
}

/// The MTU of `network`, if it is one.
pub(super) fn check(network: &Network, sink: &mut Sink) -> Option<Bytes> {
    let Some(mtu) = &network.mtu else { return Some(DEFAULT_MTU) };
    let bytes = mtu.value.get();
    let wrong = match bytes {
        b if b < MIN_MTU => format!("is below {MIN_MTU} B, the minimum of IPv4"),
        b if b > MAX_MTU => format!("is above {MAX_MTU} B, the maximum of a TAP"),
        _ => return Some(mtu.value),
    };
    let problem = Problem::new(format!("an MTU of {bytes} B {wrong}")).at(mtu.place);
    sink.add(problem.label("the MTU is the size of the IP packet, without the Ethernet header"));
    None
}
