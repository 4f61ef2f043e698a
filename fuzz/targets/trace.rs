//! Any bytes as a trace of requests and as a file of resources, any text as what a
//! schedule, a distribution or a mix is asked for by.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace::{Arrivals, Method, Mix, Reader, Tally, read_resources};
use units::Draw;

fuzz_target!(|input: (Vec<u8>, String)| {
    let (bytes, text) = input;
    let mut reader = Reader::new(&bytes[..]);
    let mut tally = Tally::default();
    let mut lines = Vec::new();
    while let Some(read) = reader.read().expect("a slice can be read") {
        match read {
            Ok(request) => {
                tally.add(&request);
                lines.push(request.to_string());
            }
            Err(error) => tally.add_fault(&error),
        }
    }
    assert_eq!(tally.finish().requests, lines.len() as u64);
    // What was read is written so that it reads back.
    let again = lines.join("\n");
    let mut reader = Reader::new(again.as_bytes());
    for line in &lines {
        let request = reader.read().expect("a slice").expect("a line").expect("a request");
        assert_eq!(&request.to_string(), line);
    }
    let _ = read_resources(&bytes[..]);
    let _ = text.parse::<Mix<Method>>();
    // Files are none of the fuzzer's business.
    if !text.contains("measured") {
        if let Ok(arrivals) = text.parse::<Arrivals>() {
            let mut before = 0;
            for at in arrivals.times(Draw::new(1, 2, 3), true).take(100) {
                assert!(at >= before);
                before = at;
            }
        }
    }
});
