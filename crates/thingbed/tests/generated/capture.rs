//! A background capture, and the frames that it must contain at its end.

use super::failure::{Failure, Outcome, eventually, expect};
use super::session::{Requests, Session, ended};
use crate::common::CommandOutput;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Child;

/// Echo requests that a node sends.
pub struct Running {
    child: Child,
    file: String,
    node: String,
    /// Number of requests sent before, on each of its networks.
    before: Vec<Requests>,
}

/// Selects the test's pings.
const FILTER: &str = "icmp[icmptype] = icmp-echo";

impl Running {
    /// Starts a capture at a node with `links` links, and waits until the file contains them.
    pub fn begin(
        session: &mut Session<'_>,
        (node, links): (&str, usize),
        number: usize,
    ) -> Result<Self, Failure> {
        let file = format!("capture-{number}.pcapng");
        let child = session.begin(&["capture", node, "-w", &file, "--filter", FILTER]);
        let before = (0..links).map(|network| session.requests(node, network)).collect();
        let running = Self { child, file, node: node.to_owned(), before };
        let path = session.bed.path().join(&running.file);
        let expected: Vec<String> = (0..links).map(|link| interface(&running.node, link)).collect();
        eventually(|| {
            let contents = read(&path).map(|(names, _)| names).unwrap_or_default();
            let what = "the interfaces in the capture";
            expect(contents == expected, what, format!("{expected:?}"), format!("{contents:?}"))
        })?;
        Ok(running)
    }

    /// Ends the capture as Ctrl-C does, and compares.
    pub fn end(self, session: &mut Session<'_>) -> Outcome {
        session.typed.push(format!("kill -INT {}   # the capture", self.child.id()));
        // SAFETY: a plain system call on a process that this test started.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) };
        self.ended(session)
    }

    /// Waits for the end of the capture, which ends with the lab, and compares.
    pub fn ended(self, session: &Session<'_>) -> Outcome {
        let CommandOutput { status, err: errors, .. } = ended(self.child);
        expect(status == 0, "the end of the capture", "exit status 0", &errors)?;
        let contents = read(&session.bed.path().join(&self.file));
        let Some((_, frames)) = contents else {
            return expect(false, "the capture", "a whole file", errors);
        };
        for (network, before) in self.before.iter().enumerate() {
            let name = interface(&self.node, network);
            let count = frames.get(&(name.clone(), OUTBOUND)).copied().unwrap_or(0);
            let now = session.requests(&self.node, network);
            let least = now.answered - before.answered;
            let most = now.sent - before.sent + before.waiting;
            let what = format!("echo requests in the capture of {name}");
            let expected = format!("{least} to {most}");
            expect(
                (least..=most).contains(&count),
                what,
                expected,
                format!("{frames:?}\n{errors}"),
            )?;
        }
        Ok(())
    }
}

/// Interface name in captures.
fn interface(node: &str, network: usize) -> String {
    format!("{node}:eth{network}")
}

const OUTBOUND: u32 = 2;

type Frames = BTreeMap<(String, u32), u64>;

/// Interfaces, and frames by interface and direction. `None` if the file is incomplete.
fn read(path: &Path) -> Option<(Vec<String>, Frames)> {
    let bytes = std::fs::read(path).ok()?;
    let mut reader = PcapNgReader::new(&bytes[..]).ok()?;
    let (mut names, mut frames) = (Vec::new(), Frames::new());
    while let Some(block) = reader.next_block() {
        match block.ok()?.0 {
            Block::InterfaceDescription(interface) => {
                names.extend(interface.options.iter().find_map(|option| match option {
                    InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                    _ => None,
                }));
            }
            Block::EnhancedPacket(packet) => {
                let way = packet.options.iter().find_map(|option| match option {
                    EnhancedPacketOption::Flags(flags) => Some(flags & 3),
                    _ => None,
                });
                let name = names.get(packet.interface_id as usize)?.clone();
                *frames.entry((name, way?)).or_default() += 1;
            }
            _ => {}
        }
    }
    Some((names, frames))
}
