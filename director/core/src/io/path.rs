//! Path MTU to members, as known by the system.

use crate::switch::MemberId;
use std::net::{SocketAddr, UdpSocket};

/// Path MTU per member, which the system knows from interfaces, routes and ICMP messages
/// (RFC 1191). Nothing is sent to discover it.
#[derive(Debug)]
pub(super) struct Paths {
    local: SocketAddr,
    members: Vec<SocketAddr>,
    mtu: Vec<Option<u32>>,
    next: usize,
}

impl Paths {
    /// Queries the paths from `local` to these members.
    pub fn new(local: SocketAddr, members: &[SocketAddr]) -> Self {
        let mtu = members.iter().map(|member| ask(local, *member)).collect();
        Self { local, members: members.to_vec(), mtu, next: 0 }
    }

    /// A member is at another address than before, or has joined.
    pub fn set(&mut self, member: MemberId, address: SocketAddr) {
        let place = member as usize;
        if place >= self.members.len() {
            // Without a member there, the path to another one is asked twice.
            self.members.resize(place + 1, address);
            self.mtu.resize(place + 1, None);
        }
        self.members[place] = address;
        self.mtu[place] = ask(self.local, address);
    }

    /// The smallest path MTU in bytes; `None` if unknown.
    pub fn mtu(&self) -> Option<u32> {
        self.mtu.iter().flatten().min().copied()
    }

    /// Queries the path to the next member, in turn.
    pub fn look(&mut self) {
        // One at a time: each takes a socket and several system calls.
        if let Some(member) = self.members.get(self.next) {
            self.mtu[self.next] = ask(self.local, *member);
            self.next = (self.next + 1) % self.members.len();
        }
    }
}

fn ask(local: SocketAddr, member: SocketAddr) -> Option<u32> {
    // Only a connected socket has a path MTU, so this needs an extra one.
    let socket = UdpSocket::bind(SocketAddr::new(local.ip(), 0)).ok()?;
    socket.connect(member).ok()?;
    let mtu = match local {
        SocketAddr::V4(_) => rustix::net::sockopt::ip_mtu(&socket),
        SocketAddr::V6(_) => rustix::net::sockopt::ipv6_mtu(&socket),
    };
    mtu.ok().filter(|mtu| *mtu >= 68)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_has_its_interfaces_packets() {
        let local: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let own = std::fs::read_to_string("/sys/class/net/lo/mtu").unwrap();
        let mut paths = Paths::new(local, &["127.0.0.1:9".parse().unwrap()]);
        // No IPv4 packet is longer, whatever the interface's MTU.
        let own = own.trim().parse::<u32>().unwrap().min(65_535);
        assert_eq!(paths.mtu(), Some(own));
        paths.look();
        assert_eq!(paths.mtu(), Some(own));
        assert_eq!(Paths::new(local, &[]).mtu(), None);
    }
}
