//! A network segment: endpoints joined by a switch or a channel that they share.
//!
//! Pure: frames and times in, deliveries out. A frame meets two directions, up
//! from its sender and down to each receiver; the second is decided only when
//! the first has let the frame go, so each direction sees its frames in order.

use crate::air::Air;
use crate::calendar::{Calendar, What};
use crate::change::{Change, Ramp, Way};
use crate::channel::{Channel, Line, Said};
use crate::direction::{Cause, Direction, Step};
use crate::fates::Decided;
use crate::groups::{Groups, group_of};
use crate::spec::{Delivery, Drop, SegmentSpec};
use crate::{Impairment, Instant, Interval, States, Totals};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use units::{Draw, Span};

/// A running segment.
#[derive(Debug)]
pub struct Segment {
    links: Vec<[Direction; 2]>,
    macs: Vec<Option<[u8; 6]>>,
    draws: Vec<[Draw; 2]>,
    lines: [Option<Line>; 2],
    air: Option<Air>,
    radios: Vec<Option<States>>,
    longest: usize,
    places: HashMap<[u8; 6], usize>,
    groups: Groups,
    calendar: Calendar,
    timetable: Vec<(Span, Change)>,
    parts: Option<Vec<u32>>,
    /// Bytes under way on each direction.
    held: Vec<[u64; 2]>,
    /// What is due and not yet taken.
    ready: VecDeque<Delivery>,
    drops: Vec<Drop>,
    impaired: bool,
    /// The latest time that was given.
    clock: Instant,
    decided: Vec<Decided>,
    /// Changes that could not be made, and why.
    refused: Vec<String>,
    steps: Vec<Step>,
    said: Vec<Said>,
}

/// Bytes that may be under way on one direction, which a delay without a rate does
/// not bound: 64 ms of 8 Gbit/s, or 5 s of 100 Mbit/s. More is dropped as by a full
/// queue.
const MOST_HELD: u64 = 64 << 20;

impl Segment {
    /// An idle segment. While impairments wait, no link draws: the first measured
    /// frame is the first of its link, however much setting up took.
    pub fn new(spec: &SegmentSpec) -> Self {
        let draw = |link: usize, way: u64| Draw::new(spec.seed, link as u64, way);
        let draws: Vec<_> = (0..spec.endpoints.len()).map(|i| [draw(i, 0), draw(i, 1)]).collect();
        let links = spec.endpoints.iter().zip(&draws);
        let radios = spec.endpoints.iter().map(|link| link.states.clone().map(States::new));
        let mut segment = Self {
            radios: radios.collect(),
            air: match &spec.channel {
                Channel::Csma(csma) => {
                    let ups: Vec<_> = spec.endpoints.iter().map(|link| &link.up).collect();
                    let own = draws.iter().map(|[up, _]| *up).collect();
                    Some(Air::new(csma, &ups, own, spec.seed))
                }
                _ => None,
            },
            links: links
                .map(|(link, [up, down])| {
                    [Direction::new(link.up.clone(), *up), Direction::new(link.down.clone(), *down)]
                })
                .collect(),
            macs: spec.endpoints.iter().map(|link| link.mac).collect(),
            draws,
            lines: Line::of(&spec.channel, &spec.endpoints),
            longest: spec.longest.unwrap_or(usize::MAX),
            places: HashMap::new(),
            groups: Groups::default(),
            calendar: Calendar::default(),
            timetable: spec.timetable.clone(),
            parts: None,
            held: vec![[0; 2]; spec.endpoints.len()],
            ready: VecDeque::new(),
            drops: Vec::new(),
            impaired: spec.impaired,
            clock: 0,
            decided: Vec::new(),
            refused: Vec::new(),
            steps: Vec::new(),
            said: Vec::new(),
        };
        for (link, replay) in segment.links.iter_mut().zip(spec.replay.iter().flatten()) {
            for (direction, replay) in link.iter_mut().zip(replay) {
                direction.replay(replay.clone());
            }
        }
        segment
    }

