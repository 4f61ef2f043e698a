//! The MTU of the path behind a link: longer packets vanish, as behind a router that drops them and
//! whose ICMP messages do not arrive (RFC 2923, section 2.1: a black hole).

use crate::Frame;
use crate::grant::LINK_HEADER;
use crate::keys::{Contradictions, Key, Keys, Kind};
use crate::stage::{ChannelWait, Stage};
use units::Bytes;

/// Bytes of a VLAN tag (IEEE 802.1Q), and the type of frames with one.
const TAG: usize = 4;
const TAGGED: [u8; 2] = [0x81, 0x00];
/// The smallest MTU of IPv4 (RFC 791, section 3.2).
const LEAST: u64 = 68;

/// The longest IP packet, in bytes; `None` without a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathMtu(pub Option<Bytes>);

impl PathMtu {
    /// Whether the link drops the frame.
    pub(crate) fn drops(self, frame: &Frame) -> bool {
        let Some(most) = self.0 else { return false };
        let tag = if frame.get(12..LINK_HEADER) == Some(&TAGGED) { TAG } else { 0 };
        frame.len().saturating_sub(LINK_HEADER + tag) as u64 > most.get()
    }
}

impl Stage for PathMtu {
    const KEYS: &'static [Key] = &[Key::new(
        "path_mtu",
        Kind::Size,
        "Longest IP packet that the path carries in this direction, 68 B or more. Longer ones are \
         dropped, and no ICMP message tells their sender (a path MTU black hole). Default: none.",
    )];
    const ORDER: u8 = 0;
    type Flow = ();

    fn read(keys: &Keys) -> Result<Self, String> {
        Ok(Self(keys.read("path_mtu")?))
    }

    fn write(&self, keys: &mut Keys) {
        if let Some(most) = &self.0 {
            keys.insert("path_mtu", most);
        }
    }

    fn check(keys: &Keys, _: ChannelWait, found: &mut Contradictions) {
        let most = keys.get::<Bytes>("path_mtu").map_or(LEAST, Bytes::get);
        if most < LEAST {
            let text = format!("a path MTU of {most} B");
            found.add("path_mtu", text, "use 68 B or more, the smallest MTU of IPv4 (RFC 791)");
        }
    }

    fn check_netem(keys: &Keys, found: &mut Contradictions) {
        if keys.has("path_mtu") {
            found.add("path_mtu", "a path MTU", "use `backend: medium`");
        }
    }

    fn text(&self, _is_scheduled: bool) -> Option<String> {
        self.0.map(|most| format!("path MTU {most}"))
    }

    fn is_none(&self) -> bool {
        self.0.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(length: usize, kind: [u8; 2]) -> Frame {
        let mut bytes = vec![0; length];
        bytes[12..14].copy_from_slice(&kind);
        bytes.into()
    }

    #[test]
    fn packets_count_without_header_and_vlan_tag() {
        let limit = PathMtu(Some("600 B".parse().unwrap()));
        let (ip, tagged) = ([8, 0], [0x81, 0]);
        let drops = [(614, ip), (615, ip), (618, tagged), (619, tagged)]
            .map(|(length, kind)| limit.drops(&frame(length, kind)));
        assert_eq!(drops, [false, true, false, true]);
        assert!(!PathMtu(None).drops(&frame(9_000, ip)));
        assert!(!limit.drops(&vec![0; 3].into()), "shorter than a header");
    }

    #[test]
    fn a_limit_that_ipv4_does_not_allow_is_refused() {
        let check = |text: &str| {
            let keys: Keys = serde_json::from_value(serde_json::json!({"path_mtu": text})).unwrap();
            let mut found = Contradictions::default();
            PathMtu::check(&keys, ChannelWait::No, &mut found);
            format!("{found:?}")
        };
        assert!(check("67 B").contains("68 B or more"));
        assert!(!check("68 B").contains("68 B or more"));
    }
}
