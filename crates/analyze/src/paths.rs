//! Matches packets between capture points: loss and latency.

use crate::address::Address;
use crate::figures::PathFigures;
use crate::kinds::percent;
use crate::reader::Direction;
use crate::times::Times;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};

/// A packet at a capture point.
#[derive(Clone, Copy)]
pub(crate) struct Sighting<'a> {
    pub point: usize,
    /// The time, in ns since 1970.
    pub at: u64,
    pub direction: Direction,
    pub data: &'a [u8],
    /// The offset of its IP packet, if any.
    pub start: usize,
    /// Source and destination link address.
    pub macs: Option<[[u8; 6]; 2]>,
    /// Source and destination IP address.
    pub addresses: Option<[Address; 2]>,
}

/// The destination of a packet: broadcast or multicast, a link address, or a pair of IP
/// addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Target {
    All,
    Mac([u8; 6]),
    Pair([Address; 2]),
}

#[derive(Debug)]
struct Sent {
    at: u64,
    from: usize,
    target: Target,
}

#[derive(Debug, Default)]
struct Path {
    delivered: Times,
    lost: u64,
    under_way: u64,
}

/// Packets under way, and the results of the others.
#[derive(Debug)]
pub(crate) struct Paths {
    /// The two requested points; otherwise the packets' directions decide.
    requested: Option<(usize, usize)>,
    /// Whether two points are requested that the capture has not named yet.
    waits: bool,
    within: u64,
    hasher: RandomState,
    pending: HashMap<u64, VecDeque<Sent>>,
    /// Packets of the opposite direction, by content hash.
    opposite: HashMap<u64, u64>,
    queue: VecDeque<(u64, u64)>,
    paths: HashMap<(usize, usize), Path>,
    /// Packets that did not arrive, by sender and target.
    missing: HashMap<(usize, Target), [u64; 2]>,
    /// The points that send from a link address.
    owners: HashMap<[u8; 6], usize>,
    arrived: HashSet<Target>,
    /// Received packets without a recorded sender.
    pub unmatched: u64,
    /// Packets of the paths beyond [`MAX_PATHS`].
    pub left_out: u64,
    now: u64,
}

/// The maximum number of packets under way.
// Bounds of decision 59: a capture can have any number of packets without a receiver.
const MAX_UNDER_WAY: usize = 1 << 19;
/// The maximum number of separate targets.
const MAX_TARGETS: usize = 1 << 18;
/// The maximum number of paths: a broadcast of each of 512 points to all others. 65,536 points could have 2^32.
const MAX_PATHS: usize = 1 << 18;
/// The maximum number of packets with the same bytes among which the sent one of an arrival is searched.
const MAX_ALIKE: usize = 1_024;

impl Paths {
    /// Paths with a timeout of `within` ns; with `requested`, only between two points that are
    /// named later.
    pub(crate) fn new(within: u64, requested: bool) -> Self {
        Self {
            requested: None,
            waits: requested,
            within,
            hasher: RandomState::new(),
            pending: HashMap::new(),
            opposite: HashMap::new(),
            queue: VecDeque::new(),
            paths: HashMap::new(),
            missing: HashMap::new(),
            owners: HashMap::new(),
            arrived: HashSet::new(),
            unmatched: 0,
            left_out: 0,
            now: 0,
        }
    }

    /// Restricts the measurement to the path from point `from` to point `to`.
    pub(crate) fn restrict_to(&mut self, from: usize, to: usize) {
        self.requested = Some((from, to));
        self.waits = false;
    }

    /// Whether this is the first capture of a packet: it does not come from another point
    /// of this capture.
    pub(crate) fn is_first_capture(&mut self, sighting: &Sighting<'_>) -> bool {
        let Some([from, _]) = sighting.macs else { return true };
        match sighting.direction {
            Direction::Unknown => true,
            Direction::Out => {
                if self.owners.len() < MAX_TARGETS
                    && self.owners.get(&from) != Some(&sighting.point)
                {
                    self.owners.insert(from, sighting.point);
                }
                true
            }
            Direction::In => self.owners.get(&from).is_none_or(|owner| *owner == sighting.point),
        }
    }

    pub(crate) fn record(&mut self, sighting: &Sighting<'_>) {
        if self.waits {
            return;
        }
        self.now = self.now.max(sighting.at);
        self.expire();
        match (self.requested, sighting.direction) {
            (Some((from, to)), _) => {
                // Link addresses change on the way between two networks, IP addresses do not
                // (without NAT).
                let Some(pair) = sighting.addresses else { return };
                let target = Target::Pair(pair);
                let key = self.contents(sighting.data, sighting.start, true);
                // A packet that was seen at `to` before goes in the other direction.
                if sighting.point == from && self.opposite.remove(&key).is_none() {
                    self.send(key, sighting, target);
                } else if sighting.point == to && !self.arrive(key, sighting) {
                    self.opposite.insert(key, sighting.at);
                    self.queue.push_back((sighting.at, key));
                }
            }
            (None, Direction::Out) => {
                let target = match sighting.macs {
                    // The lowest bit of the first byte marks group addresses (IEEE 802).
                    Some([_, to]) if to[0] & 1 == 0 => Target::Mac(to),
                    _ => Target::All,
                };
                let key = self.contents(sighting.data, 0, false);
                self.send(key, sighting, target);
            }
            (None, Direction::In) => {
                let key = self.contents(sighting.data, 0, false);
                // What comes from a sender without a capture point has no counterpart here.
                let known = sighting.macs.is_some_and(|[from, _]| self.owners.contains_key(&from));
                if !self.arrive(key, sighting) && known {
                    self.unmatched += 1;
                }
            }
            (None, Direction::Unknown) => {}
        }
    }

