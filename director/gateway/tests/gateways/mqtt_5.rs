//! Clients of MQTT 5, and of 3.1.1 with them.

use crate::world::{HUB, Input, World, client, message, texts, world};
use director_gateway::{
    Ack, Connect, Ended, Lane, MQTT_5, Message, Options, Packet, Properties, Publish, Side,
};

fn five(name: &str) -> Connect {
    Connect { level: MQTT_5, ..client(name) }
}

fn subscribe(world: &mut World, at: usize, filter: &str, options: Options) {
    let filters = vec![(filter.to_owned(), options)];
    world.send(at, 1, Packet::Subscribe { id: 9, filters });
    world.run();
}

/// A second passes at all gateways.
fn second(world: &mut World) {
    for at in 0..=HUB {
        let effects = match at {
            HUB => world.hub.tick(),
            device => world.devices[device].tick(),
        };
        world.execute(at, effects);
    }
    world.run();
}

/// Whether a packet with this reason has gone to a connection: a DISCONNECT.
fn disconnected(world: &World, at: usize, connection: u64, code: u8) -> bool {
    let sent = world.packets.get(&(at, connection)).and_then(|packets| packets.last());
    matches!(sent, Some(Packet::Disconnect { code: sent, .. }) if *sent == code)
}

#[test]
fn content_goes_to_clients_of_both_versions() {
    let mut world = world(0.2, 4);
    for at in 0..=HUB {
        world.connect(at, 1, if at == 1 { client("old") } else { five("new") });
        subscribe(&mut world, at, "t", Options::of(2));
    }
    // Content type, response topic, correlation data, and a user property twice.
    let properties = Properties::default()
        .text(3, "text/plain")
        .text(8, "answers")
        .written(&[9, 0, 2, 0, 255])
        .written(&[0x26, 0, 1, b'n', 0, 1, b'v', 0x26, 0, 1, b'n', 0, 1, b'w']);
    let properties = Some(properties.encode()[1..].into());
    let sent = Message { properties, ..message("t", "17", 2) };
    world.publish(0, 1, 7, sent.clone());
    world.publish(1, 1, 7, message("t", "18", 1));
    world.run();
    for at in 0..=HUB {
        let mut received = world.received(at, 1);
        received.sort_by_key(|message| message.payload.clone());
        assert_eq!(received, [sent.clone(), message("t", "18", 1)], "{at}");
    }
}

#[test]
fn a_session_lasts_as_long_as_its_client_says() {
    let mut world = world(0.0, 1);
    let lasting = |expires_s| Connect { clean: false, expires_s, ..five("c") };
    world.connect(0, 1, lasting(5));
    subscribe(&mut world, 0, "t", Options::of(1));
    world.connect(HUB, 1, client("source"));
    world.input(0, Input::Close(1));
    (0..5).for_each(|_| second(&mut world));
    world.publish(HUB, 1, 1, message("t", "kept", 1));
    world.run();
    world.connect(0, 2, lasting(5));
    assert_eq!(world.answer(0, 2), Some((true, 0)));
    assert_eq!(texts(&world.received(0, 2)), ["kept"]);
    // A DISCONNECT can change it, except from nothing.
    world.send(0, 2, Packet::Disconnect { code: 0, expires_s: Some(1), reason: None });
    (0..3).for_each(|_| second(&mut world));
    world.connect(0, 3, lasting(0));
    assert_eq!(world.answer(0, 3), Some((false, 0)));
    world.send(0, 3, Packet::Disconnect { code: 0, expires_s: Some(1), reason: None });
    assert!(disconnected(&world, 0, 3, 0x82));
    // No client is subscribed any more.
    world.publish(HUB, 1, 2, message("t", "late", 1));
    world.run();
    world.connect(0, 4, lasting(0));
    assert_eq!(world.answer(0, 4), Some((false, 0)));
    assert!(world.received(0, 4).is_empty());
}

#[test]
fn a_message_expires_at_each_place_where_it_waits_and_says_what_is_left() {
    let mut world = world(0.0, 1);
    let kept = Connect { clean: false, expires_s: 100, ..five("kept") };
    world.connect(0, 1, kept.clone());
    subscribe(&mut world, 0, "t/#", Options::of(1));
    world.input(0, Input::Close(1));
    world.connect(HUB, 1, five("source"));
    let expiring =
        |topic: &str, until_s| Message { until_s: Some(until_s), ..message(topic, "x", 1) };
    world.publish(HUB, 1, 1, expiring("t/short", 3));
    world.publish(HUB, 1, 2, expiring("t/long", 60));
    world.publish(HUB, 1, 3, Message { retain: true, ..expiring("r/short", 3) });
    world.publish(HUB, 1, 4, Message { retain: true, ..expiring("r/long", 60) });
    world.run();
    (0..10).for_each(|_| second(&mut world));
    world.connect(0, 2, kept);
    let received = world.received(0, 2);
    assert_eq!(received, [Message { until_s: Some(50), ..expiring("t/long", 0) }]);
    world.connect(1, 1, five("late"));
    subscribe(&mut world, 1, "r/#", Options::of(1));
    let retained = Message { retain: true, ..expiring("r/long", 50) };
    assert_eq!(world.received(1, 1), [retained]);
}

