//! A member restarts while messages are in flight.

use crate::bed::*;
use director::carrier::To;
use director::session::{Event, Hub, Member, MemberEvent, Security};
use director::{Conditions, Instant, MessageId, ModelId, Pattern, Seed, Span};

const KEYS: [&[u8]; 2] = [b"the key of the first member", b"the key of the second member"];

/// A signing hub and two members, without losses or delay.
struct World {
    hub: Hub,
    members: [Member; 2],
    now: Instant,
    /// Messages that each application has had.
    had: [usize; 2],
    answer: Vec<u8>,
    over: Option<(MessageId, Vec<u32>)>,
}

fn start(place: usize, seed: u64) -> Member {
    let security = Security::Key(KEYS[place].to_vec());
    Member::new(&security, 42, &Seed::reproducible(seed)).unwrap()
}

impl World {
    fn new(model: ModelId, pattern: Pattern, answer: Vec<u8>) -> Self {
        let here = Conditions { rate_bit_s: 10e6, ..Conditions::default() };
        let mut config = config(pattern, here, &[model]);
        config.security = Security::Keys(KEYS.map(<[u8]>::to_vec).to_vec());
        (config.signed, config.lifetime) = (true, Some(Span::from_s(60)));
        let (hub, members) = (hub(&config, 2, 1), [start(0, 2), start(1, 3)]);
        let mut world = Self { hub, members, now: Instant::START, had: [0, 0], answer, over: None };
        world.run(3_000, |_, _| true);
        assert!(world.hub.is_ready());
        world
    }

    /// Runs for this many ms. `passes` decides on datagrams of the first member to the hub, which are `true`, and
    /// sees the hub's.
    fn run(&mut self, ms: u64, mut passes: impl FnMut(bool, &[u8]) -> bool) {
        for _ in 0..ms {
            self.now += Span::from_ms(1);
            let now = self.now;
            while let (Some((to, datagram)), _) = self.hub.poll(now) {
                passes(false, &datagram);
                for (number, member) in (0..).zip(&mut self.members) {
                    if to == To::Group || to == To::Member(number) {
                        member.receive(&datagram, now);
                    }
                }
            }
            for (from, member) in (0_u32..).zip(&mut self.members) {
                for event in member.take_events() {
                    if let MemberEvent::Message { number, .. } = event {
                        self.had[from as usize] += 1;
                        let _ = member.answer(number, self.answer.clone(), now);
                    }
                }
                while let (Some(datagram), _) = member.poll(now) {
                    if from != 0 || passes(true, &datagram) {
                        self.hub.receive(&datagram, Some(from), now);
                    }
                }
            }
            for event in self.hub.take_events() {
                if let Event::Over { message, lacking } = event {
                    self.over = Some((message, lacking));
                }
            }
        }
    }
}

/// What failed before: the next start of a member took a message that the one before had had, if someone had recorded
/// and repeated it.
#[test]
fn a_start_takes_no_message_of_the_one_before() {
    for (model, pattern) in [
        (ModelId::UdpRequestResponse, Pattern::PublishCollect),
        (ModelId::UdpArq, Pattern::PublishSubscribe),
        (ModelId::MulticastFec, Pattern::PublishSubscribe),
        (ModelId::CoapConfirmable, Pattern::PublishSubscribe),
    ] {
        let mut world = World::new(model, pattern, b"done".to_vec());
        let sent = world.hub.send(b"open the valve", world.now).unwrap();
        let mut recorded = Vec::new();
        world.run(5_000, |up, datagram| {
            if !up {
                recorded.push(datagram.to_vec());
            }
            true
        });
        assert_eq!((world.had, world.over.take()), ([1, 1], Some((sent, Vec::new()))), "{model}");
        world.members[0] = start(0, 77);
        world.run(7_000, |_, _| true);
        recorded.iter().for_each(|datagram| world.members[0].receive(datagram, world.now));
        world.run(1_000, |_, _| true);
        assert_eq!(world.had, [1, 1], "{model}");
        // What is sent from now on arrives.
        world.hub.send(b"close the valve", world.now).unwrap();
        world.run(5_000, |_, _| true);
        assert_eq!(world.had, [2, 2], "{model}");
    }
}

/// A message that is awaited from a member when it starts again arrives at the new start.
#[test]
fn a_start_takes_what_the_one_before_lacked() {
    for model in [ModelId::UdpArq, ModelId::MulticastFec, ModelId::CoapConfirmable] {
        let mut world = World::new(model, Pattern::PublishCollect, b"done".to_vec());
        world.members[0] = start(0, 77);
        for _ in 0..3 {
            world.hub.send(b"open the valve", world.now).unwrap();
        }
        world.run(20_000, |_, _| true);
        assert_eq!(world.had, [3, 3], "{model}");
    }
}

/// What failed before: the hub put symbols of the answers of two starts together. That opened nothing, and the member
/// had no other.
#[test]
fn answers_of_two_starts_are_not_mixed() {
    for model in [ModelId::UdpArq, ModelId::MulticastFec, ModelId::CoapConfirmable] {
        for passing in [0, 4, 8] {
            let mut world = World::new(model, Pattern::PublishCollect, vec![7; 20_000]);
            let sent = world.hub.send(b"what is there?", world.now).unwrap();
            let mut passed = 0;
            world.run(200, |up, datagram| {
                passed += usize::from(up && datagram.len() > 300);
                passed <= passing
            });
            assert!(passed > passing && world.over.is_none(), "{model}");
            world.members[0] = start(0, 77);
            world.run(65_000, |_, _| true);
            // A model that acknowledges messages does not send one again that the start before had.
            let lacking = if world.had[0] == 2 { Vec::new() } else { vec![0] };
            assert_eq!(world.over, Some((sent, lacking)), "{model} {passing}");
            assert!(world.had[0] == 2 || model != ModelId::MulticastFec);
        }
    }
}
