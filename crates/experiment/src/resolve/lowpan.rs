//! Checks of networks whose channel carries 6LoWPAN.

use crate::file::{Channel, Network};
use crate::problem::Problem;
use crate::read::Sink;
use link::{Carried, LOWPAN_MTU};
use units::Bytes;

/// Whether a channel carries 6LoWPAN.
pub(super) fn is_on(channel: Option<&Channel>) -> bool {
    matches!(channel, Some(Channel::Csma(csma)) if csma.carries == Carried::Lowpan)
}

/// Checks the subnets and the MTU of such a network; returns the MTU.
pub(super) fn check(name: &str, network: &Network, sink: &mut Sink) -> Option<Bytes> {
    for subnet in network.subnet.iter().flat_map(|subnets| &subnets.value.0) {
        if !subnet.value.is_ipv6() {
            let text = format!("{} on `{name}`, whose channel carries 6LoWPAN", subnet.value);
            let label = "6LoWPAN carries only IPv6: use for example `subnet: fd00::/64`";
            sink.add(Problem::new(text).at(subnet.place).label(label));
        }
    }
    let mtu = Bytes::new(LOWPAN_MTU);
    match network.mtu.as_ref().filter(|at| at.value != mtu) {
        Some(at) => {
            let text = format!("an MTU of {} on `{name}`, whose channel carries 6LoWPAN", at.value);
            let label = format!(
                "IPv6 over IEEE 802.15.4 has an MTU of {LOWPAN_MTU} B (RFC 4944): remove `mtu`, or \
                 write `mtu: {LOWPAN_MTU} B` to override that of a profile"
            );
            sink.add(Problem::new(text).at(at.place).label(label));
            None
        }
        None => Some(mtu),
    }
}
