//! Resolves the subnets of a network: one, or one of IPv4 and one of IPv6.

use crate::file::Network;
use crate::problem::Problem;
use crate::read::{At, OneOrMore, Sink};
use crate::source::Place;
use crate::subnet::Subnet;
use std::net::IpAddr;
use units::Bytes;

/// Minimum MTU of IPv6, B (RFC 8200, section 5). The kernel has no IPv6 on an interface below.
const MIN_MTU_V6: u64 = 1280;

/// The subnets of a network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Subnets {
    /// Subnet of the addresses that workloads use.
    pub first: Subnet,
    /// Subnet of the other family.
    pub second: Option<Subnet>,
}

impl Subnets {
    /// The subnets in the file, for `size` nodes.
    pub fn of(network: &Network, size: u64, mtu: Option<Bytes>, sink: &mut Sink) -> Option<Self> {
        let at = network.subnet.as_ref()?;
        let subnets = Self::read(at, sink)?;
        let mut fits = true;
        for subnet in &at.value.0 {
            fits &= check_room(subnet, size, sink);
            fits &= check_mtu(subnet, mtu, sink);
        }
        fits.then_some(subnets)
    }

    fn read(at: &At<OneOrMore<At<Subnet>>>, sink: &mut Sink) -> Option<Self> {
        let (text, place, label) = match &at.value.0[..] {
            [one] => return Some(Self { first: one.value, second: None }),
            [one, two] if one.value.is_ipv6() != two.value.is_ipv6() => {
                return Some(Self { first: one.value, second: Some(two.value) });
            }
            // An invalid one in the list was reported.
            [] if !sink.is_clean() => return None,
            [] => ("the network has no subnet", at.place, "write for example `10.0.0.0/24`"),
            all => (
                "a network has at most one subnet of IPv4 and one of IPv6",
                second_of_family(all).unwrap_or(at.place),
                "remove it, or make another network of it",
            ),
        };
        sink.add(Problem::new(text).at(place).label(label));
        None
    }

    pub fn iter(self) -> impl Iterator<Item = Subnet> {
        [Some(self.first), self.second].into_iter().flatten()
    }

    /// The addresses of the node at `index`.
    pub fn addresses(self, index: u64) -> Option<(IpAddr, Option<IpAddr>)> {
        let second = match self.second {
            Some(second) => Some(second.address(index)?),
            None => None,
        };
        Some((self.first.address(index)?, second))
    }

    /// The last index that all subnets have an address for.
    pub fn last(self) -> u64 {
        // Indices count from 0.
        self.iter().map(Subnet::room).min().unwrap_or(1) - 1
    }
}

/// The address that the Ethernet address is made of: that of IPv4, if there is one.
pub(crate) fn of_mac(first: IpAddr, second: Option<IpAddr>) -> IpAddr {
    second.filter(IpAddr::is_ipv4).unwrap_or(first)
}

/// Place of the first subnet of whose family there is one before it.
fn second_of_family(all: &[At<Subnet>]) -> Option<Place> {
    let is_second = |(index, subnet): &(usize, &At<Subnet>)| {
        all[..*index].iter().any(|before| before.value.is_ipv6() == subnet.value.is_ipv6())
    };
    all.iter().enumerate().find(is_second).map(|(_, subnet)| subnet.place)
}

fn check_room(subnet: &At<Subnet>, size: u64, sink: &mut Sink) -> bool {
    let (current, room) = (subnet.value, subnet.value.room());
    if size <= room {
        return true;
    }
    let text = format!("{size} nodes do not fit into {current}, which has {room} addresses");
    let problem = Problem::new(text).at(subnet.place);
    sink.add(match current.widen_for(size) {
        Some(wide) => problem.label(format!("{wide} has {}", wide.room())),
        None => problem.label("no subnet has enough addresses"),
    });
    false
}

fn check_mtu(subnet: &At<Subnet>, mtu: Option<Bytes>, sink: &mut Sink) -> bool {
    let small = mtu.filter(|mtu| subnet.value.is_ipv6() && mtu.get() < MIN_MTU_V6);
    if let Some(mtu) = small {
        let text = format!("IPv6 on a network with an MTU of {mtu}");
        let label = format!("IPv6 needs an MTU of {MIN_MTU_V6} B or more: use `mtu: 1280 B`");
        sink.add(Problem::new(text).at(subnet.place).label(label));
    }
    small.is_none()
}

/// Place of the subnet that overlaps `other`.
pub(super) fn overlapping(network: &Network, other: Subnet) -> Option<Place> {
    let mut all = network.subnet.iter().flat_map(|subnets| &subnets.value.0);
    all.find(|at| at.value.overlaps(other)).map(|at| at.place)
}
