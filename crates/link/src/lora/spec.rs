//! Parameters of a LoRa sender, as in the experiment file.

use crate::keys::{Key, Kind, Model, time_text};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use units::{Ratio, Span};

/// Bandwidth of a LoRa channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Bandwidth {
    /// 125 kHz.
    #[default]
    #[serde(rename = "125 kHz")]
    Khz125,
    /// 250 kHz.
    #[serde(rename = "250 kHz")]
    Khz250,
    /// 500 kHz.
    #[serde(rename = "500 kHz")]
    Khz500,
}

impl Bandwidth {
    const WORDS: &'static [&'static str] = &["125 kHz", "250 kHz", "500 kHz"];

    /// In kHz.
    pub fn khz(self) -> u64 {
        match self {
            Self::Khz125 => 125,
            Self::Khz250 => 250,
            Self::Khz500 => 500,
        }
    }
}

/// Coding rate of LoRa: four bits are sent as this many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum CodingRate {
    /// Five.
    #[default]
    #[serde(rename = "4/5")]
    Five,
    /// Six.
    #[serde(rename = "4/6")]
    Six,
    /// Seven.
    #[serde(rename = "4/7")]
    Seven,
    /// Eight.
    #[serde(rename = "4/8")]
    Eight,
}

impl CodingRate {
    const WORDS: &'static [&'static str] = &["4/5", "4/6", "4/7", "4/8"];

    /// Symbols for a group of four bits per symbol.
    fn symbols(self) -> u64 {
        match self {
            Self::Five => 5,
            Self::Six => 6,
            Self::Seven => 7,
            Self::Eight => 8,
        }
    }
}

/// Parameters of one direction of a LoRa link; see [`Lora`](super::Lora) for the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoraSpec {
    /// 7 to 12.
    pub spreading_factor: u32,
    /// Bandwidth.
    #[serde(default)]
    pub bandwidth: Bandwidth,
    /// Coding rate.
    #[serde(default)]
    pub coding_rate: CodingRate,
    /// Symbols of the preamble, without the 4.25 of its end; 8 in LoRaWAN in Europe.
    #[serde(default = "eight")]
    pub preamble: u32,
    /// Share of the time in which the device may send; default: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duty_cycle: Option<Ratio>,
    /// Time over which the duty cycle counts; default: a pause after each packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duty_period: Option<Span>,
}

/// Spreading factors of LoRaWAN.
const SPREADING_FACTORS: RangeInclusive<u32> = 7..=12;
/// Symbols of a preamble: the range of Semtech's SX1276 (data sheet).
const PREAMBLES: RangeInclusive<u32> = 6..=65_535;

pub(crate) const LORA: Model = Model {
    name: "Lora",
    what: "a LoRa radio",
    doc: "The sender of a LoRa radio: time on air, and duty cycle.",
    keys: &[
        Key::new(
            "spreading_factor",
            Kind::Count { least: *SPREADING_FACTORS.start(), most: *SPREADING_FACTORS.end() },
            "Spreading factor. Range: 7 to 12.",
        )
        .required(),
        Key::new(
            "bandwidth",
            Kind::Word("a bandwidth of LoRa", Bandwidth::WORDS),
            "Bandwidth. Default: 125 kHz.",
        ),
        Key::new(
            "coding_rate",
            Kind::Word("a coding rate of LoRa", CodingRate::WORDS),
            "Coding rate. Default: 4/5.",
        ),
        Key::new(
            "preamble",
            Kind::Count { least: *PREAMBLES.start(), most: *PREAMBLES.end() },
            "Symbols of the preamble, without the 4.25 of its end. Range: 6 to 65535. Default: 8.",
        ),
        Key::new(
            "duty_cycle",
            Kind::Share,
            "Share of the time in which the radio may send. Default: 100 %.",
        ),
        Key::new(
            "duty_period",
            Kind::Time,
            "Time over which the duty cycle counts, such as `1 h`: the radio may send its share \
             at any time in it. Default: a pause after each packet.",
        ),
    ],
};

fn eight() -> u32 {
    8
}

/// Symbols of a preamble by which a receiver finds a packet.
const FOUND_BY: u32 = 5;
/// Thermal noise at 290 K, dBm per Hz.
const THERMAL_NOISE_DBM_HZ: f64 = -174.0;
/// Noise figure of a receiver, dB (AN1200.22).
const NOISE_FIGURE_DB: f64 = 6.0;
/// A symbol that is longer needs the optimisation for low data rates.
const LONG_SYMBOL: Span = Span::from_ms(16);

impl LoraSpec {
    /// At this spreading factor, without a duty cycle.
    pub fn at(spreading_factor: u32) -> Self {
        Self {
            spreading_factor,
            bandwidth: Bandwidth::default(),
            coding_rate: CodingRate::default(),
            preamble: eight(),
            duty_cycle: None,
            duty_period: None,
        }
    }

