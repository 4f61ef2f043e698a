//! Which stations of a radio channel hear each other, and how often a frame arrives.
//!
//! Pure: positions or a table in, probabilities out.

use serde::{Deserialize, Deserializer, Serialize};
use std::collections::HashMap;
use std::ops::RangeInclusive;
use units::{Attenuation, Distance, Draw, PowerLevel, Purpose, Ratio};

/// Distance of [`PathLoss::reference_loss`], m. Closer stations have this loss too: the far-field
/// formula does not apply there.
const REFERENCE_M: f64 = 1.0;
/// Signal-to-noise ratio at the sensitivity, dB: [`bit_error`] then loses 1 % of the frames of 20 B,
/// which is the definition of the sensitivity (IEEE 802.15.4-2011, 8.1.7).
const SENSITIVITY_SNR_DB: f64 = 0.403_499;
/// Largest standard deviation of shadowing: measured ones are 3 to 14 dB (Rappaport, table 4.6).
const MOST_SHADOWING_DB: f64 = 20.0;
/// Below this probability a frame of one byte counts as never received: one in a million.
const LEAST_SUCCESS: f64 = 1e-6;

/// Where a node is in the plane.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(from = "[Distance; 2]", into = "[Distance; 2]")]
pub struct NodePosition {
    /// First coordinate.
    pub x: Distance,
    /// Second coordinate.
    pub y: Distance,
}

impl NodePosition {
    /// Distance to `other`, m.
    pub fn metres_to(self, other: Self) -> f64 {
        let (x, y) = (self.x.metres() - other.x.metres(), self.y.metres() - other.y.metres());
        x.hypot(y)
    }
}

impl From<[Distance; 2]> for NodePosition {
    fn from([x, y]: [Distance; 2]) -> Self {
        Self { x, y }
    }
}

impl From<NodePosition> for [Distance; 2] {
    fn from(position: NodePosition) -> Self {
        [position.x, position.y]
    }
}

/// Log-distance path loss (Rappaport, Wireless Communications, 2nd edition, equation 4.68):
/// `reference_loss` + 10 `exponent` log10(distance / 1 m), in dB.
///
/// Frames are received by the bit error rate of IEEE 802.15.4's O-QPSK at 2.4 GHz.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PathLoss {
    /// Path loss exponent, 1 to 10: 2 in free space, 2.7 to 6 with obstacles (Rappaport, table 4.2).
    #[serde(deserialize_with = "number")]
    pub exponent: f64,
    /// Attenuation at 1 m; in free space at 2.45 GHz, 40.2 dB.
    pub reference_loss: Attenuation,
    /// Transmit power of all stations, with the gain of both antennas.
    pub transmit_power: PowerLevel,
    /// Level at which 1 % of the frames of 20 B are lost; -85 dBm is the standard's requirement
    /// (IEEE 802.15.4-2011, 10.3.4).
    pub sensitivity: PowerLevel,
    /// Level from which a station senses a transmission, and from which a transmission disturbs the
    /// reception of another. `None`: the sensitivity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carrier_sense: Option<PowerLevel>,
    /// Capture effect: by how much a transmission must be stronger than the sum of all others at a
    /// receiver to survive them. `None`: none survives. A radio of IEEE 802.15.4 needs 3 dB (TI, CC2420
    /// data sheet, SWRS041C, co-channel rejection -3 dB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture: Option<Attenuation>,
    /// Log-normal shadowing: standard deviation of the loss between two nodes from that of their distance
    /// (Rappaport, equation 4.69); up to 20 dB. `None`: 0 dB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadowing: Option<Attenuation>,
}

impl Default for PathLoss {
    fn default() -> Self {
        let level = |dbm| PowerLevel::from_dbm(dbm).unwrap_or_default();
        Self {
            exponent: 3.0,
            reference_loss: Attenuation::from_decibels(40.2).unwrap_or_default(),
            transmit_power: level(0.0),
            sensitivity: level(-85.0),
            carrier_sense: None,
            capture: None,
            shadowing: None,
        }
    }
}

