//! Parameters of a Wi-Fi channel, and its timing.

use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use units::{Rate, Span};

/// A channel of Wi-Fi stations that hear each other. The defaults are those of 802.11n in 20 MHz with
/// one stream: MCS 7 and best effort (IEEE 802.11-2012, tables 8-105, 18-17 and 20-30).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WifiSpec {
    /// Data rate of unicast frames.
    pub rate: Rate,
    /// Rate of acknowledgements, and of multicast and broadcast frames.
    pub basic_rate: Rate,
    /// Most frames of an aggregate (A-MPDU), 1 to 64.
    pub aggregate: u32,
    /// Retransmissions of a frame, 0 to 255.
    pub retries: u32,
    /// Smallest contention window: a first backoff has 0 to this many slots.
    pub cw_min: u32,
    /// Largest contention window.
    pub cw_max: u32,
    /// A slot of the backoff.
    pub slot: Span,
    /// Time from a frame to its acknowledgement.
    pub sifs: Span,
    /// Time for which the channel is idle before a backoff counts.
    pub aifs: Span,
    /// Preamble and header of the physical layer of frames at `rate`.
    pub preamble: Span,
}

impl Default for WifiSpec {
    fn default() -> Self {
        let us = |us: u64| Span::from_ns(us * 1_000);
        let rate = |bit_s| Rate::from_bit_s(bit_s).expect("not 0");
        Self {
            rate: rate(65_000_000),
            basic_rate: rate(24_000_000),
            aggregate: 64,
            retries: 7,
            cw_min: 15,
            cw_max: 1023,
            slot: us(9),
            sifs: us(16),
            aifs: us(43),
            preamble: us(36),
        }
    }
}

/// Bytes that Wi-Fi has in place of the Ethernet header of 14 B: QoS data header (26 B), LLC and SNAP (8
/// B) and check sequence (4 B).
const HEADERS: u64 = 38;
const ETHERNET: u64 = 14;
/// Bytes before each frame of an aggregate; each frame is padded to a multiple of them (8.6.1).
const DELIMITER: u64 = 4;
/// Longest aggregate, bytes and time (9.12.2; aPPDUMaxTime, table 20-25).
const MOST_BYTES: u64 = 65_535;
const MOST_TIME: Span = Span::from_ns(5_484_000);
/// Bytes of an acknowledgement, and of a compressed one of an aggregate.
const ACK: u64 = 14;
const BLOCK_ACK: u64 = 32;
/// Preamble and header of frames at the basic rate (18.3.2).
const BASIC_PREAMBLE: Span = Span::from_ns(20_000);
/// Duration of an OFDM symbol, us, and bits of a transmission that carry no data: service and tail (18.3.5).
const SYMBOL_US: u64 = 4;
const SERVICE_AND_TAIL: u64 = 22;

impl WifiSpec {
    /// Frames of an aggregate: a block acknowledgement has 64 bits (8.3.1.9).
    pub const AGGREGATE: RangeInclusive<u32> = 1..=64;
    /// Retransmissions (dot11ShortRetryLimit is 1 to 255 transmissions).
    pub const RETRIES: RangeInclusive<u32> = 0..=255;
    /// Contention windows: powers of 2, less 1 (9.3.3, 8.4.2.31: exponents up to 15).
    pub const WINDOWS: RangeInclusive<u32> = 0..=32_767;

    /// Validates the parameters. The error says what is wrong and, after `; `, what to write.
    pub fn check(&self) -> Result<(), String> {
        if !Self::AGGREGATE.contains(&self.aggregate) {
            return Err(format!("`aggregate` is {} frames; use 1 to 64", self.aggregate));
        }
        if !Self::RETRIES.contains(&self.retries) {
            return Err(format!("`retries` is {}; use 0 to 255", self.retries));
        }
        for (key, window) in [("cw_min", self.cw_min), ("cw_max", self.cw_max)] {
            if !Self::WINDOWS.contains(&window) || !(window + 1).is_power_of_two() {
                return Err(format!(
                    "`{key}` is {window}, no contention window of IEEE 802.11; use a power of 2 less 1, \
                     such as 15 or 1023"
                ));
            }
        }
        if self.cw_min > self.cw_max {
            return Err(format!(
                "`cw_min` is {}, above `cw_max`, {}; use a smaller `cw_min`",
                self.cw_min, self.cw_max
            ));
        }
        match self.slot {
            Span::ZERO => Err("a `slot` of zero lets all stations collide; write for example \
                               `slot: 9 us`"
                .into()),
            _ => Ok(()),
        }
    }

