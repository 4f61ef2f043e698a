//! A network segment: endpoints connected by a switch or a shared channel.
//!
//! Pure: takes frames and times, returns deliveries. A frame passes two directions, up from
//! its sender and down to each receiver. The second decision happens after the first
//! direction releases the frame, so each direction sees its frames in order.

mod lookahead;
mod multicast;
mod passage;

use crate::change::{Change, Direction};
use crate::channel::{Channel, ChannelEvent, SharedLink};
use crate::event_queue::{Event, EventQueue};
use crate::forwarding_table::{ForwardingTable, addresses};
use crate::in_flight::place;
use crate::link_pipe::{LinkPipe, LinkState};
use crate::querier::Querier;
use crate::shared_medium::SharedMedium;
use crate::spec::{Delivery, Drop, Endpoint, SegmentSpec};
use crate::step::{Cause, Step};
use crate::{Decided, Frame, Impairment, Instant, Interval, States, Totals};
use std::collections::VecDeque;
use std::sync::Arc;
use units::{Draw, Span};

/// A running segment.
#[derive(Debug)]
pub struct Segment {
    links: Vec<[LinkPipe; 2]>,
    macs: Vec<Option<[u8; 6]>>,
    draws: Vec<[Draw; 2]>,
    shared_links: [Option<SharedLink>; 2],
    medium: Option<SharedMedium>,
    radios: Vec<Option<States>>,
    longest: usize,
    /// See [`SegmentSpec::prefix`].
    prefix: usize,
    seed: u64,
    table: ForwardingTable,
    own_addresses_only: bool,
    querier: Querier,
    /// Whether a host has joined an IPv6 group, so that MLD queries make sense.
    has_ipv6_groups: bool,
    events_due: EventQueue,
    timetable: Vec<(Span, Change)>,
    /// Bytes in flight on each direction.
    in_flight: Vec<[u64; 2]>,
    /// Deliveries due but not yet taken.
    ready: VecDeque<Delivery>,
    drops: Vec<Drop>,
    impaired: bool,
    /// See [`Self::lookahead`]; `None` after a change.
    lookahead: Option<u64>,
    /// Start of impairments.
    epoch: Instant,
    /// The latest time passed in.
    clock: Instant,
    decided: Vec<Decided>,
    /// Reasons of failed changes.
    refused: Vec<String>,
    steps: Vec<Step>,
    events: Vec<ChannelEvent>,
}

impl Segment {
    /// An idle segment. Before impairments begin, no link draws random numbers: the first
    /// measured frame is the first of its link, however long setup took.
    pub fn new(spec: &SegmentSpec) -> Self {
        let draw = |link: usize, way: u64| Draw::new(spec.seed, link as u64, way);
        let draws: Vec<_> = (0..spec.endpoints.len()).map(|i| [draw(i, 0), draw(i, 1)]).collect();
        let mut configs = SharedConfigs::default();
        let links = spec.endpoints.iter().zip(&draws);
        let radios = spec.endpoints.iter().map(|link| link.states.clone().map(States::new));
        let mut segment = Self {
            radios: radios.collect(),
            medium: match &spec.channel {
                Channel::Csma(csma) => {
                    let ups: Vec<_> = spec.endpoints.iter().map(|link| &link.up).collect();
                    let own = draws.iter().map(|[up, _]| *up).collect();
                    Some(SharedMedium::new(csma, &ups, own, spec.seed))
                }
                _ => None,
            },
            links: links
                .map(|(link, [up, down])| {
                    let [up_config, down_config] = [configs.of(&link.up), configs.of(&link.down)];
                    [LinkPipe::new(up_config, *up), LinkPipe::new(down_config, *down)]
                })
                .collect(),
            macs: spec.endpoints.iter().map(|link| link.mac).collect(),
            draws,
            shared_links: SharedLink::of(&spec.channel, &spec.endpoints),
            longest: spec.longest.unwrap_or(usize::MAX),
            prefix: spec.prefix,
            seed: spec.seed,
            table: ForwardingTable::new(spec.endpoints.iter().map(|end| end.mac)),
            own_addresses_only: spec.own_addresses_only,
            querier: Querier::new(spec.query_interval),
            has_ipv6_groups: false,
            events_due: EventQueue::default(),
            timetable: spec.timetable.clone(),
            in_flight: vec![[0; 2]; spec.endpoints.len()],
            ready: VecDeque::new(),
            drops: Vec::new(),
            impaired: spec.impaired,
            lookahead: None,
            epoch: 0,
            clock: 0,
            decided: Vec::new(),
            refused: Vec::new(),
            steps: Vec::new(),
            events: Vec::new(),
        };
        for (_, change) in &spec.timetable {
            let Change::Set { links, .. } = change else { continue };
            for (link, way) in links {
                segment.links[*link][*way as usize].expect_changes();
            }
        }
        for (link, replay) in segment.links.iter_mut().zip(spec.replay.iter().flatten()) {
            for (direction, replay) in link.iter_mut().zip(replay) {
                direction.replay(replay.clone());
            }
        }
        segment
    }