    /// Puts impairments into effect and starts the timetable.
    pub fn impair(&mut self, now: Instant) {
        self.impaired = true;
        self.links.iter_mut().flatten().for_each(|direction| direction.begin(now));
        for (after, change) in std::mem::take(&mut self.timetable) {
            self.calendar.add(now + after.as_ns(), What::Change(Box::new(change)));
        }
    }

    /// Makes a change now.
    pub fn change(&mut self, change: Change, now: Instant) {
        self.advance(now);
        self.make(change, self.clock);
    }

    /// What each link did while impairments were in effect: up, then down.
    pub fn totals(&self) -> Vec<[Totals; 2]> {
        let mut totals: Vec<_> =
            self.links.iter().map(|[up, down]| [up.totals(), down.totals()]).collect();
        let usage = self.air.iter().flat_map(Air::usage);
        for ([up, _], usage) in totals.iter_mut().zip(usage) {
            (up.busy, up.retried, up.collided) = (usage.airtime, usage.retries, usage.collisions);
        }
        totals
    }

    /// What is asked of a link now, one way.
    ///
    /// # Panics
    /// When `endpoint` is not one of the segment's.
    pub fn asked(&self, endpoint: usize, way: Way) -> &Impairment {
        self.links[endpoint][way as usize].asked()
    }

    /// Ends an interval of what was asked and got on all links.
    pub fn end_interval(&mut self, now: Instant) {
        self.links.iter_mut().flatten().for_each(|direction| direction.end_interval(now));
    }

    /// Takes what was written down of each link: up, then down.
    pub fn intervals(&mut self) -> Vec<[Vec<Interval>; 2]> {
        let take = |direction: &mut Direction| std::mem::take(&mut direction.record.intervals);
        self.links.iter_mut().map(|[up, down]| [take(up), take(down)]).collect()
    }

    /// Takes the reasons for which changes could not be made.
    pub fn refused(&mut self) -> Vec<String> {
        std::mem::take(&mut self.refused)
    }

    /// How many endpoints there are.
    pub fn endpoints(&self) -> usize {
        self.links.len()
    }

    /// Takes a frame that `endpoint` sent at `now`; a time before the latest that
    /// was given counts as that.
    ///
    /// # Panics
    /// When `endpoint` is not one of the segment's.
    pub fn send(&mut self, endpoint: usize, frame: &[u8], now: Instant) {
        self.advance(now);
        let now = self.clock;
        let own = |source: [u8; 6]| self.macs[endpoint].is_none_or(|mac| mac == source);
        let source = addresses(frame).map(|(_, source)| source);
        let Some(source) = source.filter(|s| own(*s) && frame.len() <= self.longest) else {
            self.links[endpoint][Way::Up as usize].rejected();
            return self.drop(endpoint, Way::Up, Cause::Rejected);
        };
        self.places.insert(source, endpoint);
        match self.impaired {
            true => self.enter(endpoint, Way::Up, frame.into(), now, now),
            false => {
                let what = What::Land(frame.into(), now, endpoint as u32, Way::Up);
                self.calendar.add(now, what);
            }
        }
    }

    /// Counts a delivery that was made so much later than meant, in ns.
    pub fn delivered(&mut self, endpoint: usize, late: u64) {
        if self.impaired {
            self.links[endpoint][Way::Down as usize].released(late);
        }
    }

    /// How many frames are under way.
    pub fn waiting(&self) -> usize {
        self.calendar.frames() + self.ready.len()
    }

    /// When something is next due, if anything waits.
    pub fn next(&self) -> Option<Instant> {
        self.ready.front().map(|delivery| delivery.intended).or_else(|| self.calendar.next())
    }

    /// The next delivery that is due at `now`, if there is one.
    pub fn due(&mut self, now: Instant) -> Option<Delivery> {
        if self.ready.is_empty() {
            self.advance(now);
        }
        self.ready.pop_front()
    }

