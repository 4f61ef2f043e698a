//! Compares a traced link with Mahimahi's `mm-link`, packet by packet.
//!
//! `mahimahi/up.log` is the `--uplink-log` of `mm-link` from Mahimahi 0.98 with
//! `mahimahi/up.trace`, while a program sent UDP datagrams of 0 to 1,472 bytes at random
//! times: `TIME + BYTES` for an arriving packet and `TIME - BYTES WAIT` for a departing
//! one, in ms. Its bytes are those of the IP packet and 4 of the TUN device's header. Lines
//! about opportunities are removed.

use engine::{Endpoint, Segment, SegmentSpec};
use link::{Impairment, Limit, Scheduler, Trace};
use std::path::Path;
use units::Instant;

const MS: u64 = 1_000_000;
const ETHERNET_HEADER: usize = 14;
const TUN_HEADER: usize = 4;

/// Times since the start of the trace in ms, and bytes.
fn events(log: &str, kind: &str) -> Vec<(u64, usize)> {
    let base = log.lines().find_map(|line| line.strip_prefix("# base timestamp: "));
    let base: u64 = base.unwrap().parse().unwrap();
    let fields = log.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let events = fields.filter(|fields| fields[1] == kind);
    events.map(|f| (f[0].parse::<u64>().unwrap() - base, f[2].parse().unwrap())).collect()
}

#[test]
fn each_packet_departs_when_mahimahi_lets_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mahimahi");
    let log = std::fs::read_to_string(folder.join("up.log")).unwrap();
    let trace = Trace::read(&folder.join("up.trace")).unwrap();
    let up = Impairment {
        transmission: Scheduler::Trace(trace).into(),
        queue: Limit::Frames(u32::MAX).into(),
        ..Impairment::default()
    };
    let endpoints = vec![Endpoint { up, ..Endpoint::default() }, Endpoint::default()];
    let mut link =
        Segment::new(&SegmentSpec { endpoints, impaired: true, ..SegmentSpec::switch(1) });
    let (mut sent, mut departed) = (events(&log, "+").into_iter().peekable(), Vec::new());
    assert!(sent.len() > 1_500);
    let mut sizes = std::collections::HashSet::new();
    loop {
        // Mahimahi's clock has milliseconds: a packet within a millisecond comes after that
        // millisecond's opportunities.
        let next = sent.peek().map(|(ms, _)| ms * MS + MS / 2);
        match (next, link.next()) {
            (Some(at), due) if due.is_none_or(|due| at < due.as_ns()) => {
                let bytes = sent.next().unwrap().1;
                sizes.insert(bytes);
                let mut frame = vec![0; bytes - TUN_HEADER + ETHERNET_HEADER];
                frame[..6].fill(0xff);
                frame[6] = 2;
                link.send(0, &frame, Instant::from_ns(at));
            }
            (_, Some(due)) => {
                while let Some(delivery) = link.due(due) {
                    let bytes = delivery.frame.len() - ETHERNET_HEADER + TUN_HEADER;
                    departed.push((delivery.intended.as_ns() / MS, bytes));
                }
            }
            (None, None) => break,
            (Some(_), None) => unreachable!("the first case takes it"),
        }
    }
    assert!(sizes.contains(&1_504), "a full packet takes one whole opportunity");
    assert_eq!(departed, events(&log, "-"));
}
