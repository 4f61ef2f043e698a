//! VLAN tags (IEEE 802.1Q): the VLAN of a frame, and the frame as it leaves at other ports.

use link::{Frame, PortVlans};

/// Tag protocol identifier, in place of the EtherType.
pub(crate) const TPID: [u8; 2] = [0x81, 0];
/// Position of the tag: behind both addresses.
pub(crate) const PLACE: usize = 12;
pub(crate) const TAG: usize = 4;
/// Bits of the VLAN's number in a tag; the others are the priority.
const NUMBER: u16 = 0x0fff;

/// Whether a port accepts `frame`, which has at most `longest` bytes with a tag.
pub(super) fn accepts(port: &PortVlans, frame: &[u8], longest: usize) -> bool {
    // Where it leaves with a tag, it is longer.
    let fits = tag(frame).is_some() || frame.len().saturating_add(TAG) <= longest;
    fits && vlan(port, frame).is_some()
}

/// The VLAN of a frame that a port received; `None` if the port does not accept the frame.
fn vlan(port: &PortVlans, frame: &[u8]) -> Option<u16> {
    match tag(frame) {
        // Without a tag, or with one that has a priority only.
        None | Some(0) => Some(port.untagged()),
        // The native VLAN may have a tag, others need one.
        Some(vlan) => match port {
            PortVlans::Access(_) => None,
            PortVlans::Trunk(_) => port.carries(vlan).then_some(vlan),
        },
    }
}

/// Number of the VLAN in the frame's tag, if it has one.
pub(crate) fn tag(frame: &[u8]) -> Option<u16> {
    let [a, b, high, low] = *frame.get(PLACE..)?.first_chunk::<TAG>()?;
    ([a, b] == TPID).then(|| u16::from_be_bytes([high, low]) & NUMBER)
}

/// A frame of a port, as it leaves at others.
pub(crate) struct Reframed {
    /// As it was received.
    frame: Frame,
    /// Bytes before the link header.
    prefix: usize,
    /// `None`: the network has no VLANs. `Some(None)`: the frame is of none that its port has.
    vlan: Option<Option<u16>>,
    has_tag: bool,
    /// The frame with the tag added or removed, once it was needed.
    other: Option<Frame>,
}

impl Reframed {
    pub fn new(sender: Option<&PortVlans>, frame: Frame, prefix: usize) -> Self {
        let bytes = frame.get(prefix..).unwrap_or_default();
        let Some(port) = sender else {
            return Self { frame, prefix, vlan: None, has_tag: false, other: None };
        };
        let (vlan, tag) = (vlan(port, bytes), tag(bytes));
        // A tag with a priority only never leaves.
        let frame = if tag == Some(0) { retagged(&frame, prefix, true, None) } else { frame };
        let has_tag = tag.is_some_and(|vlan| vlan != 0);
        Self { frame, prefix, vlan: Some(vlan), has_tag, other: None }
    }

    /// The frame as it leaves at a port with these VLANs; `None` if its VLAN is none of them.
    pub fn at(&mut self, receiver: Option<&PortVlans>) -> Option<Frame> {
        let (Some(vlan), Some(port)) = (self.vlan, receiver) else {
            return Some(self.frame.clone());
        };
        let vlan = vlan.filter(|vlan| port.carries(*vlan))?;
        let tags = port.tags(vlan);
        if tags == self.has_tag {
            return Some(self.frame.clone());
        }
        let (frame, prefix, has_tag) = (&self.frame, self.prefix, self.has_tag);
        let other = || retagged(frame, prefix, has_tag, tags.then_some(vlan));
        Some(self.other.get_or_insert_with(other).clone())
    }
}

