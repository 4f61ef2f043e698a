//! Frames and captures.

use crate::input::pieces;
use analyze::{Options, Protocol, analyze};
use engine::{Endpoint, Segment, SegmentSpec};
use link::Impairment;
use measure::Classifier;
use std::cell::RefCell;
use units::{Instant, Span};

/// Link types that are read; other numbers are those of ones that are not, too.
const READ: [u32; 18] =
    [1, 0, 9, 12, 50, 51, 101, 104, 108, 113, 166, 204, 205, 219, 228, 276, 195, 230];
const ENDPOINTS: usize = 4;
/// Frames that one segment carries before a new one takes its place.
const LIFE: u64 = 1_000_000;
/// Frames that one input may be repeated as, each with other addresses.
const REPEATS: u64 = 64;

/// A switch of four nodes, each on a link that does all that links do to frames.
fn switch() -> Segment {
    let lossy: Impairment = serde_json::from_value(serde_json::json!({
        "loss": "10 %", "loss_unit": "train", "corrupt": "10 %", "duplicate": "10 %",
        "rate": "1 Mbit/s",
    }))
    .expect("an impairment");
    let link = Endpoint { up: lossy.clone(), down: lossy, ..Endpoint::default() };
    let endpoints = vec![link; ENDPOINTS];
    Segment::new(&SegmentSpec { endpoints, impaired: true, ..SegmentSpec::switch(1) })
}

/// Any bytes from a node: switched, tied to trains, tracked for groups, taken apart.
pub(crate) fn frames(bytes: &[u8]) {
    let frames = pieces(bytes);
    let mut segment = switch();
    let mut classifier = Classifier::new(vec![5556]);
    for (now, frame) in frames.iter().enumerate() {
        let bytes = classifier.classify(0, frame).traffic().bytes;
        assert_eq!(bytes, frame.len() as u64, "every byte is of some layer");
        segment.send(now % ENDPOINTS, frame, Instant::from_ns(now as u64 * 1_000));
    }
    let delivered = std::iter::from_fn(|| segment.due(Instant::NEVER)).count();
    // To three others, and every copy may be copied on both ways.
    assert!(delivered <= 12 * frames.len());
}

/// A segment, and how long it has lived.
struct Living {
    segment: Segment,
    frames: u64,
    now: Instant,
}

thread_local! {
    static LIVING: RefCell<Living> =
        RefCell::new(Living { segment: switch(), frames: 0, now: Instant::START });
}

/// Any frames for a segment that lives on from try to try, for a million frames, so that what it keeps
/// of each shows: the fuzzer's limit of memory is the judge. The first two bytes of each piece say how
/// often its frame is sent, and where in it a counter is put each time.
pub(crate) fn segment(bytes: &[u8]) {
    LIVING.with_borrow_mut(|living| {
        for piece in pieces(bytes) {
            let Some(([times, place], frame)) = piece.split_first_chunk() else { continue };
            let mut frame = frame.to_vec();
            // An Ethernet header has 14 bytes.
            frame.resize(frame.len().max(14), 0);
            let place = usize::from(*place) % frame.len();
            for _ in 0..u64::from(*times) % REPEATS + 1 {
                for (byte, count) in frame[place..].iter_mut().zip(living.frames.to_le_bytes()) {
                    *byte ^= count;
                }
                let from = living.frames as usize % ENDPOINTS;
                living.segment.send(from, &frame, living.now);
                living.frames += 1;
                living.now += Span::from_us(10);
                // As an engine does; otherwise what waits would grow by itself.
                while living.segment.due(living.now).is_some() {}
                living.segment.decided().for_each(drop);
                living.segment.drops().for_each(drop);
            }
        }
        if living.frames > LIFE {
            *living = Living { segment: switch(), frames: 0, now: Instant::START };
        }
    });
}

/// Any bytes as a capture, and, in pieces, as packets of any link type within a good one.
pub(crate) fn capture(bytes: &[u8]) {
    let options = Options {
        flows: 8,
        waiting: 4096,
        ports: vec![(Protocol::Zmtp, 0x0101), (Protocol::Coap, 0x0202)],
        ..Options::default()
    };
    let _ = analyze(bytes, &options);
    let mut pcap = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\x04\0".to_vec();
    let Some((&link, rest)) = bytes.split_first() else { return };
    let link = READ.get(usize::from(link)).copied().unwrap_or(link.into());
    pcap.extend(link.to_le_bytes());
    let packets = pieces(rest);
    for (second, data) in (0..).zip(&packets) {
        // Some were longer than what was captured of them.
        let length = data.len() as u32 + second % 4;
        for number in [second, 0, data.len() as u32, length] {
            pcap.extend(number.to_le_bytes());
        }
        pcap.extend(*data);
    }
    let analysis = analyze(&pcap[..], &options).expect("its header is good");
    assert_eq!(analysis.complete, analysis.unread.is_empty());
    assert_eq!(analysis.packets, packets.len() as u64);
    assert_eq!(analysis.layers.values().sum::<u64>(), analysis.bytes);
    assert_eq!(analysis.kinds.iter().map(|kind| kind.packets).sum::<u64>(), analysis.packets);
    let kind = |name: &str| {
        analysis.kinds.iter().find(|kind| kind.kind == name).map_or(0, |kind| kind.packets)
    };
    assert_eq!(analysis.unread.iter().map(|row| row.packets).sum::<u64>(), kind("unread"));
    let later = analysis.later_fragments.iter().map(|row| row.packets).sum::<u64>();
    assert_eq!(later, kind("later fragment"));
    let _ = serde_json::to_string(&analysis).expect("a form that can be written");
}
