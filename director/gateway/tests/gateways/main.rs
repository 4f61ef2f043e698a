//! Gateways of a hub and three devices, whose frames are lost, delivered twice, or delivered without
//! a confirmation: levels of delivery, order, retained messages, wills, restarts.

mod crash;
mod kept;
mod mqtt_5;
mod world;

use director_gateway::{Ack, Connect, Device, Effect, Ended, Hub, Lane, Message, Packet, Side};
use proptest::prelude::*;
use std::collections::BTreeMap;
use world::{HUB, Input, client, message, texts, world};

#[test]
fn a_message_reaches_clients_of_all_devices_and_of_the_hub_and_is_then_acknowledged() {
    let mut world = world(0.0, 1);
    for at in 0..=HUB {
        world.connect(at, 1, client("c"));
        world.subscribe(at, 1, "a/#", 1);
    }
    world.run();
    world.publish(0, 1, 7, message("a/b", "17", 1));
    assert!(!world.has(0, 1, &Packet::PubAck(Ack::new(7))), "the hub does not have it yet");
    world.run();
    assert!(world.has(0, 1, &Packet::PubAck(Ack::new(7))));
    for at in 0..=HUB {
        assert!(world.has(at, 1, &Packet::SubAck { id: 1, codes: vec![1] }), "{at}");
        assert_eq!(world.received(at, 1), [message("a/b", "17", 1)], "{at}");
    }
    // Downgraded to what the client asked for; without a subscription there is nothing.
    world.connect(1, 2, client("d"));
    world.subscribe(1, 2, "a/b", 0);
    world.send(2, 1, Packet::Unsubscribe { id: 3, filters: vec!["a/#".to_owned()] });
    world.run();
    world.publish(HUB, 1, 8, message("a/b", "18", 2));
    world.run();
    assert_eq!(world.received(1, 2), [message("a/b", "18", 0)]);
    assert!(world.received(2, 1).is_empty());
}

/// What failed before: a message to a vacant place ends at once, and the hub sent the next one at once,
/// for ever: `--places 1` took half a processor.
#[test]
fn a_vacant_place_is_greeted_once_a_second_and_at_once_when_a_device_comes() {
    let (mut hub, effects) = Hub::new(1, 1);
    assert!(matches!(effects[..], [Effect::Transport { .. }]), "{effects:?}");
    let (lane, vacant) = (Lane::Member(0), Ended::Lacking(vec![0]));
    for _ in 0..3 {
        assert_eq!(hub.ended(lane.clone(), vacant.clone()), [Effect::Later(lane.clone())]);
        let again = hub.ended(lane.clone(), Ended::Waited);
        assert!(matches!(again[..], [Effect::Transport { .. }]), "{again:?}");
    }
    hub.ended(lane.clone(), vacant);
    let (_, hello) = Device::new(7, 60);
    let [Effect::Transport { frame, .. }] = &hello[..] else { panic!("{hello:?}") };
    let (_, greeting) = hub.receive(0, frame);
    assert!(matches!(greeting[..], [Effect::Transport { .. }]), "{greeting:?}");
    assert!(hub.ended(lane.clone(), Ended::Waited).is_empty(), "it is on its way");
    assert!(hub.ended(lane, Ended::Delivered(Vec::new())).is_empty());
}

#[test]
fn retained_messages_come_with_a_subscription_and_an_empty_one_removes_them() {
    let mut world = world(0.3, 5);
    world.connect(0, 1, client("meter"));
    for n in 0..200_u16 {
        let text = format!("{n} {}", "x".repeat(100));
        let retained = Message { retain: true, ..message(&format!("r/{n:03}"), &text, 1) };
        world.publish(0, 1, n + 1, retained);
    }
    world.run();
    world.publish(0, 1, 900, Message { retain: true, ..message("r/000", "", 1) });
    world.run();
    world.connect(2, 1, client("late"));
    world.subscribe(2, 1, "r/+", 1);
    world.run();
    let received = world.received(2, 1);
    assert!(received.iter().all(|message| message.retain));
    let topics: Vec<&str> = received.iter().map(|message| message.topic.as_str()).collect();
    let requested: Vec<String> = (1..200).map(|n| format!("r/{n:03}")).collect();
    assert_eq!(topics, requested);
}