#[test]
fn no_message_comes_back_to_its_client_with_no_local() {
    let mut world = world(0.1, 2);
    let no_local = Options { no_local: true, ..Options::of(1) };
    for at in 0..=HUB {
        world.connect(at, 1, five("c"));
        subscribe(&mut world, at, "t", no_local);
    }
    for at in [0, HUB] {
        world.publish(at, 1, 7, message("t", &at.to_string(), 1));
        world.run();
    }
    assert_eq!(texts(&world.received(0, 1)), ["3"]);
    assert_eq!(texts(&world.received(HUB, 1)), ["0"]);
    // Clients of the same name at other gateways are others.
    assert_eq!(texts(&world.received(1, 1)), ["0", "3"]);
}

#[test]
fn options_decide_on_retained_messages_and_their_flag() {
    let mut world = world(0.0, 1);
    world.connect(HUB, 1, five("source"));
    world.publish(HUB, 1, 1, Message { retain: true, ..message("t", "old", 1) });
    world.run();
    for at in [0, HUB] {
        let connection = if at == HUB { 2 } else { 1 };
        world.connect(at, connection, five("sink"));
        let get = |world: &mut World, retained| {
            let options = Options { as_published: true, retained, ..Options::of(1) };
            let filters = vec![("t".to_owned(), options)];
            world.send(at, connection, Packet::Subscribe { id: 9, filters });
            world.run();
            texts(&world.received(at, connection)).len()
        };
        // Never; only for a new subscription, which this is not; always.
        assert_eq!([2, 1, 0].map(|retained| get(&mut world, retained)), [0, 0, 1]);
        let filters = vec!["t".to_owned(), "u".to_owned()];
        world.send(at, connection, Packet::Unsubscribe { id: 8, filters });
        world.run();
        assert!(world.has(at, connection, &Packet::UnsubAck { id: 8, codes: vec![0, 0x11] }));
        assert_eq!(get(&mut world, 1), 1);
    }
    // As published, the flag stays.
    let new = Message { retain: true, ..message("t", "new", 1) };
    world.publish(HUB, 1, 2, new.clone());
    world.run();
    assert_eq!(world.received(0, 1), std::slice::from_ref(&new));
    assert_eq!(world.received(HUB, 2), [new]);
}

#[test]
fn messages_carry_the_identifiers_of_all_their_subscriptions() {
    let mut world = world(0.0, 1);
    world.connect(0, 1, five("c"));
    for (filter, identifier) in
        [("t/#", Some(7)), ("t/+", Some(300)), ("t/a", None), ("u", Some(8))]
    {
        subscribe(&mut world, 0, filter, Options { identifier, ..Options::of(1) });
    }
    world.publish(0, 1, 1, message("t/a", "x", 1));
    world.run();
    let own = |packet: &Packet| match packet {
        Packet::Publish(publish) => Some(publish.subscriptions.clone()),
        _ => None,
    };
    let mut all: Vec<Vec<u32>> = world.packets[&(0, 1)].iter().filter_map(own).collect();
    all.iter_mut().for_each(|own| own.sort());
    assert_eq!(all, [vec![7, 300]], "one message");
}

#[test]
fn refusals_have_a_reason() {
    let mut world = world(0.0, 1);
    world.connect(0, 1, Connect { has_method: true, ..five("c") });
    assert_eq!(world.answer(0, 1), Some((false, 0x8c)));
    for (connection, connect) in [(2, five("c")), (3, client("d"))] {
        world.connect(0, connection, connect);
        let filters =
            ["$share/group/t", "a/#/b", "t"].map(|filter| (filter.to_owned(), Options::of(2)));
        world.send(0, connection, Packet::Subscribe { id: 1, filters: filters.to_vec() });
        world.run();
        // Older clients get 0x80 for both: `SubAck` writes it.
        let codes = vec![0x9e, 0x8f, 2];
        assert!(world.has(0, connection, &Packet::SubAck { id: 1, codes }));
    }
    // What only servers send.
    world.send(0, 2, Packet::PingResp);
    assert!(disconnected(&world, 0, 2, 0x82) && world.closed.contains(&(0, 2)));
    // Another connection of the client.
    world.connect(0, 4, five("e"));
    world.connect(0, 5, five("e"));
    assert!(disconnected(&world, 0, 4, 0x8e) && world.closed.contains(&(0, 4)));
    // A message that no path carries: the connection goes on.
    world.publish(0, 5, 7, message("long", "x", 1));
    world.publish(0, 5, 8, message("longer", "x", 2));
    world.pending.clear();
    for (topic, answer) in
        [("long", Packet::PubAck as fn(Ack) -> Packet), ("longer", Packet::PubRec)]
    {
        world.ended(0, Lane::Topic(topic.to_owned()), Ended::TooLong);
        let id = if topic == "long" { 7 } else { 8 };
        assert!(world.has(0, 5, &answer(Ack { id, code: 0x83 })));
    }
    assert!(!world.closed.contains(&(0, 5)));
}

