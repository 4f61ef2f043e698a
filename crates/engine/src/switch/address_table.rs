//! Addresses and the ports that they are behind.

use rustc_hash::FxHashMap;
use std::collections::HashMap;

/// An Ethernet address.
pub(crate) type Mac = [u8; 6];

/// Maximum learnt addresses per port, as behind a bridge in the node, in addition to its own.
/// Frames to further addresses are flooded, as in a switch with a full table.
const MAX_ADDRESSES: usize = 1024;

/// The forwarding table of a switch.
#[derive(Debug, Default)]
pub(super) struct AddressTable {
    /// Nodes' own addresses, which Thingbed assigns: known before their first frame, because
    /// nodes with permanent neighbours need not ask for them. Read once per frame.
    own: FxHashMap<Mac, usize>,
    /// Other addresses, which nodes choose; hashed so that no node can degrade lookups.
    learnt: HashMap<Mac, usize>,
    /// Learnt addresses per port.
    counts: HashMap<usize, usize>,
}

impl AddressTable {
    /// Assigns an address to `port`.
    pub fn reserve(&mut self, own: Mac, port: usize) {
        self.own.insert(own, port);
    }

    /// Whether the address is assigned to a port.
    pub fn is_reserved(&self, address: Mac) -> bool {
        self.own.contains_key(&address)
    }

    /// Learns that the address `source` is behind `port`; it may have moved from another port.
    pub fn learn(&mut self, source: Mac, port: usize) {
        let before = self.learnt.get(&source).copied();
        if before == Some(port) {
            return;
        }
        let count = self.counts.entry(port).or_default();
        if *count >= MAX_ADDRESSES {
            return;
        }
        *count += 1;
        if let Some(count) = before.and_then(|before| self.counts.get_mut(&before)) {
            *count -= 1;
        }
        self.learnt.insert(source, port);
    }

    /// Forgets the addresses learnt behind `port`. Its own address stays reserved.
    pub fn forget(&mut self, port: usize) {
        self.learnt.retain(|_, known| *known != port);
        self.counts.remove(&port);
    }

    /// The port with this address.
    pub fn port_of(&self, address: Mac) -> Option<usize> {
        self.own.get(&address).or_else(|| self.learnt.get(&address)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_behind_a_bridge_are_learnt_and_move() {
        let mut table = AddressTable::default();
        let guest = [6, 0, 0, 0, 0, 9];
        assert_eq!(table.port_of(guest), None);
        table.learn(guest, 1);
        assert_eq!(table.port_of(guest), Some(1));
        table.learn(guest, 2);
        assert_eq!(table.port_of(guest), Some(2));
        assert_eq!(table.counts[&1], 0);
    }

    #[test]
    fn a_removed_port_keeps_its_own_address_and_no_other() {
        let mut table = AddressTable::default();
        table.reserve([2; 6], 1);
        table.learn([6; 6], 1);
        table.forget(1);
        assert!(table.is_reserved([2; 6]) && !table.is_reserved([6; 6]));
        assert_eq!(table.port_of([6; 6]), None);
        assert!(table.counts.is_empty(), "the next port with this number starts from 0");
    }

    #[test]
    fn a_port_cannot_fill_the_table() {
        let mut table = AddressTable::default();
        let address = |number: u32| {
            let [a, b, c, d] = number.to_be_bytes();
            [6, 0, a, b, c, d]
        };
        (0..100_000).for_each(|number| table.learn(address(number), 1));
        table.learn(address(7), 2);
        assert_eq!(table.learnt.len(), MAX_ADDRESSES);
        assert_eq!(table.port_of(address(7)), Some(2), "it has moved");
        assert_eq!(table.port_of(address(99_999)), None, "flooded, and not lost");
    }
}
