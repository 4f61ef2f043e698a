//! Radios: their power, and packets of LoRa gateways to devices.

use super::Segment;
use crate::event_queue::{Event, SentDown};
use link::{Cause, Direction, Radios, SharedChannel, Step, TransitFrame};
use units::Instant;

impl Segment {
    /// Switches the radio of an endpoint off or on, if the channel has radios.
    pub(super) fn set_power(&mut self, endpoint: usize, is_on: bool, now: Instant) {
        let Some(channel) = &mut self.channels[Direction::Up as usize] else { return };
        if channel.radios().is_none() {
            return;
        }
        let mut events = std::mem::take(&mut self.channel_events);
        channel.set_power(endpoint, is_on, now, &mut events);
        self.handle(Direction::Up, events, now);
        let waiting = if is_on { 0 } else { self.links[endpoint][Direction::Up].clear(now) };
        (0..waiting).for_each(|_| self.drop(endpoint, Direction::Up, Cause::Outage));
    }

    /// Which endpoints' radios are off; `None` on a channel without radios.
    fn radios(&self) -> Option<&Radios> {
        self.channels[Direction::Up as usize].as_ref().and_then(SharedChannel::radios)
    }

    /// Whether a frame that has passed the channel does not reach `endpoint`, because its radio is off. To
    /// LoRa devices frames are sent behind it, when these receive.
    pub(super) fn is_unpowered(&self, endpoint: usize) -> bool {
        let is_device = || {
            let down = &self.links[endpoint][Direction::Down];
            self.shares_air && down.config().transmission.lora().is_some()
        };
        self.radios().is_some_and(|radios| radios.is_off(endpoint)) && !is_device()
    }

    /// Begins the transmission of a frame to the node of `link`, on a channel of LoRa devices.
    pub(super) fn begin_downlink(&mut self, link: usize, frame: TransitFrame, now: Instant) {
        let sender = self.switch.sender(frame.bytes().get(self.prefix..).unwrap_or_default());
        let pipe = &self.links[link][Direction::Down];
        let channel = self.channels[Direction::Up as usize].as_mut();
        let sent = channel.map(|channel| channel.send_down(link, pipe, &frame, sender, now));
        match sent.unwrap_or(Ok(None)) {
            Ok(Some(downlink)) => {
                let sent = Box::new(SentDown { frame, downlink });
                self.pending.add(downlink.ends, Event::SentDown(link as u32, sent));
            }
            // A gateway, which is not on the air.
            Ok(None) => self.depart_down(link, frame, now),
            Err(cause) => self.stop_down(link, cause),
        }
    }

    /// Ends the transmission of a packet to a device. Neither radio may have been off meanwhile.
    pub(super) fn end_downlink(&mut self, link: usize, sent: SentDown, now: Instant) {
        let ends = [Some(link), sent.downlink.gateway];
        let was_off = |end: usize| {
            self.radios().is_some_and(|radios| radios.was_off_since(end, sent.downlink.starts))
        };
        match ends.into_iter().flatten().any(was_off) {
            true => self.stop_down(link, Cause::Outage),
            false => self.depart_down(link, sent.frame, now),
        }
    }

    fn depart_down(&mut self, link: usize, frame: TransitFrame, now: Instant) {
        // Not `self.steps`: this may run within an `execute` that has it.
        let mut steps: Vec<Step> = Vec::new();
        self.links[link][Direction::Down].depart(frame, now, &mut steps);
        self.execute(link, Direction::Down, steps, now);
    }

    fn stop_down(&mut self, link: usize, cause: Cause) {
        self.links[link][Direction::Down].stopped(cause);
        self.drop(link, Direction::Down, cause);
    }
}
