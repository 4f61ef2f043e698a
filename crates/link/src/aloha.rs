//! Radio channels that LoRa devices send on without sensing them: pure ALOHA with capture.
//!
//! 1. Each packet of a link with `lora` goes out on one of the channels, drawn at random: a device
//!    changes the channel for every transmission (LoRaWAN 1.0.x, 1). Frames of other links, such as
//!    those of a gateway, are not on these channels and pass at once.
//! 2. Gateways receive: the links without `lora`. A packet arrives if one of them receives it. Devices
//!    do not hear each other.
//! 3. Packets disturb each other if they overlap on the same channel with the same bandwidth. The start
//!    of a preamble may be disturbed: its last five symbols suffice to find the packet (Bor, Roedig,
//!    Voigt, Alonso: Do LoRa low-power wide-area networks scale?, MSWiM 2016).
//! 4. A packet survives if it is stronger by `capture` than the sum of all others of its spreading
//!    factor, 6 dB there, and for each other spreading factor not weaker than their sum by more than a
//!    margin: these are quasi-orthogonal (Goursaud, Gorce: Dedicated networks for IoT, EAI Endorsed
//!    Transactions on Internet of Things 1 (1), 2015).
//! 5. A gateway receives packets from its sensitivity on ([`crate::LoraSpec::sensitivity`]).
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
            configs: Vec::new(),
            draws: Vec::new(),
            sent: BTreeMap::new(),
            packets: 0,
        };
        uplinks.for_each(|uplink| medium.attach(uplink));
        medium
    }

    /// Adds a link with this uplink.
    pub fn attach(&mut self, uplink: &LinkPipe) {
        self.configs.push(uplink.config().clone());
        self.draws.push(uplink.draw());
        self.find_gateways();
    }

    /// Applies new settings to `link`. Packets on the air are not affected.
    pub fn change(&mut self, link: usize, config: &Impairment) {
        self.configs[link] = config.clone();
        self.find_gateways();
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
        let Some(lora) = transmission.lora() else {
            return events.push(ChannelEvent::Left(link, frame, now, None));
        };
        let ends = now + lora.time_on_air(transmission.framing.on_wire(frame.frame.len()));
        let share = self.draws[link].uniform(Purpose::RadioChannel, frame.place);
        let channel = (share * f64::from(self.channels)) as u32;
        let id = self.packets;
        let listens = now + lora.spare_preamble();
        self.air.start(Packet { id, link, channel, lora: lora.clone(), listens, ends }, now);
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
                Fate::TooWeak => ChannelEvent::Drop(link, Cause::WeakSignal),
            });
        }
    }
}
