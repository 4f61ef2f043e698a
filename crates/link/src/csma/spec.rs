//! Parameters of a CSMA-CA channel, and its timing.

use crate::carried::{AirFrame, Carried};
use crate::lowpan::{Compression, MacAddresses};
use crate::reception::PathLoss;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use units::{Bytes, Contexts, Rate, Span};

/// Longest frame followed by the short interframe space, in bytes of MAC frame:
/// aMaxSIFSFrameSize (IEEE 802.15.4-2011, table 51).
const MAX_SIFS_FRAME: usize = 18;

static NO_CONTEXTS: Contexts = Contexts::NONE;

/// One channel with the unslotted CSMA-CA of IEEE 802.15.4-2011 (5.1.1.4), shared by all
/// links. The defaults are the standard's values at 2.4 GHz.
///
/// A frame occupies the channel for its full length in the emulator, including the link
/// header, plus `phy_header`: the emulator's 14 bytes represent the MAC header and check
/// sum of the real link. So a frame of 127 B, the maximum of the standard, is an IP packet
/// of 113 B. With [`Carried::Lowpan`], the frames have the headers of the standard, and a packet
/// has as many as it needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CsmaSpec {
    /// Data rate on air, also of headers and acknowledgements.
    pub rate: Rate,
    /// Bytes before each frame and acknowledgement: preamble (4 B), start of frame (1 B),
    /// length (1 B).
    pub phy_header: Bytes,
    /// Backoff unit: aUnitBackoffPeriod, 20 symbols.
    pub unit_backoff: Span,
    /// Initial backoff exponent: the first backoff is 0 to 2^`min_be` - 1 units; 0 to
    /// `max_be`.
    pub min_be: u32,
    /// Maximum backoff exponent; each busy CCA adds one; 3 to 8.
    pub max_be: u32,
    /// Maximum consecutive busy CCAs; after one more, the frame is given up; 0 to 5.
    pub max_backoffs: u32,
    /// CCA duration: 8 symbols. Any transmission during this time makes the channel busy.
    pub cca: Span,
    /// Time to switch between reception and transmission: aTurnaroundTime, 12 symbols. Also
    /// the time from the end of a frame to its acknowledgement.
    pub turnaround: Span,
    /// Whether unicast frames are acknowledged, and retransmitted without acknowledgement.
    pub acknowledge: bool,
    /// Length of an acknowledgement, without `phy_header`.
    pub ack: Bytes,
    /// Acknowledgement timeout after the end of a frame: macAckWaitDuration, 54 symbols.
    pub ack_wait: Span,
    /// Maximum retransmissions of an unacknowledged frame; 0 to 7.
    pub retries: u32,
    /// Interframe space after a frame of more than 18 B and its acknowledgement: 40
    /// symbols.
    pub lifs: Span,
    /// Interframe space after a shorter frame: 12 symbols.
    pub sifs: Span,
    /// What the channel carries. Simulated radios acknowledge and retransmit themselves, so
    /// `acknowledge` and `retries` have no effect on their frames.
    #[serde(skip_serializing_if = "Carried::is_ethernet")]
    pub carries: Carried,
    /// Whether simulated radios get only the frames that may concern them; see
    /// [`crate::RadioFilter`].
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub address_filter: bool,
    /// Addresses in the MAC headers of [`Carried::Lowpan`]; no effect on others.
    #[serde(skip_serializing_if = "MacAddresses::is_extended")]
    pub mac_addresses: MacAddresses,
    /// Contexts of [`Carried::Lowpan`]. `None` in a file: those of the network's subnet; in a plan: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contexts: Option<Contexts>,
    /// Loss by the distance between nodes. Not with `pair_losses`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_loss: Option<PathLoss>,
    /// File with the loss from node to node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pair_losses: Option<PathBuf>,
}

