//! A Wi-Fi channel: the links' queues around the contention of their stations, and aggregation.
//!
//! 1. All stations hear each other; see [`contention`](self::contention) for who sends when.
//! 2. A station sends the oldest frame that waits and further ones to the same receiver, up to
//!    `aggregate`, in one transmission (A-MPDU), with one acknowledgement (IEEE 802.11-2012, 9.12).
//!    Multicast and broadcast frames are sent alone, at the basic rate, without an acknowledgement.
//! 3. In a collision all frames are lost. Else each frame is lost with the loss of the uplink,
//!    separately. What was lost is sent again, up to `retries` times; the frames behind it to the same
//!    receiver wait there, so that they keep their order (9.21.7).
//! 4. After a collision the channel is free when an acknowledgement would have ended: stations wait for
//!    EIFS (9.3.2.3.7), and the senders for their timeout.
//!
//! Pure: takes frames, times and random numbers, returns events.

mod contention;
mod spec;
#[cfg(test)]
mod tests;

pub use spec::WifiSpec;

use crate::channel::ChannelEvent;
use crate::csma::Usage;
use crate::queue::Queue;
use crate::radios::Radios;
use crate::step::{Cause, TransitFrame};
use crate::{Impairment, LinkPipe};
use contention::Contention;
use std::collections::VecDeque;
use units::{Draw, Instant, Purpose, Span};

/// Most frames of a link that are outside its queue: those of an aggregate, and those to other receivers between
/// them.
const MOST_STAGED: usize = 64;

/// The queues of all links and the channel that they contend for.
#[derive(Debug)]
pub(crate) struct WifiMedium {
    spec: WifiSpec,
    contention: Contention,
    stations: Vec<Station>,
    /// The transmission on the air.
    sending: Option<Sending>,
    radios: Radios,
    /// Time of the last requested call of [`Self::turn`].
    next_turn: Option<Instant>,
    dropped: Vec<Outgoing>,
}

/// A transmission of one station, or of several that collide.
#[derive(Debug)]
struct Sending {
    since: Instant,
    ends: Instant,
    senders: Vec<usize>,
}

#[derive(Debug)]
struct Station {
    queue: Queue<Outgoing>,
    /// Frames to send next, in their order, and those that arrived and wait for one before them.
    staged: VecDeque<Outgoing>,
    /// Number of frames in the transmission on the air.
    on_air: usize,
    airtime: Span,
    /// Loss probability of each transmission of a frame.
    loss: f64,
    draw: Draw,
    usage: Usage,
}

/// A frame that waits, or is on the air.
#[derive(Debug, Clone)]
struct Outgoing {
    frame: TransitFrame,
    /// Link of its receiver; `None`: unknown.
    to: Option<usize>,
    is_group: bool,
    /// Earlier transmissions.
    attempt: u32,
    is_on_air: bool,
    /// Received, but behind one that was not.
    has_arrived: bool,
}

impl Outgoing {
    /// Whether it goes to the same receiver as `other`, so that both keep their order.
    fn goes_with(&self, other: &Self) -> bool {
        self.to == other.to && self.is_group == other.is_group
    }
}

