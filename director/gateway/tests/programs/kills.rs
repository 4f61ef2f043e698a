//! Gateways that are killed, and one whose disk is full.

use crate::bed::*;
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

/// The hub's gateway is killed at once after it has acknowledged retained messages of clients at a device
/// and at the hub.
#[test]
fn retained_messages_survive_a_kill_of_the_hub() {
    let mut gateways = gateways_with("stored", true);
    let (hub, device) = (gateways.hub.port.clone(), gateways.device.port.clone());
    for (port, topic) in [(&device, b'a'), (&hub, b'b')] {
        // A message that another one replaces, and one that is removed.
        let old = [0x33, 6, 0, 1, topic, 0, 1, b'1'];
        let new = [0x33, 6, 0, 1, topic, 0, 2, b'2'];
        let (gone, removed) = ([0x33, 6, 0, 1, b'c', 0, 3, b'3'], [0x33, 5, 0, 1, b'c', 0, 4]);
        let mut client = raw(port, &[&old, &new, &gone, &removed]);
        let mut acknowledged: Vec<u8> = (0..4).map(|_| next::<4>(&mut client)[3]).collect();
        acknowledged.sort();
        assert_eq!(acknowledged, [1, 2, 3, 4]);
    }
    gateways.restart_hub();
    let subscribe = [0x82, 6, 0, 1, 0, 1, b'#', 0];
    for port in [hub, device] {
        let mut client = raw(&port, &[&subscribe]);
        assert_eq!(next(&mut client), [0x90, 3, 0, 1, 0]);
        for topic in [b'a', b'b'] {
            assert_eq!(next(&mut client), [0x31, 4, 0, 1, topic, b'2']);
        }
    }
}

/// A client that keeps its session; returns whether the gateway has it.
fn keeping(port: &str) -> (TcpStream, bool) {
    use std::io::Write;
    let mut client = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let connect = [&[0x10, 13, 0, 4][..], b"MQTT", &[4, 0, 0, 0, 0, 1, b'k']].concat();
    client.write_all(&connect).unwrap();
    let [kind, length, present, code] = next(&mut client);
    assert_eq!((kind, length, code), (0x20, 2, 0));
    (client, present == 1)
}

/// Both gateways are killed while messages of QoS 1 and 2 wait for their clients, one of them is on its way,
/// and further ones wait at the hub for the device.
#[test]
fn sessions_and_their_messages_survive_kills_of_both_gateways() {
    use std::io::Write;
    let mut gateways = gateways_with("sessions", true);
    let (hub, device) = (gateways.hub.port.clone(), gateways.device.port.clone());
    for port in [&hub, &device] {
        let (mut client, is_present) = keeping(port);
        assert!(!is_present);
        client.write_all(&[0x82, 6, 0, 1, 0, 1, b'a', 2]).unwrap();
        assert_eq!(next(&mut client), [0x90, 3, 0, 1, 2]);
    }
    let one = [0x32, 6, 0, 1, b'a', 0, 1, b'1'];
    let two = [0x34, 6, 0, 1, b'a', 0, 2, b'2'];
    let mut source = raw(&hub, &[&one, &two]);
    let answers = [next::<4>(&mut source), next::<4>(&mut source)];
    assert_eq!(answers, [[0x40, 2, 0, 1], [0x50, 2, 0, 2]]);
    // Both are on their way to the client of the hub, which has the second one.
    let (mut client, _) = keeping(&hub);
    assert_eq!(next(&mut client), one);
    let id = next::<8>(&mut client)[6];
    assert_eq!(id, 2);
    client.write_all(&[0x50, 2, 0, id]).unwrap();
    assert_eq!(next(&mut client), [0x62, 2, 0, id]);
    // And to that of the device.
    let (mut client, _) = keeping(&device);
    assert_eq!(next::<16>(&mut client), [&one[..], &two].concat()[..]);
    drop(client);
    gateways.kill_device();
    // It waits at the hub.
    source.write_all(&[0x32, 6, 0, 1, b'a', 0, 3, b'3']).unwrap();
    assert_eq!(next::<4>(&mut source), [0x40, 2, 0, 3]);
    gateways.device = Gateway::start(gateways.device.arguments.clone());
    let (mut client, is_present) = keeping(&device);
    assert!(is_present);
    let again = [&[0x3a, 6, 0, 1, b'a', 0, 1, b'1'][..], &[0x3c, 6, 0, 1, b'a', 0, 2, b'2']];
    assert_eq!(next::<16>(&mut client), again.concat()[..]);
    assert_eq!(next(&mut client), [0x32, 6, 0, 1, b'a', 0, 3, b'3']);
    gateways.restart_hub();
    let (mut client, is_present) = keeping(&hub);
    assert!(is_present);
    assert_eq!(next(&mut client), [0x3a, 6, 0, 1, b'a', 0, 1, b'1']);
    assert_eq!(next(&mut client), [0x62, 2, 0, id], "the client has it");
    assert_eq!(next(&mut client), [0x3a, 6, 0, 1, b'a', 0, 3, b'3']);
}