impl PathLoss {
    /// Path loss exponents: Rappaport's table 4.2 has 1.6 (in buildings, line of sight) to 6.
    pub const EXPONENTS: RangeInclusive<f64> = 1.0..=10.0;

    /// Validates the parameters. The error says what is wrong and, after `; `, what to write.
    pub fn check(&self) -> Result<(), String> {
        Self::check_exponent(self.exponent)?;
        if self.transmit_power.dbm() - self.reference_loss.decibels() < self.sensitivity.dbm() {
            return Err(format!(
                "{} less {} is below the sensitivity of {} already at 1 m: no frame arrives; use a \
                 higher `transmit_power`, or a lower `sensitivity`",
                self.transmit_power, self.reference_loss, self.sensitivity
            ));
        }
        Self::check_shadowing(self.shadowing)?;
        if self.capture.is_some_and(|capture| capture.decibels() == 0.0) {
            return Err("`capture` is 0 dB, with which two equal frames would both survive; use \
                        more, such as 3 dB for radios of IEEE 802.15.4"
                .into());
        }
        Ok(())
    }

    /// Whether a path loss exponent is in its range; the error is as of [`Self::check`].
    pub(crate) fn check_exponent(exponent: f64) -> Result<(), String> {
        match Self::EXPONENTS.contains(&exponent) {
            true => Ok(()),
            false => Err(format!(
                "`exponent` is {exponent}, outside the range of path loss exponents; use 1 to 10, such \
                 as 2 in free space"
            )),
        }
    }

    /// Whether a standard deviation of shadowing is in its range; the error is as of [`Self::check`].
    pub(crate) fn check_shadowing(shadowing: Option<Attenuation>) -> Result<(), String> {
        match shadowing {
            Some(shadowing) if shadowing.decibels() > MOST_SHADOWING_DB => Err(format!(
                "`shadowing` is {shadowing}, more than any that was measured; use up to 20 dB, such as 4 dB \
                 outdoors"
            )),
            _ => Ok(()),
        }
    }

    /// Attenuation over a distance in metres, dB.
    pub fn decibels(&self, metres: f64) -> f64 {
        let ratio = (metres / REFERENCE_M).max(1.0);
        self.reference_loss.decibels() + 10.0 * self.exponent * ratio.log10()
    }

    fn pair(&self, metres: f64, shadowing: f64) -> Pair {
        let level = self.transmit_power.dbm() - self.decibels(metres) + shadowing;
        let snr_db = level - self.sensitivity.dbm() + SENSITIVITY_SNR_DB;
        let sensed = self.carrier_sense.unwrap_or(self.sensitivity).dbm();
        let bit_error = bit_error(10f64.powf(snr_db / 10.0));
        Pair { is_heard: level >= sensed, loss: 0.0, bit_error, level: Some(level) }
    }
}

/// Bit error rate of O-QPSK with 16-ary quasi-orthogonal modulation at a signal-to-noise ratio
/// (IEEE 802.15.4-2006, E.4.1.8).
fn bit_error(snr: f64) -> f64 {
    let mut binomial = 16.0;
    let mut sum = 0.0;
    for k in 2..=16u32 {
        let order = f64::from(k);
        binomial *= (17.0 - order) / order;
        let sign = if k % 2 == 0 { 1.0 } else { -1.0 };
        sum += sign * binomial * (20.0 * snr * (1.0 / order - 1.0)).exp();
    }
    (8.0 / 15.0 / 16.0 * sum).clamp(0.0, 0.5)
}

/// A normally distributed number of a pair of stations: mean 0, standard deviation 1 (Box and Muller 1958).
fn normal(draw: Draw, one: usize, other: usize) -> f64 {
    let place = ((one as u64) << 32 | other as u64) << 1;
    let [first, second] = [place, place | 1].map(|place| draw.uniform(Purpose::Shadowing, place));
    (-2.0 * (1.0 - first).ln()).sqrt() * (std::f64::consts::TAU * second).cos()
}

