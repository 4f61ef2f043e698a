//! Any bytes as a capture, and any bytes as packets within a good one.
#![no_main]

use analyze::{Options, Protocol, analyze};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<u8>, Vec<(u8, Vec<u8>)>)| {
    let (bytes, packets) = input;
    let options = Options {
        flows: 8,
        waiting: 4096,
        ports: vec![(Protocol::Zmtp, 0x0101), (Protocol::Coap, 0x0202)],
        ..Options::default()
    };
    let _ = analyze(&bytes[..], &options);
    let mut pcap = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\x04\0\x01\0\0\0".to_vec();
    for (time, data) in &packets {
        pcap.extend(u32::from(*time).to_le_bytes());
        pcap.extend([0; 4]);
        pcap.extend((data.len() as u32).to_le_bytes());
        pcap.extend((data.len() as u32 + u32::from(*time)).to_le_bytes());
        pcap.extend(data);
    }
    let analysis = analyze(&pcap[..], &options).expect("its header is good");
    assert!(analysis.complete);
    assert_eq!(analysis.packets, packets.len() as u64);
    assert_eq!(analysis.layers.values().sum::<u64>(), analysis.bytes);
    assert_eq!(analysis.kinds.iter().map(|kind| kind.packets).sum::<u64>(), analysis.packets);
    let _ = serde_json::to_string(&analysis).expect("a form that can be written");
});