impl Default for CsmaSpec {
    fn default() -> Self {
        let us = |us: u64| Span::from_ns(us * 1_000);
        Self {
            rate: Rate::from_bit_s(250_000).expect("not 0"),
            phy_header: Bytes::new(6),
            unit_backoff: us(320),
            min_be: 3,
            max_be: 5,
            max_backoffs: 4,
            cca: us(128),
            turnaround: us(192),
            acknowledge: true,
            ack: Bytes::new(5),
            ack_wait: us(864),
            retries: 3,
            lifs: us(640),
            sifs: us(192),
            carries: Carried::Ethernet,
            address_filter: false,
            mac_addresses: MacAddresses::Extended,
            contexts: None,
            path_loss: None,
            pair_losses: None,
        }
    }
}

impl CsmaSpec {
    /// Range of macMaxBE (IEEE 802.15.4-2011, table 52).
    pub const MAX_BE: RangeInclusive<u32> = 3..=8;
    /// Range of macMinBE (table 52), if `max_be` is the largest; it must not be above `max_be`.
    pub const MIN_BE: RangeInclusive<u32> = 0..=*Self::MAX_BE.end();
    /// Range of macMaxCSMABackoffs (table 52).
    pub const MAX_BACKOFFS: RangeInclusive<u32> = 0..=5;
    /// Range of macMaxFrameRetries (table 52).
    pub const RETRIES: RangeInclusive<u32> = 0..=7;

    /// Validates the parameters. The error says what is wrong and what to write.
    pub fn check(&self) -> Result<(), String> {
        let ranges = [
            ("max_be", self.max_be, Self::MAX_BE),
            ("min_be", self.min_be, *Self::MIN_BE.start()..=self.max_be),
            ("max_backoffs", self.max_backoffs, Self::MAX_BACKOFFS),
            ("retries", self.retries, Self::RETRIES),
        ];
        for (key, value, range) in ranges {
            if !range.contains(&value) {
                return Err(format!(
                    "`{key}` is {value}, outside the range of IEEE 802.15.4; use {} to {}",
                    range.start(),
                    range.end()
                ));
            }
        }
        let spans = [
            ("unit_backoff", self.unit_backoff),
            ("cca", self.cca),
            ("turnaround", self.turnaround),
        ];
        for (key, span) in spans {
            if span == Span::ZERO {
                return Err(format!(
                    "`{key}` is zero, so all senders collide; write for example \
                     `{key}: {}`",
                    match key {
                        "unit_backoff" => "320 us",
                        "cca" => "128 us",
                        _ => "192 us",
                    }
                ));
            }
        }
        let ack = self.turnaround.as_ns().saturating_add(self.ack_airtime().as_ns());
        if self.acknowledge && self.ack_wait.as_ns() < ack {
            return Err(format!(
                "`ack_wait` is {}, but turnaround and acknowledgement take {}: no frame can \
                 be acknowledged; use a longer `ack_wait` or `acknowledge: false`",
                self.ack_wait,
                Span::from_ns(ack)
            ));
        }
        if !self.mac_addresses.is_extended() && self.carries != Carried::Lowpan {
            return Err("`mac_addresses` needs `carries: lowpan`; add that, or remove it".into());
        }
        if self.contexts.is_some() && self.carries != Carried::Lowpan {
            return Err("`contexts` needs `carries: lowpan`; add that, or remove it".into());
        }
        if self.address_filter && !self.carries.is_simulated() {
            return Err(
                "`address_filter` needs `carries: openthread` or `zep`; add that, or remove it"
                    .into(),
            );
        }
        if self.path_loss.is_some() && self.pair_losses.is_some() {
            return Err(
                "`path_loss` and `pair_losses` exclude each other; remove one of them".into()
            );
        }
        self.path_loss.map_or(Ok(()), |path_loss| path_loss.check())
    }

    /// Whether reception depends on the pair of nodes.
    pub fn has_reception(&self) -> bool {
        self.path_loss.is_some() || self.pair_losses.is_some()
    }

    /// What is on the air of the Ethernet frame `frame`.
    pub fn on_air(&self, frame: &[u8]) -> AirFrame {
        self.carries.on_air(frame, self.compression())
    }

