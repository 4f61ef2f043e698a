//! The capacity that the links of a network share, in one direction.

use crate::aloha::AlohaMedium;
use crate::channel::{Channel, ChannelEvent, SharedLink};
use crate::csma::Usage;
use crate::radios::Radios;
use crate::reception::Reception;
use crate::shared_medium::SharedMedium;
use crate::step::{Cause, TransitFrame};
use crate::wifi::WifiMedium;
use crate::{Direction, Link, LinkPipe};
use units::{Draw, Instant};

/// A shared channel in one direction, behind the links' pipes.
#[derive(Debug)]
pub struct SharedChannel(Kind);

/// A packet from a LoRa gateway to a device.
#[derive(Debug, Clone, Copy)]
pub struct Downlink {
    /// Link of the gateway, if one is known.
    pub gateway: Option<usize>,
    /// Start of the transmission.
    pub starts: Instant,
    /// Its end.
    pub ends: Instant,
}

#[derive(Debug)]
enum Kind {
    /// One frame at a time.
    Link(SharedLink),
    /// Contention of IEEE 802.15.4.
    Medium(Box<SharedMedium>),
    /// Contention of Wi-Fi.
    Wifi(Box<WifiMedium>),
    /// Collisions without contention.
    Aloha(Box<AlohaMedium>),
}

impl SharedChannel {
    /// The shared channels of `links`, up and down; `None` for a direction that is not shared.
    /// `reception` is for radio channels: which links' stations hear each other, and at which levels.
    pub fn of(
        channel: &Channel,
        reception: Option<Reception>,
        links: &[Link],
        seed: u64,
    ) -> [Option<Self>; 2] {
        let pipes = |direction| links.iter().map(move |link| &link[direction]);
        let shared = |rate, fair, direction| {
            let configs = pipes(direction).map(|pipe| pipe.config().clone()).collect();
            Some(Self(Kind::Link(SharedLink::new(rate, fair, configs))))
        };
        match channel {
            Channel::Switch => [None, None],
            Channel::Shared(rate) => [shared(*rate, false, Direction::Up), None],
            Channel::Cell { up, down } => {
                [shared(*up, true, Direction::Up), shared(*down, true, Direction::Down)]
            }
            Channel::Csma(spec) => {
                // The links' own streams are 0, 1, ...
                let draw = Draw::new(seed, u64::MAX, 0);
                let medium = SharedMedium::new(spec, reception, pipes(Direction::Up), draw);
                [Some(Self(Kind::Medium(Box::new(medium)))), None]
            }
            Channel::Wifi(spec) => {
                let draw = Draw::new(seed, u64::MAX, 0);
                let medium = WifiMedium::new(spec, pipes(Direction::Up), draw);
                [Some(Self(Kind::Wifi(Box::new(medium)))), None]
            }
            Channel::Aloha(spec) => {
                let medium = AlohaMedium::new(spec, reception, pipes(Direction::Up));
                [Some(Self(Kind::Aloha(Box::new(medium)))), None]
            }
        }
    }

    /// Adds a link. On a channel with distance its node is at the `place` of another link's.
    pub fn attach(&mut self, pipe: &LinkPipe, place: Option<usize>) {
        match &mut self.0 {
            Kind::Link(shared) => shared.attach(pipe.config()),
            Kind::Medium(medium) => medium.attach(pipe, place),
            Kind::Wifi(medium) => medium.attach(pipe),
            Kind::Aloha(medium) => medium.attach(pipe, place),
        }
    }

    /// Applies the pipe's new settings to `link`.
    pub fn change(&mut self, link: usize, pipe: &LinkPipe) {
        match &mut self.0 {
            Kind::Link(shared) => shared.change(link, pipe.config()),
            Kind::Medium(medium) => medium.change(link, pipe.config()),
            Kind::Wifi(medium) => medium.change(link, pipe.config()),
            Kind::Aloha(medium) => medium.change(link, pipe.config()),
        }
    }