/// A client that keeps its session reads messages of QoS 2 until one has this text; returns all that it has
/// got.
fn until_text(client: &mut TcpStream, last: u8) -> Vec<u8> {
    use std::io::Write;
    let (mut ids, mut texts) = (std::collections::BTreeSet::new(), Vec::new());
    while texts.last() != Some(&last) {
        let [kind, length] = next(client);
        match (kind & 0xf0, length) {
            (0x30, 6) => {
                let [.., id, text] = next::<6>(client);
                // One that is sent again, and not released, is no further one.
                if ids.insert(id) {
                    texts.push(text);
                }
                client.write_all(&[0x50, 2, 0, id]).unwrap();
            }
            (0x60, 2) => {
                let [_, id] = next(client);
                ids.remove(&id);
                client.write_all(&[0x70, 2, 0, id]).unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
    texts
}

/// The gateways are killed in turn as soon as the hub's has acknowledged a message to a client of the device.
#[test]
fn each_message_to_a_device_arrives_once_over_kills_of_both_gateways() {
    use std::io::Write;
    let mut gateways = gateways_with("crash", true);
    let (hub, device) = (gateways.hub.port.clone(), gateways.device.port.clone());
    let (mut client, _) = keeping(&device);
    client.write_all(&[0x82, 6, 0, 1, 0, 1, b'a', 2]).unwrap();
    assert_eq!(next(&mut client), [0x90, 3, 0, 1, 2]);
    drop(client);
    for text in b'a'..=b'h' {
        let mut source = raw(&hub, &[&[0x34, 6, 0, 1, b'a', 0, 7, text]]);
        assert_eq!(next(&mut source), [0x50, 2, 0, 7]);
        match text % 3 {
            0 => gateways.restart_hub(),
            1 => {
                gateways.kill_device();
                gateways.device = Gateway::start(gateways.device.arguments.clone());
            }
            // What waits for the device outlasts both.
            _ => {
                gateways.kill_device();
                gateways.restart_hub();
                gateways.device = Gateway::start(gateways.device.arguments.clone());
            }
        }
    }
    let mut source = raw(&hub, &[&[0x34, 6, 0, 1, b'a', 0, 7, b'z']]);
    assert_eq!(next(&mut source), [0x50, 2, 0, 7]);
    let (mut client, is_present) = keeping(&device);
    assert!(is_present);
    assert_eq!(String::from_utf8(until_text(&mut client, b'z')).unwrap(), "abcdefghz");
}

/// What failed before: a message of QoS 2 of a device that the hub's gateway had stored, and not acknowledged
/// when it was killed, arrived twice. The gateway is killed at any time after the messages were sent.
#[test]
fn each_message_of_a_device_arrives_once_over_kills_of_the_hub() {
    use std::io::Write;
    let mut gateways = gateways_with("crash-up", true);
    let (hub, device) = (gateways.hub.port.clone(), gateways.device.port.clone());
    let (mut client, _) = keeping(&hub);
    client.write_all(&[0x82, 6, 0, 1, 0, 1, b'a', 2]).unwrap();
    assert_eq!(next(&mut client), [0x90, 3, 0, 1, 2]);
    drop(client);
    let mut source = raw(&device, &[]);
    for text in b'a'..=b'z' {
        let id = text - b'a' + 1;
        source.write_all(&[0x34, 6, 0, 1, b'a', 0, id, text]).unwrap();
        let log = gateways.folder.join("storage/sessions.log");
        let length = || std::fs::metadata(&log).map_or(0, |own| own.len());
        let before = length();
        if text % 2 == 0 {
            // As soon as it may be on the disk.
            let until = Instant::now() + Duration::from_millis(u64::from(text % 5) * 100);
            while length() == before && Instant::now() < until {
                std::hint::spin_loop();
            }
            gateways.restart_hub();
        }
        assert_eq!(next(&mut source), [0x50, 2, 0, id]);
        source.write_all(&[0x62, 2, 0, id]).unwrap();
        assert_eq!(next(&mut source), [0x70, 2, 0, id]);
    }
    let (mut client, is_present) = keeping(&hub);
    assert!(is_present);
    let all: String = ('a'..='z').collect();
    assert_eq!(String::from_utf8(until_text(&mut client, b'z')).unwrap(), all);
}

/// A client of the hub has a will, and the hub's gateway is killed: the will is published at its next start.
#[test]
fn a_will_of_a_client_of_the_hub_survives_a_kill_of_it() {
    use std::io::Write;
    let mut gateways = gateways_with("will", true);
    let (hub, device) = (gateways.hub.port.clone(), gateways.device.port.clone());
    let (mut client, _) = keeping(&device);
    client.write_all(&[0x82, 6, 0, 1, 0, 1, b'a', 2]).unwrap();
    assert_eq!(next(&mut client), [0x90, 3, 0, 1, 2]);
    let mut lost = TcpStream::connect(format!("127.0.0.1:{hub}")).unwrap();
    lost.set_read_timeout(Some(PATIENCE)).unwrap();
    // A will of QoS 2 with the topic `a`.
    let connect = [&[0x10, 18, 0, 4][..], b"MQTT", &[4, 0x16, 0, 0, 0, 0, 0, 1, b'a', 0, 1, b'w']];
    lost.write_all(&connect.concat()).unwrap();
    assert_eq!(next(&mut lost), [0x20, 2, 0, 0]);
    gateways.restart_hub();
    assert_eq!(until_text(&mut client, b'w'), b"w");
    // Once.
    gateways.restart_hub();
    let mut source = raw(&hub, &[&[0x34, 6, 0, 1, b'a', 0, 7, b'z']]);
    assert_eq!(next(&mut source), [0x50, 2, 0, 7]);
    assert_eq!(until_text(&mut client, b'z'), b"z");
}

/// The hub's gateway cannot write more than a few records for a while: it goes on, and acknowledges a
/// message when it is stored. What it has acknowledged is there after a restart.
#[test]
fn no_message_is_acknowledged_that_is_not_stored() {
    use std::io::{Read, Write};
    if !has("prlimit") {
        return;
    }
    let mut gateways = gateways_with("full", true);
    let device = gateways.device.port.clone();
    gateways.restart_hub_with(Some(8));
    let mut clients = [raw(&gateways.hub.port, &[]), raw(&device, &[])];
    // A kilobyte each: the fourth cannot be written any more.
    let message = |number: u8, flags: u8| {
        let head = [0x30 | flags, 0x85, 8, 0, 1, number, 0, number];
        [&head[..], &[b'x'; 1_024]].concat()
    };
    for number in 1..=3 {
        clients[0].write_all(&message(number, 3)).unwrap();
        assert_eq!(next::<4>(&mut clients[0]), [0x40, 2, 0, number]);
    }
    for (client, number) in clients.iter_mut().zip(4..) {
        client.write_all(&message(number, 3)).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        assert!(client.read_exact(&mut [0]).is_err(), "{number} is not stored");
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        // Others are served, and the message is there.
        client.write_all(&message(number + 10, 2)).unwrap();
        assert_eq!(next::<4>(client), [0x40, 2, 0, number + 10]);
    }
    let subscribe = [0x82, 6, 0, 1, 0, 1, b'#', 0];
    let mut subscriber = raw(&device, &[&subscribe]);
    assert_eq!(next(&mut subscriber), [0x90, 3, 0, 1, 0]);
    for number in 1..=5 {
        assert_eq!(next::<1_030>(&mut subscriber)[5], number);
    }
    let process = gateways.hub.process.id().to_string();
    let lifted = Command::new("prlimit").args(["--fsize=unlimited", "--pid", &process]).status();
    assert!(lifted.unwrap().success());
    for (client, number) in clients.iter_mut().zip(4..) {
        assert_eq!(next::<4>(client), [0x40, 2, 0, number]);
    }
    gateways.restart_hub_with(None);
    let mut client = raw(&gateways.hub.port, &[&subscribe]);
    assert_eq!(next(&mut client), [0x90, 3, 0, 1, 0]);
    for number in 1..=5 {
        assert_eq!(next::<1_030>(&mut client)[5], number);
    }
}
