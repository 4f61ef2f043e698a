//! Tests that compare this crate with tshark on generated captures.

mod conversation;
mod links;
mod lowpan;
mod noise;
mod tcp;

use std::path::Path;
use std::process::Command;

/// A packet of a capture made for a test.
#[derive(Debug, Clone)]
pub(crate) struct TestPacket {
    /// Capture time, in ns since 1970.
    pub at: u64,
    /// The captured bytes.
    pub data: Vec<u8>,
    /// Its length on the wire.
    pub length: u32,
}

/// A pcap file with times in ns (magic 0xa1b23c4d), of this link type.
pub(crate) fn pcap(link: u32, packets: &[TestPacket]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_3c4d, 0x0004_0002, 0, 0, 262_144, link] {
        file.extend(u32::to_le_bytes(word));
    }
    for packet in packets {
        let (seconds, ns) = (packet.at / 1_000_000_000, packet.at % 1_000_000_000);
        for word in [seconds as u32, ns as u32, packet.data.len() as u32, packet.length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(&packet.data);
    }
    file
}

/// The version of the installed tshark, e.g. `4.0.17`. Prints a line if there is none.
pub(crate) fn tshark_version() -> Option<String> {
    let out = Command::new("tshark").arg("--version").output().ok();
    let text = out.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default();
    let version =
        text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    if version.is_none() {
        eprintln!("NOT RUN: needs tshark");
    }
    version.map(|version| version.trim_end_matches('.').to_owned())
}

/// The values of these fields in each packet of a capture, as tshark prints them.
pub(crate) fn tshark(capture: &[u8], options: &[&str], fields: &[&str]) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("capture.pcap");
    std::fs::write(&file, capture).expect("room for a capture");
    rows(&file, options, fields)
}

fn rows(file: &Path, options: &[&str], fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-r"]).arg(file).args(["-T", "fields"]);
    options.iter().for_each(|option| _ = command.args(["-o", option]));
    fields.iter().for_each(|field| _ = command.args(["-e", field]));
    let out = command.output().expect("tshark runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// A deterministic random number generator (SplitMix64).
#[derive(Debug, Clone)]
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// True with a probability of `percent` %.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
