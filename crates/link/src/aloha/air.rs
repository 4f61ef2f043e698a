//! Packets on the air, and what gateways receive of them.

use super::AlohaSpec;
use crate::LoraSpec;
use crate::radios::Radios;
use crate::reception::Reception;
use std::collections::BTreeMap;
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

/// How far a packet came at a gateway, and at the best one of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    /// It did not reach it.
    TooWeak,
    /// The gateway's radio was off.
    Off,
    /// The gateway sent at the same time.
    HalfDuplex,
    /// All demodulators were busy.
    NoDemodulator,
    /// It collided.
    Collided,
    /// It is received.
    Received,
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
    /// Packets that a gateway can receive at once.
    pub(super) demodulators: usize,
    /// Whether gateways do not receive while they send.
    is_half_duplex: bool,
    /// End of the last packet that a gateway has sent.
    sends_until: BTreeMap<usize, Instant>,
    packets: Vec<OnAir>,
}

/// The gateway of a network in which all nodes are devices.
const NETWORK: usize = usize::MAX;

#[derive(Debug)]
struct OnAir {
    packet: Packet,
    /// The gateways that it reached, and how far it has come there.
    at: Vec<(usize, Fate)>,
}

impl OnAir {
    /// It comes at most this far at `gateway`.
    fn limit(&mut self, gateway: usize, most: Fate) {
        let own = self.at.iter_mut().filter(|(at, _)| *at == gateway);
        own.for_each(|(_, fate)| *fate = most.min(*fate));
    }
}

impl Air {
    /// Nothing on the air, and no gateways.
    pub fn new(spec: &AlohaSpec, reception: Option<Reception>) -> Self {
        let capture = spec.path_loss.unwrap_or_default().capture.decibels();
        Self {
            reception,
            capture,
            gateways: Vec::new(),
            demodulators: spec.demodulators as usize,
            is_half_duplex: spec.half_duplex,
            sends_until: BTreeMap::new(),
            packets: Vec::new(),
        }
    }

    /// Adds a link at the place of another one.
    pub fn attach(&mut self, place: Option<usize>) {
        self.reception.iter_mut().for_each(|reception| reception.attach(place));
    }

    /// Sets the links whose nodes receive the packets that begin from now on.
    pub fn set_gateways(&mut self, gateways: Vec<usize>) {
        self.gateways = gateways;
    }

    /// The links whose nodes receive.
    pub fn gateways(&self) -> &[usize] {
        &self.gateways
    }

    /// The gateway with the strongest signal at `link`, of those whose radio is on.
    pub fn nearest(&self, link: usize, radios: &Radios) -> Option<usize> {
        let level = |gateway: usize| match &self.reception {
            None => 0.0,
            Some(reception) => reception.level(gateway, link).unwrap_or(f64::NEG_INFINITY),
        };
        let on = self.gateways.iter().copied().filter(|gateway| !radios.is_off(*gateway));
        // Of several, the first.
        on.rev().max_by(|one, other| level(*one).total_cmp(&level(*other)))
    }

    /// `gateway` sends a packet to a device from `now` until `ends`.
    pub fn send_down(&mut self, gateway: usize, now: Instant, ends: Instant) {
        if !self.is_half_duplex {
            return;
        }
        let until = self.sends_until.entry(gateway).or_default();
        *until = ends.max(*until);
        let overlap = |own: &&mut OnAir| own.packet.ends > now && own.packet.listens < ends;
        let disturbed = self.packets.iter_mut().filter(overlap);
        disturbed.for_each(|own| own.limit(gateway, Fate::HalfDuplex));
    }

    /// The radio of `link` goes off: its packets break off, and it receives none of those on the air.
    pub fn switch_off(&mut self, link: usize) {
        self.packets.retain(|own| own.packet.link != link);
        self.packets.iter_mut().for_each(|own| own.limit(link, Fate::Off));
    }

    /// Whether `gateway` can receive a packet that begins now.
    fn begin(&self, packet: &Packet, gateway: usize, radios: &Radios) -> Fate {
        let sends_until = self.sends_until.get(&gateway);
        let taken =
            |own: &&OnAir| own.at.iter().any(|at| at.0 == gateway && at.1 >= Fate::Collided);
        match self.packets.iter().filter(taken).count() {
            _ if radios.is_off(gateway) => Fate::Off,
            _ if sends_until.is_some_and(|until| *until > packet.listens) => Fate::HalfDuplex,
            taken if taken >= self.demodulators => Fate::NoDemodulator,
            _ => Fate::Received,
        }
    }

    /// Begins a packet at `now`.
    pub fn start(&mut self, packet: Packet, now: Instant, radios: &Radios) {
        let network = [NETWORK];
        let reaches = |to: &&usize| match self.reception {
            None => true,
            Some(_) => self.level(&packet, **to) >= packet.lora.sensitivity(),
        };
        let gateways = match (&self.reception, self.gateways.is_empty()) {
            (None, true) => &network[..],
            _ => &self.gateways,
        };
        let reached = gateways.iter().filter(reaches);
        let at = reached.map(|gateway| (*gateway, self.begin(&packet, *gateway, radios))).collect();
        self.packets.push(OnAir { packet, at });
        // The new packet changes what it and those on its channel have to be stronger than.
        let survives: Vec<Vec<bool>> = self.packets.iter().map(|own| self.survival(own)).collect();
        for (own, survives) in self.packets.iter_mut().zip(survives) {
            // One that ends now is not on the air any more.
            if own.packet.ends > now {
                let lost = own.at.iter_mut().zip(survives).filter(|(_, survives)| !survives);
                lost.for_each(|((_, fate), _)| *fate = Fate::Collided.min(*fate));
            }
        }
    }

    /// Ends a packet.
    pub fn end(&mut self, id: u64) -> Fate {
        let place = self.packets.iter().position(|own| own.packet.id == id);
        let Some(own) = place.map(|place| self.packets.swap_remove(place)) else {
            return Fate::TooWeak;
        };
        own.at.into_iter().map(|(_, fate)| fate).max().unwrap_or(Fate::TooWeak)
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