    /// Enables impairments and starts the timetable.
    pub fn impair(&mut self, now: Instant) {
        (self.impaired, self.epoch, self.lookahead) = (true, now, None);
        self.links.iter_mut().flatten().for_each(|direction| direction.begin(now));
        for (after, change) in std::mem::take(&mut self.timetable) {
            self.events_due.add(now + after.as_ns(), Event::Change(Box::new(change)));
        }
    }

    /// Attaches an endpoint at `now` and returns its index. Its settings apply as if it had
    /// been there from the start: outages and traces continue at the same time as on other
    /// links.
    pub fn attach(&mut self, end: Endpoint, now: Instant) -> usize {
        self.advance(now);
        let link = self.links.len();
        let draws = [0, 1].map(|way| Draw::new(self.seed, link as u64, way));
        for (line, config) in self.shared_links.iter_mut().zip([&end.up, &end.down]) {
            line.iter_mut().for_each(|line| line.attach(config));
        }
        self.medium.iter_mut().for_each(|medium| medium.attach(&end.up, draws[0]));
        let mut ways = [LinkPipe::new(end.up, draws[0]), LinkPipe::new(end.down, draws[1])];
        if self.impaired {
            ways.iter_mut().for_each(|direction| direction.begin(self.epoch));
        }
        self.links.push(ways);
        self.draws.push(draws);
        self.macs.push(end.mac);
        self.radios.push(end.states.map(States::new));
        self.in_flight.push([0; 2]);
        self.table.attach(end.mac);
        self.lookahead = None;
        link
    }

    /// Detaches `endpoint` at `now`. Frames it has sent continue; it receives nothing more.
    ///
    /// # Panics
    /// If `endpoint` does not exist in the segment.
    pub fn detach(&mut self, endpoint: usize, now: Instant) {
        self.advance(now);
        self.table.detach(endpoint);
        for direction in &mut self.links[endpoint] {
            direction.end_interval(now);
            direction.set_down(true);
        }
    }

    /// Applies a change now.
    pub fn change(&mut self, change: Change, now: Instant) {
        self.advance(now);
        self.make(change, self.clock);
    }

    /// Counters of each link while impairments were in effect: up, then down.
    pub fn totals(&self) -> Vec<[Totals; 2]> {
        let mut totals: Vec<_> =
            self.links.iter().map(|[up, down]| [up.totals(), down.totals()]).collect();
        let usage = self.medium.iter().flat_map(SharedMedium::usage);
        for ([up, _], usage) in totals.iter_mut().zip(usage) {
            (up.busy, up.retried, up.collided) = (usage.airtime, usage.retries, usage.collisions);
        }
        totals
    }