    fn send(&mut self, key: u64, sighting: &Sighting<'_>, target: Target) {
        let sent = Sent { at: sighting.at, from: sighting.point, target };
        self.pending.entry(key).or_default().push_back(sent);
        self.queue.push_back((sighting.at, key));
    }

    fn arrive(&mut self, key: u64, sighting: &Sighting<'_>) -> bool {
        let Some(sent) = self.pending.get_mut(&key) else { return false };
        let mut alike = sent.iter().take(MAX_ALIKE);
        let Some(place) = alike.position(|sent| sent.from != sighting.point) else {
            return false;
        };
        let Sent { at, from, target } = sent[place];
        // A broadcast arrives at several points, so it waits for more until it is too old.
        if target != Target::All {
            sent.remove(place);
            if sent.is_empty() {
                self.pending.remove(&key);
            }
            if self.arrived.len() < MAX_TARGETS {
                self.arrived.insert(target);
            }
        }
        match self.path(from, sighting.point) {
            Some(path) => path.delivered.note(sighting.at.wrapping_sub(at) as i64),
            None => self.left_out += 1,
        }
        true
    }

    /// The path between these points, if it is or can be listed.
    fn path(&mut self, from: usize, to: usize) -> Option<&mut Path> {
        let ends = (from, to);
        if self.paths.len() >= MAX_PATHS {
            return self.paths.get_mut(&ends);
        }
        Some(self.paths.entry(ends).or_default())
    }

    /// Counts packets that exceed the timeout as lost.
    fn expire(&mut self) {
        while let Some(&(at, key)) = self.queue.front() {
            if self.now - at.min(self.now) <= self.within && self.queue.len() <= MAX_UNDER_WAY {
                return;
            }
            self.queue.pop_front();
            self.opposite.remove(&key);
            let Some(sent) = self.pending.get_mut(&key) else { continue };
            // A later packet with the same content has another entry in the queue.
            let old = sent.front().is_some_and(|first| first.at <= at);
            let lost = if old { sent.pop_front() } else { None };
            if sent.is_empty() {
                self.pending.remove(&key);
            }
            if let Some(lost) = lost {
                self.record_loss(&lost, 0);
            }
        }
    }

    fn record_loss(&mut self, sent: &Sent, what: usize) {
        // It is not known which points should have received a broadcast.
        if sent.target != Target::All && self.missing.len() < MAX_TARGETS {
            self.missing.entry((sent.from, sent.target)).or_default()[what] += 1;
        }
    }

    /// The results, and the number of packets to destinations without a capture point. Packets sent within
    /// `recent` ns before the end count as under way.
    pub(crate) fn finish(&mut self, names: &[String], recent: u64) -> (Vec<PathFigures>, u64) {
        let pending: Vec<Sent> = self.pending.drain().flat_map(|(_, sent)| sent).collect();
        for sent in pending {
            let young = self.now.saturating_sub(sent.at) < recent;
            self.record_loss(&sent, usize::from(young));
        }
        let mut elsewhere = 0;
        for ((from, target), [lost, under_way]) in std::mem::take(&mut self.missing) {
            let to = match target {
                Target::Mac(mac) => self.owners.get(&mac).copied(),
                Target::Pair(_) if self.arrived.contains(&target) => {
                    self.requested.map(|(_, to)| to)
                }
                // Nothing was ever received there, so it is not known whether a capture point is on
                // the way.
                _ => None,
            };
            let Some(to) = to else {
                elsewhere += lost + under_way;
                continue;
            };
            match self.path(from, to) {
                Some(path) => {
                    path.lost += lost;
                    path.under_way += under_way;
                }
                None => self.left_out += lost + under_way,
            }
        }
        let mut rows: Vec<_> = std::mem::take(&mut self.paths).into_iter().collect();
        rows.sort_by_key(|(ends, _)| *ends);
        let rows = rows.into_iter().map(|((from, to), path)| PathFigures {
            from: names[from].clone(),
            to: names[to].clone(),
            delivered: path.delivered.count,
            lost: path.lost,
            under_way: path.under_way,
            loss_pct: percent(path.lost, path.lost + path.delivered.count),
            latency_ms: path.delivered.figures(),
        });
        (rows.collect(), elsewhere)
    }

