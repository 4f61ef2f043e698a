//! Live observation of a lab: captured frames, and traffic of nodes.

mod common;

use common::live::{Live, until};
use common::{Bed, CommandOutput};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::blocks::opt_common::CommonOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Stdio};

const LAB: &str = "experiment: NAME
nodes:
  server: {run: [sleep, infinity]}
  meter: {count: 3}
networks:
  lan: {attach: [server, meter], subnet: 10.1.0.0/24, MORE}
";

/// Frames by interface and direction (1 to the node, 2 from it), the longest captured length, and
/// all interfaces. `None` if the file is incomplete.
#[derive(Default)]
struct Seen {
    names: Vec<String>,
    frames: BTreeMap<(String, u32), usize>,
    longest: usize,
    comments: Vec<String>,
}

fn read(path: &Path) -> Option<Seen> {
    let bytes = std::fs::read(path).ok()?;
    let mut reader = PcapNgReader::new(&bytes[..]).ok()?;
    let mut seen = Seen::default();
    while let Some(block) = reader.next_block() {
        match block.ok()?.0 {
            Block::InterfaceDescription(interface) => {
                seen.names.extend(interface.options.iter().find_map(|option| match option {
                    InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                    _ => None,
                }));
            }
            Block::EnhancedPacket(packet) => {
                let way = packet.options.iter().find_map(|option| match option {
                    EnhancedPacketOption::Flags(flags) => Some(flags & 3),
                    _ => None,
                });
                seen.comments.extend(packet.options.iter().filter_map(|option| match option {
                    EnhancedPacketOption::Common(CommonOption::Comment(text)) => {
                        Some(text.to_string())
                    }
                    _ => None,
                }));
                let name = seen.names[packet.interface_id as usize].clone();
                *seen.frames.entry((name, way?)).or_default() += 1;
                seen.longest = seen.longest.max(packet.data.len());
            }
            _ => {}
        }
    }
    Some(seen)
}

impl Seen {
    fn count(&self, name: &str, way: u32) -> usize {
        self.frames.get(&(name.to_owned(), way)).copied().unwrap_or(0)
    }
}

