//! Datagrams of 6LoWPAN in fragments: each is analyzed when it is complete.

use super::Survey;
use super::first_fragment::First;
use crate::dissect::{Parts, What};
use crate::kinds::Kind;
use crate::reader::Packet;
use crate::reassembly::Whole;

impl Survey<'_> {
    /// Takes a frame that may be a fragment. One with the head of a transport is counted later: with
    /// the whole datagram, or when that has become impossible. All others have been counted.
    pub(super) fn fragment(&mut self, packet: &Packet<'_>, parts: &Parts<'_>, counts: bool) {
        let Some(part) = parts.part else { return };
        let first = parts.head.map(|head| First {
            point: packet.point,
            direction: packet.direction,
            length: packet.length,
            carried: parts.carried,
            counts,
            addresses: parts.addresses,
            head,
        });
        let later = if counts && !part.is_first { u64::from(parts.carried) } else { 0 };
        let added = self.reassembly.add(packet.point, packet.at, part, first, later);
        for first in added.abandoned {
            self.unfinished(&first, packet.at);
        }
        if let Some(whole) = added.whole {
            self.whole(&whole, packet.at);
        }
    }

    /// Analyzes a datagram that was completed at the time `at`, as the content of its first frame.
    fn whole(&mut self, whole: &Whole<First>, at: u64) {
        let first = &whole.first;
        let transport = first.head.transport(&whole.data);
        let (Some((what, place)), Some(addresses)) = (transport, first.addresses) else {
            return self.unfinished(first, at);
        };
        let (packet, mut parts) = first.frame(at, what);
        parts.data = &whole.data[place..];
        parts.carried = parts.data.len() as u32;
        // Its later fragments have counted as payload, which now counts with the datagram.
        let payload = self.kinds.payload.saturating_sub(whole.later);
        let (messages, again) = match what {
            What::Tcp(tcp) => {
                self.kinds.payload = payload;
                self.segment(&packet, &parts, &tcp, addresses, first.counts)
            }
            What::Udp(ports) => {
                self.kinds.payload = payload;
                (self.datagram(&packet, &parts, ports, addresses, first.counts), false)
            }
            _ => return self.unfinished(first, at),
        };
        self.node(&packet, &parts, messages, again);
    }

    /// Counts the first frames of all datagrams that are not complete at the end.
    pub(super) fn unfinished_at_the_end(&mut self) {
        for first in self.reassembly.finish() {
            self.unfinished(&first, self.end);
        }
    }

    /// Counts the first frame of a datagram that was never complete.
    pub(super) fn unfinished(&mut self, first: &First, at: u64) {
        let what = What::LaterFragment(None);
        let (packet, parts) = first.frame(at, what);
        if first.counts {
            self.unfinished += 1;
            self.kinds.kind(Kind::Fragment, first.length);
            self.kinds.payload += u64::from(first.carried);
            self.protocol(first.point, what, first.length);
        }
        self.node(&packet, &parts, 0, false);
    }
}

#[cfg(test)]
mod tests {
    use crate::figures::Analysis;
    use crate::{Options, analyze};

    /// A data frame between extended addresses, with the frame check sequence, around `content`.
    fn frame(content: &[u8]) -> Vec<u8> {
        let head = [0x41, 0xdc, 1, 0xcd, 0xab, 2, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 2];
        [&head[..], content, &[0, 0]].concat()
    }

    /// A CoAP message with a payload of 40 B as two fragments of a datagram of 96 B with this tag:
    /// 12 B of options and payload are in the first one.
    fn fragments(tag: u8) -> [Vec<u8>; 2] {
        // Compressed headers of IPv6 and UDP, of 48 B before.
        let headers = [0x7e, 0x33, 0xf0, 0x16, 0x34, 0x16, 0x33, 0xab, 0xcd];
        let coap = [&[0x40, 2, 0, 7, 0xb1, b'a', 0xff][..], &[b'x'; 41]].concat();
        let (begin, end) = coap.split_at(16);
        let first = [&[0xc0, 96, 0, tag][..], &headers, begin].concat();
        let later = [&[0xe0, 96, 0, tag, 8][..], end].concat();
        [frame(&first), frame(&later)]
    }

    fn analysis(frames: &[Vec<u8>]) -> Analysis {
        let mut pcap = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\x04\0".to_vec();
        pcap.extend(195_u32.to_le_bytes());
        for (second, frame) in (0_u32..).zip(frames) {
            let length = frame.len() as u32;
            pcap.extend([second, 0, length, length].into_iter().flat_map(u32::to_le_bytes));
            pcap.extend(frame);
        }
        analyze(&pcap[..], &Options::default()).unwrap()
    }

    fn kind(analysis: &Analysis, name: &str) -> u64 {
        analysis.kinds.iter().find(|kind| kind.kind == name).map_or(0, |kind| kind.packets)
    }

    /// CoAP messages of all types.
    fn coap(analysis: &Analysis) -> u64 {
        let types = analysis.messages.get("coap").map(|counts| counts.iter());
        let types = types.into_iter().flatten().filter(|(name, _)| !name.contains('.'));
        types.map(|(_, count)| count).sum()
    }

    /// What failed: a message counted at its first fragment, though the others were lost, and again
    /// with each copy of that.
    #[test]
    fn a_message_counts_once_when_its_datagram_is_complete() {
        let [[first, later], [lost, _]] = [fragments(1), fragments(2)];
        for frames in [
            vec![first.clone(), later.clone()],
            vec![later.clone(), first.clone()],
            vec![first.clone(), first.clone(), later.clone(), lost.clone()],
        ] {
            let analysis = analysis(&frames);
            assert_eq!(coap(&analysis), 1, "{} frames", frames.len());
            assert_eq!(analysis.flows[0].forward.messages, 1);
            assert_eq!(analysis.flows[0].forward.carried_bytes, 48);
            assert_eq!(kind(&analysis, "later fragment"), frames.len() as u64 - 1);
            let unfinished = frames.len() - 2;
            assert_eq!(
                analysis.notes.iter().any(|note| note.contains("lack fragments")),
                unfinished > 0
            );
            let sent: u64 = analysis.nodes.iter().map(|node| node.messages).sum();
            assert_eq!((sent, analysis.packets), (1, frames.len() as u64));
        }
        let unfinished = analysis(&[lost]);
        assert_eq!((coap(&unfinished), kind(&unfinished, "later fragment")), (0, 1));
    }

    #[test]
    fn payload_of_all_fragments_counts_once() {
        let [first, later] = fragments(1);
        let analysis = analysis(&[first, later]);
        let layer = |name: &str| analysis.layers.get(name).copied().unwrap_or(0);
        // 7 B of CoAP's header, and 41 B of payload.
        assert_eq!((layer("payload"), layer("messaging")), (41, 7), "{:?}", analysis.layers);
    }
}