    /// Switches the radio of `link`'s node off or on, on a channel of radios. What waits or is on the air
    /// is lost with the power.
    pub fn set_power(
        &mut self,
        link: usize,
        is_on: bool,
        now: Instant,
        events: &mut Vec<ChannelEvent>,
    ) {
        match &mut self.0 {
            Kind::Link(_) => {}
            Kind::Medium(medium) => medium.set_power(link, is_on, now, events),
            Kind::Wifi(medium) => medium.set_power(link, is_on, now, events),
            Kind::Aloha(medium) => medium.set_power(link, is_on, now, events),
        }
    }

    /// Which links' radios are off; `None` on a channel without radios.
    pub fn radios(&self) -> Option<&Radios> {
        match &self.0 {
            Kind::Link(_) => None,
            Kind::Medium(medium) => Some(medium.radios()),
            Kind::Wifi(medium) => Some(medium.radios()),
            Kind::Aloha(medium) => Some(medium.radios()),
        }
    }

    /// Begins a packet of the node of link `sender` to the device of `link`, whose pipe to it this is, at
    /// `now`. `None`: the frame is not sent by a LoRa gateway to a device.
    ///
    /// # Errors
    /// Why no gateway sends it.
    pub fn send_down(
        &mut self,
        link: usize,
        pipe: &LinkPipe,
        frame: &TransitFrame,
        sender: Option<usize>,
        now: Instant,
    ) -> Result<Option<Downlink>, Cause> {
        let on_air = pipe.config().transmission.time_on_air(frame.frame.len());
        match (&mut self.0, on_air) {
            (Kind::Aloha(medium), Some(on_air)) => {
                let ends = now + on_air;
                let gateway = medium.send_down(link, sender, frame.arrived, [now, ends])?;
                Ok(Some(Downlink { gateway, starts: now, ends }))
            }
            _ => Ok(None),
        }
    }

    /// Whether the channel carries frames such as the Ethernet frame `frame`.
    pub fn accepts(&self, frame: &[u8]) -> bool {
        match &self.0 {
            Kind::Link(_) | Kind::Wifi(_) | Kind::Aloha(_) => true,
            Kind::Medium(medium) => medium.accepts(frame),
        }
    }

    /// Accepts a frame of `link`, from this pipe, for transmission at `now` or later. `to` is the
    /// link of its receiver; `None`: several, or unknown.
    pub fn offer(
        &mut self,
        link: usize,
        pipe: &LinkPipe,
        frame: TransitFrame,
        to: Option<usize>,
        now: Instant,
        events: &mut Vec<ChannelEvent>,
    ) {
        // It has waited in front of the channel, and its node's radio was off meanwhile.
        if self.radios().is_some_and(|radios| radios.was_off_since(link, frame.arrived)) {
            return events.push(ChannelEvent::Drop(link, Cause::Outage));
        }
        match &mut self.0 {
            Kind::Link(shared) => shared.offer(link, frame, now, pipe.draw(), events),
            Kind::Medium(medium) => {
                // A ramp may have changed the loss since the last frame.
                medium.set_loss(link, pipe.config().mean_loss());
                medium.offer(link, frame, to, now, events);
            }
            Kind::Wifi(medium) => {
                medium.set_loss(link, pipe.config().mean_loss());
                medium.offer(link, frame, to, now, events);
            }
            Kind::Aloha(medium) => medium.offer(link, frame, now, events),
        }
    }

    /// Continues at `now`, as requested by [`ChannelEvent::Turn`].
    pub fn turn(&mut self, now: Instant, events: &mut Vec<ChannelEvent>) {
        match &mut self.0 {
            Kind::Link(shared) => shared.turn(now, events),
            Kind::Medium(medium) => medium.turn(now, events),
            Kind::Wifi(medium) => medium.turn(now, events),
            Kind::Aloha(medium) => medium.turn(now, events),
        }
    }

    /// Usage by each link; empty for a channel without carrier sense.
    pub fn usage(&self) -> Vec<Usage> {
        match &self.0 {
            Kind::Link(_) | Kind::Aloha(_) => Vec::new(),
            Kind::Medium(medium) => medium.usage(),
            Kind::Wifi(medium) => medium.usage(),
        }
    }
}
