//! A network segment: endpoints joined by a switch or a shared channel.
//!
//! Pure: frames and times in, deliveries out. A frame meets two directions, up
//! from its sender and down to each receiver; the second is decided only when
//! the first has let the frame go, so each direction sees its frames in order.

use crate::groups::{Groups, group_of};
use crate::{Direction, Fate, Impairment, Instant, Serialiser, Totals};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::rc::Rc;
use units::{Draw, Rate};

/// How the members of a segment share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// Each link by itself, full duplex.
    Switch,
    /// One half-duplex channel for all at this rate: one frame at a time,
    /// whoever sends it, first come first served.
    Shared(Rate),
}

/// One attachment to a segment, with what is asked of it each way.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// From the node into the network.
    pub up: Impairment,
    /// From the network to the node.
    pub down: Impairment,
}

/// What a segment is made of.
#[derive(Debug, Clone)]
pub struct SegmentSpec {
    /// How the members share it.
    pub channel: Channel,
    /// The members; an endpoint's place here is its index everywhere.
    pub endpoints: Vec<Endpoint>,
    /// The seed of all draws.
    pub seed: u64,
    /// Whether impairments hold from the start, or wait for
    /// [`Segment::impair`].
    pub impaired: bool,
}

/// A frame on its way out of the segment.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Who gets it.
    pub endpoint: usize,
    /// The frame, link header included.
    pub frame: Rc<[u8]>,
    /// When it came in.
    pub arrived: Instant,
    /// When it should go out.
    pub intended: Instant,
}

/// A frame that the segment did not carry further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drop {
    /// Lost on the way up from this endpoint.
    LostUp(usize),
    /// Lost on the way down to this endpoint.
    LostDown(usize),
    /// The queue of this endpoint's link was full, on the way up.
    OverflowUp(usize),
    /// The queue of this endpoint's link was full, on the way down.
    OverflowDown(usize),
}

/// What waits for its time; ordered by time, then by arrival.
#[derive(Debug)]
struct Event {
    at: Instant,
    order: u64,
    /// The receiver, once its down direction has let the frame go.
    to: Option<usize>,
    from: usize,
    arrived: Instant,
    frame: Rc<[u8]>,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}
impl Eq for Event {}
impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// A running segment.
#[derive(Debug)]
pub struct Segment {
    links: Vec<[Direction; 2]>,
    channel: Option<Serialiser>,
    places: HashMap<[u8; 6], usize>,
    groups: Groups,
    waiting: BinaryHeap<Reverse<Event>>,
    order: u64,
    drops: Vec<Drop>,
    impaired: bool,
}

impl Segment {
    /// An idle segment. While impairments wait, no link draws: the first measured
    /// frame is the first of its link, however much setting up took.
    pub fn new(spec: &SegmentSpec) -> Self {
        let direction = |asked: &Impairment, link: usize, way: u64| {
            Direction::new(asked.clone(), Draw::new(spec.seed, link as u64, way))
        };
        let links = spec.endpoints.iter().enumerate();
        Self {
            links: links
                .map(|(i, link)| [direction(&link.up, i, 0), direction(&link.down, i, 1)])
                .collect(),
            channel: match spec.channel {
                Channel::Switch => None,
                Channel::Shared(rate) => Some(Serialiser::new(rate, units::Bytes::new(0))),
            },
            places: HashMap::new(),
            groups: Groups::default(),
            waiting: BinaryHeap::new(),
            order: 0,
            drops: Vec::new(),
            impaired: spec.impaired,
        }
    }

    /// Puts impairments into effect.
    pub fn impair(&mut self) {
        self.impaired = true;
    }

    /// What each link did while impairments were in effect: up, then down.
    pub fn totals(&self) -> Vec<[Totals; 2]> {
        self.links.iter().map(|[up, down]| [up.totals(), down.totals()]).collect()
    }