impl WifiMedium {
    /// An idle channel for links with these uplinks. `draw` has the channel's random numbers.
    pub fn new<'a>(
        spec: &WifiSpec,
        uplinks: impl Iterator<Item = &'a LinkPipe>,
        draw: Draw,
    ) -> Self {
        let mut medium = Self {
            spec: spec.clone(),
            contention: Contention::new(spec, draw),
            stations: Vec::new(),
            sending: None,
            radios: Radios::default(),
            next_turn: None,
            dropped: Vec::new(),
        };
        uplinks.for_each(|uplink| medium.attach(uplink));
        medium
    }

    /// Adds a link with this uplink.
    pub fn attach(&mut self, uplink: &LinkPipe) {
        self.contention.attach();
        self.stations.push(Station {
            queue: Queue::new(uplink.config().queue),
            staged: VecDeque::new(),
            on_air: 0,
            airtime: Span::ZERO,
            loss: uplink.config().mean_loss(),
            draw: uplink.draw(),
            usage: Usage::default(),
        });
    }

    /// Applies new settings to `link`.
    pub fn change(&mut self, link: usize, config: &Impairment) {
        self.stations[link].queue.change(config.queue);
        self.set_loss(link, config.mean_loss());
    }

    /// Sets the loss probability of `link`'s retransmissions.
    pub fn set_loss(&mut self, link: usize, share: f64) {
        self.stations[link].loss = share;
    }

    /// Switches the radio of `link`'s node off or on. What waits or is on the air is lost with the power,
    /// and the station contends anew.
    pub fn set_power(
        &mut self,
        link: usize,
        is_on: bool,
        now: Instant,
        events: &mut Vec<ChannelEvent>,
    ) {
        self.radios.set(link, is_on, now);
        if !is_on {
            self.contention.leave(link);
            self.stations[link].clear(link, now, events);
        }
    }

    /// Which links' radios are off.
    pub fn radios(&self) -> &Radios {
        &self.radios
    }

    /// Channel usage of each link.
    pub fn usage(&self) -> Vec<Usage> {
        self.stations.iter().map(|station| station.usage).collect()
    }

    /// Accepts a frame of `link` for transmission at `now` or later.
    pub fn offer(
        &mut self,
        link: usize,
        frame: TransitFrame,
        to: Option<usize>,
        now: Instant,
        events: &mut Vec<ChannelEvent>,
    ) {
        let station = &mut self.stations[link];
        station.usage.frames += 1;
        // The lowest bit of an Ethernet address's first byte marks a group address.
        let is_group = frame.frame.first().is_some_and(|first| first & 1 == 1);
        let (len, place) = (frame.frame.len(), frame.place);
        let outgoing =
            Outgoing { frame, to, is_group, attempt: 0, is_on_air: false, has_arrived: false };
        if station.staged.len() < MOST_STAGED && station.queue.is_empty() {
            station.staged.push_back(outgoing);
        } else {
            let own = station.staged.front().map(|own| own.frame.frame.len());
            if station.queue.push(outgoing, len, now, station.draw, place, own).is_err() {
                events.push(ChannelEvent::Drop(link, Cause::Overflow));
            }
        }
        self.contention.ready(link, now);
        self.request_turn(now, events);
    }

    /// Processes all events until `now`.
    pub fn turn(&mut self, now: Instant, events: &mut Vec<ChannelEvent>) {
        while let Some(next) = self.next().filter(|next| *next <= now) {
            match self.sending.take() {
                Some(sending) => self.end(&sending, events),
                None => self.begin(next),
            }
        }
        self.request_turn(now, events);
    }

    /// Time of the next event.
    fn next(&self) -> Option<Instant> {
        self.sending.as_ref().map(|sending| sending.ends).or_else(|| self.contention.next())
    }

    /// The stations whose backoff ends begin to send.
    fn begin(&mut self, at: Instant) {
        let senders = self.contention.begin();
        let mut longest = Span::ZERO;
        for link in &senders {
            let station = &mut self.stations[*link];
            station.airtime = station.aggregate(&self.spec);
            station.usage.transmissions += 1;
            station.usage.sending += station.airtime;
            longest = longest.max(station.airtime);
        }
        let silent = self.stations.iter_mut().enumerate();
        let hears = |link: &usize| !senders.contains(link) && !self.radios.is_off(*link);
        let silent = silent.filter(|(link, _)| hears(link));
        silent.for_each(|(_, station)| station.usage.receiving += longest);
        self.sending = Some(Sending { since: at, ends: at + longest, senders });
    }

    /// A transmission ends.
    fn end(&mut self, sending: &Sending, events: &mut Vec<ChannelEvent>) {
        let Sending { since, ends: at, ref senders } = *sending;
        let has_collided = senders.len() > 1;
        let mut is_acknowledged = has_collided;
        for link in senders {
            let station = &mut self.stations[*link];
            let Some(first) = station.staged.iter().find(|own| own.is_on_air) else { continue };
            let (is_group, to) = (first.is_group, first.to);
            is_acknowledged |= !is_group;
            let broke_off = self.radios.was_off_since(*link, since);
            let is_deaf = to.is_some_and(|to| self.radios.was_off_since(to, since));
            let missed = match has_collided {
                _ if broke_off => Some(Cause::Outage),
                true => Some(Cause::Denied),
                false => is_deaf.then_some(Cause::Outage),
            };
            let arrived = station.receive(missed.is_some());
            station.usage.airtime += station.airtime;
            station.usage.collisions += u64::from(has_collided);
            let retries = if broke_off { 0 } else { self.spec.retries };
            let cause = missed.unwrap_or(Cause::Lost);
            let gave_up = station.settle(*link, retries, cause, at, events);
            station.refill(*link, at, &mut self.dropped, events);
            let waits = station.staged.iter().any(|own| !own.has_arrived);
            // A frame that is given up, or has no acknowledgement, leaves the smallest window too (9.3.3).
            self.contention.ended(*link, arrived > 0 || is_group || gave_up, waits);
            if arrived > 0 && !is_group {
                let took = self.spec.acknowledgement() - self.spec.sifs;
                self.stations[*link].usage.airtime += took;
                self.stations[*link].usage.receiving += took;
                if let Some(receiver) = to.and_then(|to| self.stations.get_mut(to)) {
                    receiver.usage.sending += took;
                }
            }
        }
        let after = if is_acknowledged { self.spec.acknowledgement() } else { Span::ZERO };
        self.contention.idle(at + after);
    }

    fn request_turn(&mut self, now: Instant, events: &mut Vec<ChannelEvent>) {
        let Some(next) = self.next() else { return };
        // A requested turn cannot be taken back, so only an earlier one is requested in addition.
        if self.next_turn.is_none_or(|turn| turn <= now || next < turn) {
            self.next_turn = Some(next);
            events.push(ChannelEvent::Turn(next));
        }
    }
}

