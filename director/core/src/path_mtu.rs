//! Packet size of a path, found by probes: datagram packetization layer path MTU discovery
//! (RFC 8899), for routers that send no ICMP messages.
//!
//! A session uses the largest packets that the system permits. If a message is late, packets of
//! several sizes go to a member, which answers each with a packet of the same size. So both
//! directions are checked. If only smaller packets come back, the session uses these. After a while
//! it tries larger ones again: loss can look like a limit, and a limit can end.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::switch::MemberId;
use crate::{Instant, Span};
use alloc::collections::BTreeMap;

/// Sizes that are tried, in bytes: jumbo frames, FDDI, Ethernet, tunnels, the minimum of IPv6,
/// X.25, the usual limit of datagrams over IPv4, point-to-point links, 802.15.4 (RFC 1191, 7.1).
const SIZES: [u32; 9] = [9_000, 4_352, 1_500, 1_400, 1_280, 1_006, 576, 296, 127];
/// Rounds without any answer after which a search ends (MAX_PROBES, RFC 8899, 5.1.2).
const SILENT_ROUNDS: u32 = 3;
/// Maximum number of times that a round is doubled while nothing is answered (decision 101).
const MAX_SLOWER: u32 = 6;
/// Maximum number of rounds.
const MAX_ROUNDS: u32 = 40;
/// Chance that loss looks like a limit. RFC 8899 sends three probes; here as many as it takes.
const ERROR: f64 = 3e-3;
/// Time after which larger packets are tried again, doubled with each try up to PMTU_RAISE_TIMER (RFC 8899,
/// 5.1.1).
const FIRST_RAISE: Span = Span::from_s(15);
const RAISE_AFTER: Span = Span::from_s(600);
/// Number of times after which it is no longer doubled.
const MAX_RAISES: u32 = 6;
/// Time between two searches for a member; doubled after each search that finds no limit.
const SEARCH_EVERY: Span = Span::from_s(5);
/// Maximum number of times that it is doubled: if the path carries all, and if it carries nothing.
const MAX_DOUBLED: [u32; 2] = [3, 6];

/// A search: packets of several sizes to a member.
#[derive(Debug, Clone)]
struct Search {
    member: MemberId,
    /// Sizes and their numbers of answers.
    answers: BTreeMap<u32, u32>,
    /// Sizes still to be sent in this round.
    left: Vec<u32>,
    rounds: u32,
    began_at: Instant,
    /// End of the round.
    due: Instant,
    /// Time until the first answer: others can take as long.
    waited: Span,
    /// Whether it tries larger packets than the member's limit.
    raises: bool,
    /// Whether it has ended without an answer. Late ones still count: the path may have become far slower.
    is_over: bool,
}

/// What is known of a member's path.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// The limit that was found, in bytes.
    limit: Option<u32>,
    /// Time before which there is no search.
    next_at: Instant,
    /// Consecutive searches that have found no limit.
    failed: u32,
    /// Time of the next search for larger packets, and the number of those before.
    raise_at: Instant,
    raises: u32,
}

impl Known {
    /// Larger packets are tried again later.
    fn put_off_raise(&mut self, now: Instant) {
        let wait = (FIRST_RAISE * (1 << self.raises)).min(RAISE_AFTER);
        (self.raise_at, self.raises) = (now + wait, (self.raises + 1).min(MAX_RAISES));
    }
}

/// The packet size of the paths to all members.
#[derive(Debug, Clone)]
pub struct PathMtu {
    /// The limit that is configured, or that the system knows, in bytes.
    limit: u32,
    /// The longest packet so far that several messages shared, in bytes.
    bundle: u32,
    members: BTreeMap<MemberId, Known>,
    search: Option<Search>,
    /// The largest packet that was of use so far, in bytes.
    used: u32,
    /// See [`Self::find_narrowest`]; each poll of the hub needs it.
    narrowest: Option<(u32, Instant, MemberId)>,
}

