//! Radio channels that LoRa devices send on without sensing them: pure ALOHA with capture.
//!
//! 1. Each packet of a link with `lora` goes out on one of the channels, drawn at random: a device
//!    changes the channel for every transmission (LoRaWAN 1.0.x, 1). Frames of other links, such as
//!    those of a gateway, are not on these channels and pass at once.
//! 2. Gateways receive: the links without `lora`. A packet arrives if one of them receives it. Devices
//!    do not hear each other. Without any gateway, the network itself receives as one would.
//! 3. Packets disturb each other if they overlap on the same channel with the same bandwidth. The start
//!    of a preamble may be disturbed: its last five symbols suffice to find the packet (Bor, Roedig,
//!    Voigt, Alonso: Do LoRa low-power wide-area networks scale?, MSWiM 2016).
//! 4. A packet survives if it is stronger by `capture` than the sum of all others of its spreading
//!    factor, 6 dB there, and for each other spreading factor not weaker than their sum by more than a
//!    margin: these are quasi-orthogonal (Goursaud, Gorce: Dedicated networks for IoT, EAI Endorsed
//!    Transactions on Internet of Things 1 (1), 2015).
//! 5. A gateway receives packets from its sensitivity on ([`crate::LoraSpec::sensitivity`]).
//! 6. A packet takes a demodulator of the gateway for its time on air, also if it collides. Without a free
//!    one it is not received there (Semtech SX1301 data sheet, V2.4: eight paths; ns-3's LoRaWAN module has
//!    the same rule).
//! 7. A gateway that sends a packet to a device receives none meanwhile. Its packets do not disturb others:
//!    downlinks have inverted chirps.
//!
//! Without positions all packets are equally strong, so those of one spreading factor destroy each
//! other.
//!
//! Pure: takes frames, times and random numbers, returns events.

mod air;
mod spec;
#[cfg(test)]
mod tests;

pub use spec::{AlohaSpec, LoraPathLoss};

use crate::channel::ChannelEvent;
use crate::radios::Radios;
use crate::reception::Reception;
use crate::step::{Cause, TransitFrame};
use crate::{Impairment, LinkPipe};
use air::{Air, Fate, Packet};
use std::collections::BTreeMap;
use units::{Draw, Instant, Purpose};

/// The channels, and the frames on the air.
#[derive(Debug)]
pub(crate) struct AlohaMedium {
    channels: u32,
    air: Air,
    radios: Radios,
    /// Settings of each link's uplink.
    configs: Vec<Impairment>,
    draws: Vec<Draw>,
    /// Links and frames, by the end and the number of the packet.
    sent: BTreeMap<(Instant, u64), (usize, TransitFrame)>,
    /// Number of packets so far.
    packets: u64,
}

