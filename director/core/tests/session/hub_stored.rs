//! Stored messages of the hub over starts of the hub and of members: each member's application gets each
//! once at most, and each has one outcome at each member, a true one.

use crate::bed::*;
use director::carrier::To;
use director::session::{Config, Hub, Member, MemberEvent};
use director::{
    Conditions, HubChange, HubMessage, HubReceipts, HubState, Instant, MemberId, ModelId, Outcome,
    Outcomes, Pattern, ReceiptChange, Receiver, Span, StoredChange, StoredFrom, StoredState,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;
const MEMBERS: u32 = 3;

/// What a hub has on its disk.
#[derive(Default)]
struct Disk {
    next: u64,
    open: BTreeMap<u64, HubMessage>,
    ended: BTreeMap<u64, Outcomes>,
}

impl Disk {
    fn write(&mut self, changes: Vec<HubChange>) {
        for change in changes {
            match change {
                HubChange::Added(message) => {
                    self.next = message.id + 1;
                    self.open.insert(message.id, message);
                }
                HubChange::Begun(member, token) => {
                    let all = self.open.values_mut();
                    let own = all.filter_map(|message| message.to.get_mut(&member));
                    let open = own.filter(|own| matches!(own, Receiver::Open(_)));
                    open.for_each(|own| *own = Receiver::Open(Some(token)));
                }
                HubChange::Ended(id, member, outcome) => {
                    let message = self.open.get_mut(&id).expect("it is open");
                    let before = message.to.insert(member, Receiver::Over(outcome.clone()));
                    assert!(matches!(before, Some(Receiver::Open(_))), "two outcomes");
                    self.ended.entry(id).or_default().insert(member, outcome);
                    if message.to.values().all(|own| matches!(own, Receiver::Over(_))) {
                        self.open.remove(&id);
                    }
                }
            }
        }
    }

    fn state(&self) -> HubState {
        let open = self.open.values().cloned().collect();
        HubState { store: [7; 8], next: self.next, open }
    }
}

/// What a member has on its disk, if it has one.
#[derive(Default)]
struct Memory(BTreeMap<[u8; 8], HubReceipts>);

impl Memory {
    fn write(&mut self, changes: Vec<StoredChange>) {
        for change in changes {
            let StoredChange::Receipt(change) = change else { panic!("it sends nothing") };
            match change {
                ReceiptChange::Hub(store, token) => {
                    let own = HubReceipts { store, token, ..HubReceipts::default() };
                    self.0.insert(store, own);
                }
                ReceiptChange::Forgotten(store) => drop(self.0.remove(&store)),
                ReceiptChange::Arrived(store, id, oldest) => {
                    let own = self.0.get_mut(&store).unwrap();
                    own.oldest = oldest;
                    own.receipts.retain(|known, _| *known >= oldest);
                    assert!(own.receipts.insert(id, None).is_none(), "twice");
                }
                ReceiptChange::Taken(store, id, reply) => {
                    self.0.get_mut(&store).unwrap().receipts.insert(id, Some(reply));
                }
            }
        }
    }
}

struct End {
    member: Member,
    disk: Option<Memory>,
    is_full: bool,
    /// Messages that the application has, and when it takes them.
    waiting: Vec<(u64, StoredFrom)>,
}

struct World {
    config: Config,
    hub: Hub,
    disk: Disk,
    is_full: bool,
    ends: Vec<End>,
    loss: f64,
    state: u64,
    now: u64,
    starts: u64,
    /// Datagrams on their way: when, the member, whether to the hub.
    way: Vec<(u64, u32, bool, Vec<u8>)>,
    /// How often each member's application has got each message.
    had: BTreeMap<(u32, Vec<u8>), usize>,
    reported: BTreeMap<u64, Outcomes>,
}

fn end_of(config: &Config, seed: u64, disk: Option<Memory>) -> End {
    let mut member = member(config, seed);
    if let Some(disk) = &disk {
        let receipts = disk.0.values().cloned().collect();
        member.store(StoredState { sender: [9; 16], receipts, ..StoredState::default() });
    }
    End { member, disk, is_full: false, waiting: Vec::new() }
}

fn world(pattern: Pattern, model: ModelId, loss: f64, seed: u64, with_disk: bool) -> World {
    let here = Conditions { rate_bit_s: 1e6, rtt: Span::from_ms(40), ..Conditions::default() };
    let config = config(pattern, here, &[model]);
    let end = |n| end_of(&config, seed * 77 + n, with_disk.then(Memory::default));
    let ends = (1..=u64::from(MEMBERS)).map(end).collect();
    let mut world = World {
        hub: hub(&config, MEMBERS as usize, seed),
        disk: Disk::default(),
        is_full: false,
        ends,
        config,
        loss,
        state: seed | 1,
        now: 0,
        starts: seed * 1_000_000,
        way: Vec::new(),
        had: BTreeMap::new(),
        reported: BTreeMap::new(),
    };
    world.hub.store(world.disk.state());
    world
}

impl World {
    fn draw(&mut self) -> f64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn at(&self) -> Instant {
        Instant::from_ns(self.now)
    }

    fn carry(&mut self, member: u32, up: bool, datagram: &[u8]) {
        if self.draw() >= self.loss {
            let delay = 15 * MS + (self.draw() * 10e6) as u64;
            self.way.push((self.now + delay, member, up, datagram.to_vec()));
        }
    }

    fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now += MS;
            let now = self.at();
            let (here, way) =
                std::mem::take(&mut self.way).into_iter().partition(|(at, ..)| *at <= self.now);
            self.way = way;
            let here: Vec<(u64, u32, bool, Vec<u8>)> = here;
            for (_, member, up, datagram) in here {
                match up {
                    true => self.hub.receive(&datagram, Some(member), now),
                    false => self.ends[member as usize].member.receive(&datagram, now),
                }
            }
            self.save();
            for member in 0..MEMBERS {
                while let (Some(datagram), _) = self.ends[member as usize].member.poll(now) {
                    self.carry(member, true, &datagram);
                }
            }
            while let (Some((to, datagram)), _) = self.hub.poll(now) {
                match to {
                    To::Member(member) => self.carry(member, false, &datagram),
                    _ => (0..MEMBERS).for_each(|member| self.carry(member, false, &datagram)),
                }
            }
            self.save();
            self.applications();
        }
    }

    /// Writes what has changed, on disks that have room.
    fn save(&mut self) {
        let changes = self.hub.take_changes();
        match self.is_full {
            true => self.hub.keep_changes(changes),
            false => self.disk.write(changes),
        }
        for end in &mut self.ends {
            let changes = end.member.take_changes();
            match (&mut end.disk, end.is_full) {
                (Some(_), true) => end.member.keep_changes(changes),
                (Some(disk), false) => disk.write(changes),
                (None, _) => assert!(changes.is_empty()),
            }
        }
    }

    fn applications(&mut self) {
        assert!(self.hub.take_events().iter().all(|event| {
            use director::session::Event;
            !matches!(event, Event::Answer { .. } | Event::Acknowledged { .. } | Event::Over { .. })
        }));
        for (id, outcomes) in self.hub.take_outcomes() {
            assert!(!self.is_full, "outcomes that are not on the disk");
            assert!(self.reported.insert(id, outcomes).is_none(), "{id} is reported twice");
        }
        let now = self.now;
        for number in 0..MEMBERS {
            for event in self.ends[number as usize].member.take_events() {
                if let MemberEvent::Stored { from, bytes } = event {
                    let at = now + (self.draw() * 2e9) as u64;
                    self.ends[number as usize].waiting.push((at, from));
                    *self.had.entry((number, bytes)).or_default() += 1;
                }
            }
            let end = &mut self.ends[number as usize];
            let due = end.waiting.iter().filter(|(at, _)| *at <= now);
            let due: Vec<StoredFrom> = due.map(|(_, from)| *from).collect();
            end.waiting.retain(|(at, _)| *at > now);
            for from in due {
                end.member.take(from, Some(b"taken"));
            }
        }
    }

    /// Sends the next message: one of four to one member, the others to all.
    fn send(&mut self, lifetime: Span) {
        let n = self.disk.next as u8;
        let to: Vec<MemberId> = match n % 4 {
            0 => vec![u32::from(n / 4) % MEMBERS],
            _ => (0..MEMBERS).collect(),
        };
        self.hub.send_stored_to(&to, &[n; 20], lifetime, self.at()).unwrap();
        self.disk.write(self.hub.take_changes());
    }

    fn restart_hub(&mut self) {
        self.starts += 1_000;
        self.hub = hub(&self.config, MEMBERS as usize, self.starts);
        self.hub.store(self.disk.state());
    }

    fn restart_member(&mut self, number: u32) {
        self.starts += 1_000;
        let disk = self.ends[number as usize].disk.take();
        self.ends[number as usize] = end_of(&self.config, self.starts, disk);
    }

    /// What each message ended as is true; returns how many are acknowledged, and unknown.
    fn check(&self) -> [usize; 2] {
        let mut counts = [0; 2];
        for (id, outcomes) in &self.disk.ended {
            for (member, outcome) in outcomes {
                let times = self.had.get(&(*member, vec![*id as u8; 20])).copied().unwrap_or(0);
                assert!(times <= 1, "{id} at {member}: {times} times");
                match outcome {
                    Outcome::Acknowledged(answer) => {
                        assert_eq!((times, answer.as_deref()), (1, Some(&b"taken"[..])), "{id}");
                        counts[0] += 1;
                    }
                    Outcome::Failed(why) => assert_eq!(times, 0, "{id} at {member}: {why}"),
                    Outcome::Unknown => counts[1] += 1,
                }
            }
        }
        counts
    }
}

