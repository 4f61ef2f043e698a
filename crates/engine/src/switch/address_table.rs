//! Addresses and the ports that they are behind.

use rustc_hash::FxHashMap;
use units::BoundedTable;

/// An Ethernet address.
pub(crate) type Mac = [u8; 6];

/// Maximum learnt addresses of a switch, in addition to the nodes' own: as many as the table of an
/// access switch has. Beyond, the ports with the most addresses lose those that were idle for
/// longest; frames to them are flooded until they send again.
const MAX_ADDRESSES: usize = 16_384;

/// The forwarding table of a switch.
#[derive(Debug)]
pub(super) struct AddressTable {
    /// Nodes' own addresses, which Thingbed assigns: known before their first frame, because
    /// nodes with permanent neighbours need not ask for them. Never evicted. Read once per frame.
    own: FxHashMap<Mac, u32>,
    /// Other addresses, which nodes choose; owned by the ports that they are behind, and hashed so
    /// that no node can degrade lookups.
    learnt: BoundedTable<Mac, ()>,
}

impl AddressTable {
    pub fn new() -> Self {
        Self { own: FxHashMap::default(), learnt: BoundedTable::new(MAX_ADDRESSES) }
    }

    /// Assigns an address to `port`.
    pub fn reserve(&mut self, own: Mac, port: usize) {
        self.own.insert(own, port as u32);
    }

    /// Whether the address is assigned to a port.
    pub fn is_reserved(&self, address: Mac) -> bool {
        self.own.contains_key(&address)
    }

    /// Learns that the address `source` is behind `port`; it may have moved from another port.
    pub fn learn(&mut self, source: Mac, port: usize) {
        match self.learnt.get(&source) {
            Some((_, before)) if before == port as u32 => {
                self.learnt.get_mut(&source);
            }
            _ => {
                self.learnt.insert(port as u32, source, ());
            }
        }
    }

    /// Forgets the addresses learnt behind `port`. Its own address stays reserved.
    pub fn forget(&mut self, port: usize) {
        self.learnt.remove_owner(port as u32);
    }

    /// Number of addresses behind `port` that were evicted from the full table.
    pub fn evicted(&self, port: usize) -> u64 {
        self.learnt.evicted(port as u32)
    }

    /// The port with this address.
    pub fn port_of(&self, address: Mac) -> Option<usize> {
        let own = self.own.get(&address).copied();
        let port = own.or_else(|| self.learnt.get(&address).map(|(_, port)| port))?;
        Some(port as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_behind_a_bridge_are_learnt_and_move() {
        let mut table = AddressTable::new();
        let guest = [6, 0, 0, 0, 0, 9];
        assert_eq!(table.port_of(guest), None);
        table.learn(guest, 1);
        assert_eq!(table.port_of(guest), Some(1));
        table.learn(guest, 2);
        assert_eq!(table.port_of(guest), Some(2));
        table.forget(1);
        assert_eq!(table.port_of(guest), Some(2), "it has moved");
    }

    #[test]
    fn a_removed_port_keeps_its_own_address_and_no_other() {
        let mut table = AddressTable::new();
        table.reserve([2; 6], 1);
        table.learn([6; 6], 1);
        table.forget(1);
        assert!(table.is_reserved([2; 6]) && !table.is_reserved([6; 6]));
        assert_eq!(table.port_of([6; 6]), None);
    }

    #[test]
    fn a_port_with_random_addresses_loses_its_oldest_and_no_other_address() {
        let mut table = AddressTable::new();
        let address = |number: u32| {
            let [a, b, c, d] = number.to_be_bytes();
            [6, 0, a, b, c, d]
        };
        table.reserve([2; 6], 0);
        table.learn([6; 6], 2);
        (0..100_000).for_each(|number| table.learn(address(number), 1));
        assert!(table.learnt.len() <= MAX_ADDRESSES);
        assert_eq!(table.port_of([2; 6]), Some(0), "a planned node's");
        assert_eq!(table.port_of([6; 6]), Some(2), "another port's");
        assert_eq!(table.port_of(address(7)), None, "flooded, and not lost");
        assert_eq!(table.port_of(address(99_999)), Some(1));
        assert_eq!(table.evicted(1), 100_001 - table.learnt.len() as u64);
        assert_eq!((table.evicted(0), table.evicted(2)), (0, 0));
    }
}