    /// How many endpoints there are.
    pub fn endpoints(&self) -> usize {
        self.links.len()
    }

    /// Takes a frame that `endpoint` sent at `now`. Times must not decrease
    /// between calls, this one and [`Self::due`] taken together.
    ///
    /// # Panics
    /// When `endpoint` is not one of the segment's.
    pub fn send(&mut self, endpoint: usize, frame: &[u8], now: Instant) {
        let Some((_, source)) = addresses(frame) else { return };
        self.places.insert(source, endpoint);
        let fate = match self.impaired {
            true => self.links[endpoint][0].admit(frame, now, self.channel.as_mut()),
            false => Fate::Release(now),
        };
        match fate {
            Fate::Release(at) => self.wait(at, None, endpoint, now, frame.into()),
            Fate::Lost => self.drops.push(Drop::LostUp(endpoint)),
            Fate::Overflow => self.drops.push(Drop::OverflowUp(endpoint)),
        }
    }

    /// How many frames are under way.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// When something is next due, if anything waits.
    pub fn next(&self) -> Option<Instant> {
        self.waiting.peek().map(|Reverse(event)| event.at)
    }

    /// The next delivery that is due at `now`, if there is one.
    pub fn due(&mut self, now: Instant) -> Option<Delivery> {
        while self.next()? <= now {
            let Reverse(event) = self.waiting.pop()?;
            if let Some(endpoint) = event.to {
                let Event { frame, arrived, at: intended, .. } = event;
                return Some(Delivery { endpoint, frame, arrived, intended });
            }
            self.descend(&event);
        }
        None
    }

