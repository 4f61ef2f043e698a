//! Memory and output stay limited for captures that are made to fill them.

use analyze::{Analysis, Options, analyze};

fn block(kind: u32, content: &[u8]) -> Vec<u8> {
    let length = (content.len() + 12) as u32;
    [&kind.to_le_bytes()[..], &length.to_le_bytes(), content, &length.to_le_bytes()].concat()
}

fn section() -> Vec<u8> {
    block(0x0a0d_0d0a, &[&[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0][..], &[0xff; 8]].concat())
}

/// An Ethernet interface of this name.
fn interface(name: &str) -> Vec<u8> {
    let mut interface = vec![1, 0, 0, 0, 0, 0, 1, 0, 2, 0];
    interface.extend((name.len() as u16).to_le_bytes());
    interface.extend(name.as_bytes());
    interface.resize(interface.len().next_multiple_of(4), 0);
    interface.extend([0; 4]);
    block(1, &interface)
}

/// A pcapng with one interface of this name, and one UDP packet of each of `flows` flows, 1 us apart.
fn capture(name: &str, flows: u32) -> Vec<u8> {
    let mut all = [section(), interface(name)].concat();
    for flow in 0..flows {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
        frame.extend((0x0a00_0000 + flow).to_be_bytes());
        frame.extend([11, 0, 0, 1, 4, 0, 5, 7, 0, 8, 0, 0]);
        let length = frame.len() as u32;
        let header = [0, 0, flow, length, length].map(u32::to_le_bytes).concat();
        frame.resize(frame.len().next_multiple_of(4), 0);
        all.extend(block(6, &[header, frame].concat()));
    }
    all
}

fn analysis(capture: &[u8], flows: usize) -> Analysis {
    analyze(capture, &Options { flows, ..Options::default() }).unwrap()
}

#[test]
fn flows_beyond_the_limit_are_one_row_and_counted() {
    let all = analysis(&capture("a:eth0", 1_000), 16);
    let others = all.flows.last().unwrap();
    assert_eq!(others.a, "others");
    assert!(all.flows.len() <= 17, "{}", all.flows.len());
    assert_eq!(all.merged.flows as usize + all.flows.len() - 1, 1_000);
    let packets: u64 = all.flows.iter().map(|flow| flow.forward.packets + flow.back.packets).sum();
    assert_eq!(packets, 1_000);
    assert!(all.notes.iter().any(|note| note.contains("flows are merged")), "{:?}", all.notes);
}

#[test]
fn addresses_beyond_the_limit_are_one_row_and_counted() {
    let all = analysis(&capture("eth0", 1_000), 16);
    assert_eq!((all.nodes.len(), &all.nodes[16].node[..]), (17, "others"));
    let listed: u64 = all.nodes[..16].iter().map(|node| node.tx_packets + node.rx_packets).sum();
    assert_eq!(listed + all.merged.node_packets, 2_000);
    assert!(all.notes.iter().any(|note| note.contains("addresses beyond")), "{:?}", all.notes);
}

#[test]
fn nothing_is_merged_below_the_limits() {
    // Sixteen senders and a receiver.
    let all = analysis(&capture("a:eth0", 16), 17);
    assert_eq!((all.merged.flows, all.merged.node_packets, all.merged.path_packets), (0, 0, 0));
    assert_eq!((all.flows.len(), all.notes.len()), (16, 0));
}

/// Each flow's row has the name of its point: a name of 60 kB in a capture of 7 MB took 19 GB.
#[test]
fn a_point_with_a_very_long_name_is_called_by_its_number() {
    let long = analysis(&capture(&"x".repeat(256), 2), 16);
    assert_eq!(
        (&long.points[0].name[..], &long.flows[0].point[..]),
        ("interface 0", "interface 0")
    );
    assert!(long.notes.iter().any(|note| note.starts_with("1 capture points")), "{:?}", long.notes);
    let usual = analysis(&capture(&"x".repeat(255), 2), 16);
    assert_eq!((&usual.points[0].name, usual.notes.len()), (&"x".repeat(255), 0));
}

/// 65,535 names of 255 B were kept four times each, and repeated in each row of nodes and flows.
#[test]
fn names_of_all_points_are_limited_together() {
    let name = |number: usize| format!("{number:0>255}");
    let many: Vec<u8> = (0..65_000).flat_map(|number| interface(&name(number))).collect();
    let all = analysis(&[section(), many].concat(), 16);
    assert_eq!(all.points.len(), 65_000, "no point is lost");
    let bytes: usize = all.points.iter().map(|point| point.name.len()).sum();
    assert!(bytes < 6 << 20, "{bytes}");
    assert_eq!((&all.points[0].name, &all.points[64_999].name[..]), (&name(0), "interface 64999"));
    assert!(all.notes.iter().any(|note| note.contains("called `interface`")), "{:?}", all.notes);
}

#[test]
fn a_name_that_sections_repeat_counts_once() {
    let sections = |interfaces: usize| -> Vec<u8> {
        let name = |number: usize| format!("node-{number:0>200}:eth0");
        let one = |number: usize| [section(), interface(&name(number % 4))].concat();
        (0..interfaces).flat_map(one).collect()
    };
    let all = analysis(&sections(60_000), 16);
    assert_eq!((all.points.len(), all.notes.len()), (4, 0), "{:?}", all.notes);
}