impl Search {
    /// The largest size with an answer.
    fn best(&self) -> Option<(u32, u32)> {
        let answered = self.answers.iter().rev().find(|(_, answers)| **answers > 0);
        answered.map(|(size, answers)| (*size, *answers))
    }

    fn largest(&self) -> u32 {
        self.answers.last_key_value().map_or(0, |(size, _)| *size)
    }

    /// The limit, if loss does not explain that larger packets have no answer.
    fn limit(&self) -> Option<u32> {
        // It was sent in each round.
        let (size, answers) = self.best()?;
        // Half a round is added, so that answers to all probes so far do not exclude any loss.
        let passed = f64::from(answers) / (f64::from(self.rounds) + 0.5);
        let chance = (1.0 - passed).powi(self.rounds as i32);
        (size < self.largest() && chance < ERROR).then_some(size)
    }

    /// Begins a round: the largest size with an answer, and larger ones.
    fn begin(&mut self) {
        let from = self.best().map_or(0, |(size, _)| size);
        self.left = self.answers.range(from..).rev().map(|(size, _)| *size).collect();
        self.rounds += 1;
    }
}

impl PathMtu {
    /// Paths that carry packets of `limit` bytes, as far as known.
    pub fn new(limit: u32) -> Self {
        Self { limit, bundle: 0, members: BTreeMap::new(), search: None, used: 0, narrowest: None }
    }

