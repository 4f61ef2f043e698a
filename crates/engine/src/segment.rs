//! A network segment: links connected by a switch or a shared channel.
//!
//! Pure: takes frames and times, returns deliveries. A frame passes two directions, up from
//! its sender and down to each receiver. The second decision happens after the first
//! direction releases the frame, so each direction sees its frames in order.

mod lookahead;
mod passage;
mod radios;

use crate::change::Change;
use crate::event_queue::{Event, EventQueue};
use crate::in_flight::Spot;
use crate::overflow::Overflow;
use crate::spec::{Delivery, Drop, Endpoint, SegmentSpec};
use crate::switch::Switch;
use link::{
    Cause, Channel, ChannelEvent, Decided, Direction, Impairment, Interval, Keys, Link, LinkPipe,
    LinkState, RadioFilter, SharedChannel, StampedFrame, Step, Totals,
};
use std::collections::VecDeque;
use std::sync::Arc;
use units::{Instant, Span};

/// A running segment.
#[derive(Debug)]
pub struct Segment {
    switch: Switch,
    links: Vec<Link>,
    /// Up, then down.
    channels: [Option<SharedChannel>; 2],
    /// Whether the channel needs to know each frame's receiver.
    has_stations: bool,
    /// Whether the channel needs to know the start of each transmission.
    shares_air: bool,
    /// Of simulated radios.
    filter: Option<RadioFilter>,
    seed: u64,
    /// See [`SegmentSpec::prefix`].
    prefix: usize,
    pending: EventQueue,
    timetable: Vec<(Span, Change)>,
    /// Deliveries due but not yet taken.
    ready: VecDeque<Delivery>,
    drops: Vec<Drop>,
    decided: Vec<Decided>,
    /// Reasons of failed changes.
    refused: Vec<String>,
    impaired: bool,
    /// See [`Self::lookahead`]; `None` after a change.
    lookahead: Option<Span>,
    /// Start of impairments.
    epoch: Instant,
    /// The latest time passed in.
    clock: Instant,
    /// Empty between calls.
    steps: Vec<Step>,
    /// Empty between calls.
    channel_events: Vec<ChannelEvent>,
}

impl Segment {
    /// An idle segment. Before impairments begin, no link draws random numbers: the first
    /// measured frame is the first of its link, however long setup took.
    pub fn new(spec: &SegmentSpec) -> Self {
        let SegmentSpec { own_addresses_only, longest, query_interval, seed, .. } = *spec;
        let mut configs = SharedConfigs::default();
        let mut switch = Switch::new(own_addresses_only, longest, query_interval);
        let mut links = Vec::with_capacity(spec.endpoints.len());
        for (number, end) in spec.endpoints.iter().enumerate() {
            switch.attach(end.mac, end.vlans.clone(), end.is_bridge);
            let [up, down] = [configs.of(&end.up), configs.of(&end.down)];
            links.push(Link::new(up, down, end.states.clone(), seed, number));
        }
        if spec.reception.is_some() {
            links.iter_mut().for_each(|link| link[Direction::Up].expect_changes());
        }
        let shares_air = matches!(spec.channel, Channel::Aloha(_));
        if shares_air {
            links.iter_mut().for_each(Link::share_air);
        }
        for (_, change) in &spec.timetable {
            let Change::Set { links: changing, .. } = change else { continue };
            for (link, direction) in changing {
                links[*link][*direction].expect_changes();
            }
        }
        for (link, recorded) in links.iter_mut().zip(spec.replay.iter().flatten()) {
            link.replay(recorded);
        }
        Self {
            switch,
            channels: SharedChannel::of(&spec.channel, spec.reception.clone(), &links, seed),
            has_stations: matches!(spec.channel, Channel::Csma(_) | Channel::Wifi(_)),
            shares_air,
            filter: filter(&spec.channel),
            links,
            seed,
            prefix: spec.prefix,
            pending: EventQueue::default(),
            timetable: spec.timetable.clone(),
            ready: VecDeque::new(),
            drops: Vec::new(),
            decided: Vec::new(),
            refused: Vec::new(),
            impaired: spec.impaired,
            lookahead: None,
            epoch: Instant::START,
            clock: Instant::START,
            steps: Vec::new(),
            channel_events: Vec::new(),
        }
    }

