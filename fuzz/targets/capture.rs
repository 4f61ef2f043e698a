//! Any bytes as a capture, and any bytes as packets of any link type within a good one.
#![no_main]

use analyze::{Options, Protocol, analyze};
use libfuzzer_sys::fuzz_target;

/// Link types that are read; other numbers are those of ones that are not, too.
const READ: [u32; 16] = [1, 0, 9, 12, 50, 51, 101, 104, 108, 113, 166, 204, 205, 219, 228, 276];

fuzz_target!(|input: (Vec<u8>, u8, Vec<(u8, Vec<u8>)>)| {
    let (bytes, link, packets) = input;
    let options = Options {
        flows: 8,
        waiting: 4096,
        ports: vec![(Protocol::Zmtp, 0x0101), (Protocol::Coap, 0x0202)],
        ..Options::default()
    };
    let _ = analyze(&bytes[..], &options);
    let mut pcap = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\x04\0".to_vec();
    let link = READ.get(usize::from(link)).copied().unwrap_or(link.into());
    pcap.extend(link.to_le_bytes());
    for (time, data) in &packets {
        pcap.extend(u32::from(*time).to_le_bytes());
        pcap.extend([0; 4]);
        pcap.extend((data.len() as u32).to_le_bytes());
        pcap.extend((data.len() as u32 + u32::from(*time)).to_le_bytes());
        pcap.extend(data);
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
});