    /// A hash of a packet's content. Routing changes the TTL and the IPv4 header checksum,
    /// so `routed` leaves them out.
    fn contents(&self, data: &[u8], start: usize, routed: bool) -> u64 {
        // Keyed at random, so that contents cannot be chosen to collide.
        let mut hasher = self.hasher.build_hasher();
        let ip = data.get(start..).unwrap_or_default();
        match ip {
            [version, ..] if routed && version >> 4 == 4 && ip.len() >= 20 => {
                hasher.write(&ip[..8]);
                // Without the TTL (byte 8) and the header checksum (bytes 10 and 11).
                hasher.write(&ip[9..10]);
                let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
                hasher.write(&ip[12..total.clamp(12, ip.len())]);
            }
            [version, ..] if routed && version >> 4 == 6 && ip.len() >= 40 => {
                // Without the hop limit (byte 7).
                hasher.write(&ip[..7]);
                hasher.write(&ip[8..]);
            }
            _ => hasher.write(ip),
        }
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sighting(point: usize, at: u64, direction: Direction, data: &[u8]) -> Sighting<'_> {
        let macs = if data[0] == 1 { [[2; 6], [4; 6]] } else { [[4; 6], [2; 6]] };
        Sighting {
            point,
            at,
            direction,
            data,
            start: 0,
            macs: Some(macs),
            addresses: Some([1, 2].map(Address::from)),
        }
    }

    #[test]
    fn lost_and_late_by_the_packets_directions() {
        let mut paths = Paths::new(1_000_000_000, false);
        let (a, b) = ([1, 2, 3], [1, 2, 4]);
        for (n, data) in [&a, &b, &a].into_iter().enumerate() {
            let out = sighting(0, n as u64, Direction::Out, data);
            assert!(paths.is_first_capture(&out));
            paths.record(&out);
        }
        // A reply, which shows the destination of those packets.
        assert!(paths.is_first_capture(&sighting(1, 4, Direction::Out, &[0, 0])));
        let arrival = sighting(1, 2_000_000, Direction::In, &a);
        assert!(!paths.is_first_capture(&arrival));
        paths.record(&arrival);
        paths.record(&sighting(1, 9_000_000, Direction::In, &[1, 9]));
        assert_eq!(paths.unmatched, 1, "damaged on its way");
        let (rows, elsewhere) = paths.finish(&["a".to_owned(), "b".to_owned()], 0);
        assert_eq!((rows.len(), rows[0].delivered, rows[0].lost, elsewhere), (1, 1, 2, 0));
        assert_eq!(rows[0].latency_ms.unwrap().mean, 2.0);
    }

    #[test]
    fn paths_beyond_the_limit_are_counted_and_not_listed() {
        let mut paths = Paths::new(u64::MAX, false);
        let side = 520_usize;
        for from in 0..side {
            // A broadcast that all points receive.
            let data = [1, (from >> 8) as u8, from as u8];
            let macs = Some([[2; 6], [0xff; 6]]);
            let mut seen = sighting(from, 0, Direction::Out, &data);
            seen.macs = macs;
            paths.record(&seen);
            for to in (0..side).filter(|to| *to != from) {
                paths.record(&Sighting { point: to, direction: Direction::In, ..seen });
            }
        }
        let names = vec![String::new(); side];
        let (rows, _) = paths.finish(&names, 0);
        assert_eq!(rows.len(), MAX_PATHS);
        assert_eq!(paths.left_out as usize, side * (side - 1) - MAX_PATHS);
    }

    /// Each arrival looked at all packets with the same bytes: half a million, for each of any number of arrivals.
    #[test]
    fn only_the_first_of_packets_with_the_same_bytes_are_searched() {
        let matched = |alike: usize| {
            let mut paths = Paths::new(u64::MAX, false);
            for point in std::iter::repeat_n(0, alike).chain([1]) {
                paths.record(&sighting(point, 0, Direction::Out, &[1, 2]));
            }
            paths.record(&sighting(0, 5, Direction::In, &[1, 2]));
            paths.finish(&["a".to_owned(), "b".to_owned()], 0).0.iter().any(|row| row.delivered > 0)
        };
        assert_eq!((matched(MAX_ALIKE - 1), matched(MAX_ALIKE)), (true, false));
    }

    #[test]
    fn between_two_points_of_which_nothing_is_known() {
        let mut paths = Paths::new(1_000, true);
        paths.restrict_to(0, 1);
        paths.record(&sighting(0, 1, Direction::Unknown, &[1, 1]));
        paths.record(&sighting(1, 3, Direction::Unknown, &[1, 1]));
        // The opposite direction, which was not requested.
        paths.record(&sighting(1, 4, Direction::Unknown, &[1, 2]));
        paths.record(&sighting(0, 5, Direction::Unknown, &[1, 2]));
        paths.record(&sighting(0, 6, Direction::Unknown, &[1, 3]));
        let (rows, _) = paths.finish(&["a".to_owned(), "b".to_owned()], 0);
        assert_eq!((rows[0].delivered, rows[0].lost), (1, 1));
        assert_eq!(rows[0].latency_ms.unwrap().count, 1);
    }
}
