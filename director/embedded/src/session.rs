//! Members and a hub, with simulated time and path.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use director::session::{Member, Security};
use director::{Instant, Seed, Span};

/// Bytes of headers below a datagram: Ethernet, IPv4, UDP.
const BELOW: usize = 42;
const MS: Span = Span::from_ms(1);

/// The pre-shared key of a member of the example: a real one is random.
fn key(number: u64) -> Vec<u8> {
    format!("a key of the example, number {number}").into_bytes()
}

fn member(number: u64) -> Member {
    let security = Security::Key(key(number));
    match Member::new(&security, BELOW, &Seed::reproducible(number)) {
        Ok(member) => member,
        Err(_) => panic!("the key is long enough"),
    }
}

/// Heap that a member needs before it has joined, in bytes.
pub fn member_bytes(heap_used: fn() -> usize) -> usize {
    let before = heap_used();
    let mut member = member(1);
    // A hello is made, so nothing is left out of the program.
    let hello = member.poll(Instant::START);
    let after = heap_used();
    drop(hello);
    after - before + size_of::<Member>()
}

#[cfg(not(feature = "hub"))]
pub fn run(_: fn() -> usize) -> Result<String, String> {
    let mut member = member(1);
    let mut datagrams = Vec::new();
    for ms in 0..100 {
        let now = Instant::START + ms * MS;
        // Whatever comes is handled: all of the member is in the program.
        if let (Some(hello), _) = member.poll(now) {
            member.receive(&hello, now);
            datagrams.push(hello.len());
        }
        for event in member.take_events() {
            if let director::session::MemberEvent::Message { number, bytes } = event {
                member.answer(number, bytes, now).map_err(|error| format!("{error}"))?;
            }
        }
        let _ = member.publish(b"a reading", director::MessageProperties::default(), now);
    }
    Ok(format!("a member alone, {} hellos", datagrams.len()))
}

#[cfg(feature = "hub")]
pub use with_hub::run;

#[cfg(feature = "hub")]
mod with_hub {
    use super::*;
    use alloc::collections::BTreeMap;
    use director::carrier::To;
    use director::session::{Config, Event, Hub, MemberEvent};
    use director::{ModelId, Pattern, PerformanceMap};

    const MEMBERS: usize = 3;
    const MESSAGES: u64 = 20;
    /// One of this many datagrams is lost.
    const LOST: u64 = 7;
    const DELAY: Span = Span::from_ms(20);

    struct World {
        hub: Hub,
        members: Vec<Member>,
        now: Instant,
        /// Datagrams by arrival: the receiver (the hub if there is none), the sender.
        path: BTreeMap<(Instant, u64), (Option<u32>, Option<u32>, Vec<u8>)>,
        sent: u64,
        answers: u64,
        published: u64,
        /// Greatest use of the heap, in bytes.
        heap: usize,
        heap_used: fn() -> usize,
    }

    impl World {
        fn carry(&mut self, from: Option<u32>, to: Option<u32>, datagram: Vec<u8>) {
            self.sent += 1;
            if self.sent % LOST != 0 {
                self.path.insert((self.now + DELAY, self.sent), (to, from, datagram));
            }
        }

        fn turn(&mut self) {
            while let (Some((to, datagram)), _) = self.hub.poll(self.now) {
                match to {
                    To::Member(member) => self.carry(None, Some(member), datagram),
                    To::Group => (0..MEMBERS as u32)
                        .for_each(|member| self.carry(None, Some(member), datagram.clone())),
                    To::Hub => {}
                }
            }
            for member in 0..MEMBERS {
                while let (Some(datagram), _) = self.members[member].poll(self.now) {
                    self.carry(Some(member as u32), None, datagram);
                }
                for event in self.members[member].take_events() {
                    if let MemberEvent::Message { number, bytes } = event {
                        let _ = self.members[member].answer(number, bytes, self.now);
                    }
                }
            }
            for event in self.hub.take_events() {
                match event {
                    Event::Answer { bytes, .. } => self.answers += u64::from(bytes.len() == 200),
                    Event::Message { from, .. } => {
                        self.published += 1;
                        self.hub.accept(from);
                    }
                    _ => {}
                }
            }
            self.heap = self.heap.max((self.heap_used)());
        }

        fn step(&mut self) {
            self.now += MS;
            while let Some(first) = self.path.first_entry().filter(|e| e.key().0 <= self.now) {
                let (to, from, datagram) = first.remove();
                match to {
                    Some(member) => self.members[member as usize].receive(&datagram, self.now),
                    None => self.hub.receive(&datagram, from, self.now),
                }
            }
            self.turn();
        }
    }

    fn session(model: ModelId, heap_used: fn() -> usize) -> Result<World, String> {
        let keys = (0..MEMBERS as u64).map(key).collect();
        let mut config = Config::new(Pattern::PublishCollect, Security::Keys(keys));
        config.signed = true;
        config.models = Vec::from([model]);
        let hub = Hub::new(config, PerformanceMap::shipped(), MEMBERS, &Seed::reproducible(9));
        let mut world = World {
            hub: hub.map_err(|error| format!("{error}"))?,
            members: (0..MEMBERS as u64).map(member).collect(),
            now: Instant::START,
            path: BTreeMap::new(),
            sent: 0,
            answers: 0,
            published: 0,
            heap: 0,
            heap_used,
        };
        while !world.hub.is_ready() && world.now < Instant::START + 60_000 * MS {
            world.step();
        }
        for number in 0..MESSAGES {
            let sent = world.hub.send(&[7; 200], world.now);
            sent.map_err(|error| format!("message {number}: {error}"))?;
            let own = &mut world.members[number as usize % MEMBERS];
            let _ = own.publish(b"a reading", director::MessageProperties::default(), world.now);
            (0..2_000).for_each(|_| world.step());
        }
        let all = MESSAGES * MEMBERS as u64;
        match (world.answers == all, world.published == MESSAGES) {
            (true, true) => Ok(world),
            _ => Err(format!(
                "{model}: {} of {all} answers, {} of {MESSAGES} readings",
                world.answers, world.published
            )),
        }
    }

    pub fn run(heap_used: fn() -> usize) -> Result<String, String> {
        let mut report = String::new();
        for model in [ModelId::UdpArq, ModelId::MulticastFec] {
            let world = session(model, heap_used)?;
            report += &format!(
                "{model}: {} answers and {} readings, {} datagrams, {} B of heap at most for a hub and {MEMBERS} members; ",
                world.answers, world.published, world.sent, world.heap
            );
        }
        Ok(report)
    }
}