/// A number, which a file may have as a text.
pub(crate) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Number(f64),
        Text(String),
    }
    let wrong = |text: &str| serde::de::Error::custom(format!("`{text}` is not a number"));
    match Number::deserialize(deserializer)? {
        Number::Number(number) => Ok(number),
        Number::Text(text) => {
            text.trim().parse().ok().filter(|n: &f64| n.is_finite()).ok_or_else(|| wrong(&text))
        }
    }
}

/// Loss of frames from one station to another, measured elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairLoss<Name> {
    /// Sender.
    pub from: Name,
    /// Receiver.
    pub to: Name,
    /// Share of frames that do not arrive, whatever their length.
    pub loss: Ratio,
}

/// What a station receives of another.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pair {
    is_heard: bool,
    /// Share of frames lost whatever their length.
    loss: f64,
    bit_error: f64,
    /// dBm; `None` from a table.
    level: Option<f64>,
}

impl Pair {
    const NONE: Self = Self { is_heard: false, loss: 1.0, bit_error: 0.0, level: None };
}

/// Radio conditions between the stations of a channel, which are numbered from 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Reception {
    /// By sender, then receiver.
    pairs: Vec<Vec<Pair>>,
    /// Two stations at the same place.
    together: Pair,
    /// See [`PathLoss::capture`].
    capture: Option<Attenuation>,
}

impl Reception {
    /// By the distances between stations at these positions. `draw` has the shadowing of each pair, which is the same
    /// in both directions and does not depend on other stations.
    pub fn by_distance(path_loss: &PathLoss, positions: &[NodePosition], draw: Draw) -> Self {
        let deviation = path_loss.shadowing.map_or(0.0, Attenuation::decibels);
        let pair = |from: usize, to: usize| {
            let shadowing = match deviation > 0.0 && from != to {
                true => deviation * normal(draw, from.min(to), from.max(to)),
                false => 0.0,
            };
            path_loss.pair(positions[from].metres_to(positions[to]), shadowing)
        };
        let all = 0..positions.len();
        let row = |from| all.clone().map(|to| pair(from, to)).collect();
        let (pairs, together) = (all.clone().map(row).collect(), path_loss.pair(0.0, 0.0));
        Self { pairs, together, capture: path_loss.capture }
    }

    /// By a table. A row also applies to the opposite direction, unless that has a row. A pair
    /// without a row, or with 100 % loss, does not hear each other. Rows of unknown stations are
    /// ignored.
    pub fn by_table(stations: usize, rows: &[PairLoss<usize>]) -> Self {
        let mut losses = HashMap::new();
        for row in rows {
            losses.insert((row.from, row.to), row.loss.fraction());
        }
        for row in rows {
            losses.entry((row.to, row.from)).or_insert(row.loss.fraction());
        }
        let mut pairs = vec![vec![Pair::NONE; stations]; stations];
        for ((from, to), loss) in losses {
            if from < stations && to < stations {
                pairs[from][to] = Pair { is_heard: loss < 1.0, loss, ..Pair::NONE };
            }
        }
        let together = Pair { is_heard: true, loss: 0.0, ..Pair::NONE };
        Self { pairs, together, capture: None }
    }

    /// Adds a station at the place of another one: what it receives of others, and others of it, is the
    /// same, with their shadowing. Without a place, it has no radio conditions.
    pub fn attach(&mut self, place: Option<usize>) {
        let own = self.pairs.len();
        let place = place.filter(|place| *place < own);
        let row = place.map_or(vec![Pair::NONE; own + 1], |place| {
            let mut row = self.pairs[place].clone();
            row.push(row[place]);
            row[place] = self.together;
            row
        });
        for (from, pairs) in self.pairs.iter_mut().enumerate() {
            let pair = place.map_or(Pair::NONE, |place| pairs[place]);
            pairs.push(if Some(from) == place { self.together } else { pair });
        }
        self.pairs.push(row);
    }