    /// How [`Carried::Lowpan`] compresses the headers of packets.
    pub fn compression(&self) -> Compression<'_> {
        let contexts = self.contexts.as_ref().unwrap_or(&NO_CONTEXTS);
        Compression { addresses: self.mac_addresses, contexts }
    }

    /// Airtime of a frame of `len` bytes, including the link header.
    pub fn airtime(&self, len: usize) -> Span {
        self.rate.serialisation(self.phy_header.get().saturating_add(len as u64))
    }

    /// Airtime of an acknowledgement.
    pub fn ack_airtime(&self) -> Span {
        self.rate.serialisation(self.phy_header.get().saturating_add(self.ack.get()))
    }

    /// Interframe space after a frame of `len` bytes.
    pub fn interframe(&self, len: usize) -> Span {
        if len > MAX_SIFS_FRAME { self.lifs } else { self.sifs }
    }

    /// Mean time between frames of `len` bytes for a single sender on the channel: backoff,
    /// CCA, turnaround, frame, with `acknowledged` also turnaround and acknowledgement,
    /// then the interframe space.
    pub fn mean_frame_time(&self, len: usize, acknowledged: bool) -> Span {
        let units = (1u64 << self.min_be) - 1;
        let backoff = units * self.unit_backoff.as_ns() / 2;
        let sent = self.cca.as_ns() + self.turnaround.as_ns() + self.airtime(len).as_ns();
        let answer = match acknowledged {
            true => self.turnaround.as_ns() + self.ack_airtime().as_ns(),
            false => 0,
        };
        Span::from_ns(backoff + sent + answer + self.interframe(len).as_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_frame_takes_6_88_ms_acknowledged() {
        let spec = CsmaSpec::default();
        // 133 B and 11 B at 32 us per byte.
        assert_eq!(spec.airtime(127), Span::from_ns(4_256_000));
        assert_eq!(spec.ack_airtime(), Span::from_ns(352_000));
        // Mean backoff 1120, CCA 128, turnaround 192, frame 4256, turnaround 192,
        // acknowledgement 352, LIFS 640 us.
        assert_eq!(spec.mean_frame_time(127, true), Span::from_ns(6_880_000));
        assert_eq!(spec.mean_frame_time(127, false), Span::from_ns(6_336_000));
    }

    #[test]
    fn short_frames_keep_the_short_space() {
        let spec = CsmaSpec::default();
        assert_eq!((spec.interframe(18), spec.interframe(19)), (spec.sifs, spec.lifs));
    }

    #[test]
    fn the_standard_makes_sense() {
        assert_eq!(CsmaSpec::default().check(), Ok(()));
    }

    #[test]
    fn nonsense_is_refused_with_what_to_write() {
        let wrong = |change: fn(&mut CsmaSpec)| {
            let mut spec = CsmaSpec::default();
            change(&mut spec);
            spec.check().unwrap_err()
        };
        assert_eq!(
            wrong(|spec| spec.min_be = 6),
            "`min_be` is 6, outside the range of IEEE 802.15.4; use 0 to 5"
        );
        assert!(wrong(|spec| spec.retries = 8).contains("use 0 to 7"));
        assert!(wrong(|spec| spec.cca = Span::ZERO).ends_with("write for example `cca: 128 us`"));
        let text = wrong(|spec| spec.mac_addresses = MacAddresses::Short);
        assert!(text.contains("needs `carries: lowpan`"), "{text}");
        let text = wrong(|spec| spec.contexts = Some(Contexts::NONE));
        assert!(text.contains("`contexts` needs `carries: lowpan`"), "{text}");
        let text = wrong(|spec| spec.address_filter = true);
        assert!(text.contains("needs `carries: openthread`"), "{text}");
        let text = wrong(|spec| spec.ack_wait = Span::from_ns(500_000));
        assert!(text.contains("`ack_wait` is 500 us") && text.contains("take 544 us"), "{text}");
    }
}
