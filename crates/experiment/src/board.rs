//! Boards: what they draw from their batteries, and what they can.

use crate::file::BoardProfile;
use crate::read::{Read, Sink};
use crate::tree;
use serde::{Deserialize, Serialize};
use units::{Charge, Current, Rate, Ratio, Voltage};

/// The board that a node stands for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Board {
    /// Its name; empty for one that the experiment describes.
    pub name: String,
    /// Where the figures are from.
    pub source: String,
    /// How good they are.
    pub quality: String,
    /// The voltage at which it draws the currents.
    pub supply: Voltage,
    /// What its battery holds.
    pub battery: Option<Charge>,
    /// What its CPU draws while it works.
    pub active: Current,
    /// What it draws while it does not.
    pub idle: Current,
    /// Seconds that it takes for what takes this host one; above 0.
    pub scale: f64,
    /// Its radio.
    pub radio: Option<Radio>,
    /// What one core scores in CoreMark, iterations a second; above 0.
    pub coremark: Option<f64>,
}

/// What a board's radio draws, beside its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Radio {
    /// While it sends.
    pub transmit: Current,
    /// While it receives.
    pub receive: Current,
    /// While it waits for a frame.
    pub listen: Current,
    /// While it is off.
    pub sleep: Current,
    /// Share of the time without frames in which it waits for one.
    pub listening: Ratio,
    /// The rate on air, for links that ask for none.
    pub rate: Option<Rate>,
}

/// The boards that come with the tool.
const KNOWN: [(&str, &str); 6] = [
    ("cc2538", include_str!("../../../profiles/boards/cc2538.yaml")),
    ("cc2652r", include_str!("../../../profiles/boards/cc2652r.yaml")),
    ("esp32", include_str!("../../../profiles/boards/esp32.yaml")),
    ("nrf52840", include_str!("../../../profiles/boards/nrf52840.yaml")),
    ("raspberry-pi-zero-2-w", include_str!("../../../profiles/boards/raspberry-pi-zero-2-w.yaml")),
    ("stm32l4-sx1276", include_str!("../../../profiles/boards/stm32l4-sx1276.yaml")),
];

impl Board {
    /// The names of those that come with the tool.
    pub fn known() -> impl Iterator<Item = &'static str> + Clone {
        KNOWN.iter().map(|(name, _)| *name)
    }

    /// The one of this name that comes with the tool.
    pub fn named(name: &str) -> Option<Self> {
        let (name, text) = KNOWN.iter().find(|(known, _)| *known == name)?;
        let (tree, _) = tree::parse(text).ok()?;
        let profile = BoardProfile::read(&tree, &mut Sink::default())?;
        Self::of(name, &profile)
    }

    /// One as typed; nothing where something is missing, which was reported then.
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
                listen: radio.listen.as_ref().map_or(receive, |at| at.value),
                sleep: radio.sleep.as_ref().map_or(Current::default(), |at| at.value),
                listening: match &radio.listening {
                    Some(at) => at.value,
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
            assert!(!board.source.is_empty(), "{name} says where its figures are from");
            assert!(["data sheet", "unchecked", "estimate"].contains(&&*board.quality), "{name}");
            assert!(board.active > board.idle && board.supply.volts() > 0.0, "{name}");
            assert!(board.radio.is_none_or(|radio| radio.rate.is_some()), "{name}");
        }
        assert_eq!(Board::named("abacus"), None);
    }
}