    fn pair(&self, from: usize, to: usize) -> Pair {
        self.pairs.get(from).and_then(|pairs| pairs.get(to)).copied().unwrap_or(Pair::NONE)
    }

    /// Number of stations.
    pub fn stations(&self) -> usize {
        self.pairs.len()
    }

    /// Whether `to` senses transmissions of `from`, and they disturb what it receives. A station
    /// senses itself.
    pub fn hears(&self, from: usize, to: usize) -> bool {
        from == to || self.pair(from, to).is_heard
    }

    /// Probability that a frame of `len` bytes from `from` arrives at `to`, without collisions.
    pub fn success(&self, from: usize, to: usize, len: usize) -> f64 {
        let pair = self.pair(from, to);
        (1.0 - pair.loss) * (1.0 - pair.bit_error).powf(8.0 * len as f64)
    }

    /// Level of `from` at `to`, dBm; `None` from a table.
    pub fn level(&self, from: usize, to: usize) -> Option<f64> {
        self.pair(from, to).level
    }

    /// Whether a transmission of `from` survives at `to` while `others` send: it is stronger than their
    /// sum by the threshold of [`PathLoss::capture`].
    pub fn captures(&self, from: usize, to: usize, others: impl Iterator<Item = usize>) -> bool {
        let Some((threshold, level)) = self.capture.zip(self.level(from, to)) else { return false };
        let milliwatts = |from| 10f64.powf(self.level(from, to).unwrap_or(f64::INFINITY) / 10.0);
        level - 10.0 * others.map(milliwatts).sum::<f64>().log10() >= threshold.decibels()
    }