    /// Enables impairments and starts the timetable.
    pub fn impair(&mut self, now: Instant) {
        (self.impaired, self.epoch, self.lookahead) = (true, now, None);
        self.links.iter_mut().for_each(|link| link.begin(now));
        for (after, change) in std::mem::take(&mut self.timetable) {
            self.pending.add(now + after, Event::Change(Box::new(change)));
        }
    }

    /// Attaches an endpoint at `now` and returns its index. Its settings apply as if it had
    /// been there from the start: outages and traces continue at the same time as on other
    /// links.
    pub fn attach(&mut self, end: Endpoint, now: Instant) -> usize {
        self.advance(now);
        let number = self.links.len();
        let mut link = Link::new(end.up, end.down, end.states, self.seed, number);
        if self.shares_air {
            link.share_air();
        }
        for (channel, pipe) in self.channels.iter_mut().zip(link.pipes()) {
            channel.iter_mut().for_each(|channel| channel.attach(pipe, end.place));
        }
        if self.impaired {
            link.begin(self.epoch);
        }
        self.links.push(link);
        self.switch.attach(end.mac, end.vlans, end.is_bridge);
        self.lookahead = None;
        number
    }

    /// Detaches `endpoint` at `now`. Frames it has sent continue; it receives nothing more.
    ///
    /// # Panics
    /// If `endpoint` does not exist in the segment.
    pub fn detach(&mut self, endpoint: usize, now: Instant) {
        self.advance(now);
        self.switch.detach(endpoint);
        self.links[endpoint].detach(now);
    }

    /// Applies a change now.
    pub fn change(&mut self, change: Change, now: Instant) {
        self.advance(now);
        self.make(change, self.clock);
    }

    /// Counters of each link while impairments were in effect: up, then down.
    pub fn totals(&self) -> Vec<[Totals; 2]> {
        let mut totals: Vec<_> =
            self.links.iter().map(|link| link.pipes().each_ref().map(LinkPipe::totals)).collect();
        let usage = self.channels[Direction::Up as usize].iter().flat_map(SharedChannel::usage);
        for ([up, _], usage) in totals.iter_mut().zip(usage) {
            // The channel, not the pipe, knows how long a frame was on the air.
            (up.busy, up.retried, up.collided) = (usage.airtime, usage.retries, usage.collisions);
            (up.radio_sending, up.radio_receiving) = (usage.sending, usage.receiving);
        }
        totals
    }

    /// What each endpoint sent beyond the limits of tables.
    pub fn overflows(&self) -> Vec<Overflow> {
        let ports = 0..self.links.len();
        let mut all: Vec<_> = ports.map(|port| self.switch.overflow(port)).collect();
        let pipes = self.links.iter().flat_map(Link::pipes);
        for (sender, flows) in pipes.flat_map(LinkPipe::forgotten_flows) {
            all[sender as usize].flows += flows;
        }
        all
    }

    /// State of one direction of a link at `now`, with or without traffic.
    ///
    /// # Panics
    /// If `endpoint` does not exist in the segment.
    pub fn state(&self, endpoint: usize, direction: Direction, now: Instant) -> LinkState {
        self.links[endpoint][direction].state(now)
    }

    /// Ends an interval of settings and counters on all links.
    pub fn end_interval(&mut self, now: Instant) {
        self.links.iter_mut().for_each(|link| link.end_interval(now));
    }

    /// Takes the recorded intervals of each link: up, then down.
    pub fn intervals(&mut self) -> Vec<[Vec<Interval>; 2]> {
        let take = |link: &mut Link| link.pipes_mut().each_mut().map(LinkPipe::take_intervals);
        self.links.iter_mut().map(take).collect()
    }

    /// Takes the reasons of failed changes.
    pub fn refused(&mut self) -> Vec<String> {
        std::mem::take(&mut self.refused)
    }

    /// See [`SegmentSpec::prefix`].
    pub fn prefix(&self) -> usize {
        self.prefix
    }

    /// Number of endpoints.
    pub fn endpoints(&self) -> usize {
        self.links.len()
    }

