//! A hub, and what its models carry.

use crate::carrier::To;
use crate::conditions::Conditions;
use crate::fec;
use crate::map::PerformanceMap;
use crate::model::ModelId;
use crate::platform::Arc;
use crate::rng::Seed;
use crate::session::{Config, Event, Hub, Member, MemberEvent, Security};
use crate::switch::MemberId;
use crate::targets::Pattern;
use crate::{Instant, Span};

const MS: Span = Span::from_ms(1);

/// A hub and two members with a path without delay and loss.
struct World {
    hub: Hub,
    members: Vec<Member>,
    now: Instant,
    /// Whether members receive nothing.
    is_deaf: bool,
    /// All datagrams of members.
    sent: Vec<(MemberId, Vec<u8>)>,
    /// Number of the hub's datagrams.
    carried: usize,
    /// Messages that each member's application has received.
    received: [usize; 2],
}

fn world(pattern: Pattern, model: ModelId) -> World {
    world_of(pattern, &[model])
}

fn world_of(pattern: Pattern, models: &[ModelId]) -> World {
    let mut config = Config::new(pattern, Security::Key(vec![7; 32]));
    config.models = models.to_vec();
    config.assumed = Conditions { rate_bit_s: 1e8, rtt: Span::from_ms(4), ..Conditions::default() };
    let map = Arc::new(PerformanceMap::new());
    let member = |n| Member::new(&config.security, 42, &Seed::reproducible(n)).unwrap();
    World {
        members: vec![member(2), member(3)],
        hub: Hub::new(config, map, 2, &Seed::reproducible(1)).unwrap(),
        now: Instant::START,
        is_deaf: false,
        sent: Vec::new(),
        carried: 0,
        received: [0; 2],
    }
}

impl World {
    fn run(&mut self, time: Span) -> Vec<Event> {
        let (until, mut events) = (self.now + time, Vec::new());
        while self.now < until {
            self.now += MS;
            let now = self.now;
            for _ in 0..64 {
                let (Some((to, datagram)), _) = self.hub.poll(now) else { break };
                self.carried += 1;
                for (number, member) in (0..).zip(&mut self.members) {
                    if !self.is_deaf && (to == To::Group || to == To::Member(number)) {
                        member.receive(&datagram, now);
                    }
                }
            }
            for (number, member) in (0..).zip(&mut self.members) {
                for event in member.take_events() {
                    if let MemberEvent::Message { number: message, .. } = event {
                        self.received[number as usize] += 1;
                        let _ = member.answer(message, b"here".to_vec(), now);
                    }
                }
                for _ in 0..64 {
                    let (Some(datagram), _) = member.poll(now) else { break };
                    self.hub.receive(&datagram, Some(number), now);
                    self.sent.push((number, datagram));
                }
            }
            events.extend(self.hub.take_events());
        }
        events
    }

    /// Sends a message to these members; whether it has been answered or acknowledged by all.
    fn send(&mut self, to: &[MemberId]) -> bool {
        let lifetime = Some(Span::from_s(2));
        let message = self.hub.send_within(&[7; 300], to, lifetime, self.now).unwrap();
        let over = Event::Over { message, lacking: Vec::new() };
        self.run(Span::from_s(3)).contains(&over)
    }

    /// As many messages as this one has a number, to the first member.
    fn send_until(&mut self, number: u64) {
        // Of each 8,000 only one.
        while self.hub.next < number {
            self.hub.next = number.min(self.hub.next + 8_000);
            assert!(self.send(&[0]));
        }
    }
}

/// What failed before: members that entered an epoch after 65,536 messages sent no answers.
#[test]
fn members_that_join_after_many_messages_answer() {
    let mut world = world(Pattern::PublishCollect, ModelId::MulticastFec);
    world.hub.next = 70_000;
    world.run(Span::from_s(3));
    assert!(world.hub.is_ready() && world.send(&[0, 1]));
}

/// What failed before: members that had no message among 32,768 sent no answer to the next one.
#[test]
fn members_answer_after_many_messages_to_others() {
    let mut world = world(Pattern::PublishCollect, ModelId::MulticastFec);
    world.run(Span::from_s(3));
    world.send_until(70_000);
    assert!(world.send(&[0, 1]));
    assert_eq!(world.received[1], 1);
}