    /// The drops since the last call.
    pub fn drops(&mut self) -> impl Iterator<Item = Drop> + '_ {
        self.drops.drain(..)
    }

    /// Decides the way down of a frame that has come up.
    fn descend(&mut self, event: &Event) {
        if self.groups.learn(&event.frame, event.from) {
            return;
        }
        for endpoint in self.receivers(&event.frame, event.from) {
            let fate = match self.impaired {
                true => self.links[endpoint][1].admit(&event.frame, event.at, None),
                false => Fate::Release(event.at),
            };
            match fate {
                Fate::Release(at) => {
                    let frame = event.frame.clone();
                    self.wait(at, Some(endpoint), event.from, event.arrived, frame);
                }
                Fate::Lost => self.drops.push(Drop::LostDown(endpoint)),
                Fate::Overflow => self.drops.push(Drop::OverflowDown(endpoint)),
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

    fn wait(
        &mut self,
        at: Instant,
        to: Option<usize>,
        from: usize,
        arrived: Instant,
        frame: Rc<[u8]>,
    ) {
        let order = self.order;
        self.order += 1;
        self.waiting.push(Reverse(Event { at, order, to, from, arrived, frame }));
    }
}

/// Destination and source of an Ethernet frame.
fn addresses(frame: &[u8]) -> Option<([u8; 6], [u8; 6])> {
    let target = frame.first_chunk::<6>()?;
    let source = frame.get(6..)?.first_chunk::<6>()?;
    Some((*target, *source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::tests::{JOIN_V3, igmp_frame};
    use etherparse::PacketBuilder;

    fn frame(from: u8, to: [u8; 6], ip: [u8; 4]) -> Vec<u8> {
        let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, from], to)
            .ipv4([10, 0, 0, from], ip, 64)
            .udp(1, 2);
        let mut frame = Vec::new();
        builder.write(&mut frame, &[0; 85]).unwrap();
        frame
    }

    fn unicast(from: u8, to: u8) -> Vec<u8> {
        frame(from, [2, 0, 0, 0, 0, to], [10, 0, 0, to])
    }

    fn segment(channel: Channel, change: impl Fn(usize, &mut Endpoint)) -> Segment {
        let endpoint = |i| {
            let mut endpoint = Endpoint { up: Impairment::default(), down: Impairment::default() };
            change(i, &mut endpoint);
            endpoint
        };
        let endpoints = (0..4).map(endpoint).collect();
        Segment::new(&SegmentSpec { channel, endpoints, seed: 7, impaired: true })
    }

    fn drain(segment: &mut Segment) -> Vec<(usize, Instant)> {
        std::iter::from_fn(|| segment.due(Instant::MAX)).map(|d| (d.endpoint, d.intended)).collect()
    }

    #[test]
    fn floods_until_it_has_learnt() {
        let mut switch = segment(Channel::Switch, |_, _| ());
        switch.send(0, &unicast(0, 1), 5);
        assert_eq!(drain(&mut switch), [(1, 5), (2, 5), (3, 5)]);
        switch.send(1, &unicast(1, 0), 6);
        assert_eq!(drain(&mut switch), [(0, 6)]);
    }

    #[test]
    fn multicast_goes_to_members_and_reports_to_nobody() {
        let mut switch = segment(Channel::Switch, |_, _| ());
        switch.send(2, &igmp_frame(&JOIN_V3), 0);
        assert!(drain(&mut switch).is_empty());
        switch.send(0, &frame(0, [1, 0, 0x5e, 1, 2, 3], [239, 1, 2, 3]), 1);
        assert_eq!(drain(&mut switch), [(2, 1)]);
    }

    #[test]
    fn nothing_is_due_before_its_time() {
        let mut switch = segment(Channel::Switch, |_, link| {
            link.down.delay = "30 ms".parse().unwrap();
        });
        switch.send(0, &unicast(0, 1), 0);
        assert!(switch.due(29_999_999).is_none());
        assert_eq!(switch.next(), Some(30_000_000));
        assert!(switch.due(30_000_000).is_some());
    }

    #[test]
    fn a_multicast_takes_the_shared_channel_once() {
        let rate = Rate::from_bit_s(250_000).unwrap();
        let mut radio = segment(Channel::Shared(rate), |_, _| ());
        radio.send(0, &unicast(0, 9), 0);
        radio.send(1, &unicast(1, 0), 0);
        let time = 127 * 32_000;
        assert_eq!(drain(&mut radio), [(1, time), (2, time), (3, time), (0, 2 * time)]);
    }

    #[test]
    fn each_receiver_of_a_multicast_has_losses_of_its_own() {
        let mut switch = segment(Channel::Switch, |_, link| {
            link.down.loss = "30 %".parse().unwrap();
        });
        for now in 0..10_000 {
            switch.send(0, &unicast(0, 9), now);
        }
        let mut got = [0u32; 4];
        drain(&mut switch).iter().for_each(|(endpoint, _)| got[*endpoint] += 1);
        // Four standard deviations of a binomial of 10,000: 183.
        assert!(got[1..].iter().all(|n| n.abs_diff(7000) < 183), "{got:?}");
        assert!(got[1] != got[2] || got[2] != got[3]);
        let all = got.iter().sum::<u32>() as usize;
        assert_eq!(all + switch.drops().count(), 30_000, "every copy is accounted for");
    }

    #[test]
    fn the_same_seed_and_frames_meet_the_same_fate() {
        let run = || {
            let mut radio =
                segment(Channel::Shared(Rate::from_bit_s(250_000).unwrap()), |_, link| {
                    link.up.loss = "30 %".parse().unwrap();
                    link.up.jitter = "5 ms".parse().unwrap();
                    link.up.delay = "30 ms".parse().unwrap();
                });
            (0..500).for_each(|i| radio.send(i % 4, &unicast((i % 4) as u8, 9), i as u64 * 1_000));
            drain(&mut radio)
        };
        assert_eq!(run(), run());
    }

    #[test]
    fn runts_are_ignored() {
        let mut switch = segment(Channel::Switch, |_, _| ());
        switch.send(0, &[1, 2, 3], 0);
        assert!(drain(&mut switch).is_empty());
    }
}
