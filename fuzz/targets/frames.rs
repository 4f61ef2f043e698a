//! Any bytes from a node, plain and behind a TAP's header: switched, tied to trains,
//! tracked for groups, split, taken apart.
#![no_main]

use libfuzzer_sys::fuzz_target;
use measure::Classifier;
use medium::{ReadResult, Endpoint, Impairment, ReadBuffer, Segment, SegmentSpec};

fuzz_target!(|frames: Vec<Vec<u8>>| {
    let lossy: Impairment = serde_json::from_value(serde_json::json!({
        "loss": "10 %", "loss_unit": "train", "corrupt": "10 %", "duplicate": "10 %",
        "rate": "1 Mbit/s",
    }))
    .unwrap();
    let link = Endpoint { up: lossy.clone(), down: lossy, ..Endpoint::default() };
    let spec = SegmentSpec { endpoints: vec![link; 4], impaired: true, ..SegmentSpec::switch(1) };
    let mut segment = Segment::new(&spec);
    let mut classifier = Classifier::new(vec![5556]);
    let mut intake = ReadBuffer::default();
    let mut sent = 0;
    for (now, frame) in frames.iter().enumerate() {
        let bytes = classifier.classify(frame).traffic().bytes;
        assert_eq!(bytes, frame.len() as u64, "every byte is of some layer");
        let (from, now) = (now % 4, now as u64 * 1_000);
        segment.send(from, frame, now);
        sent += 1;
        let len = frame.len().min(intake.room().len());
        intake.room()[..len].copy_from_slice(&frame[..len]);
        match intake.behind_header(len) {
            ReadResult::Frame(frame) => {
                segment.send(from, frame, now);
                sent += 1;
            }
            ReadResult::Segments(segments) => {
                let traffic = classifier.classify_segments(&segments);
                assert_eq!(traffic.frames, segments.count() as u64);
                assert_eq!(traffic.bytes, segments.size() as u64);
                sent += segments.count();
                segment.send_segments(from, segments, now);
            }
            ReadResult::Nonsense => segment.reject(from, now),
        }
    }
    let due = std::iter::from_fn(|| segment.due(u64::MAX));
    let delivered: usize = due.map(|delivery| delivery.frame.count()).sum();
    // To three others, and every copy may be copied on both ways.
    assert!(delivered <= 12 * sent);
});