#[test]
fn limits_of_a_client_hold() {
    let mut world = world(0.0, 1);
    let small = Connect { receive_maximum: 2, maximum_packet: 40, ..five("small") };
    world.connect(0, 1, small);
    subscribe(&mut world, 0, "t", Options::of(1));
    world.connect(HUB, 1, five("source"));
    let long = "x".repeat(50);
    for (id, text) in (1..).zip(["1", &long, "2", "3", "4"]) {
        world.publish(HUB, 1, id, message("t", text, 1));
        world.run();
    }
    let sent = |packet: &Packet| matches!(packet, Packet::Publish(_));
    assert_eq!(world.packets[&(0, 1)].iter().filter(|packet| sent(packet)).count(), 2);
    // The long one counts as delivered.
    assert_eq!(texts(&world.received(0, 1)), ["1", "2", "3", "4"]);
}

#[test]
fn a_client_without_a_name_gets_one() {
    let mut world = world(0.0, 1);
    world.connect(0, 1, Connect { clean: false, expires_s: 60, ..five("") });
    let Some(Packet::ConnAck { properties, code: 0, .. }) = world.packets[&(0, 1)].first().cloned()
    else {
        panic!()
    };
    let bytes = properties.encode();
    let at = bytes.iter().position(|byte| *byte == 0x12).unwrap();
    let name = String::from_utf8(bytes[at + 3..][..usize::from(bytes[at + 2])].to_vec()).unwrap();
    world.input(0, Input::Close(1));
    world.connect(0, 2, Connect { clean: false, ..five(&name) });
    assert_eq!(world.answer(0, 2), Some((true, 0)));
}

#[test]
fn a_will_waits_and_is_dropped_if_its_client_returns() {
    let mut world = world(0.0, 1);
    world.connect(HUB, 1, client("watch"));
    subscribe(&mut world, HUB, "gone", Options::of(1));
    let with_will = |delay, expires_s| Connect {
        will: Some(message("gone", &format!("{delay} {expires_s}"), 1)),
        will_delay_s: delay,
        clean: false,
        expires_s,
        ..five("c")
    };
    let after = |world: &mut World, seconds: usize| {
        (0..seconds).for_each(|_| second(world));
        texts(&world.received(HUB, 1))
    };
    world.connect(0, 1, with_will(5, 100));
    world.input(0, Input::Close(1));
    assert!(after(&mut world, 4).is_empty());
    world.connect(0, 2, with_will(3, 100));
    assert!(after(&mut world, 9).is_empty(), "it is back");
    world.input(0, Input::Close(2));
    assert_eq!(after(&mut world, 4), ["3 100"]);
    // Not longer than the session.
    world.connect(0, 3, with_will(50, 2));
    world.input(0, Input::Close(3));
    assert_eq!(after(&mut world, 3), ["50 2"]);
    // A DISCONNECT can ask for it.
    world.connect(0, 4, with_will(0, 7));
    world.send(0, 4, Packet::Disconnect { code: 4, expires_s: None, reason: None });
    assert_eq!(after(&mut world, 1), ["0 7"]);
    // No will comes twice.
    assert!(after(&mut world, 200).is_empty());
}

#[test]
fn a_client_can_refuse_a_message_of_qos_2() {
    let mut world = world(0.0, 1);
    world.connect(0, 1, Connect { receive_maximum: 1, ..five("c") });
    subscribe(&mut world, 0, "t", Options::of(2));
    for id in 1..=2 {
        world.publish(0, 1, id, message("t", &id.to_string(), 2));
        world.run();
    }
    let first = |packet: &Packet| match packet {
        Packet::Publish(Publish { id, message, .. }) => Some((*id, message.payload.clone())),
        _ => None,
    };
    let sent =
        |world: &World| -> Vec<_> { world.packets[&(0, 1)].iter().filter_map(first).collect() };
    let before = sent(&world);
    assert_eq!(before.len(), 1);
    world.send(0, 1, Packet::PubRec(Ack { id: before[0].0, code: 0x87 }));
    assert_eq!(sent(&world).len(), 2, "the next follows without a PUBREL");
    world.send(0, 1, Packet::PubRec(Ack::new(999)));
    assert!(world.has(0, 1, &Packet::PubRel(Ack { id: 999, code: 0x92 })));
}
