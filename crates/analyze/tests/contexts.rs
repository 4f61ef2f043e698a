//! Contexts of 6LoWPAN in captures of others, which do not name them.

use analyze::{Options, analyze};

/// A pcap file of IEEE 802.15.4 (link type 195) with a UDP datagram from station 1 to station 2, whose
/// addresses are both of context 0 (RFC 6282, section 3.1).
fn capture() -> Vec<u8> {
    let header = [0xa1b2_3c4d, 0x0004_0002, 0, 0, 262_144, 195].map(u32::to_le_bytes);
    // Frame control (data, one PAN, short addresses), number, PAN, addresses; IP; UDP; frame check.
    let mac = [0x41, 0x88, 1, 0xcd, 0xab, 2, 0, 1, 0];
    let frame = [&mac[..], &[0x7e, 0x77], &[0xf3, 0x12, 0xab, 0xcd], &[0, 0]].concat();
    let length = frame.len() as u32;
    [header.concat(), [1, 0, length, length].map(u32::to_le_bytes).concat(), frame].concat()
}

#[test]
fn an_option_names_the_prefix_of_a_context() {
    let text = |contexts: &[(u8, &str)]| {
        let contexts = contexts.iter().map(|(number, text)| (*number, text.parse().unwrap()));
        let options = Options { contexts: contexts.collect(), ..Options::default() };
        format!("{:?}", analyze(&capture()[..], &options).unwrap())
    };
    let without = text(&[]);
    assert!(without.contains("context 0::ff:fe00:1"), "{without}");
    assert!(without.contains("--context 0=PREFIX names one"), "{without}");
    assert!(text(&[(1, "fd00:7::/64")]).contains("context 0::ff:fe00:1"));
    let named = text(&[(0, "fd00:7::/64")]);
    assert!(named.contains("fd00:7::ff:fe00:1"), "{named}");
    assert!(named.contains("fd00:7::ff:fe00:2") && !named.contains("context"), "{named}");
}