    /// The stations that receive any frames of `from`, in their order.
    pub fn receivers(&self, from: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.stations())
            .filter(move |to| *to != from && self.success(from, *to, 20) > LEAST_SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(x: f64, y: f64) -> NodePosition {
        let metres = |m| Distance::from_metres(m).unwrap();
        NodePosition { x: metres(x), y: metres(y) }
    }

    fn ratio(text: &str) -> Ratio {
        text.parse().unwrap()
    }

    #[test]
    fn path_loss_agrees_with_the_formula_computed_by_hand() {
        let model = PathLoss::default();
        // 40.2 + 30 log10(d): 30 dB per decade, 9.03 dB per doubling.
        for (metres, decibels) in [(1.0, 40.2), (10.0, 70.2), (20.0, 79.231), (100.0, 100.2)] {
            assert!((model.decibels(metres) - decibels).abs() < 1e-3, "{metres} m");
        }
        // Within the reference distance, and at the same place, it is that of 1 m.
        assert_eq!((model.decibels(0.0), model.decibels(0.5)), (40.2, 40.2));
        let free_space = PathLoss { exponent: 2.0, ..model };
        // Friis at 2.45 GHz and 100 m: 20 log10(4 pi 100 f / c) = 80.23 dB.
        assert!((free_space.decibels(100.0) - 80.23).abs() < 0.05);
    }

    #[test]
    fn the_bit_error_rate_is_the_standards() {
        // The sum with binomial coefficients, computed elsewhere.
        for (snr, expected) in
            [(0.5, 1.658805005e-02), (1.0, 1.615266879e-04), (2.0, 8.200059820e-09)]
        {
            assert!((bit_error(snr) / expected - 1.0).abs() < 1e-6, "{snr}: {}", bit_error(snr));
        }
        // Without a signal, every symbol is guessed: 15/16 are wrong, 8/15 of their bits.
        assert!((bit_error(0.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn at_the_sensitivity_one_frame_of_20_bytes_in_a_hundred_is_lost() {
        // 31.1 m: 40.2 + 30 log10(d) = 85.
        let metres = 10f64.powf((85.0 - 40.2) / 30.0);
        for (factor, len, least, most) in [
            (1.0, 20, 0.0099, 0.0101),
            (1.0, 127, 0.061, 0.063),
            // One decibel less is 8 % of the distance.
            (1.08, 127, 0.42, 0.44),
            (0.5, 127, 0.0, 1e-9),
            (1.3, 127, 0.999, 1.0),
        ] {
            let positions = [place(0.0, 0.0), place(0.6 * metres * factor, 0.8 * metres * factor)];
            let reception =
                Reception::by_distance(&PathLoss::default(), &positions, Draw::new(1, 0, 0));
            let loss = 1.0 - reception.success(0, 1, len);
            assert!((least..=most).contains(&loss), "{factor} {len}: {loss}");
        }
    }

    #[test]
    fn shadowing_has_its_deviation_and_is_the_same_in_both_directions() {
        let positions: Vec<_> = (0..100).map(|x| place(f64::from(x), 0.0)).collect();
        let shadowing = Attenuation::from_decibels(6.0);
        let model = PathLoss { shadowing, ..PathLoss::default() };
        let by = |model: &PathLoss, seed| {
            Reception::by_distance(model, &positions, Draw::new(seed, 0, 0))
        };
        let (shadowed, plain) = (by(&model, 1), by(&PathLoss::default(), 1));
        let level = |reception: &Reception, from, to| reception.level(from, to).unwrap();
        let mut deviations = Vec::new();
        for from in 0..100 {
            for to in 0..from {
                assert_eq!(level(&shadowed, from, to), level(&shadowed, to, from));
                deviations.push(level(&shadowed, from, to) - level(&plain, from, to));
            }
        }
        let count = deviations.len() as f64;
        let mean = deviations.iter().sum::<f64>() / count;
        let variance = deviations.iter().map(|own| (own - mean).powi(2)).sum::<f64>() / count;
        // Four standard deviations of 4,950 pairs.
        assert!(mean.abs() < 0.35, "{mean}");
        assert!((variance.sqrt() - 6.0).abs() < 0.25, "{variance}");
        let within = deviations.iter().filter(|own| own.abs() < 6.0).count() as f64 / count;
        assert!((within - 0.683).abs() < 0.03, "{within}");
        assert_ne!(by(&model, 2), shadowed, "another seed");
        // The pairs of the first stations do not depend on others.
        let few = Reception::by_distance(&model, &positions[..3], Draw::new(1, 0, 0));
        assert_eq!(level(&few, 0, 2), level(&shadowed, 0, 2));
    }

    #[test]
    fn a_station_at_the_place_of_another_has_its_conditions() {
        let shadowing = Attenuation::from_decibels(6.0);
        let model = PathLoss { shadowing, ..PathLoss::default() };
        let positions = [place(0.0, 0.0), place(20.0, 0.0), place(25.0, 9.0)];
        let mut reception = Reception::by_distance(&model, &positions, Draw::new(1, 0, 0));
        reception.attach(Some(1));
        let level = |from, to| reception.level(from, to).unwrap();
        for other in [0, 2] {
            assert_eq!(level(3, other), level(1, other));
            assert_eq!(level(other, 3), level(other, 1));
        }
        assert_eq!((level(1, 3), level(3, 1)), (-40.2, -40.2), "that of 1 m");
        // One of a clone, and one without a place.
        reception.attach(Some(3));
        reception.attach(None);
        reception.attach(Some(99));
        let level = |from, to| reception.level(from, to);
        assert_eq!(
            (level(4, 0), level(4, 1), level(4, 3)),
            (level(1, 0), Some(-40.2), Some(-40.2))
        );
        assert_eq!((level(5, 0), level(0, 6), reception.stations()), (None, None, 7));
        assert!(reception.pairs.iter().all(|pairs| pairs.len() == 7));
        let rows = [PairLoss { from: 0, to: 1, loss: ratio("10 %") }];
        let mut table = Reception::by_table(2, &rows);
        table.attach(Some(1));
        assert_eq!((table.success(0, 2, 9), table.success(2, 0, 9)), (0.9, 0.9));
        assert_eq!((table.success(1, 2, 9), table.hears(2, 1)), (1.0, true));
    }

    #[test]
    fn carrier_sense_has_its_own_level() {
        // 50 m: -91.2 dBm.
        let positions = [place(0.0, 0.0), place(50.0, 0.0)];
        for (level, hears) in [("-91.1 dBm", false), ("-91.2 dBm", true), ("-95 dBm", true)] {
            let model =
                PathLoss { carrier_sense: Some(level.parse().unwrap()), ..PathLoss::default() };
            let reception = Reception::by_distance(&model, &positions, Draw::new(1, 0, 0));
            assert_eq!(reception.hears(0, 1), hears, "{level}");
            assert!(reception.hears(0, 0) && reception.success(0, 1, 20) < 1e-3);
        }
        let near = Reception::by_distance(
            &PathLoss::default(),
            &[place(0.0, 0.0), place(30.0, 0.0)],
            Draw::new(1, 0, 0),
        );
        assert!(near.hears(0, 1) && near.hears(1, 0));
    }

    #[test]
    fn a_row_of_the_table_is_for_both_directions_unless_the_other_has_one() {
        let row = |from, to, loss| PairLoss { from, to, loss: ratio(loss) };
        let rows = [row(0, 1, "10 %"), row(1, 2, "30 %"), row(2, 1, "100 %"), row(7, 0, "0 %")];
        let reception = Reception::by_table(3, &rows);
        let success = |from, to| reception.success(from, to, 100);
        assert_eq!((success(0, 1), success(1, 0)), (0.9, 0.9));
        assert_eq!((success(1, 2), success(2, 1), success(0, 2)), (0.7, 0.0, 0.0));
        assert!(reception.hears(1, 2) && !reception.hears(2, 1) && !reception.hears(0, 2));
        assert_eq!(reception.receivers(1).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(reception.receivers(2).count(), 0);
        // A station that joined later hears no other.
        assert!(!reception.hears(0, 3) && reception.success(3, 0, 1) == 0.0);
    }

    #[test]
    fn a_model_without_any_reception_is_refused_with_what_to_write() {
        assert_eq!(PathLoss::default().check(), Ok(()));
        let wrong = |change: fn(&mut PathLoss)| {
            let mut model = PathLoss::default();
            change(&mut model);
            model.check().unwrap_err()
        };
        assert!(wrong(|model| model.exponent = 0.5).contains("use 1 to 10"));
        assert!(wrong(|model| model.exponent = 11.0).contains("`exponent` is 11"));
        assert!(wrong(|model| model.exponent = f64::NAN).contains("`exponent` is NaN"));
        let text = wrong(|model| model.capture = "0 dB".parse().ok());
        assert!(text.contains("`capture` is 0 dB"), "{text}");
        let text = wrong(|model| model.transmit_power = "-50 dBm".parse().unwrap());
        assert!(
            text.starts_with("-50 dBm less 40.2 dB is below the sensitivity of -85 dBm"),
            "{text}"
        );
    }

    #[test]
    fn numbers_are_read_as_numbers_or_texts() {
        let read = |json: &str| serde_json::from_str::<PathLoss>(json);
        assert_eq!(read("{\"exponent\": \"3.5\"}").unwrap().exponent, 3.5);
        assert_eq!(read("{\"exponent\": 2}").unwrap().exponent, 2.0);
        for wrong in ["\"inf\"", "\"steep\"", "true"] {
            let text = format!("{{\"exponent\": {wrong}}}");
            assert!(read(&text).is_err(), "{wrong}");
        }
        let model = PathLoss { carrier_sense: "-90 dBm".parse().ok(), ..PathLoss::default() };
        let text = serde_json::to_string(&model).unwrap();
        assert_eq!(serde_json::from_str::<PathLoss>(&text).unwrap(), model);
        let position: NodePosition = serde_json::from_str("[\"-3 m\", \"2 km\"]").unwrap();
        assert_eq!(position, place(-3.0, 2000.0));
    }
}
