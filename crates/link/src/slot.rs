//! Slots: frames are gathered and leave together, as on a medium with time slots.

use crate::keys::{Contradictions, Key, Keys, Kind, Model, time_text};
use crate::stage::{ChannelWait, Stage};
use serde::Serialize;
use units::{Bytes, Draw, Instant, Purpose, Span};

/// Least number of frames of a slot.
const FEWEST_PACKETS: u32 = 1;

/// Slots of a link; `None` without slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slotting(pub Option<Slot>);

/// tc-netem's slots: the first frame without a slot opens one, `min` to `max` later. All
/// frames that arrive by then leave together, up to the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Slot {
    /// Minimum time to a slot.
    pub min: Span,
    /// Maximum time to a slot; drawn uniformly between both.
    pub max: Span,
    /// Maximum frames per slot; `None` for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
    /// Bytes per slot; a slot with any bytes left takes one more frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
}

const SLOT: Model = Model {
    name: "Slot",
    what: "a slot",
    doc: "Slots: frames are collected and sent together.",
    keys: &[
        Key::new(
            "min",
            Kind::Time,
            "Shortest time from the first waiting frame to the start of its slot.",
        )
        .required(),
        Key::new(
            "max",
            Kind::Time,
            "Longest time from the first waiting frame to the start of its slot. Default: `min`.",
        ),
        Key::new(
            "packets",
            Kind::Count { least: FEWEST_PACKETS, most: u32::MAX },
            "Largest number of frames of a slot. Range: 1 or more. Default: all.",
        ),
        Key::new("bytes", Kind::Size, "Largest number of bytes of a slot. Default: all."),
    ],
};

impl Stage for Slotting {
    const KEYS: &'static [Key] = &[Key::new(
        "slot",
        Kind::Map(&SLOT),
        "Slotted delivery: the frames that arrived until a slot starts leave together.",
    )];
    const ORDER: u8 = 8;
    type Flow = ();

    fn read(keys: &Keys) -> Result<Self, String> {
        let Some(slot) = keys.read::<Keys>("slot")? else { return Ok(Self(None)) };
        let min = slot.require("min")?;
        Ok(Self(Some(Slot {
            min,
            max: slot.read("max")?.unwrap_or(min),
            packets: slot.read("packets")?,
            bytes: slot.read("bytes")?,
        })))
    }

    fn write(&self, keys: &mut Keys) {
        keys.put("slot", &self.0);
    }

    fn check(keys: &Keys, _: ChannelWait, found: &mut Contradictions) {
        let Some(slot) = keys.get::<Keys>("slot") else { return };
        let min = slot.get::<Span>("min").unwrap_or_default();
        let max = slot.get::<Span>("max").unwrap_or(min);
        if max < min {
            let text = format!("`max` of {max} is below `min` of {min}");
            found.add("slot.max", text, "it is the longest time to the next slot");
        } else if max == Span::ZERO {
            found.add("slot", "slots with no time between them", "use a `max` above 0");
        }
        if slot.get::<u32>("packets").is_some_and(|most| most < FEWEST_PACKETS) {
            found.add("slot.packets", "slots that carry no frame", "use 1 or more");
        }
        if slot.get::<Bytes>("bytes") == Some(Bytes::ZERO) {
            found.add("slot.bytes", "slots that carry no byte", "write for example `1500 B`");
        }
    }

    fn check_netem(_: &Keys, _: &mut Contradictions) {}

    fn text(&self, _is_scheduled: bool) -> Option<String> {
        let Slot { min, max, .. } = self.0?;
        Some(match min == max {
            true => format!("slots of {}", time_text(min)),
            false => format!("slots of {} .. {}", time_text(min), time_text(max)),
        })
    }

    fn is_none(&self) -> bool {
        self.0.is_none()
    }
}

/// State of the slots over time.
#[derive(Debug, Clone)]
pub(crate) struct Slots {
    config: Slot,
    draw: Draw,
    /// Time of the slot in use.
    at: Option<Instant>,
    number: u64,
    packets: u32,
    bytes: u64,
}

impl Slots {
    pub fn new(config: Slot, draw: Draw) -> Self {
        Self { config, draw, at: None, number: 0, packets: 0, bytes: 0 }
    }

    /// Departure time of a frame of `len` bytes that is ready at `ready`. Times must not
    /// decrease.
    pub fn send(&mut self, len: u64, ready: Instant) -> Instant {
        let at = match self.at {
            Some(at) if at >= ready && !self.is_full() => at,
            // Full: the next slot follows it.
            Some(at) if at >= ready => self.open(at),
            _ => self.open(ready),
        };
        self.packets += 1;
        self.bytes += len;
        at
    }

    fn is_full(&self) -> bool {
        self.config.packets.is_some_and(|most| self.packets >= most)
            || self.config.bytes.is_some_and(|most| self.bytes >= most.get())
    }

    fn open(&mut self, after: Instant) -> Instant {
        let Slot { min, max, .. } = self.config;
        let u = self.draw.uniform(Purpose::Slot, self.number);
        let at = after + min + Span::from_ns((u * (max - min).as_ns() as f64) as u64);
        self.number += 1;
        (self.packets, self.bytes) = (0, 0);
        self.at = Some(at);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_times::at;

    const MS: u64 = 1_000_000;

    fn slots(packets: Option<u32>, bytes: Option<u64>) -> Slots {
        let (min, max) = (Span::from_ns(10 * MS), Span::from_ns(10 * MS));
        let config = Slot { min, max, packets, bytes: bytes.map(Bytes::new) };
        Slots::new(config, Draw::new(7, 1, 0))
    }

    #[test]
    fn frames_leave_together() {
        let mut slots = slots(None, None);
        let times = [0, 3, 10, 11, 25].map(|ready| slots.send(100, at(ready * MS)).as_ns() / MS);
        assert_eq!(times, [10, 10, 10, 21, 35]);
    }

    #[test]
    fn a_full_slot_sends_the_rest_to_the_next() {
        let mut by_packets = slots(Some(2), None);
        assert_eq!(
            [0, 0, 0, 0, 0].map(|t| by_packets.send(100, at(t)).as_ns() / MS),
            [10, 10, 20, 20, 30]
        );
        let mut by_bytes = slots(None, Some(150));
        assert_eq!([0, 0, 0].map(|t| by_bytes.send(100, at(t)).as_ns() / MS), [10, 10, 20]);
    }

    #[test]
    fn slots_are_drawn_evenly_between_their_bounds() {
        let (min, max) = (Span::from_ns(10 * MS), Span::from_ns(20 * MS));
        let mut slots =
            Slots::new(Slot { min, max, packets: None, bytes: None }, Draw::new(7, 1, 0));
        let waits: Vec<f64> = (0..10_000)
            .map(|i| (slots.send(100, at(i * 100 * MS)) - at(i * 100 * MS)).as_ms())
            .collect();
        let mean = waits.iter().sum::<f64>() / waits.len() as f64;
        // Four standard errors of a mean of 10,000: 0.115.
        assert!((mean - 15.0).abs() < 0.115, "{mean}");
        assert!(waits.iter().all(|wait| (10.0..=20.0).contains(wait)));
    }
}
