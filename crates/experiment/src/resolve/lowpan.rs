//! Checks of networks whose channel carries 6LoWPAN.

use crate::file::{Channel, Network};
use crate::problem::Problem;
use crate::read::Sink;
use crate::subnet::Subnet;
use link::{Carried, CsmaSpec, LOWPAN_MTU};
use std::net::IpAddr;
use units::{Bytes, Contexts, Ipv6Prefix};

/// Whether a channel carries 6LoWPAN.
pub(super) fn is_on(channel: Option<&Channel>) -> bool {
    matches!(channel, Some(Channel::Csma(csma)) if csma.carries == Carried::Lowpan)
}

/// The channel of a network with this subnet of IPv6. Unless the file has contexts of 6LoWPAN, the subnet
/// is context 0, as border routers announce it (RFC 6775, section 4.2).
pub(super) fn with_contexts(csma: &CsmaSpec, subnet: Option<Subnet>) -> CsmaSpec {
    let mut csma = csma.clone();
    if csma.carries == Carried::Lowpan && csma.contexts.is_none() {
        let prefix = subnet.and_then(|subnet| match subnet.base() {
            IpAddr::V6(base) => Ipv6Prefix::new(base, subnet.prefix()),
            IpAddr::V4(_) => None,
        });
        csma.contexts = Contexts::try_from(Vec::from_iter(prefix)).ok();
    }
    csma
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