fn models() -> impl Strategy<Value = (Pattern, ModelId)> {
    prop_oneof![
        Just((Pattern::PublishSubscribe, ModelId::UdpArq)),
        Just((Pattern::PublishCollect, ModelId::UdpArq)),
        Just((Pattern::PublishCollect, ModelId::MulticastFec)),
        Just((Pattern::PublishSubscribe, ModelId::MulticastFec)),
        Just((Pattern::PublishCollect, ModelId::UdpRequestResponse)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn each_arrives_once_over_starts_of_all_ends(
        seed in 1_u64..1_000_000,
        loss in 0.0..0.4_f64,
        (pattern, model) in models(),
        restarts in prop::collection::vec((50_u64..3_000, 0..2 * MEMBERS), 1..6),
        with_disk: bool,
    ) {
        let mut world = world(pattern, model, loss, seed, with_disk);
        let mut n = 0_u8;
        for (time, who) in &restarts {
            for _ in 0..4 {
                let lifetime = if n % 7 == 6 { Span::from_s(4) } else { Span::from_s(300) };
                world.send(lifetime);
                n += 1;
                world.run(time / 4);
            }
            // The hub as often as members.
            match *who < MEMBERS {
                true => world.restart_member(*who),
                false => world.restart_hub(),
            }
        }
        world.run(305_000);
        prop_assert_eq!((world.disk.ended.len(), world.disk.open.len()), (usize::from(n), 0));
        let [_, unknown] = world.check();
        // A restart of the hub alone leaves nothing unknown but what ends early.
        let members_restart = restarts.iter().any(|(_, who)| *who < MEMBERS);
        let early = (0..n).filter(|n| n % 7 == 6).count() * MEMBERS as usize;
        prop_assert!(members_restart || unknown <= early, "{} are unknown", unknown);
        // Those that the application of this start knows of.
        prop_assert!(world.reported.iter().all(|(id, all)| world.disk.ended[id] == *all));
    }
}

/// A member that has a storage gets after its restart what its former start did not get, once.
#[test]
fn a_member_with_a_storage_goes_on_after_a_restart_of_both_ends() {
    for seed in 1..=10 {
        let (pattern, model) = (Pattern::PublishSubscribe, ModelId::UdpArq);
        let mut world = world(pattern, model, 0.2, seed * 31, true);
        world.run(3_000);
        (0..4).for_each(|_| world.send(Span::from_s(600)));
        world.run(seed * 9);
        world.restart_member(1);
        world.restart_hub();
        world.run(200_000);
        let [acknowledged, unknown] = world.check();
        assert_eq!((acknowledged + unknown, world.disk.open.len()), (10, 0), "{seed}");
        // Only what the application had, and had not taken, is unknown.
        let had = (1..4).filter(|n| world.had.contains_key(&(1, vec![*n as u8; 20]))).count();
        assert!(unknown <= had && had == 3, "{seed}: {unknown} unknown, {had} had");
    }
}

#[test]
fn full_disks_delay_messages_and_outcomes() {
    for seed in 1..=6 {
        let (pattern, model) = (Pattern::PublishSubscribe, ModelId::UdpArq);
        let mut world = world(pattern, model, 0.2, seed * 31, true);
        world.run(3_000);
        (0..4).for_each(|_| world.send(Span::from_s(600)));
        world.run(seed * 20);
        world.is_full = seed % 2 == 0;
        world.ends[0].is_full = seed % 3 != 0;
        world.run(10_000);
        let before = world.had.clone();
        if seed > 3 {
            world.restart_member(0);
            world.run(10_000);
        }
        world.is_full = false;
        world.ends[0].is_full = false;
        world.run(200_000);
        let [acknowledged, unknown] = world.check();
        assert_eq!((acknowledged + unknown, world.disk.open.len()), (10, 0), "{seed} {before:?}");
        assert!(seed > 3 || unknown == 0, "{seed}: {unknown} unknown");
    }
}

/// A member of another key, and one that is never there: what was not sent has failed.
#[test]
fn what_no_member_gets_has_failed_at_its_deadline() {
    let (pattern, model) = (Pattern::PublishSubscribe, ModelId::UdpArq);
    let mut world = world(pattern, model, 1.0, 5, false);
    world.send(Span::from_s(5));
    world.run(2_000);
    world.restart_hub();
    world.run(3_200);
    let outcomes = &world.reported[&0];
    assert_eq!(outcomes.len(), 1);
    assert!(outcomes.values().all(|own| matches!(own, Outcome::Failed(_))), "{outcomes:?}");
    assert!(world.had.is_empty());
}
