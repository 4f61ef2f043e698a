//! What a channel under CSMA-CA is asked to be, and how long things take on it.

use serde::{Deserialize, Serialize};
use units::{Bytes, Rate, Span};

/// Longest frame after which the short interframe space does, in bytes of MAC
/// frame: aMaxSIFSFrameSize (IEEE 802.15.4-2011, table 51).
const MAX_SIFS_FRAME: usize = 18;

/// One channel under the unslotted CSMA-CA of IEEE 802.15.4-2011 (5.1.1.4),
/// shared by all links. The default is the standard's at 2.4 GHz.
///
/// A frame is on air for its full length in the emulator, link header
/// included, plus `phy_header`: the emulator's 14 bytes stand for the MAC
/// header and check sum of the real link. So a frame of 127 B, the longest that
/// the standard allows, is an IP packet of 113 B.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CsmaSpec {
    /// Data rate on air, of headers and acknowledgements too.
    pub rate: Rate,
    /// Sent before every frame and acknowledgement: preamble (4 B), start of
    /// frame (1 B), length (1 B).
    pub phy_header: Bytes,
    /// The unit of backoffs: aUnitBackoffPeriod, 20 symbols.
    pub unit_backoff: Span,
    /// The first backoff is drawn from 0 to 2^`min_be` - 1 units; 0 to `max_be`.
    pub min_be: u32,
    /// The exponent grows by one with each busy channel up to this; 3 to 8.
    pub max_be: u32,
    /// How often in a row the channel may be found busy; once more, and the
    /// frame is given up; 0 to 5.
    pub max_backoffs: u32,
    /// How long the channel is looked at: 8 symbols. Anything on air at any
    /// moment of this time makes it busy.
    pub cca: Span,
    /// From listening to sending or back: aTurnaroundTime, 12 symbols. Also from
    /// the end of a frame to the start of its acknowledgement.
    pub turnaround: Span,
    /// Whether frames to one receiver are acknowledged, and sent again without.
    pub acknowledge: bool,
    /// Length of an acknowledgement, without `phy_header`.
    pub ack: Bytes,
    /// From the end of a frame until its acknowledgement is given up:
    /// macAckWaitDuration, 54 symbols.
    pub ack_wait: Span,
    /// Times that an unacknowledged frame is sent again; 0 to 7.
    pub retries: u32,
    /// Silence that a sender keeps after a frame of more than 18 B and its
    /// acknowledgement: 40 symbols.
    pub lifs: Span,
    /// The same after a shorter one: 12 symbols.
    pub sifs: Span,
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
        }
    }
}

impl CsmaSpec {
    /// Whether the spec makes sense; if not, what is wrong and what to write.
    pub fn check(&self) -> Result<(), String> {
        // IEEE 802.15.4-2011, table 52.
        let ranges = [
            ("max_be", self.max_be, 3, 8),
            ("min_be", self.min_be, 0, self.max_be),
            ("max_backoffs", self.max_backoffs, 0, 5),
            ("retries", self.retries, 0, 7),
        ];
        for (key, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(format!(
                    "`{key}` is {value}, which IEEE 802.15.4 does not allow; use {least} to {most}"
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
                    "with a `{key}` of zero nothing keeps senders apart; write for example \
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
                "`ack_wait` is {}, but turnaround and acknowledgement take {}: no frame would \
                 ever be acknowledged; use a longer `ack_wait` or `acknowledge: false`",
                self.ack_wait,
                Span::from_ns(ack)
            ));
        }
        Ok(())
    }

    /// How long a frame of `len` bytes, link header included, is on air.
    pub fn airtime(&self, len: usize) -> Span {
        self.rate.serialisation(self.phy_header.get().saturating_add(len as u64))
    }

    /// How long an acknowledgement is on air.
    pub fn ack_airtime(&self) -> Span {
        self.rate.serialisation(self.phy_header.get().saturating_add(self.ack.get()))
    }

    /// The silence that the sender of a frame of `len` bytes keeps after it.
    pub fn interframe(&self, len: usize) -> Span {
        if len > MAX_SIFS_FRAME { self.lifs } else { self.sifs }
    }

    /// The mean time from one frame of `len` bytes to the next of a sender that
    /// has the channel to itself: backoff, CCA, turnaround, frame, and with
    /// `acknowledged` turnaround and acknowledgement, then the interframe space.
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
        // 133 B and 11 B at 32 us a byte.
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
            "`min_be` is 6, which IEEE 802.15.4 does not allow; use 0 to 5"
        );
        assert!(wrong(|spec| spec.retries = 8).contains("use 0 to 7"));
        assert!(wrong(|spec| spec.cca = Span::ZERO).ends_with("write for example `cca: 128 us`"));
        let text = wrong(|spec| spec.ack_wait = Span::from_ns(500_000));
        assert!(text.contains("`ack_wait` is 500 us") && text.contains("take 544 us"), "{text}");
    }
}