/// What failed before: an acknowledgement that anyone had recorded counted for the message with the
/// same 16 bits.
#[test]
fn a_recorded_acknowledgement_does_not_count_for_a_later_message() {
    let mut world = world(Pattern::PublishSubscribe, ModelId::MulticastFec);
    world.run(Span::from_s(3));
    world.sent.clear();
    assert!(world.send(&[0, 1]));
    let recorded = world.sent.clone();
    world.send_until((1 << 16) - 1);
    world.hub.next = 1 << 16;
    world.is_deaf = true;
    let message = world.hub.send(&[7; 300], world.now).unwrap();
    world.run(Span::from_ms(50));
    for (member, datagram) in recorded {
        world.hub.receive(&datagram, Some(member), world.now);
    }
    let events = world.run(Span::from_ms(50));
    let is_false = |event: &Event| matches!(event, Event::Acknowledged { message: own, .. } if *own == message);
    assert!(!events.iter().any(is_false), "{events:?}");
}

/// What failed before: models went on sending messages without a lifetime that had ended, because newer
/// ones took their place or because their receivers had left.
#[test]
fn models_send_no_more_of_what_has_ended() {
    for model in [ModelId::UdpArq, ModelId::MulticastFec, ModelId::CoapConfirmable] {
        for have_left in [false, true] {
            let mut world = world(Pattern::PublishSubscribe, model);
            world.run(Span::from_s(3));
            world.is_deaf = true;
            for _ in 0..40 {
                world.hub.send_within(&[7; 300], &[0, 1], None, world.now).unwrap();
            }
            world.run(Span::from_ms(200));
            let (all, now) = (world.hub.messages.keys().copied().collect::<Vec<_>>(), world.now);
            match have_left {
                true => [0, 1].into_iter().for_each(|member| world.hub.leave_place(member, now)),
                false => world.hub.end(all.into_iter()),
            }
            world.carried = 0;
            world.run(Span::from_s(30));
            assert_eq!(world.carried, 0, "{model}, {have_left}");
        }
    }
}

/// What failed before: the path to a member that had left limited the packets to all others.
#[test]
fn the_path_of_a_member_that_has_left_is_no_limit() {
    for is_revoked in [false, true] {
        let mut world = world(Pattern::PublishCollect, ModelId::UdpArq);
        world.run(Span::from_s(3));
        let (now, round) = (world.now, Span::from_ms(10));
        let hub = &mut world.hub;
        hub.path_mtu.suspect(1, 1_500, now);
        while hub.path_mtu.size() == 1_500 {
            let at = hub.path_mtu.next_at().unwrap();
            if let Some((member, size)) = hub.path_mtu.poll(at.max(now), round)
                && size <= 600
            {
                hub.path_mtu.answered(member, size, now);
            }
        }
        hub.set_packets();
        assert_eq!(hub.config.datagram(), 548);
        world.run(Span::from_s(1));
        match is_revoked {
            true => world.hub.revoke(1, world.now).unwrap(),
            false => world.hub.leave_place(1, world.now),
        }
        world.run(Span::from_s(3));
        assert_eq!(world.hub.config.datagram(), 1_472, "{is_revoked}");
        let (_, epoch) = world.hub.switch.current();
        assert_eq!(world.hub.stages[&epoch].datagram, 1_472, "{is_revoked}");
    }
}

/// What failed before: the distance of a revoked member counted, so that those of all others were taken
/// for queues.
#[test]
fn a_revoked_member_is_no_longer_the_nearest() {
    let mut world = world(Pattern::PublishCollect, ModelId::UdpArq);
    world.run(Span::from_s(3));
    let (hub, now) = (&mut world.hub, world.now);
    hub.distances = Default::default();
    hub.distances.record(0, MS, now);
    hub.distances.record(1, 90 * MS, now);
    hub.revoke(0, now).unwrap();
    assert_eq!(hub.distances.record(1, 90 * MS, now), 90 * MS);
}

