//! Compares the TCP analysis with tshark's, packet by packet.

use super::conversation::Conversation;
use super::noise::{self, Damage};
use super::{Random, TestPacket, pcap, tshark, tshark_version};
use crate::dissect::{What, dissect};
use crate::flow::Key;
use crate::marks::Mark;
use crate::sequence::Connection;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::Path;

/// The start time of generated captures, in ns since 1970.
const START: u64 = 1_700_000_000_000_000_000;

/// The result for one packet: names, and the round-trip time in ns, 0 for none.
type PacketResult = (Vec<&'static str>, i64);

fn ours(packets: &[TestPacket]) -> Vec<PacketResult> {
    let mut connections: HashMap<Key, Connection> = HashMap::new();
    let classify = |packet: &TestPacket| {
        let parts = dissect(1, &packet.data, packet.length, crate::contexts::KnownContexts::NONE);
        let (What::Tcp(tcp), Some(addresses)) = (&parts.what, parts.addresses) else {
            return (Vec::new(), 0);
        };
        let (key, from) = Key::of(0, false, addresses, tcp.ports);
        let connection = connections.entry(key).or_default();
        if connection.is_another(from, tcp) {
            *connection = Connection::on_reused_ports();
        }
        let verdict = connection.take(from, tcp, parts.carried, packet.at, true);
        let names = Mark::ALL.into_iter().filter(|(mark, _)| verdict.marks.has(*mark));
        (names.map(|(_, name)| name).collect(), verdict.rtt.unwrap_or(0))
    };
    packets.iter().map(classify).collect()
}

fn theirs(packets: &[TestPacket]) -> Vec<PacketResult> {
    let fields = Mark::ALL.iter().map(|(_, name)| format!("tcp.analysis.{name}"));
    let fields: Vec<String> = fields.chain(["tcp.analysis.ack_rtt".to_owned()]).collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let read = |row: Vec<String>| {
        let names = Mark::ALL.iter().zip(&row).filter(|(_, value)| !value.is_empty());
        let rtt: f64 = row[Mark::ALL.len()].parse().unwrap_or(0.0);
        (names.map(|((_, name), _)| *name).collect(), (rtt * 1e9).round() as i64)
    };
    tshark(&pcap(1, packets), &[], &fields).into_iter().map(read).collect()
}

/// Whether the installed tshark has the rules that this crate implements.
fn same_rules() -> bool {
    let Some(version) = tshark_version() else { return false };
    let same = version.starts_with("4.0.");
    if !same {
        eprintln!("NOT RUN: needs tshark 4.0, and found {version}");
    }
    same
}

/// Connections of a small TCP simulation over links with loss, delay and reordering.
fn conversations(count: u16, random: &mut Random) -> Vec<TestPacket> {
    let conversation = |number: u16| {
        let conversation = Conversation {
            // Some reuse the ports of others.
            port: 40_000 + number % 7,
            start: START + u64::from(number) * 8_000_000_000,
            sends: [random.pick(&[200, 30_000, 90_000]), random.pick(&[0, 500, 40_000])],
            delay: random.pick(&[100, 2_000, 15_000, 60_000]),
            loss: random.pick(&[0, 2, 8]),
            room: random.pick(&[2_000, 8_000, 60_000]),
            reads: random.pick(&[20, 500, 9_000]),
            aborts: random.chance(25),
            keeps_alive: random.pick(&[None, Some(0), Some(1)]),
        };
        conversation.captured(random)
    };
    (0..count).flat_map(conversation).collect()
}

fn noise(count: u16, random: &mut Random) -> Vec<TestPacket> {
    let pair = |number: u16| {
        let start = START + u64::from(number) * 10_000_000_000;
        noise::segments(50_000 + number, 60, start, random)
    };
    (0..count).flat_map(pair).collect()
}

/// A capture with lost packets; its kind and losses depend on `seed`.
fn damaged(seed: u64) -> Vec<TestPacket> {
    let mut random = Random(seed * 7 + 1);
    let clean = match seed % 3 {
        2 => noise(40, &mut random),
        _ => conversations(10, &mut random),
    };
    let damage = Damage {
        missing: [0, 1, 5, 20][seed as usize % 4],
        swapped: [0, 2][seed as usize % 2],
        doubled: seed % 3,
        start: [0, 3, 40][seed as usize % 3],
    };
    damage.apply(&clean, &mut random)
}

#[test]
fn segments_of_captures_that_lost_packets_are_judged_as_by_tshark() {
    if !same_rules() {
        return;
    }
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..24 {
        let packets = damaged(seed);
        let (ours, theirs) = (ours(&packets), theirs(&packets));
        assert_eq!(ours.len(), theirs.len());
        for (place, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(ours, theirs, "packet {} of seed {seed}", place + 1);
            ours.0.iter().for_each(|name| *counts.entry(name).or_default() += 1);
        }
    }
    for (_, name) in Mark::ALL {
        assert!(counts.get(name).is_some_and(|count| *count >= 10), "{name}: {counts:?}");
    }
}

/// The results of tshark 4.0 for one capture, stored for machines without it.
#[test]
fn segments_are_judged_as_tshark_judged_them() {
    let mut random = Random(4);
    let clean = [conversations(4, &mut random), noise(5, &mut random)].concat();
    let damage = Damage { missing: 6, swapped: 2, doubled: 1, start: 2 };
    let packets = damage.apply(&clean, &mut random);
    let text = |with_marks: Vec<PacketResult>| {
        with_marks.iter().enumerate().fold(String::new(), |mut text, (place, (names, rtt))| {
            _ = writeln!(text, "{} {} {rtt}", place + 1, names.join(" "));
            text
        })
    };
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/differential/tshark-4.0.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() && same_rules() {
        std::fs::write(&golden, text(theirs(&packets))).expect("a golden file");
    }
    let kept = std::fs::read_to_string(&golden).expect("a golden file");
    for (ours, kept) in text(ours(&packets)).lines().zip(kept.lines()) {
        assert_eq!(ours, kept, "packet, its judgements, round trip in ns");
    }
    assert_eq!(kept.lines().count(), packets.len());
}

/// Packets whose TCP header is truncated.
#[test]
fn segments_cut_in_their_headers_are_judged_all_the_same() {
    let mut random = Random(9);
    let clean = conversations(6, &mut random);
    let whole = ours(&clean);
    let mut cut = clean.clone();
    for packet in cut.iter_mut().filter(|packet| packet.data.len() == 54) {
        packet.data.truncate(50 + random.below(5) as usize);
    }
    assert_eq!(ours(&cut), whole);
    if same_rules() {
        // tshark analyses them too, but prints results only for whole headers.
        for ((cut, theirs), ours) in cut.iter().zip(theirs(&cut)).zip(whole) {
            let shown = if cut.data.len() < 54 { (Vec::new(), 0) } else { ours };
            assert_eq!(theirs, shown);
        }
    }
}
