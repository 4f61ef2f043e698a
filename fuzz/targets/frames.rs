//! Any bytes from a node: switched, tied to trains, tracked for groups, taken apart.
#![no_main]

use engine::{Endpoint, Segment, SegmentSpec};
use libfuzzer_sys::fuzz_target;
use link::Impairment;
use measure::Classifier;

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
    let mut sent = 0;
    for (now, frame) in frames.iter().enumerate() {
        let bytes = classifier.classify(frame).traffic().bytes;
        assert_eq!(bytes, frame.len() as u64, "every byte is of some layer");
        let (from, now) = (now % 4, now as u64 * 1_000);
        segment.send(from, frame, now);
        sent += 1;
    }
    let delivered = std::iter::from_fn(|| segment.due(u64::MAX)).count();
    // To three others, and every copy may be copied on both ways.
    assert!(delivered <= 12 * sent);
});
