//! One segment for hundreds of thousands of hostile frames: what it allocates stays within bounds, and the other
//! nodes' frames arrive.

use engine::{Endpoint, Segment, SegmentSpec};
use link::Impairment;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use units::Instant;

/// The system's allocator, with the number of allocated bytes.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all calls go to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `start` is from `alloc` above, which is the system's.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// In a debug build a fifth, which fills all tables too: the test takes seconds.
const FRAMES: u32 = if cfg!(debug_assertions) { 200_000 } else { 1_000_000 };
/// Frames between two of another node.
const EVERY: u32 = 200;
const NODES: usize = 4;
/// Maximum growth. The tables of one switch and of 8 directions take 12 MB when full.
const MAX_BYTES: usize = 24 << 20;
const GROUP: [u8; 4] = [239, 255, 0, 1];

/// Pseudo-random bytes.
struct Noise(u64);

impl Noise {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        self.0 += 1;
        let [low, high] = [units::mix(self.0), units::mix(!self.0)].map(u64::to_be_bytes);
        std::array::from_fn(|i| if i < 8 { low[i] } else { high[i % 8] })
    }
}

fn own(node: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, node as u8]
}

fn ethernet(target: [u8; 6], source: [u8; 6], kind: u16, payload: &[u8]) -> Vec<u8> {
    [&target[..], &source[..], &kind.to_be_bytes(), payload].concat()
}

fn ipv4(protocol: u8, source: [u8; 4], target: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0x45, 0, 0, 20 + payload.len() as u8, 0, 0, 0, 0, 64, protocol, 0, 0];
    header.extend([source, target].concat());
    header.extend(payload);
    header
}

fn ipv6(next: u8, target: [u8; 16], payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0, 0, payload.len() as u8, next, 255];
    header.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    header.extend(target);
    header.extend(payload);
    header
}

/// An IGMPv2 report of a group.
fn igmp(group: [u8; 4]) -> Vec<u8> {
    let report = [&[0x16, 0, 0, 0], &group[..]].concat();
    ipv4(2, [10, 0, 0, 1], [224, 0, 0, 22], &report)
}

/// Frame `number` of the flood, from `source`.
fn hostile(number: u32, source: [u8; 6], noise: &mut Noise) -> Vec<u8> {
    let all = [0xff; 6];
    let [a, b, c] = noise.bytes();
    match number % 7 {
        // A random source address, as of machines behind a bridge.
        0 => ethernet(
            all,
            [[6].as_slice(), &noise.bytes::<5>()].concat().try_into().unwrap(),
            0x88b5,
            &[0; 46],
        ),
        1 => ethernet([1, 0, 0x5e, 0, 0, 22], source, 0x0800, &igmp([225 + a % 14, a, b, c])),
        2 => {
            let group: [u8; 16] = noise.bytes();
            let record =
                [&[143, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 0, 0xff, 0x0e], &group[2..]].concat();
            let options = [&[58, 0, 5, 2, 0, 0, 1, 0], &record[..]].concat();
            let target = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x16];
            ethernet([0x33, 0x33, 0, 0, 0, 0x16], source, 0x86dd, &ipv6(0, target, &options))
        }
        3 => {
            let ports: [u8; 4] = noise.bytes();
            let segment = [&ports[..], &noise.bytes::<8>(), &[0x50, 2, 1, 0, 0, 0, 0, 0]].concat();
            ethernet(all, source, 0x0800, &ipv4(6, [10, a, b, c], [10, b, c, a], &segment))
        }
        4 => {
            let [sender, target]: [[u8; 4]; 2] = [noise.bytes(), noise.bytes()];
            let head = [0, 1, 8, 0, 6, 4, 0, 1];
            let request = [&head[..], &source, &sender, &[0; 6], &target, &[0; 18]].concat();
            ethernet(all, source, 0x0806, &request)
        }
        5 => {
            let solicitation = [&[135, 0, 0, 0, 0, 0, 0, 0], &noise.bytes::<16>()[..]].concat();
            let target = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c];
            ethernet([0x33, 0x33, 0xff, a, b, c], source, 0x86dd, &ipv6(58, target, &solicitation))
        }
        // The first fragment of a datagram that has no others.
        _ => {
            let mut packet = ipv4(17, [10, a, b, c], [10, 0, 0, 3], &[0; 8]);
            (packet[4], packet[5], packet[6]) = (b, c, 0x20);
            ethernet(all, source, 0x0800, &packet)
        }
    }
}

/// Random decisions with a state per flow, for whole datagrams.
fn direction() -> Impairment {
    let keys =
        serde_json::json!({"gilbert_elliott": {"p": "1 %", "r": "20 %"}, "loss_unit": "datagram"});
    let keys: link::Keys = serde_json::from_value(keys).unwrap();
    Impairment::default().with(&keys).unwrap()
}

#[test]
fn hostile_frames_are_held_in_bounded_memory() {
    let endpoint = |node| Endpoint {
        mac: Some(own(node)),
        up: direction(),
        down: Impairment::default(),
        ..Endpoint::default()
    };
    let endpoints = (0..NODES).map(endpoint).collect();
    let mut segment = Segment::new(&SegmentSpec { endpoints, ..SegmentSpec::switch(1) });
    // Node 3 joins a group before the flood; node 2 sends to it and to node 3.
    segment.send(
        3,
        &ethernet([1, 0, 0x5e, 0, 0, 22], own(3), 0x0800, &igmp(GROUP)),
        Instant::START,
    );
    while segment.due(Instant::START).is_some() {}
    segment.impair(Instant::START);
    let datagram = [0, 9, 0, 9, 0, 8, 0, 0];
    let multicast = ethernet(
        [1, 0, 0x5e, 0x7f, 0, 1],
        own(2),
        0x0800,
        &ipv4(17, [10, 0, 0, 2], GROUP, &datagram),
    );
    let unicast =
        ethernet(own(3), own(2), 0x0800, &ipv4(17, [10, 0, 0, 2], [10, 0, 0, 3], &datagram));
    let mut noise = Noise(0);
    let before = ALLOCATED.load(Relaxed);
    let (mut most, mut received) = (0, [0; NODES]);
    for number in 0..FRAMES {
        let now = Instant::from_ns(u64::from(number) * 10_000);
        segment.send(0, &hostile(number, own(0), &mut noise), now);
        if number.is_multiple_of(EVERY) {
            segment.send(2, &multicast, now);
            segment.send(2, &unicast, now);
        }
        while let Some(delivery) = segment.due(now) {
            if delivery.bytes()[6..12] == own(2) {
                received[delivery.endpoint] += 1;
            }
        }
        segment.drops().for_each(drop);
        segment.decided().for_each(drop);
        most = most.max(ALLOCATED.load(Relaxed).saturating_sub(before));
    }
    assert!(most < MAX_BYTES, "{most} bytes more at the most");
    // Node 0 joined too many groups: it receives all of them. Node 1 joined none.
    let [flooder, bystander, _, member] = received;
    assert_eq!(bystander, 0);
    // Less 1/21 of the frames, the mean loss; the flooder is no member of the group at first.
    let sent = FRAMES / EVERY;
    let most = |frames: u32| frames * 9 / 10..frames;
    assert!(most(2 * sent).contains(&member), "{member} of {}", 2 * sent);
    assert!(most(sent).contains(&flooder), "{flooder} of {sent}");
    let overflows = segment.overflows();
    let of = overflows[0];
    let many = u64::from(FRAMES / 20);
    assert!(of.groups > many && of.addresses > many && of.flows > many, "{of:?}");
    assert!(overflows[1..].iter().all(engine::Overflow::is_none), "{overflows:?}");
}
