//! Boards: their power profiles and CPU speed.

use crate::file::BoardProfile;
use crate::read::{Read, Sink};
use crate::tree;
use serde::{Deserialize, Serialize};
use units::{Charge, Current, Rate, Ratio, Voltage};

/// The board that a node emulates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Board {
    /// Its name; empty for a custom board.
    pub name: String,
    /// Source of the figures.
    pub source: String,
    /// Quality of the figures: `data sheet`, `unchecked` or `estimate`.
    pub quality: String,
    /// Supply voltage at which the currents are drawn.
    pub supply: Voltage,
    /// Battery capacity.
    pub battery: Option<Charge>,
    /// Current of the active CPU.
    pub active: Current,
    /// Current of the idle CPU.
    pub idle: Current,
    /// Factor from CPU time on this host to CPU time on the board; above 0.
    pub scale: f64,
    /// Its radio.
    pub radio: Option<Radio>,
    /// CoreMark score of one core, iterations per second; above 0.
    pub coremark: Option<f64>,
}

/// Current of a board's radio, added to the CPU's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Radio {
    /// Current while sending.
    pub transmit: Current,
    /// Current while receiving.
    pub receive: Current,
    /// Current while listening for a frame.
    pub listen: Current,
    /// Current while off.
    pub sleep: Current,
    /// Share of the time without frames in which the radio listens.
    pub listening: Ratio,
    /// Rate on air, for links without a configured rate.
    pub rate: Option<Rate>,
}

/// The built-in boards.
const KNOWN: [(&str, &str); 6] = [
    ("cc2538", include_str!("../../../profiles/boards/cc2538.yaml")),
    ("cc2652r", include_str!("../../../profiles/boards/cc2652r.yaml")),
    ("esp32", include_str!("../../../profiles/boards/esp32.yaml")),
    ("nrf52840", include_str!("../../../profiles/boards/nrf52840.yaml")),
    ("raspberry-pi-zero-2-w", include_str!("../../../profiles/boards/raspberry-pi-zero-2-w.yaml")),
    ("stm32l4-sx1276", include_str!("../../../profiles/boards/stm32l4-sx1276.yaml")),
];

impl Board {
    /// Names of the built-in boards.
    pub fn known() -> impl Iterator<Item = &'static str> + Clone {
        KNOWN.iter().map(|(name, _)| *name)
    }

    /// Returns the built-in board `name`.
    pub fn named(name: &str) -> Option<Self> {
        let (name, text) = KNOWN.iter().find(|(known, _)| *known == name)?;
        let (tree, _) = tree::parse(text).ok()?;
        let profile = BoardProfile::read(&tree, &mut Sink::default())?;
        Self::of(name, &profile)
    }

    /// Converts a profile from the file. `None` if a key is missing, which was reported before.
    pub(crate) fn of(name: &str, profile: &BoardProfile) -> Option<Self> {
        let text = |at: &Option<crate::read::At<String>>| {
            at.as_ref().map_or(String::new(), |at| at.value.clone())
        };
        let cpu = &profile.cpu.as_ref()?.value;
        let radio = profile.radio.as_ref().map(|radio| {
            let radio = &radio.value;
            let receive = radio.receive.as_ref()?.value;
            Some(Radio {
                transmit: radio.transmit.as_ref()?.value,
                receive,
                // A radio that listens has its receiver on.
                listen: radio.listen.as_ref().map_or(receive, |at| at.value),
                sleep: radio.sleep.as_ref().map_or(Current::default(), |at| at.value),
                listening: match &radio.listening {
                    Some(at) => at.value,
                    // Without `listening`, the radio always listens.
                    None => Ratio::from_fraction(1.0)?,
                },
                rate: radio.rate.as_ref().map(|at| at.value),
            })
        });
        Some(Self {
            name: name.to_owned(),
            source: text(&profile.source),
            quality: text(&profile.quality),
            supply: profile.supply.as_ref()?.value,
            battery: profile.battery.as_ref().map(|at| at.value),
            active: cpu.active.as_ref()?.value,
            idle: cpu.idle.as_ref()?.value,
            scale: cpu.scale.as_ref().map_or(1.0, |at| at.value),
            radio: match radio {
                Some(radio) => Some(radio?),
                None => None,
            },
            coremark: profile.coremark.as_ref().map(|at| at.value),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_come_with_the_tool_are_whole() {
        for name in Board::known() {
            let board = Board::named(name).unwrap_or_else(|| panic!("{name}"));
            assert!(!board.source.is_empty(), "{name} names the source of its figures");
            assert!(["data sheet", "unchecked", "estimate"].contains(&&*board.quality), "{name}");
            assert!(board.active > board.idle && board.supply.volts() > 0.0, "{name}");
            assert!(board.radio.is_none_or(|radio| radio.rate.is_some()), "{name}");
        }
        assert_eq!(Board::named("abacus"), None);
    }
}