impl AlohaMedium {
    /// Idle channels for links with these uplinks. `reception` has the levels between their nodes.
    pub fn new<'a>(
        spec: &AlohaSpec,
        reception: Option<Reception>,
        uplinks: impl Iterator<Item = &'a LinkPipe>,
    ) -> Self {
        let mut medium = Self {
            channels: spec.channels,
            air: Air::new(spec, reception),
            radios: Radios::default(),
            configs: Vec::new(),
            draws: Vec::new(),
            sent: BTreeMap::new(),
            packets: 0,
        };
        uplinks.for_each(|uplink| medium.add(uplink));
        medium
    }

    /// Adds a link with this uplink, whose node is at the place of another link's.
    pub fn attach(&mut self, uplink: &LinkPipe, place: Option<usize>) {
        self.air.attach(place);
        self.add(uplink);
    }

    fn add(&mut self, uplink: &LinkPipe) {
        self.configs.push(uplink.config().clone());
        self.draws.push(uplink.draw());
        self.find_gateways();
    }

    /// Applies new settings to `link`. Packets on the air are not affected.
    pub fn change(&mut self, link: usize, config: &Impairment) {
        self.configs[link] = config.clone();
        self.find_gateways();
    }

    /// Switches the radio of `link`'s node off or on. What it sends breaks off, and what it receives is
    /// lost.
    pub fn set_power(
        &mut self,
        link: usize,
        is_on: bool,
        now: Instant,
        events: &mut Vec<ChannelEvent>,
    ) {
        self.radios.set(link, is_on, now);
        if !is_on {
            self.air.switch_off(link);
            let before = self.sent.len();
            self.sent.retain(|_, (sender, _)| *sender != link);
            let lost = before - self.sent.len();
            events.extend((0..lost).map(|_| ChannelEvent::Drop(link, Cause::Outage)));
        }
    }

    /// Which links' radios are off.
    pub fn radios(&self) -> &Radios {
        &self.radios
    }

    /// Begins a packet to the device of `link`, which the node of `sender` sent at `arrived`. Returns the
    /// link of the gateway that sends it from `now` until `ends`; `None` if there is no gateway.
    ///
    /// # Errors
    /// If the gateway's radio is off, or was since `arrived`.
    pub fn send_down(
        &mut self,
        link: usize,
        sender: Option<usize>,
        arrived: Instant,
        [now, ends]: [Instant; 2],
    ) -> Result<Option<usize>, Cause> {
        let gateways = self.air.gateways();
        let gateway = match sender.filter(|sender| gateways.contains(sender)) {
            // It waited at this gateway.
            Some(sender) if self.radios.was_off_since(sender, arrived) => {
                return Err(Cause::Outage);
            }
            Some(sender) => sender,
            None if gateways.is_empty() => return Ok(None),
            // From another device: any gateway can send it, so the one that the receiver is nearest to does.
            None => self.air.nearest(link, &self.radios).ok_or(Cause::Outage)?,
        };
        self.air.send_down(gateway, now, ends);
        Ok(Some(gateway))
    }

    fn find_gateways(&mut self) {
        let links = self.configs.iter().enumerate();
        let gateways = links.filter(|(_, config)| config.transmission.lora().is_none());
        self.air.set_gateways(gateways.map(|(link, _)| link).collect());
    }

    /// Accepts a frame of `link` whose transmission begins at `now`.
    pub fn offer(
        &mut self,
        link: usize,
        frame: TransitFrame,
        now: Instant,
        events: &mut Vec<ChannelEvent>,
    ) {
        let transmission = &self.configs[link].transmission;
        let on_air = transmission.time_on_air(frame.frame.len());
        let Some((lora, on_air)) = transmission.lora().zip(on_air) else {
            return events.push(ChannelEvent::Left(link, frame, now, None));
        };
        let ends = now + on_air;
        let share = self.draws[link].uniform(Purpose::RadioChannel, frame.place);
        let channel = (share * f64::from(self.channels)) as u32;
        let id = self.packets;
        let listens = now + lora.spare_preamble();
        let packet = Packet { id, link, channel, lora: lora.clone(), listens, ends };
        self.air.start(packet, now, &self.radios);
        self.packets += 1;
        self.sent.insert((ends, id), (link, frame));
        events.push(ChannelEvent::Turn(ends));
    }

    /// Ends the packets whose transmission has ended by `now`.
    pub fn turn(&mut self, now: Instant, events: &mut Vec<ChannelEvent>) {
        while let Some(entry) = self.sent.first_entry()
            && entry.key().0 <= now
        {
            let ((ends, id), (link, frame)) = entry.remove_entry();
            events.push(match self.air.end(id) {
                Fate::Received => ChannelEvent::Left(link, frame, ends, None),
                Fate::Collided => ChannelEvent::Drop(link, Cause::Denied),
                Fate::NoDemodulator => ChannelEvent::Drop(link, Cause::NoDemodulator),
                Fate::HalfDuplex => ChannelEvent::Drop(link, Cause::HalfDuplex),
                Fate::Off => ChannelEvent::Drop(link, Cause::Outage),
                Fate::TooWeak => ChannelEvent::Drop(link, Cause::WeakSignal),
            });
        }
    }
}
