//! Interfaces of nodes in single VLANs of a trunk: they have ports, but no links. On the link of their
//! trunk, their frames have the VLAN's tag (IEEE 802.1Q), which the kernel of the node does not see.

use crate::spec::{SegmentSpec, VlanPort};
use crate::switch::{TAG, TAG_PLACE, TPID, tag};
use std::collections::HashMap;

/// The ports of VLANs of all trunks.
#[derive(Debug, Default)]
pub(crate) struct VlanPorts {
    /// VLAN of each port that has one.
    vlans: HashMap<usize, u16>,
    /// Ports of each segment and endpoint that is a trunk with such ports.
    ports: HashMap<(usize, usize), Vec<VlanPort>>,
    /// Memory for a frame without its tag.
    untagged: Vec<u8>,
}

impl VlanPorts {
    pub fn new(segments: &[SegmentSpec]) -> Self {
        let mut all = Self::default();
        for (segment, spec) in segments.iter().enumerate() {
            for (endpoint, end) in spec.endpoints.iter().enumerate() {
                for port in &end.vlan_ports {
                    all.add(segment, endpoint, *port);
                }
            }
        }
        all
    }

    /// Adds a port at an endpoint.
    pub fn add(&mut self, segment: usize, endpoint: usize, added: VlanPort) {
        self.vlans.insert(added.port, added.vlan);
        self.ports.entry((segment, endpoint)).or_default().push(added);
    }

    /// Whether `port` belongs to a single VLAN of a trunk.
    pub fn has(&self, port: usize) -> bool {
        self.vlans.contains_key(&port)
    }

    /// The ports of VLANs at an endpoint.
    pub fn at(&self, segment: usize, endpoint: usize) -> &[VlanPort] {
        self.ports.get(&(segment, endpoint)).map_or(&[], Vec::as_slice)
    }

    /// Adds the tag of a port's VLAN to the frame in the first `len` bytes of `buffer`, behind
    /// `prefix` bytes. Returns the frame's length. A frame that has a tag gets a second one, as on
    /// the interface of a VLAN in Linux.
    pub fn add_tag(&self, port: usize, buffer: &mut [u8], len: usize, prefix: usize) -> usize {
        let (Some(vlan), at) = (self.vlans.get(&port), prefix + TAG_PLACE) else { return len };
        // Without room for the tag, or without a link header, the frame is too long or too short for
        // any network.
        if len < at || len + TAG > buffer.len() {
            return len;
        }
        buffer.copy_within(at..len, at + TAG);
        buffer[at..at + 2].copy_from_slice(&TPID);
        buffer[at + 2..at + TAG].copy_from_slice(&vlan.to_be_bytes());
        len + TAG
    }

    /// Port, and frame at the port, for a frame to an endpoint whose own port is `port`.
    pub fn outward<'f>(
        &'f mut self,
        segment: usize,
        endpoint: usize,
        port: usize,
        frame: &'f [u8],
        prefix: usize,
    ) -> (usize, &'f [u8]) {
        let Some(own) = self.ports.get(&(segment, endpoint)) else { return (port, frame) };
        let vlan = tag(frame.get(prefix..).unwrap_or_default());
        let Some(own) = own.iter().find(|own| Some(own.vlan) == vlan) else { return (port, frame) };
        let (before, behind) = frame.split_at(prefix + TAG_PLACE);
        self.untagged.clear();
        self.untagged.extend_from_slice(before);
        self.untagged.extend_from_slice(&behind[TAG..]);
        (own.port, &self.untagged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Endpoint;

    fn ports() -> VlanPorts {
        let vlan_ports = vec![VlanPort { vlan: 10, port: 1 }, VlanPort { vlan: 20, port: 2 }];
        let trunk = Endpoint { vlan_ports, ..Endpoint::default() };
        let endpoints = vec![trunk, Endpoint::default()];
        VlanPorts::new(&[SegmentSpec { endpoints, ..SegmentSpec::switch(0) }])
    }

    fn frame(tag: &[u8]) -> Vec<u8> {
        [&[7; 12][..], tag, &[8, 0], &[5; 46]].concat()
    }

    #[test]
    fn frames_get_the_tag_of_their_port_and_lose_it() {
        let mut ports = ports();
        let (plain, tagged) = (frame(&[]), frame(&[0x81, 0, 0, 20]));
        let mut buffer = vec![0; 100];
        buffer[..plain.len()].copy_from_slice(&plain);
        let len = ports.add_tag(2, &mut buffer, plain.len(), 0);
        assert_eq!(buffer[..len], tagged);
        assert_eq!(ports.outward(0, 0, 0, &tagged, 0), (2, &plain[..]));
        // Twice: nothing of the first frame is left.
        assert_eq!(ports.outward(0, 0, 0, &tagged, 0), (2, &plain[..]));
        assert_eq!(ports.outward(0, 0, 0, &plain, 0), (0, &plain[..]), "without a tag");
        let other = frame(&[0x81, 0, 0, 30]);
        assert_eq!(ports.outward(0, 0, 0, &other, 0), (0, &other[..]), "of no interface");
        assert_eq!(ports.outward(0, 1, 3, &tagged, 0), (3, &tagged[..]), "no trunk");
    }

    #[test]
    fn a_port_that_is_added_later_has_its_vlan() {
        let mut ports = ports();
        ports.add(0, 1, VlanPort { vlan: 20, port: 7 });
        let (plain, tagged) = (frame(&[]), frame(&[0x81, 0, 0, 20]));
        assert_eq!(ports.outward(0, 1, 3, &tagged, 0), (7, &plain[..]));
        assert_eq!(ports.outward(0, 0, 0, &tagged, 0), (2, &plain[..]), "the other trunk");
        assert!(ports.has(7) && ports.at(0, 1).len() == 1);
    }

    #[test]
    fn other_ports_and_frames_without_header_stay_as_they_are() {
        let ports = ports();
        let mut buffer = vec![7; 100];
        assert_eq!(ports.add_tag(0, &mut buffer, 60, 0), 60);
        assert_eq!(ports.add_tag(1, &mut buffer, 11, 0), 11);
        assert_eq!(ports.add_tag(1, &mut buffer, 99, 0), 99, "no room");
        assert_eq!(buffer, vec![7; 100]);
        assert_eq!((ports.has(1), ports.has(0)), (true, false));
    }
}