    /// Duration of a symbol.
    fn symbol(&self) -> Span {
        // 2^SF / bandwidth; the million converts kHz to ns.
        Span::from_ns((1_000_000 << self.spreading_factor.min(12)) / self.bandwidth.khz())
    }

    /// Time on air of a packet of `bytes`, without preamble and header.
    pub fn time_on_air(&self, bytes: u64) -> Span {
        let symbol = self.symbol();
        // 16 bits of checksum and an explicit header.
        // The bound keeps the products below from overflowing.
        // 8 PL - 4 SF + 28 + 16 in the formula of the data sheet (4.1.1.7).
        let bits = 8 * bytes.min(1 << 20) + 28 + 16;
        let bits = bits.saturating_sub(4 * u64::from(self.spreading_factor));
        let symbols = 8 + bits.div_ceil(self.group()) * self.coding_rate.symbols();
        // In quarters of a symbol.
        // 17 of them are the 4.25 symbols at the end of the preamble.
        let quarters = 4 * (u64::from(self.preamble) + symbols) + 17;
        Span::from_ns(quarters * symbol.as_ns() / 4)
    }

    /// Time of the preamble's start that may be disturbed: its last five symbols suffice to find the
    /// packet (Bor et al., MSWiM 2016).
    pub fn spare_preamble(&self) -> Span {
        u64::from(self.preamble.saturating_sub(FOUND_BY)) * self.symbol()
    }

    /// Lowest level at which a receiver demodulates, dBm: thermal noise at 290 K, the noise figure and
    /// the lowest signal-to-noise ratio of the spreading factor (Semtech SX1276 data sheet, table 13: -7.5 dB
    /// at SF7, 2.5 dB less with each step; application note AN1200.22 has the formula).
    pub fn sensitivity(&self) -> f64 {
        let hertz = self.bandwidth.khz() as f64 * 1e3;
        let ratio = -7.5 - 2.5 * (f64::from(self.spreading_factor) - 7.0);
        THERMAL_NOISE_DBM_HZ + 10.0 * hertz.log10() + NOISE_FIGURE_DB + ratio
    }

    /// Bits that are coded together.
    fn group(&self) -> u64 {
        let optimised = u64::from(self.symbol() > LONG_SYMBOL);
        4 * (u64::from(self.spreading_factor).saturating_sub(2 * optimised)).max(1)
    }

    /// Time that a transmission of `on_air` uses up of the duty cycle.
    pub(super) fn share(&self, on_air: Span) -> Span {
        let duty = self.duty_cycle.map_or(1.0, Ratio::fraction);
        // `check` refuses less; the bound keeps an unchecked spec from a division by 0.
        Span::from_ns((on_air.as_ns() as f64 / duty.max(1e-6)).ceil() as u64)
    }

    /// Data rate of long packets, in bit/s.
    pub fn bit_s(&self) -> f64 {
        let symbols = self.coding_rate.symbols() * self.symbol().as_ns().max(1);
        self.group() as f64 * 1e9 / symbols as f64
    }

    /// Text for people.
    pub(crate) fn text(&self) -> String {
        let word = |words: &[&'static str], place: usize| words.get(place).copied().unwrap_or("");
        let mut text = format!(
            "LoRa SF{}, {}",
            self.spreading_factor,
            word(Bandwidth::WORDS, self.bandwidth as usize)
        );
        if self.coding_rate != CodingRate::default() {
            text += &format!(", {}", word(CodingRate::WORDS, self.coding_rate as usize));
        }
        if let Some(duty) = self.duty_cycle {
            text += &format!(", duty cycle {duty}");
        }
        if let Some(period) = self.duty_period {
            text += &format!(" of {}", time_text(period));
        }
        text
    }

    /// Validates the parameters. The error says what is wrong and what to write.
    pub fn check(&self) -> Result<(), String> {
        if !SPREADING_FACTORS.contains(&self.spreading_factor) {
            return Err(format!(
                "`spreading_factor` is {}; use 7 to 12, such as `spreading_factor: 12`",
                self.spreading_factor
            ));
        }
        if !PREAMBLES.contains(&self.preamble) {
            return Err(format!("`preamble` is {} symbols; use 6 to 65535", self.preamble));
        }
        let smallest = Ratio::from_fraction(1e-6).unwrap_or_default();
        match (self.duty_cycle, self.duty_period) {
            (Some(duty), _) if duty.fraction() < smallest.fraction() => Err(format!(
                "a `duty_cycle` of {duty} hardly ever sends; write for example `duty_cycle: 1 %`"
            )),
            (None, Some(_)) => {
                Err("`duty_period` without a `duty_cycle` has no effect; add one, or remove it"
                    .to_owned())
            }
            (_, Some(Span::ZERO)) => {
                Err("a `duty_period` of zero has no budget; write for example `duty_period: 1 h`"
                    .to_owned())
            }
            _ => Ok(()),
        }
    }
}
