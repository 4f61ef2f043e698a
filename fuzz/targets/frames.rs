//! Any bytes from a node: switched, tied to trains, tracked for groups, taken apart.
#![no_main]

use libfuzzer_sys::fuzz_target;
use measure::Classifier;
use medium::{Endpoint, Impairment, LossUnit, Segment, SegmentSpec};

fuzz_target!(|frames: Vec<Vec<u8>>| {
    let lossy = Impairment {
        loss: "10 %".parse().unwrap(),
        corrupt: "10 %".parse().unwrap(),
        duplicate: "10 %".parse().unwrap(),
        loss_unit: LossUnit::Train,
        rate: "1 Mbit/s".parse().ok(),
        ..Impairment::default()
    };
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