    /// What chance decided since the last call.
    pub fn decided(&mut self) -> impl Iterator<Item = Decided> + '_ {
        self.decided.drain(..)
    }

    /// The drops since the last call.
    pub fn drops(&mut self) -> impl Iterator<Item = Drop> + '_ {
        self.drops.drain(..)
    }

    /// Lets everything happen that does until `now`.
    fn advance(&mut self, now: Instant) {
        while let Some((at, what)) = self.calendar.take(now) {
            self.clock = self.clock.max(at);
            match what {
                What::Land(frame, arrived, link, way) => {
                    self.land((frame, arrived), link as usize, way, at);
                }
                What::Gather(frame, arrived, link, way) => {
                    self.gather((frame, arrived), link as usize, way, at);
                }
                What::Offer(link, way, frame) => self.offer(link as usize, way, *frame, at),
                What::Turn(link, way) => {
                    let mut steps = std::mem::take(&mut self.steps);
                    let (link, channel) = (link as usize, self.has_channel(way));
                    self.links[link][way as usize].turn(at, channel, &mut steps);
                    self.carry_out(link, way, steps, at);
                }
                What::LineTurn(way) => {
                    let mut said = std::mem::take(&mut self.said);
                    if let Some(line) = &mut self.lines[way as usize] {
                        line.turn(at, &mut said);
                    } else if let Some(air) = &mut self.air {
                        air.turn(at, &mut said);
                    }
                    self.heed(way, said, at);
                }
                What::Change(change) => self.make(*change, at),
            }
        }
        self.clock = self.clock.max(now);
    }

    fn enter(&mut self, link: usize, way: Way, frame: Rc<[u8]>, arrived: Instant, now: Instant) {
        let mut steps = std::mem::take(&mut self.steps);
        let channel = self.has_channel(way);
        let radio = self.radios[link].as_mut().map(|radio| (radio, way));
        let direction = &mut self.links[link][way as usize];
        direction.admit(frame, arrived, now, (channel, radio), &mut steps);
        self.carry_out(link, way, steps, now);
    }

    /// Whether frames that go this way have to pass a channel.
    fn has_channel(&self, way: Way) -> bool {
        self.lines[way as usize].is_some() || (way == Way::Up && self.air.is_some())
    }

    fn carry_out(&mut self, link: usize, way: Way, mut steps: Vec<Step>, now: Instant) {
        for step in steps.drain(..) {
            match step {
                Step::Release(frame, at) => {
                    let gathers = self.links[link][way as usize].slots.is_some();
                    let (frame, arrived) = (frame.frame, frame.arrived);
                    let held = &mut self.held[link][way as usize];
                    if *held + frame.len() as u64 > MOST_HELD {
                        self.links[link][way as usize].stopped(Cause::Overflow);
                        self.drop(link, way, Cause::Overflow);
                        continue;
                    }
                    *held += frame.len() as u64;
                    let what = match gathers {
                        true => What::Gather(frame, arrived, link as u32, way),
                        false => What::Land(frame, arrived, link as u32, way),
                    };
                    self.calendar.add(at, what);
                }
                Step::Offer(frame, at) if at <= now => self.offer(link, way, frame, now),
                Step::Offer(frame, at) => {
                    self.calendar.add(at, What::Offer(link as u32, way, Box::new(frame)));
                }
                Step::Drop(cause) => self.drop(link, way, cause),
                Step::Decided(index, decision) => {
                    self.decided.push(Decided { endpoint: link as u32, way, index, decision });
                }
                Step::Turn(at) => self.calendar.add(at, What::Turn(link as u32, way)),
            }
        }
        self.steps = steps;
    }

    fn offer(&mut self, link: usize, way: Way, frame: crate::direction::Carried, now: Instant) {
        let mut said = std::mem::take(&mut self.said);
        let draw = self.draws[link][way as usize];
        if let Some(line) = &mut self.lines[way as usize] {
            line.offer(link, frame, now, draw, &mut said);
        } else if let Some(air) = &mut self.air {
            air.offer(link, frame, now, &mut said);
        }
        self.heed(way, said, now);
    }

    fn heed(&mut self, way: Way, mut said: Vec<Said>, now: Instant) {
        for word in said.drain(..) {
            match word {
                Said::Left(link, frame, at) => {
                    let mut steps = Vec::new();
                    self.links[link][way as usize].depart(frame, at, &mut steps);
                    self.carry_out(link, way, steps, now);
                }
                Said::Drop(link, cause) => {
                    self.links[link][way as usize].stopped(cause);
                    self.drop(link, way, cause);
                }
                Said::Turn(at) => self.calendar.add(at, What::LineTurn(way)),
            }
        }
        self.said = said;
    }

    /// A frame waits for the slot in which it leaves.
    fn gather(
        &mut self,
        (frame, arrived): (Rc<[u8]>, Instant),
        link: usize,
        way: Way,
        now: Instant,
    ) {
        let slots = &mut self.links[link][way as usize].slots;
        let at = slots.as_mut().map_or(now, |slots| slots.send(frame.len() as u64, now));
        self.calendar.add(at, What::Land(frame, arrived, link as u32, way));
    }

    /// A frame has come to the end of a direction.
    fn land(&mut self, (frame, arrived): (Rc<[u8]>, Instant), link: usize, way: Way, at: Instant) {
        let held = &mut self.held[link][way as usize];
        *held = held.saturating_sub(frame.len() as u64);
        if way == Way::Down {
            return self.ready.push_back(Delivery { endpoint: link, frame, arrived, intended: at });
        }
        if self.groups.learn(&frame, link) {
            return;
        }
        for endpoint in self.receivers(&frame, link) {
            if self.parts.as_ref().is_some_and(|part| part[link] != part[endpoint]) {
                self.drop(endpoint, Way::Down, Cause::Parted);
            } else if self.impaired {
                self.enter(endpoint, Way::Down, frame.clone(), arrived, at);
            } else {
                let frame = frame.clone();
                self.ready.push_back(Delivery { endpoint, frame, arrived, intended: at });
            }
        }
    }

    /// Who gets `frame` from `from`: the place of its address, the members of
    /// its group, or all. In order of index, so that a seed repeats a run.
    fn receivers(&self, frame: &[u8], from: usize) -> Vec<usize> {
        let Some((target, _)) = addresses(frame) else { return Vec::new() };
        if let Some(place) = self.places.get(&target) {
            return if *place == from { Vec::new() } else { vec![*place] };
        }
        match group_of(frame) {
            // 224.0.0.0/24 is link-local and always flooded (RFC 4541, 2.1.2).
            Some(group) if group[..3] != [224, 0, 0] => {
                let mut members: Vec<_> =
                    self.groups.members(group).filter(|member| *member != from).collect();
                members.sort_unstable();
                members
            }
            _ => (0..self.links.len()).filter(|other| *other != from).collect(),
        }
    }

    fn drop(&mut self, endpoint: usize, way: Way, cause: Cause) {
        self.drops.push(Drop { endpoint, way, cause });
    }

    fn make(&mut self, change: Change, now: Instant) {
        match change {
            Change::Partition(parts) => self.parts = parts,
            Change::Down { links, down } => {
                for (link, way) in links {
                    self.links[link][way as usize].end_interval(now);
                    self.links[link][way as usize].set_down(down);
                }
            }
            Change::Set { links, set, over } => {
                for (link, way) in links {
                    let direction = &mut self.links[link][way as usize];
                    let from = direction.asked().clone();
                    match set.on(&from) {
                        Ok(to) if over == Span::ZERO => {
                            direction.ramp = None;
                            direction.change(to, now);
                        }
                        Ok(to) => {
                            let ramp = Ramp { from, to, begin: now, end: now + over.as_ns() };
                            direction.change(ramp.at(now), now);
                            direction.ramp = Some(ramp);
                        }
                        Err(why) => self.refused.push(why),
                    }
                    let asked = self.links[link][way as usize].asked();
                    match (&mut self.lines[way as usize], &mut self.air, way) {
                        (Some(line), ..) => line.change(link, asked),
                        (None, Some(air), Way::Up) => air.change(link, asked),
                        _ => {}
                    }
                }
            }
        }
    }
}

/// Destination and source of an Ethernet frame.
fn addresses(frame: &[u8]) -> Option<([u8; 6], [u8; 6])> {
    if frame.len() < 14 {
        return None;
    }
    let target = frame.first_chunk::<6>()?;
    let source = frame.get(6..)?.first_chunk::<6>()?;
    Some((*target, *source))
}

#[cfg(test)]
#[path = "segment_tests.rs"]
mod tests;