    /// Accepts a frame that `endpoint` sent at `now`; an earlier time than the latest so
    /// far counts as the latest.
    ///
    /// # Panics
    /// If `endpoint` does not exist in the segment.
    pub fn send(&mut self, endpoint: usize, frame: &[u8], now: Instant) {
        self.advance(now);
        let bytes = frame.get(self.prefix..);
        let channel = self.channels[Direction::Up as usize].as_ref();
        let is_carried = |bytes: &[u8]| channel.is_none_or(|channel| channel.accepts(bytes));
        if !bytes.is_some_and(|bytes| is_carried(bytes) && self.switch.accepts(endpoint, bytes)) {
            self.links[endpoint][Direction::Up].rejected();
            return self.drop(endpoint, Direction::Up, Cause::Rejected);
        }
        if let Some(filter) = &mut self.filter {
            filter.sent(endpoint, bytes.unwrap_or_default());
        }
        let now = self.clock;
        let frame = StampedFrame { frame: frame.into(), arrived: now };
        if self.impaired {
            return self.enter(endpoint, Direction::Up, frame, endpoint, now);
        }
        // Through the event queue also without impairments: the switch learns in order of time.
        let spot = Spot { link: endpoint as u32, direction: Direction::Up, gathers: false };
        self.pending.push_frame(now, frame, spot);
    }

    /// Counts a delivered frame and its lateness.
    pub fn delivered(&mut self, endpoint: usize, late: Span) {
        if self.impaired {
            self.links[endpoint][Direction::Down].released(late);
        }
    }

    /// Number of frames in flight.
    pub fn waiting(&self) -> usize {
        self.pending.frames() + self.ready.len()
    }

    /// Time of the next event, if any.
    pub fn next(&self) -> Option<Instant> {
        self.ready.front().map(|delivery| delivery.intended).or_else(|| self.pending.next())
    }

    /// The next delivery due at `now`, if any.
    pub fn due(&mut self, now: Instant) -> Option<Delivery> {
        if self.ready.is_empty() {
            self.advance(now);
        }
        self.ready.pop_front()
    }

    /// Random decisions since the last call.
    pub fn decided(&mut self) -> impl Iterator<Item = Decided> + '_ {
        self.decided.drain(..)
    }

    /// Drops since the last call.
    pub fn drops(&mut self) -> impl Iterator<Item = Drop> + '_ {
        self.drops.drain(..)
    }

    fn drop(&mut self, endpoint: usize, way: Direction, cause: Cause) {
        self.drops.push(Drop { endpoint, way, cause });
    }

    fn make(&mut self, change: Change, now: Instant) {
        self.lookahead = None;
        match change {
            Change::Partition(parts) => self.switch.set_partition(parts),
            Change::Multicast(passes) => self.switch.set_multicast(passes),
            Change::Power { endpoint, is_on } => self.set_power(endpoint, is_on, now),
            Change::Down { links, down } => {
                for (link, direction) in links {
                    self.links[link][direction].set_down(down, now);
                }
            }
            Change::Set { links, set, over } => {
                for (link, direction) in links {
                    self.set(link, direction, &set, over, now);
                }
            }
        }
    }

    fn set(&mut self, link: usize, direction: Direction, keys: &Keys, over: Span, now: Instant) {
        let pipe = &mut self.links[link][direction];
        if let Err(why) = pipe.set(keys, over, now) {
            self.refused.push(why);
        }
        if let Some(channel) = &mut self.channels[direction as usize] {
            channel.change(link, pipe);
        }
    }
}

fn filter(channel: &Channel) -> Option<RadioFilter> {
    let Channel::Csma(spec) = channel else { return None };
    spec.address_filter.then(|| RadioFilter::new(spec.carries))
}

/// Shares the settings of consecutive links with equal settings: each frame reads them, and
/// hundreds of copies would not stay in the CPU caches.
#[derive(Debug, Default)]
// Two, because the settings up and down of equal links alternate.
struct SharedConfigs([Option<Arc<Impairment>>; 2]);

impl SharedConfigs {
    fn of(&mut self, config: &Impairment) -> Arc<Impairment> {
        if let Some(known) = self.0.iter().flatten().find(|known| ***known == *config) {
            return known.clone();
        }
        self.0.swap(0, 1);
        self.0[0].insert(Arc::new(config.clone())).clone()
    }
}

#[cfg(test)]
#[path = "segment_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "segment/aloha_tests.rs"]
mod aloha_tests;

#[cfg(test)]
#[path = "segment/attach_tests.rs"]
mod attach_tests;

#[cfg(test)]
#[path = "segment/lowpan_tests.rs"]
mod lowpan_tests;

#[cfg(test)]
#[path = "segment/power_tests.rs"]
mod power_tests;

#[cfg(test)]
#[path = "segment/reception_tests.rs"]
mod reception_tests;

#[cfg(test)]
#[path = "segment/simulated_tests.rs"]
mod simulated_tests;

#[cfg(test)]
#[path = "segment/wifi_tests.rs"]
mod wifi_tests;