fn capture(lab: &Live<'_>, words: &[&str]) -> Child {
    let mut command = lab.command(&[&["capture", "-w", "c.pcapng"], words].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Ends the capture as Ctrl-C does.
fn end(child: Child) -> CommandOutput {
    // SAFETY: a plain system call on a process that this test started.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    CommandOutput::of(child.wait_with_output().unwrap())
}

fn ping(lab: &Live<'_>, from: &str, to: &str) {
    lab.ask(&["exec", from, "--", "ping", "-n", "-c5", "-i0.1", "-s100", "-W5", to])
        .expect(0, &["5 received"]);
}

/// The file grows during the capture, contains both directions on every frame path, and is complete
/// at the end.
#[test]
fn frames_of_both_directions_come_as_they_pass_on_all_paths() {
    if !common::has("ping") {
        return;
    }
    for (path, more) in [("ring", "mtu: 1500 B"), ("tap", "mtu: 1500 B"), ("packet", "mtu: 1500 B")]
    {
        let bed = Bed::new();
        let text = LAB.replace("MORE", more);
        let Some(lab) = Live::by(&bed, &format!("{path}-watch"), &text, Some(path)) else {
            continue;
        };
        let file = bed.path().join("c.pcapng");
        let watcher = capture(&lab, &["meter-1", "server"]);
        until(|| read(&file).is_some_and(|seen| seen.names.len() == 2), || "no file".to_owned());
        ping(&lab, "meter-1", "server");
        ping(&lab, "meter-2", "meter-3");
        let all = || {
            let seen = read(&file);
            seen.is_some_and(|seen| {
                ["meter-1:eth0", "server:eth0"]
                    .iter()
                    .all(|name| [1, 2].iter().all(|way| seen.count(name, *way) >= 5))
            })
        };
        until(all, || format!("{path}: {:?}", read(&file).map(|seen| seen.frames)));
        let output = end(watcher).expect(0, &["2 links", "frames"]);
        let seen = read(&file).expect("a whole file");
        let counted: usize = seen.frames.values().sum();
        assert!(output.err.contains(&format!("{counted} frames")), "{}", output.err);
        assert_eq!(seen.names, ["server:eth0", "meter-1:eth0"]);
    }
}

#[test]
fn what_is_captured_can_be_chosen() {
    if !common::has("ping") {
        return;
    }
    let bed = Bed::new();
    let lab = Live::up(&bed, "choose", &LAB.replace("MORE", "mtu: 1500 B"));
    let file = bed.path().join("c.pcapng");
    let watcher =
        capture(&lab, &["meter", "--filter", "icmp[icmptype] = icmp-echo", "--snaplen", "40"]);
    until(|| read(&file).is_some_and(|seen| seen.names.len() == 3), || "no file".to_owned());
    ping(&lab, "meter-2", "server");
    let requests = || read(&file).map_or(0, |seen| seen.count("meter-2:eth0", 2));
    until(|| requests() == 5, || format!("{} requests", requests()));
    end(watcher).expect(0, &["3 links", "5 frames"]);
    let seen = read(&file).unwrap();
    assert_eq!((seen.frames.len(), seen.longest), (1, 40));

    let refused = |words: &[&str], why: &[&str]| {
        lab.ask(&[&["capture", "-w", "d.pcapng"], words].concat()).expect(1, why);
    };
    refused(&["metre"], &["no node and no group has the name `metre`"]);
    refused(&["meter", "--filter", "tpc"], &["tpc"]);
    refused(&["meter", "--network", "wan"], &["no network has the name `wan`", "lan"]);
    assert!(!bed.path().join("d.pcapng").exists());
    // Captures that start later include clones.
    lab.ask(&["clone", "meter-1"]).expect(0, &["meter-4"]);
    let watcher = capture(&lab, &["meter-4"]);
    until(|| read(&file).is_some_and(|seen| seen.names == ["meter-4:eth0"]), || "none".to_owned());
    bed.thingbed(&["link", "set", "--lab", &lab.name, "meter-4", "delay=5ms"]).expect(0, &[]);
    ping(&lab, "meter-4", "meter-1");
    until(|| read(&file).is_some_and(|seen| seen.count("meter-4:eth0", 2) >= 5), || "none".into());
    // The capture also ends with the lab.
    lab.ask(&["down"]).expect(0, &[]);
    CommandOutput::of(watcher.wait_with_output().unwrap()).expect(0, &["frames"]);
    assert_eq!(read(&file).unwrap().comments, ["links of meter-4 changed by hand"]);
}

/// If the reader of a pipe ends, the capture ends, and the lab is unaffected.
#[test]
fn a_reader_that_goes_is_no_harm() {
    if !common::has("ping") {
        return;
    }
    let bed = Bed::new();
    let lab = Live::up(&bed, "pipe", &LAB.replace("MORE", "mtu: 1500 B"));
    let tool = lab.tool();
    let threads = || std::fs::read_dir(format!("/proc/{tool}/task")).unwrap().count();
    let before = threads();
    let mut watcher = lab.command(&["capture", "meter-1"]);
    let mut watcher = watcher.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut pipe = watcher.stdout.take().unwrap();
    let mut magic = [0; 4];
    std::io::Read::read_exact(&mut pipe, &mut magic).unwrap();
    assert_eq!(magic, [0x0a, 0x0d, 0x0d, 0x0a]);
    drop(pipe);
    ping(&lab, "meter-1", "server");
    CommandOutput::of(watcher.wait_with_output().unwrap()).expect(0, &[]);
    // Even without frames: the lab stops writing to a closed capture.
    until(|| threads() == before, || format!("{} threads, {before} before", threads()));
    ping(&lab, "meter-1", "server");
}

#[test]
fn top_tells_what_nodes_send_on_all_paths() {
    if !common::has("ping") {
        return;
    }
    for path in ["ring", "tap", "packet"] {
        let bed = Bed::new();
        let text = LAB.replace("MORE", "mtu: 1500 B");
        let Some(lab) = Live::by(&bed, &format!("{path}-top"), &text, Some(path)) else {
            continue;
        };
        let mut pinging = lab.command(&["exec", "meter-1", "--", "ping", "-n", "-i0.02", "server"]);
        let mut pinging = pinging.stdout(Stdio::null()).spawn().unwrap();
        // NODE STATE CPU RSS OUT IN OUT-FRAMES IN-FRAMES; the state is empty here.
        let figures = || -> Vec<f64> {
            let output = lab.ask(&["top", "--once", "meter-1"]).expect(0, &["OUT kbit/s"]);
            let line = output.out.lines().find(|line| line.contains("meter-1")).unwrap();
            line.split_whitespace().skip(1).map(|word| word.parse().unwrap()).collect()
        };
        until(
            || figures()[2..].iter().all(|figure| *figure > 0.0),
            || format!("{path}: {:?}", figures()),
        );
        // SAFETY: a plain system call on a process that this test started.
        unsafe { libc::kill(pinging.id() as i32, libc::SIGTERM) };
        pinging.wait().unwrap();
    }
}