#[test]
fn wills_follow_lost_clients_lost_devices_and_restarts() {
    let mut world = world(0.0, 9);
    world.connect(HUB, 1, client("watch"));
    world.subscribe(HUB, 1, "gone/#", 1);
    let with_will = |name: &str| Connect {
        will: Some(message(&format!("gone/{name}"), name, 1)),
        ..client(name)
    };
    for (at, name) in [(0, "lost"), (0, "polite"), (1, "silent"), (2, "restarted")] {
        let connection = if name == "polite" { 2 } else { 1 };
        world.connect(at, connection, with_will(name));
    }
    world.run();
    world.input(0, Input::Close(1));
    world.send(0, 2, Packet::Disconnect { code: 0, expires_s: None, reason: None });
    world.run();
    assert_eq!(texts(&world.received(HUB, 1)), ["lost"]);
    // Device 2 starts again.
    let (device, effects) = Device::new(99, 60);
    world.devices[2] = device;
    world.execute(2, effects);
    world.run();
    assert_eq!(texts(&world.received(HUB, 1)), ["restarted"]);
    // Device 1 reports every minute, until it does not.
    for second in 0..300 {
        if second < 200 {
            let effects = world.devices[1].tick();
            world.execute(1, effects);
        }
        let effects = world.hub.tick();
        world.execute(HUB, effects);
        world.run();
        let delivered = texts(&world.received(HUB, 1));
        assert_eq!(!delivered.is_empty(), second == 270, "{second} {delivered:?}");
    }
}

#[test]
fn a_session_that_is_kept_gets_what_it_has_missed_also_after_a_restart_of_the_hub() {
    let mut world = world(0.0, 3);
    let kept = Connect { clean: false, ..client("kept") };
    world.connect(0, 1, kept.clone());
    world.subscribe(0, 1, "t", 1);
    world.run();
    world.input(0, Input::Close(1));
    let (hub, effects) = Hub::new(2, 3);
    world.hub = hub;
    world.execute(HUB, effects);
    world.run();
    world.connect(HUB, 1, client("source"));
    for n in 1..=3 {
        world.publish(HUB, 1, n, message("t", &n.to_string(), 1));
    }
    world.run();
    world.connect(0, 2, kept);
    assert_eq!(world.answer(0, 2), Some((true, 0)));
    assert_eq!(texts(&world.received(0, 2)), ["1", "2", "3"]);
    // The other connection of the same client is closed.
    world.connect(0, 3, Connect { clean: false, ..client("kept") });
    assert!(world.closed.contains(&(0, 2)));
    world.connect(0, 4, Connect { level: 6, ..client("six") });
    assert_eq!(world.answer(0, 4), Some((false, 1)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is lost: QoS 2 arrives once, QoS 1 at least once, both in order; and acknowledged
    /// after the hub has them.
    #[test]
    fn levels_of_delivery_hold_over_any_loss(
        seed: u64,
        loss in 0.0..0.6_f64,
        qos in 1_u8..3,
        from in prop::collection::vec((0_usize..4, 0_usize..2), 1..60),
    ) {
        let mut world = world(loss, seed);
        for at in 0..=HUB {
            world.connect(at, 1, client("sink"));
            world.subscribe(at, 1, "+", 2);
            world.connect(at, 2, client("source"));
        }
        world.run();
        let mut sent: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
        for (index, (at, topic)) in (1_u16..).zip(from) {
            let text = format!("{at} {topic} {index}");
            world.publish(at, 2, index, message(&format!("t{at}{topic}"), &text, qos));
            sent.entry((at, topic)).or_default().push(text);
            if index % 7 == 0 {
                world.run();
            }
        }
        world.run();
        let all: usize = sent.values().map(Vec::len).sum();
        for at in 0..=HUB {
            let received = world.received(at, 1);
            prop_assert_eq!(received.len(), all, "at {}", at);
            for ((source, topic), texts_sent) in &sent {
                let name = format!("t{source}{topic}");
                let of_topic: Vec<Message> =
                    received.iter().filter(|message| message.topic == name).cloned().collect();
                prop_assert_eq!(&texts(&of_topic), texts_sent);
            }
        }
        let answers = |packet: &&Packet| matches!(packet, Packet::PubAck(_) | Packet::PubRec(_));
        let count: usize = (0..=HUB)
            .filter_map(|at| world.packets.get(&(at, 2)))
            .map(|packets| packets.iter().filter(answers).count())
            .sum();
        prop_assert_eq!(count, all);
    }
}