/// `frame` with the tag of `vlan` or without one, in place of the tag that it has.
fn retagged(frame: &Frame, prefix: usize, has_tag: bool, vlan: Option<u16>) -> Frame {
    let (before, behind) = frame.split_at(prefix + PLACE);
    let behind = if has_tag { &behind[TAG..] } else { behind };
    let tag = vlan.map(u16::to_be_bytes).map(|[high, low]| [TPID[0], TPID[1], high, low]);
    [before, tag.as_ref().map_or(&[], <[u8; TAG]>::as_slice), behind].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame whose tag, if any, has this content.
    fn frame(tag: Option<u16>) -> Frame {
        let tag = tag.map(|tag| [&TPID[..], &tag.to_be_bytes()].concat()).unwrap_or_default();
        [&[7; PLACE][..], &tag, &[8, 0], &[5; 46]].concat().into()
    }

    fn sent(from: &PortVlans, tag: Option<u16>, to: &PortVlans) -> Option<Frame> {
        Reframed::new(Some(from), frame(tag), 0).at(Some(to))
    }

    #[test]
    fn access_ports_are_untagged_and_trunks_tagged() {
        let (ten, twenty) = (PortVlans::Access(10), PortVlans::Access(20));
        let trunk = PortVlans::Trunk(vec![10, 20]);
        assert_eq!(sent(&ten, None, &ten), Some(frame(None)));
        assert_eq!(sent(&ten, None, &twenty), None);
        assert_eq!(sent(&ten, None, &trunk), Some(frame(Some(10))));
        assert_eq!(sent(&trunk, Some(20), &twenty), Some(frame(None)));
        assert_eq!(sent(&trunk, Some(20), &ten), None);
        assert_eq!(
            sent(&trunk, Some(0x6014), &PortVlans::Trunk(vec![20])),
            Some(frame(Some(0x6014)))
        );
        assert_eq!(sent(&trunk, Some(20), &PortVlans::Trunk(vec![10])), None);
        // The native VLAN of trunks is that of ports without one.
        assert_eq!(sent(&trunk, None, &PortVlans::Access(1)), Some(frame(None)));
        assert_eq!(sent(&trunk, Some(1), &PortVlans::Trunk(vec![])), Some(frame(None)));
        assert_eq!(sent(&trunk, None, &ten), None);
    }

    #[test]
    fn nodes_cannot_choose_the_vlan_of_an_access_port() {
        let ten = PortVlans::Access(10);
        for tag in [10, 20, 0x0fff] {
            assert!(!accepts(&ten, &frame(Some(tag)), 1518), "{tag}");
        }
        // A second tag stays in the frame, and no port reads it.
        let double = [&frame(Some(1))[..PLACE + TAG], &frame(Some(20))[PLACE..]].concat();
        let trunk = PortVlans::Trunk(vec![20]);
        let mut hops = Reframed::new(Some(&trunk), double.into(), 0);
        assert_eq!(hops.at(Some(&PortVlans::Access(20))), None);
        assert!(!accepts(&trunk, &frame(Some(30)), 1518));
    }

    #[test]
    fn a_priority_tag_does_not_leave() {
        let (ten, trunk) = (PortVlans::Access(10), PortVlans::Trunk(vec![10]));
        assert_eq!(sent(&ten, Some(0xe000), &ten), Some(frame(None)));
        assert_eq!(sent(&ten, Some(0xe000), &trunk), Some(frame(Some(10))));
    }

    #[test]
    fn a_frame_that_would_be_too_long_with_a_tag_is_not_accepted() {
        let ten = PortVlans::Access(10);
        assert!(accepts(&ten, &[0; 1514], 1518) && !accepts(&ten, &[0; 1515], 1518));
        let tagged = [&frame(Some(10))[..], &[0; 1454]].concat();
        assert!(tagged.len() == 1518 && accepts(&PortVlans::Trunk(vec![10]), &tagged, 1518));
    }

    #[test]
    fn any_bytes_of_any_ports_are_frames_or_refused() {
        let ports = [PortVlans::Access(10), PortVlans::Trunk(vec![10]), PortVlans::Trunk(vec![])];
        for length in 14..20 {
            for (from, to) in ports.iter().flat_map(|one| ports.iter().map(move |to| (one, to))) {
                for prefix in [0, 10] {
                    let mut bytes = vec![0; prefix + length];
                    bytes[prefix + PLACE..prefix + PLACE + 2].copy_from_slice(&TPID);
                    let mut reframed = Reframed::new(Some(from), bytes.into(), prefix);
                    let left = reframed.at(Some(to)).map_or(14, |frame| frame.len() - prefix);
                    assert!(left + TAG >= 14, "{length} {prefix}");
                }
            }
        }
    }
}
