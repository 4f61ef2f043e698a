//! Parameters of the radio channels of LoRa devices, as in the experiment file.

use crate::reception::{PathLoss, number};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use units::{Attenuation, PowerLevel};

/// Radio channels without carrier sense; see [`AlohaMedium`](super::AlohaMedium).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AlohaSpec {
    /// Number of channels, 1 to 96; each packet is sent on one of them at random. The default is that of
    /// EU868 (LoRaWAN regional parameters: 868.1, 868.3 and 868.5 MHz).
    pub channels: u32,
    /// Number of packets that a gateway receives at once, 1 to 1,000. Semtech's SX1301 has eight demodulators
    /// (data sheet, V2.4), its SX1302 sixteen.
    pub demodulators: u32,
    /// Whether a gateway receives nothing while it sends.
    pub half_duplex: bool,
    /// Levels by the distance between nodes. `None`: all packets are equally strong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_loss: Option<LoraPathLoss>,
}

/// Log-distance path loss at 868 MHz, as [`PathLoss`] has it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoraPathLoss {
    /// Path loss exponent, 1 to 10.
    #[serde(deserialize_with = "number")]
    pub exponent: f64,
    /// Attenuation at 1 m; in free space at 868 MHz, 31.2 dB.
    pub reference_loss: Attenuation,
    /// Transmit power of all nodes, with the gain of both antennas; EU868 allows 14 dBm (ETSI EN 300 220:
    /// 25 mW).
    pub transmit_power: PowerLevel,
    /// By how much a packet must be stronger than the sum of all others of its spreading factor to survive them.
    pub capture: Attenuation,
    /// As of [`PathLoss`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadowing: Option<Attenuation>,
}

impl Default for AlohaSpec {
    fn default() -> Self {
        Self { channels: 3, demodulators: 8, half_duplex: true, path_loss: None }
    }
}

impl Default for LoraPathLoss {
    fn default() -> Self {
        let attenuation = |decibels| Attenuation::from_decibels(decibels).unwrap_or_default();
        Self {
            exponent: 3.0,
            reference_loss: attenuation(31.2),
            transmit_power: PowerLevel::from_dbm(14.0).unwrap_or_default(),
            capture: attenuation(6.0),
            shadowing: None,
        }
    }
}

impl From<LoraPathLoss> for PathLoss {
    fn from(loss: LoraPathLoss) -> Self {
        let LoraPathLoss { exponent, reference_loss, transmit_power, capture, shadowing } = loss;
        let capture = Some(capture);
        Self { exponent, reference_loss, transmit_power, capture, shadowing, ..Self::default() }
    }
}

impl AlohaSpec {
    /// Numbers of channels; CN470 has most, 96 (LoRaWAN regional parameters).
    pub const CHANNELS: RangeInclusive<u32> = 1..=96;
    /// Numbers of demodulators; the most is more than any gateway has, in place of no limit.
    pub const DEMODULATORS: RangeInclusive<u32> = 1..=1_000;

    /// Validates the parameters. The error says what is wrong and, after `; `, what to write.
    pub fn check(&self) -> Result<(), String> {
        if !Self::CHANNELS.contains(&self.channels) {
            return Err(format!(
                "`channels` is {}, and LoRaWAN's regions have 1 to 96; use for example 3 or 8 in EU868",
                self.channels
            ));
        }
        if !Self::DEMODULATORS.contains(&self.demodulators) {
            return Err(format!(
                "`demodulators` is {}; use 1 to 1000, such as 8, the number of most gateways",
                self.demodulators
            ));
        }
        self.path_loss.map_or(Ok(()), |loss| loss.check())
    }
}

impl LoraPathLoss {
    fn check(&self) -> Result<(), String> {
        PathLoss::check_exponent(self.exponent)?;
        PathLoss::check_shadowing(self.shadowing)?;
        match self.capture.decibels() > 0.0 {
            true => Ok(()),
            false => {
                Err("`capture` is 0 dB, with which two equal packets would both survive; use \
                          more, such as 6 dB for LoRa"
                    .into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_with_what_to_write() {
        assert_eq!(AlohaSpec::default().check(), Ok(()));
        let wrong =
            |text: &str| serde_json::from_str::<AlohaSpec>(text).unwrap().check().unwrap_err();
        assert_eq!(
            wrong(r#"{"channels": 0}"#),
            "`channels` is 0, and LoRaWAN's regions have 1 to 96; use for example 3 or 8 in EU868"
        );
        assert!(wrong(r#"{"channels": 97}"#).contains("1 to 96"));
        for demodulators in [0, 1_001] {
            let text = wrong(&format!("{{\"demodulators\": {demodulators}}}"));
            assert!(
                text.ends_with("use 1 to 1000, such as 8, the number of most gateways"),
                "{text}"
            );
        }
        assert!(wrong(r#"{"path_loss": {"exponent": 0.9}}"#).contains("use 1 to 10"));
        assert!(wrong(r#"{"path_loss": {"capture": "0 dB"}}"#).contains("such as 6 dB"));
    }
}