impl Station {
    /// Puts the next frames on the air. Returns the duration of the transmission.
    fn aggregate(&mut self, spec: &WifiSpec) -> Span {
        self.on_air = 0;
        let Some(first) = self.staged.iter().find(|own| !own.has_arrived).cloned() else {
            return Span::ZERO;
        };
        let mut bytes = 0;
        for own in self.staged.iter_mut().filter(|own| !own.has_arrived && own.goes_with(&first)) {
            let more = bytes + spec.on_air(own.frame.frame.len());
            let is_full = self.on_air >= spec.aggregate as usize || !spec.has_room(more);
            if self.on_air > 0 && (first.is_group || is_full) {
                break;
            }
            (bytes, self.on_air) = (more, self.on_air + 1);
            own.is_on_air = true;
        }
        match first.is_group {
            true => spec.group_airtime(first.frame.frame.len()),
            false => spec.airtime(bytes),
        }
    }

    /// Decides which frames on the air arrive, none if all are `missed`. Returns their number.
    fn receive(&mut self, missed: bool) -> usize {
        let (draw, loss, mut arrived) = (self.draw, self.loss, 0);
        for own in self.staged.iter_mut().filter(|own| own.is_on_air) {
            let lost = match own.attempt {
                0 => own.frame.decision.lost,
                // Each retransmission has a separate draw; `check` limits them to 255.
                more => {
                    let place = own.frame.place << 8 | u64::from(more & 0xff);
                    draw.uniform(Purpose::Retry, place) < loss
                }
            };
            own.has_arrived = !missed && !lost;
            arrived += usize::from(own.has_arrived);
        }
        arrived
    }

    /// Passes on what arrived in order, and drops what is not sent again, for this `cause`. Returns whether a
    /// frame was given up.
    fn settle(
        &mut self,
        link: usize,
        retries: u32,
        cause: Cause,
        at: Instant,
        events: &mut Vec<ChannelEvent>,
    ) -> bool {
        let mut gave_up = false;
        let usage = &mut self.usage;
        self.staged.retain_mut(|own| {
            let was_on_air = std::mem::take(&mut own.is_on_air);
            if !was_on_air || own.has_arrived {
                return true;
            }
            own.attempt += 1;
            let is_last = own.is_group || own.attempt > retries;
            gave_up |= is_last && !own.is_group;
            usage.retries += u64::from(!is_last);
            events.extend(is_last.then_some(ChannelEvent::Drop(link, cause)));
            !is_last
        });
        self.pass_on(link, at, events);
        gave_up
    }

    /// The station's radio goes off: what waits is lost. Frames on the air break off at the end of the
    /// transmission.
    fn clear(&mut self, link: usize, now: Instant, events: &mut Vec<ChannelEvent>) {
        let before = self.staged.len();
        self.staged.retain(|own| own.is_on_air || own.has_arrived);
        let lost = self.queue.clear() + before - self.staged.len();
        events.extend((0..lost).map(|_| ChannelEvent::Drop(link, Cause::Outage)));
        // Their receivers have these, and nothing comes before them any more.
        self.pass_on(link, now, events);
    }

    /// Passes on what arrived and has no frame before it.
    fn pass_on(&mut self, link: usize, at: Instant, events: &mut Vec<ChannelEvent>) {
        let mut kept: VecDeque<Outgoing> = VecDeque::with_capacity(self.staged.len());
        for mut own in self.staged.drain(..) {
            let is_next = !kept.iter().any(|other| other.goes_with(&own));
            if own.has_arrived && is_next {
                // The channel has decided; else the pipe behind it would drop the frame.
                own.frame.decision.lost = false;
                events.push(ChannelEvent::Left(link, own.frame, at, None));
            } else {
                kept.push_back(own);
            }
        }
        self.staged = kept;
    }

    /// Takes further frames from the queue.
    fn refill(
        &mut self,
        link: usize,
        now: Instant,
        dropped: &mut Vec<Outgoing>,
        events: &mut Vec<ChannelEvent>,
    ) {
        while self.staged.len() < MOST_STAGED
            && let Some(next) = self.queue.pop(now, dropped)
        {
            self.staged.push_back(next);
        }
        events.extend(dropped.drain(..).map(|_| ChannelEvent::Drop(link, Cause::Overflow)));
    }
}
