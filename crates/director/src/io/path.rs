//! What the system knows of the ways to members.

use std::net::{SocketAddrV4, UdpSocket};

/// The longest packets that get through to members, as the system knows it of its interfaces,
/// routes, and what routers have said (RFC 1191): nothing is sent to find it out.
#[derive(Debug)]
pub(super) struct Paths {
    local: SocketAddrV4,
    members: Vec<SocketAddrV4>,
    mtu: Vec<Option<u32>>,
    next: usize,
}

impl Paths {
    /// The ways from `local` to these members.
    pub fn new(local: SocketAddrV4, members: &[SocketAddrV4]) -> Self {
        let mtu = members.iter().map(|member| ask(local, *member)).collect();
        Self { local, members: members.to_vec(), mtu, next: 0 }
    }

    /// Bytes of a packet that gets through to all; nothing where nobody knows.
    pub fn mtu(&self) -> Option<u32> {
        self.mtu.iter().flatten().min().copied()
    }

    /// Asks again of one member, another each time.
    pub fn look(&mut self) {
        if let Some(member) = self.members.get(self.next) {
            self.mtu[self.next] = ask(self.local, *member);
            self.next = (self.next + 1) % self.members.len();
        }
    }
}

fn ask(local: SocketAddrV4, member: SocketAddrV4) -> Option<u32> {
    // A socket of its own, since only one that has a peer knows of a way.
    let socket = UdpSocket::bind(SocketAddrV4::new(*local.ip(), 0)).ok()?;
    socket.connect(member).ok()?;
    rustix::net::sockopt::ip_mtu(&socket).ok().filter(|mtu| *mtu >= 68)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_has_its_interfaces_packets() {
        let local: SocketAddrV4 = "127.0.0.1:0".parse().unwrap();
        let own = std::fs::read_to_string("/sys/class/net/lo/mtu").unwrap();
        let mut paths = Paths::new(local, &["127.0.0.1:9".parse().unwrap()]);
        // No packet of IPv4 is longer than that, whatever the interface takes.
        let own = own.trim().parse::<u32>().unwrap().min(65_535);
        assert_eq!(paths.mtu(), Some(own));
        paths.look();
        assert_eq!(paths.mtu(), Some(own));
        assert_eq!(Paths::new(local, &[]).mtu(), None);
    }
}