    /// Sets the limit that is configured or that the system knows.
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
        self.find_narrowest();
    }

    /// A member has left: what its path carries no longer matters.
    pub fn remove(&mut self, member: MemberId) {
        self.members.remove(&member);
        self.find_narrowest();
        self.search.take_if(|search| search.member == member);
    }

    /// The packet size that all members receive, in bytes.
    pub fn size(&self) -> u32 {
        let found = self.members.values().filter_map(|known| known.limit).min();
        found.map_or(self.limit, |found| found.min(self.limit))
    }

    /// Whether a path carries less than the system knows, so that IP fragments of the system's
    /// size vanish too.
    pub fn is_reduced(&self) -> bool {
        self.size() < self.limit
    }

    /// Several messages share a packet of this size: any of them can be late because of it.
    pub fn record_bundle(&mut self, size: u32) {
        self.bundle = self.bundle.max(size);
    }

    /// A message to a member in packets of up to `used` bytes, or in a bundle, is late: checks its
    /// path, unless that was done a moment ago.
    pub fn suspect(&mut self, member: MemberId, used: u32, now: Instant) {
        self.suspect_alone(member, used.max(self.bundle), now);
    }

    /// The same for a message that is in no bundle of the hub.
    pub fn suspect_alone(&mut self, member: MemberId, used: u32, now: Instant) {
        let is_searching = self.is_searching();
        self.used = self.used.max(used);
        let known = self.members.entry(member).or_default();
        if is_searching || now < known.next_at {
            return;
        }
        // The message is not late because of a size that it does not use.
        let largest = known.limit.map_or(self.limit, |found| found.min(self.limit));
        let largest = largest.min(used);
        if largest > SIZES[SIZES.len() - 1] {
            let sizes = SIZES.into_iter().filter(|size| *size < largest);
            self.search(member, sizes.chain([largest]), now);
        }
    }

    /// Whether a search sends probes; one that is over only counts late answers.
    fn is_searching(&self) -> bool {
        self.search.as_ref().is_some_and(|search| !search.is_over)
    }

    fn search(&mut self, member: MemberId, sizes: impl Iterator<Item = u32>, now: Instant) {
        let mut search = Search {
            member,
            answers: sizes.map(|size| (size, 0)).collect(),
            raises: false,
            left: Vec::new(),
            rounds: 0,
            began_at: now,
            due: now,
            waited: Span::ZERO,
            is_over: false,
        };
        search.begin();
        self.search = Some(search);
    }

    /// The next probe: its member and size. `round` is the time in which probes are answered.
    pub fn poll(&mut self, now: Instant, round: Span) -> Option<(MemberId, u32)> {
        self.raise(now);
        if self.search.as_ref()?.left.is_empty() {
            if self.search.as_ref().is_some_and(|search| search.is_over || now < search.due) {
                return None;
            }
            self.end_round(now);
        }
        let search = self.search.as_mut()?;
        // Small ones first: their answers are back early.
        let size = search.left.pop()?;
        // Silence may be a queue: a round must not add to it what the round before could not pass.
        let silent = if search.best().is_none() { search.rounds - 1 } else { 0 };
        search.due = now + (round * (1 << silent.min(MAX_SLOWER))).max(search.waited);
        Some((search.member, size))
    }

    /// Time of the next probe, if any.
    pub fn next_at(&self) -> Option<Instant> {
        match &self.search {
            Some(search) if !search.is_over && search.left.is_empty() => Some(search.due),
            Some(search) if !search.is_over => Some(Instant::START),
            _ => self.narrowest.map(|(_, at, _)| at),
        }
    }

    /// Finds the smallest limit, the time at which larger packets are tried, and the member. It decides the
    /// packet size of all members, so only that path is worth a search.
    fn find_narrowest(&mut self) {
        let of = |(member, known): (&MemberId, &Known)| {
            let limit = known.limit.filter(|limit| *limit < self.limit)?;
            Some((limit, known.raise_at, *member))
        };
        self.narrowest = self.members.iter().filter_map(of).min();
    }

    /// Tries larger packets to the member with the smallest limit.
    fn raise(&mut self, now: Instant) {
        let due = self.narrowest.filter(|(_, at, _)| *at <= now && !self.is_searching());
        let Some((size, _, member)) = due else { return };
        // On slow paths all sizes would take seconds each time: the next one, and what is of use.
        let largest = self.used.clamp(size + 1, self.limit);
        let next = SIZES.into_iter().rev().find(|next| *next > size);
        let sizes = [size].into_iter().chain(next.filter(|next| *next < largest));
        self.search(member, sizes.chain([largest]), now);
        self.search.iter_mut().for_each(|search| search.raises = true);
    }

    fn end_round(&mut self, now: Instant) {
        let Some(search) = &mut self.search else { return };
        let best = search.best().map(|(size, _)| size);
        let (whole, limit) = (best == Some(search.largest()), search.limit());
        // If nothing comes back, it is an outage, not a limit.
        let most = if best.is_some() { MAX_ROUNDS } else { SILENT_ROUNDS };
        if !whole && limit.is_none() && search.rounds < most {
            search.begin();
            return;
        }
        let (member, largest, raises) = (search.member, search.largest(), search.raises);
        search.is_over = true;
        self.search.take_if(|_| best.is_some());
        let known = self.members.entry(member).or_default();
        if limit.is_some() && !raises {
            known.raises = 0;
        }
        if limit.is_some() || raises {
            known.put_off_raise(now);
        }
        if limit.is_some() {
            (known.limit, known.failed) = (limit, 0);
        } else {
            // A search below a known limit says nothing of larger packets, so it stays.
            known.limit = known.limit.filter(|_| !whole || !raises && largest < self.limit);
            known.failed = (known.failed + 1).min(MAX_DOUBLED[usize::from(best.is_none())]);
        }
        known.next_at = now + (SEARCH_EVERY * (1 << known.failed));
        self.find_narrowest();
    }

    /// A member has answered a probe of `size` bytes. Returns whether the search is over.
    pub fn answered(&mut self, member: MemberId, size: u32, now: Instant) -> bool {
        let Some(search) = self.search.as_mut().filter(|search| search.member == member) else {
            return false;
        };
        let Some(answers) = search.answers.get_mut(&size) else { return false };
        *answers += 1;
        if search.waited == Span::ZERO {
            search.waited = now - search.began_at;
            // The other answers come now, and silence no longer makes rounds longer.
            let due = now + search.waited;
            search.due = if search.is_over { due } else { due.min(search.due) };
            search.is_over = false;
        }
        // If the largest passes, no smaller size needs to be known.
        let whole = size == search.largest();
        if whole {
            self.end_round(now);
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: Span = Span::from_ms(100);

    /// Runs a search over a path with this limit and loss; returns the number of probes.
    fn search(mtu: &mut PathMtu, now: &mut Instant, path: u32, loss: f64) -> u32 {
        let (mut probes, mut state) = (0, 7_u64);
        while let Some(at) = mtu.next_at().filter(|at| *at <= *now || mtu.is_searching()) {
            *now = (*now).max(at);
            while let Some((member, size)) = mtu.poll(*now, ROUND) {
                probes += 1;
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let lost = ((state >> 11) as f64 / (1_u64 << 53) as f64) < loss;
                if size <= path && !lost {
                    mtu.answered(member, size, *now);
                }
            }
        }
        probes
    }

    #[test]
    fn a_limit_is_found_and_left_again() {
        let (mut mtu, mut now) = (PathMtu::new(1_500), Instant::START);
        mtu.suspect(3, 1_500, now);
        let probes = search(&mut mtu, &mut now, 600, 0.0);
        assert_eq!((mtu.size(), mtu.is_reduced()), (576, true));
        assert!(probes < 25, "{probes}");
        assert!(now < Instant::START + 5 * ROUND, "{now:?}");
        // Larger ones are tried again, less and less often.
        let mut waits = Vec::new();
        for _ in 0..8 {
            let before = core::mem::replace(&mut now, mtu.next_at().unwrap());
            waits.push((now - before).as_ms() as u64 / 1_000);
            assert_eq!(mtu.poll(before, ROUND), None);
            search(&mut mtu, &mut now, 600, 0.0);
            assert_eq!(mtu.size(), 576);
        }
        assert_eq!(waits, [15, 30, 60, 120, 240, 480, 600, 600]);
        // Later the path carries everything again.
        now = mtu.next_at().unwrap();
        search(&mut mtu, &mut now, 9_000, 0.0);
        assert_eq!((mtu.size(), mtu.is_reduced(), mtu.next_at()), (1_500, false, None));
    }

    /// What is of use passes, so no limit is left, though larger packets were not tried.
    #[test]
    fn a_limit_that_was_none_ends_soon() {
        let (mut mtu, mut now) = (PathMtu::new(1_500), Instant::START);
        mtu.suspect(3, 285, now);
        search(&mut mtu, &mut now, 200, 0.0);
        assert_eq!(mtu.size(), 127);
        now = mtu.next_at().unwrap();
        assert!(now < Instant::START + Span::from_s(16));
        search(&mut mtu, &mut now, 1_500, 0.3);
        assert_eq!((mtu.size(), mtu.next_at()), (1_500, None));
    }

    #[test]
    fn loss_and_outages_are_no_limit() {
        for loss in [0.2, 0.5, 0.8] {
            let (mut mtu, mut now) = (PathMtu::new(1_500), Instant::START);
            mtu.suspect(0, 1_500, now);
            search(&mut mtu, &mut now, 1_500, loss);
            assert_eq!(mtu.size(), 1_500, "{loss}");
        }
        let (mut mtu, mut now) = (PathMtu::new(1_500), Instant::START);
        let mut probes = 0;
        for _ in 0..600 {
            now += Span::from_s(1);
            mtu.suspect(0, 1_500, now);
            probes += search(&mut mtu, &mut now, 0, 0.0);
        }
        assert_eq!(mtu.size(), 1_500);
        assert!(probes < 200, "in ten minutes of an outage: {probes}");
    }

    #[test]
    fn the_narrowest_path_limits_all_and_so_does_the_system() {
        let (mut mtu, mut now) = (PathMtu::new(1_500), Instant::START);
        mtu.suspect(1, 1_500, now);
        search(&mut mtu, &mut now, 1_300, 0.0);
        mtu.suspect(2, 1_500, now);
        search(&mut mtu, &mut now, 700, 0.0);
        assert_eq!(mtu.size(), 576);
        mtu.set_limit(113);
        assert_eq!((mtu.size(), mtu.is_reduced()), (113, false));
    }
}