    /// Bytes on the air of a frame of `len` bytes with its Ethernet header.
    pub(super) fn on_air(&self, len: usize) -> u64 {
        let bytes = (len as u64).saturating_sub(ETHERNET) + HEADERS;
        match self.aggregate {
            1 => bytes,
            _ => DELIMITER + bytes.next_multiple_of(DELIMITER),
        }
    }

    /// Duration of a transmission of unicast frames with these bytes in total.
    pub(super) fn airtime(&self, bytes: u64) -> Span {
        self.preamble + symbols(bytes, self.rate)
    }

    /// Duration of a multicast or broadcast frame.
    pub(super) fn group_airtime(&self, len: usize) -> Span {
        let bytes = (len as u64).saturating_sub(ETHERNET) + HEADERS;
        BASIC_PREAMBLE + symbols(bytes, self.basic_rate)
    }

    /// Whether an aggregate may have these bytes.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        bytes <= MOST_BYTES && self.airtime(bytes) <= MOST_TIME
    }

    /// Time from the end of frames to the end of their acknowledgement.
    pub(super) fn acknowledgement(&self) -> Span {
        let bytes = if self.aggregate == 1 { ACK } else { BLOCK_ACK };
        self.sifs + BASIC_PREAMBLE + symbols(bytes, self.basic_rate)
    }
}

/// Duration of the symbols for these bytes.
fn symbols(bytes: u64, rate: Rate) -> Span {
    let bits = u128::from(bytes.min(1 << 32) * 8 + SERVICE_AND_TAIL) * 1_000_000;
    let symbols = bits.div_ceil(u128::from(rate.bit_s().max(1)) * u128::from(SYMBOL_US));
    Span::from_ns(symbols as u64 * SYMBOL_US * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_standard() {
        let spec = WifiSpec { aggregate: 1, ..WifiSpec::default() };
        let us = |us: u64| Span::from_ns(us * 1_000);
        // 1,538 B and 22 bits in symbols of 260 bits: 48 of them.
        assert_eq!(spec.airtime(spec.on_air(1_514)), us(36 + 48 * 4));
        // 134 bits in symbols of 96: 2, behind 20 us.
        assert_eq!(spec.acknowledgement(), us(16 + 20 + 8));
        assert_eq!(WifiSpec::default().acknowledgement(), us(16 + 20 + 12));
        // An aggregate has at most 42 frames of 1,538 B in 65,535 B, and 28 in 5.484 ms.
        let spec = WifiSpec::default();
        let most = (1..).take_while(|count| spec.has_room(count * spec.on_air(1_514))).last();
        assert_eq!(most, Some(28));
    }

    #[test]
    fn nonsense_is_refused_with_what_to_write() {
        assert_eq!(WifiSpec::default().check(), Ok(()));
        let wrong =
            |text: &str| serde_json::from_str::<WifiSpec>(text).unwrap().check().unwrap_err();
        assert!(wrong(r#"{"aggregate": 0}"#).ends_with("use 1 to 64"));
        assert!(wrong(r#"{"aggregate": 65}"#).contains("65 frames"));
        assert!(wrong(r#"{"retries": 256}"#).contains("use 0 to 255"));
        assert!(wrong(r#"{"cw_min": 16}"#).contains("a power of 2 less 1"));
        assert!(wrong(r#"{"cw_max": 65535}"#).contains("`cw_max` is 65535"));
        assert!(wrong(r#"{"cw_max": 7}"#).contains("above `cw_max`"));
        assert!(wrong(r#"{"slot": "0 us"}"#).ends_with("`slot: 9 us`"));
    }
}
