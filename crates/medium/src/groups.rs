//! Which endpoints belong to which multicast group, learnt from IGMP.

use etherparse::{NetSlice, SlicedPacket};
use std::collections::{BTreeSet, HashMap};

const IGMP: u8 = 2;
const V2_REPORT: u8 = 0x16;
const V2_LEAVE: u8 = 0x17;
const V3_REPORT: u8 = 0x22;

/// Multicast membership of one segment.
#[derive(Debug, Clone, Default)]
pub struct Groups {
    /// In order, for each frame to a group asks for it so.
    members: HashMap<[u8; 4], BTreeSet<usize>>,
}

impl Groups {
    /// Takes note of `frame` from `endpoint` if it is an IGMP message, and says
    /// whether it was one. Such messages go no further: a membership report
    /// flooded to a thousand nodes is a storm.
    pub fn learn(&mut self, frame: &[u8], endpoint: usize) -> bool {
        let Some(message) = igmp(frame) else { return false };
        match message {
            [V2_REPORT, _, _, _, group @ ..] => self.change(group, endpoint, true),
            [V2_LEAVE, _, _, _, group @ ..] => self.change(group, endpoint, false),
            [V3_REPORT, _, _, _, _, _, _, _, records @ ..] => self.records(records, endpoint),
            _ => {}
        }
        true
    }

    /// The members of `group`, in order of index.
    pub fn members(&self, group: [u8; 4]) -> impl Iterator<Item = usize> + '_ {
        self.members.get(&group).into_iter().flatten().copied()
    }

    /// Group records of RFC 3376, section 4.2.4.
    fn records(&mut self, mut records: &[u8], endpoint: usize) {
        while let [kind, auxiliary, high, low, group @ ..] = records {
            let sources = usize::from(u16::from_be_bytes([*high, *low]));
            // Include-mode with no sources is a leave; anything else wants frames.
            let joins = !(matches!(kind, 1 | 3) && sources == 0) && *kind != 6;
            self.change(group, endpoint, joins);
            let len = 8 + 4 * (sources + usize::from(*auxiliary));
            records = records.get(len..).unwrap_or_default();
        }
    }

    fn change(&mut self, group: &[u8], endpoint: usize, joins: bool) {
        let Some(group) = group.first_chunk::<4>() else { return };
        let members = self.members.entry(*group).or_default();
        if joins {
            members.insert(endpoint);
        } else {
            members.remove(&endpoint);
        }
    }
}

fn igmp(frame: &[u8]) -> Option<&[u8]> {
    // Nearly all frames are plain IPv4 and something else.
    if frame.get(12..14) == Some(&[8, 0]) && frame.get(23) != Some(&IGMP) {
        return None;
    }
    let NetSlice::Ipv4(ip) = SlicedPacket::from_ethernet(frame).ok()?.net? else { return None };
    (ip.header().protocol().0 == IGMP).then(|| ip.payload().payload)
}

/// The IPv4 group that a multicast frame goes to, or nothing when it is not one.
pub(crate) fn group_of(frame: &[u8]) -> Option<[u8; 4]> {
    let NetSlice::Ipv4(ip) = SlicedPacket::from_ethernet(frame).ok()?.net? else { return None };
    let address = ip.header().destination_addr();
    address.is_multicast().then(|| address.octets())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use etherparse::{IpNumber, Ipv4Header};

    pub fn igmp_frame(message: &[u8]) -> Vec<u8> {
        let len = message.len() as u16;
        let ip = Ipv4Header::new(len, 1, IpNumber::IGMP, [10, 0, 0, 2], [224, 0, 0, 22]).unwrap();
        let mut frame = vec![1, 0, 0x5e, 0, 0, 22, 2, 0, 0, 0, 0, 2, 8, 0];
        ip.write(&mut frame).unwrap();
        frame.extend(message);
        frame
    }

    pub const JOIN_V3: [u8; 16] = [0x22, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 0, 239, 1, 2, 3];
    const LEAVE_V3: [u8; 16] = [0x22, 0, 0, 0, 0, 0, 0, 1, 3, 0, 0, 0, 239, 1, 2, 3];

    fn members(groups: &Groups) -> Vec<usize> {
        groups.members([239, 1, 2, 3]).collect()
    }

    #[test]
    fn joins_and_leaves_of_both_versions() {
        let mut groups = Groups::default();
        assert!(groups.learn(&igmp_frame(&JOIN_V3), 4));
        assert_eq!(members(&groups), [4]);
        assert!(groups.learn(&igmp_frame(&LEAVE_V3), 4));
        assert!(members(&groups).is_empty());
        groups.learn(&igmp_frame(&[0x16, 0, 0, 0, 239, 1, 2, 3]), 5);
        assert_eq!(members(&groups), [5]);
        groups.learn(&igmp_frame(&[0x17, 0, 0, 0, 239, 1, 2, 3]), 5);
        assert!(members(&groups).is_empty());
    }

    #[test]
    fn cut_and_hostile_messages_are_borne() {
        let mut groups = Groups::default();
        for len in 0..JOIN_V3.len() {
            groups.learn(&igmp_frame(&JOIN_V3[..len]), 1);
        }
        let mut liar = JOIN_V3;
        (liar[9], liar[10], liar[11]) = (255, 255, 255);
        assert!(groups.learn(&igmp_frame(&liar), 1));
        assert!(!groups.learn(&[0; 3], 1));
    }
}