    /// State of one direction of a link at `now`, with or without traffic.
    ///
    /// # Panics
    /// If `endpoint` does not exist in the segment.
    pub fn state(&self, endpoint: usize, way: Direction, now: Instant) -> LinkState {
        self.links[endpoint][way as usize].state(now)
    }

    /// Ends an interval of settings and counters on all links.
    pub fn end_interval(&mut self, now: Instant) {
        for direction in self.links.iter_mut().flatten() {
            direction.follow_ramps(now);
            direction.end_interval(now);
        }
    }

    /// Takes the recorded intervals of each link: up, then down.
    pub fn intervals(&mut self) -> Vec<[Vec<Interval>; 2]> {
        let take = |direction: &mut LinkPipe| std::mem::take(&mut direction.record.intervals);
        self.links.iter_mut().map(|[up, down]| [take(up), take(down)]).collect()
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
        match frame.get(self.prefix..).is_some_and(|bytes| self.accepts(endpoint, bytes)) {
            true => self.begin(endpoint, frame.into()),
            false => {
                self.links[endpoint][Direction::Up as usize].rejected();
                self.drop(endpoint, Direction::Up, Cause::Rejected);
            }
        }
    }

    /// Whether `endpoint` may send `frame`. Learns the source address if so.
    fn accepts(&mut self, endpoint: usize, frame: &[u8]) -> bool {
        let Some((_, source)) = addresses(frame).filter(|_| frame.len() <= self.longest) else {
            return false;
        };
        if self.table.is_gone(endpoint) {
            return false;
        }
        let own = self.macs[endpoint];
        if own == Some(source) {
            self.table.learn_own(source, endpoint);
            return true;
        }
        // A group address is no valid source, and neither is another endpoint's own
        // address.
        let group = source[0] & 1 == 1;
        let forbidden = own.is_some() && self.own_addresses_only;
        if group || forbidden || self.table.belongs_to_another(source, endpoint) {
            return false;
        }
        self.table.learn(source, endpoint);
        true
    }

    fn begin(&mut self, endpoint: usize, frame: Frame) {
        let now = self.clock;
        match self.impaired {
            true => self.enter(endpoint, Direction::Up, frame, now, now),
            false => {
                self.events_due.push_frame(
                    now,
                    (frame, now),
                    place(endpoint as u32, Direction::Up, false),
                );
            }
        }
    }

    /// Counts a delivered frame and its lateness in ns.
    pub fn delivered(&mut self, endpoint: usize, late: u64) {
        if self.impaired {
            self.links[endpoint][Direction::Down as usize].released(late);
        }
    }

    /// Number of frames in flight.
    pub fn waiting(&self) -> usize {
        self.events_due.frames() + self.ready.len()
    }

    /// Time of the next event, if any.
    pub fn next(&self) -> Option<Instant> {
        self.ready.front().map(|delivery| delivery.intended).or_else(|| self.events_due.next())
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
            Change::Partition(parts) => self.table.part(parts),
            Change::Multicast(passes) => self.table.set_multicast(passes),
            Change::Down { links, down } => {
                for (link, way) in links {
                    self.links[link][way as usize].end_interval(now);
                    self.links[link][way as usize].set_down(down);
                }
            }
            Change::Set { links, set, over } => {
                for (link, way) in links {
                    let direction = &mut self.links[link][way as usize];
                    if let Err(why) = direction.set(&set, over, now) {
                        self.refused.push(why);
                    }
                    let config = self.links[link][way as usize].config();
                    match (&mut self.shared_links[way as usize], &mut self.medium, way) {
                        (Some(line), ..) => line.change(link, config),
                        (None, Some(medium), Direction::Up) => medium.change(link, config),
                        _ => {}
                    }
                }
            }
        }
    }
}

/// Shares the settings of consecutive links with equal settings: each frame reads them, and
/// hundreds of copies would not stay in the CPU caches.
#[derive(Debug, Default)]
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
#[path = "segment/attach_tests.rs"]
mod attach_tests;
