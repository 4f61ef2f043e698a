//! Packets by size, by kind and by layer.

use crate::figures::{KindFigures, SizeFigures};
use crate::options::Protocol;
use std::collections::BTreeMap;

/// What a packet is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Arp,
    Icmp,
    Igmp,
    TcpControl,
    TcpRepeated,
    TcpData,
    MqttControl,
    MqttPayload,
    ZmtpControl,
    ZmtpPayload,
    OpcUaControl,
    OpcUaPayload,
    CoapControl,
    CoapPayload,
    UdpData,
    Pgm,
    Fragment,
    Other,
    Unread,
}

const KINDS: [(Kind, &str); 19] = [
    (Kind::Arp, "arp"),
    (Kind::Icmp, "icmp"),
    (Kind::Igmp, "igmp"),
    (Kind::TcpControl, "tcp control"),
    (Kind::TcpRepeated, "tcp repeated"),
    (Kind::TcpData, "tcp data"),
    (Kind::MqttControl, "mqtt control"),
    (Kind::MqttPayload, "mqtt payload"),
    (Kind::ZmtpControl, "zmtp control"),
    (Kind::ZmtpPayload, "zmtp payload"),
    (Kind::OpcUaControl, "opcua control"),
    (Kind::OpcUaPayload, "opcua payload"),
    (Kind::CoapControl, "coap control"),
    (Kind::CoapPayload, "coap payload"),
    (Kind::UdpData, "udp data"),
    (Kind::Pgm, "pgm"),
    (Kind::Fragment, "later fragment"),
    (Kind::Other, "other"),
    (Kind::Unread, "unread"),
];

impl Kind {
    /// The kind of a packet of `protocol`, with payload or without.
    pub(crate) fn of(protocol: Protocol, payload: bool) -> Self {
        match (protocol, payload) {
            (Protocol::Mqtt, false) => Self::MqttControl,
            (Protocol::Mqtt, true) => Self::MqttPayload,
            (Protocol::Zmtp, false) => Self::ZmtpControl,
            (Protocol::Zmtp, true) => Self::ZmtpPayload,
            (Protocol::OpcUa, false) => Self::OpcUaControl,
            (Protocol::OpcUa, true) => Self::OpcUaPayload,
            (Protocol::Coap, false) => Self::CoapControl,
            (Protocol::Coap, true) => Self::CoapPayload,
        }
    }
}

/// The lower bound of each bin: Wireshark's bins, of which the paper's are five.
pub(crate) const BINS: [u32; 10] = [0, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120];

/// Packets by size and kind, bytes by layer.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    pub packets: u64,
    pub bytes: u64,
    sizes: [u64; BINS.len()],
    kinds: [[u64; 2]; KINDS.len()],
    /// Bytes of each layer, without those of the layers above it.
    pub link: u64,
    pub network: u64,
    pub transport: u64,
    /// All bytes that transports carried.
    pub carried: u64,
    /// Of these, protocol overhead of messaging, and application payload.
    pub messaging: u64,
    pub payload: u64,
    /// Packets with transport payload.
    pub carrying: u64,
}

impl Kinds {
    pub(crate) fn size(&mut self, length: u32) {
        self.packets += 1;
        self.bytes += u64::from(length);
        // The first bound is 0, so every length has a bin.
        self.sizes[BINS.partition_point(|least| *least <= length) - 1] += 1;
    }

    pub(crate) fn kind(&mut self, kind: Kind, length: u32) {
        let [packets, bytes] = &mut self.kinds[kind as usize];
        *packets += 1;
        *bytes += u64::from(length);
    }

    pub(crate) fn sizes(&self) -> Vec<SizeFigures> {
        let ends = BINS[1..].iter().map(|next| Some(next - 1)).chain([None]);
        let bins = BINS.iter().zip(ends).zip(self.sizes);
        bins.map(|((from, to), packets)| SizeFigures {
            from: *from,
            to,
            packets,
            share_pct: percent(packets, self.packets),
        })
        .collect()
    }

    pub(crate) fn kinds(&self) -> Vec<KindFigures> {
        let rows = KINDS.iter().map(|(kind, name)| {
            let [packets, bytes] = self.kinds[*kind as usize];
            KindFigures {
                kind: (*name).to_owned(),
                packets,
                bytes,
                packets_pct: percent(packets, self.packets),
                bytes_pct: percent(bytes, self.bytes),
            }
        });
        rows.filter(|row| row.packets > 0).collect()
    }

    /// Bytes by layer, from the lowest; their sum is all bytes.
    pub(crate) fn layers(&self) -> BTreeMap<String, u64> {
        // What transports carried and no parser received as new.
        let repeated = self.carried.saturating_sub(self.messaging + self.payload);
        let layers = [
            ("link", self.link),
            ("network", self.network),
            ("transport", self.transport),
            ("repeated", repeated),
            ("messaging", self.messaging),
            ("payload", self.payload),
        ];
        layers.map(|(name, bytes)| (name.to_owned(), bytes)).into()
    }
}

/// A share in percent; 0 if `whole` is 0.
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_its_bin_and_every_kind_its_place() {
        let mut kinds = Kinds::default();
        for length in [0, 19, 39, 40, 79, 80, 159, 160, 319, 1279, 1280, 70_000] {
            kinds.size(length);
        }
        let counts: Vec<u64> = kinds.sizes().iter().map(|bin| bin.packets).collect();
        assert_eq!(counts, [2, 1, 2, 2, 2, 0, 1, 1, 0, 1]);
        for (place, (kind, _)) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, place);
        }
    }
}