/// What failed before: messages whose lifetime was over were sent by models that do not measure the path.
#[test]
fn no_model_sends_what_has_expired() {
    let all = crate::carrier::available();
    for model in all.into_iter().filter(|model| !model.features().multicast) {
        let mut world = world(Pattern::PublishSubscribe, model);
        world.run(Span::from_s(3));
        world.is_deaf = true;
        for lifetime in [Span::ZERO, Span::from_ms(100)] {
            for _ in 0..40 {
                let bytes = [7; 300];
                world.hub.send_within(&bytes, &[0, 1], Some(lifetime), world.now).unwrap();
            }
            // The application was suspended.
            world.now += Span::from_ms(200);
            world.carried = 0;
            world.run(Span::from_s(1));
            assert_eq!(world.carried, 0, "{model}");
        }
    }
}

/// A session under `multicast-fec` that can change to `udp-arq`, with a message that is to be sent.
fn with_message_under_fec() -> (World, u64) {
    let models = [ModelId::MulticastFec, ModelId::UdpArq];
    let mut world = world_of(Pattern::PublishCollect, &models);
    world.run(Span::from_s(3));
    world.hub.force(ModelId::MulticastFec, world.now);
    world.run(Span::from_s(3));
    let lifetime = Some(Span::from_s(60));
    let message = world.hub.send_within(&[7; 300], &[0, 1], lifetime, world.now).unwrap();
    (world, message)
}

/// What failed before: until all members had changed to another model, the former one asked those that
/// had for the answers that were already requested under the new one. A path that was full got both.
#[test]
fn a_former_model_repeats_nothing_to_members_that_have_changed() {
    let (mut world, _) = with_message_under_fec();
    assert!(world.hub.force(ModelId::UdpArq, world.now));
    // Requests of the former model for the answer of a member. No application answers, and the second
    // member hears nothing.
    let mut asked = [0; 2];
    for _ in 0..800 {
        world.now += MS;
        let now = world.now;
        while let (Some((to, datagram)), _) = world.hub.poll(now) {
            let frame = &datagram[..datagram.len().saturating_sub(crate::keys::CODE)];
            if let Some(fec::Frame::Request { requests, .. }) = fec::Frame::decode(frame) {
                requests.iter().for_each(|request| asked[usize::from(request.member)] += 1);
            }
            if to != To::Member(1) {
                world.members[0].receive(&datagram, now);
            }
        }
        while let (Some(datagram), _) = world.members[0].poll(now) {
            world.hub.receive(&datagram, Some(0), now);
        }
    }
    assert!(asked[0] == 0 && asked[1] > 10, "{asked:?}");
}

/// What failed before: a frame of the former model that arrived after that of the new one, as from another
/// socket, made the member answer over the former model, from which the hub awaited nothing. The message
/// ended with its lifetime.
#[test]
fn a_frame_of_a_former_model_that_arrives_late_delays_no_answer() {
    let (mut world, message) = with_message_under_fec();
    let (mut late, mut asked) = (Vec::new(), 0);
    // The first member's frames of the group are late, and its application as well.
    for step in 0..2_000 {
        world.now += MS;
        let now = world.now;
        if step == 5 {
            assert!(world.hub.force(ModelId::UdpArq, now));
        }
        if step == 500 {
            late.drain(..).for_each(|datagram: Vec<u8>| world.members[0].receive(&datagram, now));
        }
        while let (Some((to, datagram)), _) = world.hub.poll(now) {
            if to != To::Member(0) {
                world.members[1].receive(&datagram, now);
            }
            match to {
                To::Group => late.push(datagram),
                To::Member(0) => world.members[0].receive(&datagram, now),
                _ => {}
            }
        }
        for (number, member) in (0..).zip(&mut world.members) {
            if number == 1 || step == 1_000 {
                for event in member.take_events() {
                    if let MemberEvent::Message { number: message, .. } = event {
                        asked += 1;
                        member.answer(message, b"here".to_vec(), now).unwrap();
                    }
                }
            }
            while let (Some(datagram), _) = member.poll(now) {
                world.hub.receive(&datagram, Some(number), now);
            }
        }
    }
    assert_eq!(asked, 2);
    let over = Event::Over { message, lacking: Vec::new() };
    assert!(world.hub.take_events().contains(&over));
}
