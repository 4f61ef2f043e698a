//! `analyze` on damaged and foreign files, and on unsupported link types.

mod common;

use common::Bed;
use serde_json::Value;

#[test]
fn damaged_and_foreign_files() {
    let bed = Bed::new();
    bed.write("note.txt", "not a packet capture at all, but long enough to hold a header");
    bed.write("none.pcapng", "");
    bed.thingbed(&["analyze", "note.txt"]).expect(1, &["note.txt", "not a packet capture"]);
    bed.thingbed(&["analyze", "none.pcapng"]).expect(1, &["empty"]);
    bed.thingbed(&["analyze", "gone.pcapng"]).expect(1, &["gone.pcapng"]);
    bed.thingbed(&["analyze", "note.txt", "--port", "smtp=25"]).expect(2, &["smtp", "mqtt"]);
    // A capture of one packet of 60 bytes, truncated in its middle.
    let mut pcap = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\x04\0\x01\0\0\0".to_vec();
    pcap.extend(b"\x01\0\0\0\0\0\0\0\x3c\0\0\0\x3c\0\0\0");
    pcap.extend([7; 60]);
    std::fs::write(bed.path().join("whole.pcap"), &pcap).unwrap();
    // Its EtherType is 0x0707, which is unassigned.
    let words = ["INCOMPLETE: 1 packet, 60.0 B", "1 packet on `interface 0` has EtherType 0x0707"];
    bed.thingbed(&["analyze", "whole.pcap"]).expect(1, &words);
    pcap.extend(b"\x01\0\0\0\0\0\0\0\x3c\0\0\0\x3c\0\0\0\x07");
    std::fs::write(bed.path().join("cut.pcap"), &pcap).unwrap();
    let output = bed.thingbed(&["analyze", "cut.pcap", "--json"]).expect(1, &["in the middle"]);
    let partial: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!((&partial["complete"], &partial["packets"]), (&false.into(), &1.into()));
    bed.thingbed(&["analyze", "whole.pcap", "--point", "x"]).expect(1, &["`x`", "interface 0"]);
}

/// A pcap file of this link type.
fn pcap(link: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, link] {
        file.extend(u32::to_le_bytes(word));
    }
    for (second, packet) in (1..).zip(packets) {
        for word in [second, 0, packet.len() as u32, packet.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    file
}

#[test]
fn links_that_cannot_be_read_are_named_in_text_json_and_page() {
    let bed = Bed::new();
    std::fs::write(bed.path().join("ble.pcap"), pcap(251, &vec![vec![0x41; 25]; 12])).unwrap();
    let note = "12 packets on `interface 0` have link type Bluetooth LE (251), which \
                analyze cannot read: they are counted by size only";
    let output = bed.thingbed(&["analyze", "ble.pcap", "--html", "page.html"]);
    let text = output.expect(1, &["INCOMPLETE: 12 packets, 300 B", "unread"]).out;
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(joined.contains(note), "{text}");
    let page = std::fs::read_to_string(bed.path().join("page.html")).unwrap();
    assert!(page.contains(note) && page.contains("link type 251"), "no note");
    let output = bed.thingbed(&["analyze", "ble.pcap", "--json"]).expect(1, &[]);
    let json: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!((&json["complete"], &json["notes"][0]), (&false.into(), &note.into()));
    let row = &json["unread"][0];
    assert_eq!((&row["reason"], &row["number"]), (&"link type".into(), &251.into()));
    assert_eq!((&row["packets"], &row["bytes"]), (&12.into(), &300.into()));
    assert_eq!(json["kinds"][0]["kind"], "unread");
}

#[test]
fn later_fragments_are_counted_by_their_protocol_and_make_no_flow() {
    let bed = Bed::new();
    let fragment = |offset: u16, more: u16| {
        let mut packet = vec![0x60, 0, 0, 0, 0, 48, 44, 64];
        packet.extend([[0xfd; 16], [0xfe; 16]].concat());
        packet.extend([17, 0]);
        packet.extend((offset | more).to_be_bytes());
        packet.extend([0, 0, 0, 9]);
        // In the first fragment this is the UDP header, in later ones arbitrary bytes.
        packet.extend([0x16, 0x33, 0x9c, 0x40 + (offset >> 4) as u8, 0, 120, 0, 0]);
        packet.extend([0; 32]);
        packet
    };
    let packets = [fragment(0, 1), fragment(40, 1), fragment(80, 0)];
    std::fs::write(bed.path().join("fragments.pcap"), pcap(101, &packets)).unwrap();
    let output = bed.thingbed(&["analyze", "fragments.pcap", "--json"]).expect(0, &[]);
    let json: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(json["flows"].as_array().unwrap().len(), 1, "{}", json["flows"]);
    assert_eq!(json["later_fragments"][0]["protocol"], "UDP");
    assert_eq!(json["later_fragments"][0]["packets"], 2);
    let text = bed.thingbed(&["analyze", "fragments.pcap"]);
    text.expect(0, &["later fragments by protocol: UDP 2", "5683"]);
}
