//! Packets on the air, and what gateways receive of them.

use super::AlohaSpec;
use crate::LoraSpec;
use crate::reception::Reception;
use units::Instant;

/// Lowest ratio in dB of a packet's level to the sum of those of another spreading factor, by the packet's
/// factor and the other one, 7 to 12: the co-channel rejection of Goursaud and Gorce (2015), with the
/// opposite sign, as signetlabdei/lorawan (ns-3) has it, `lora-interference-helper.cc`. The ratio to those of the same
/// factor is `capture`.
const OTHER_FACTOR_DB: [[f64; 6]; 6] = [
    [0.0, -16.0, -18.0, -19.0, -19.0, -20.0],
    [-24.0, 0.0, -20.0, -22.0, -22.0, -22.0],
    [-27.0, -27.0, 0.0, -23.0, -25.0, -25.0],
    [-30.0, -30.0, -30.0, 0.0, -26.0, -28.0],
    [-33.0, -33.0, -33.0, -33.0, 0.0, -29.0],
    [-36.0, -36.0, -36.0, -36.0, -36.0, 0.0],
];

/// A packet on the air.
#[derive(Debug, Clone)]
pub(super) struct Packet {
    /// Number that no other packet has.
    pub id: u64,
    /// Link of its sender.
    pub link: usize,
    /// Radio channel.
    pub channel: u32,
    /// Settings of its sender.
    pub lora: LoraSpec,
    /// When a disturbance begins to matter.
    pub listens: Instant,
    /// End of the transmission.
    pub ends: Instant,
}

impl Packet {
    /// Whether `other` is on this packet's channel when a disturbance matters. Both are on the air at
    /// some time.
    fn is_disturbed_by(&self, other: &Self) -> bool {
        self.id != other.id
            && self.channel == other.channel
            && self.lora.bandwidth == other.lora.bandwidth
            && other.ends > self.listens
    }

    /// Place of its spreading factor in the table.
    fn factor(&self) -> usize {
        (self.lora.spreading_factor.clamp(7, 12) - 7) as usize
    }
}

/// How a packet ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// A gateway received it.
    Received,
    /// It collided at all gateways that it reached.
    Collided,
    /// It reached no gateway.
    TooWeak,
}

/// The packets on the air.
#[derive(Debug)]
pub(super) struct Air {
    /// Levels between nodes; `None`: all are equally strong everywhere.
    reception: Option<Reception>,
    /// By how many dB a packet must be stronger than others of its spreading factor.
    capture: f64,
    /// Links whose nodes receive.
    gateways: Vec<usize>,
    packets: Vec<OnAir>,
}

#[derive(Debug)]
struct OnAir {
    packet: Packet,
    /// The gateways that it reached, and whether it collided there.
    at: Vec<(usize, bool)>,
}

impl Air {
    /// Nothing on the air, and no gateways.
    pub fn new(spec: &AlohaSpec, reception: Option<Reception>) -> Self {
        let capture = spec.path_loss.unwrap_or_default().capture.decibels();
        Self { reception, capture, gateways: Vec::new(), packets: Vec::new() }
    }

    /// Sets the links whose nodes receive the packets that begin from now on.
    pub fn set_gateways(&mut self, gateways: Vec<usize>) {
        self.gateways = gateways;
    }

    /// Begins a packet at `now`.
    pub fn start(&mut self, packet: Packet, now: Instant) {
        let reached: Vec<usize> = match &self.reception {
            // All gateways hear the same.
            None => vec![0],
            Some(_) => {
                let reaches = |to: &&usize| self.level(&packet, **to) >= packet.lora.sensitivity();
                self.gateways.iter().filter(reaches).copied().collect()
            }
        };
        let at = reached.into_iter().map(|gateway| (gateway, false)).collect();
        self.packets.push(OnAir { packet, at });
        // The new packet changes what it and those on its channel have to be stronger than.
        let survives: Vec<Vec<bool>> = self.packets.iter().map(|own| self.survival(own)).collect();
        for (own, survives) in self.packets.iter_mut().zip(survives) {
            // One that ends now is not on the air any more.
            if own.packet.ends > now {
                own.at
                    .iter_mut()
                    .zip(survives)
                    .for_each(|((_, lost), survives)| *lost |= !survives);
            }
        }
    }

    /// Ends a packet.
    pub fn end(&mut self, id: u64) -> Fate {
        let place = self.packets.iter().position(|own| own.packet.id == id);
        let Some(own) = place.map(|place| self.packets.swap_remove(place)) else {
            return Fate::TooWeak;
        };
        match &own.at[..] {
            [] => Fate::TooWeak,
            at if at.iter().any(|(_, collided)| !collided) => Fate::Received,
            _ => Fate::Collided,
        }
    }

    /// Whether `own` survives the others that are on the air now, at each gateway that it reached.
    fn survival(&self, own: &OnAir) -> Vec<bool> {
        let mut least = OTHER_FACTOR_DB[own.packet.factor()];
        least[own.packet.factor()] = self.capture;
        let others = self.packets.iter().map(|other| &other.packet);
        let others: Vec<_> = others.filter(|other| own.packet.is_disturbed_by(other)).collect();
        let survives = |gateway: usize| {
            let mut milliwatts = [0.0; 6];
            for other in &others {
                milliwatts[other.factor()] += 10f64.powf(self.level(other, gateway) / 10.0);
            }
            let level = self.level(&own.packet, gateway);
            // The logarithm of no power at all is below each level.
            let ratios = milliwatts.map(|sum| level - 10.0 * f64::log10(sum));
            ratios.into_iter().zip(least).all(|(ratio, least)| ratio >= least)
        };
        own.at.iter().map(|(gateway, _)| survives(*gateway)).collect()
    }

    /// Level of a packet at a gateway, dBm.
    fn level(&self, packet: &Packet, gateway: usize) -> f64 {
        let level = |reception: &Reception| reception.level(packet.link, gateway);
        match &self.reception {
            None => 0.0,
            // A node that joined later has no position.
            Some(reception) => level(reception).unwrap_or(f64::NEG_INFINITY),
        }
    }
}
