//! Nodes that are machines: a PC whose network firmware (iPXE) boots in QEMU, and a firmware that was
//! built for this system, here a shell.

mod common;

use common::live::{Live, until};
use common::{Bed, CommandOutput, has, is_root};
use std::io::Write;
use std::process::{Command, Stdio};

// Without KVM, a machine boots slowly on a busy machine: hence the limits of five minutes.
const LAB: &str = "experiment: NAME
nodes:
  gateway: {}
  board:
    qemu: {memory: 64 MiB}
    mac: 52:54:00:12:34:56
    console:
      - {wait: Ctrl-B, keys: \"\\x02\", every: 0.3 s}
      - {wait: iPXE>, send: ifopen net0}
      - {wait: iPXE>, send: 'set net0/ip {address}'}
      - {wait: iPXE>, send: 'set net0/netmask {netmask}'}
      - {wait: iPXE>, send: ifstat}
      - {wait: iPXE>}
networks:
  field:
    attach: [gateway, board]
    subnet: 10.78.0.0/24
    links: {board: {down: {delay: 20 ms}}}
duration: 1 s
setup_limit: 5 min
";

/// The machine behind a router.
const ROUTED: &str = "experiment: NAME
nodes:
  gateway: {}
  router: {forward: true}
  board:
    qemu: {memory: 64 MiB}
    console:
      - {wait: Ctrl-B, keys: \"\\x02\", every: 0.3 s}
      - {wait: iPXE>, send: ifopen net0}
      - {wait: iPXE>, send: 'set net0/ip {address}'}
      - {wait: iPXE>, send: 'set net0/netmask {netmask}'}
      - {wait: iPXE>, send: 'set net0/gateway {gateway}'}
      - {wait: iPXE>}
networks:
  near: {attach: [router, board], subnet: 10.71.0.0/24}
  far: {attach: [gateway, router], subnet: 10.72.0.0/24}
duration: 1 s
setup_limit: 5 min
";

/// Five echoes to the machine.
const PINGS: &str = "workloads:
  - command: {on: gateway, run: [busybox, ping, -c, '5', -i, '0.2', board]}
drain: 5 s
";

const FIRMWARE: &str = "experiment: NAME
nodes:
  sensor:
    count: 2
    firmware: [sh, -c, 'echo booted {node} at {address}; exec sh']
    console: {wait: booted, send: 'A=$((6 * 7)); echo value $A'}
    ready: {console: value 42}
  hub: {}
networks:
  field: {attach: [hub, sensor], subnet: 10.79.0.0/24}
duration: 1 s
";

/// Whether QEMU with its network firmware is installed.
fn has_pc() -> bool {
    let rom = ["/usr/share/qemu/efi-virtio.rom", "/usr/lib/ipxe/qemu/efi-virtio.rom"];
    let able =
        has("qemu-system-x86_64") && rom.iter().any(|rom| std::path::Path::new(rom).exists());
    if !able {
        eprintln!(
            "NOT RUN: QEMU for x86-64 and its network firmware (package ipxe-qemu) are missing"
        );
    }
    able
}

fn ping(lab: &Live<'_>) -> CommandOutput {
    lab.ask(&["exec", "gateway", "--", "busybox", "ping", "-c", "1", "-W", "5", "board"])
}

/// The machine answers within the time that a busy machine takes.
#[track_caller]
fn answers(lab: &Live<'_>) {
    until(|| ping(lab).status == 0, || lab.ask(&["logs", "board"]).out);
}

fn emulators(lab: &Live<'_>) -> usize {
    let boards = lab.nodes().into_iter().filter(|node| node["group"] == "board");
    let inits = boards.map(|node| node["pid"].to_string()).collect::<Vec<_>>();
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let homes: Vec<_> = inits.iter().filter_map(|init| namespace(init)).collect();
    let all = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let pids = all.filter_map(|entry| entry.file_name().into_string().ok());
    pids.filter(|pid| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.starts_with("qemu-system") && namespace(pid).is_some_and(|own| homes.contains(&own))
    })
    .count()
}

#[test]
fn a_machine_in_qemu_boots_answers_and_is_power_cycled() {
    if !has_pc() || !has("busybox") {
        return;
    }
    let bed = Bed::new();
    let lab = Live::up(&bed, "machine", LAB);
    answers(&lab);
    // The steps entered the plan's addresses.
    lab.ask(&["logs", "board"]).expect(0, &["set net0/ip 10.78.0.2", "52:54:00:12:34:56"]);
    let round_trip = ping(&lab).expect(0, &[]).out;
    let time: f64 =
        round_trip.split("time=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(time >= 20.0, "{round_trip}");
    let line = [
        "console",
        "board",
        "--send",
        "show net0/ip",
        "--wait",
        "ipv4 = 10.78.0.2",
        "--within",
        "60 s",
    ];
    lab.ask(&line).expect(0, &["net0/ip"]);
    lab.ask(&["console", "board", "--wait", "never printed", "--within", "0.2 s"])
        .expect(1, &["did not print", "never printed"]);
    lab.ask(&["ps"]).expect(0, &["qemu-system-x86_64"]);
    lab.ask(&["exec", "board", "--", "true"]).expect(0, &["thingbed console board"]);
    lab.ask(&["pingall"]).expect(0, &["1 of 1 pairs answered"]);

    // Off without a warning, and on again, with the same address.
    lab.ask(&["kill", "board"]).expect(0, &[]);
    lab.awaits("board", "killed by signal 9");
    until(|| emulators(&lab) == 0, || "QEMU is left".to_owned());
    assert_ne!(ping(&lab).status, 0);
    lab.ask(&["console", "board", "--send", "x"]).expect(1, &["board has no console"]);
    lab.ask(&["start", "board"]).expect(0, &[]);
    answers(&lab);
    lab.ask(&["pause", "board"]).expect(0, &[]);
    lab.ask(&["resume", "board"]).expect(0, &[]);
    answers(&lab);
    assert_eq!(emulators(&lab), 1);

    // A copy is another machine, with an address for itself.
    lab.ask(&["clone", "board"]).expect(0, &["board-2 10.78.0.3"]);
    until(|| emulators(&lab) == 2, || "no second QEMU".to_owned());
    lab.ask(&["destroy", "board", "board-2"]).expect(0, &[]);
    until(|| emulators(&lab) == 0, || "QEMU is left".to_owned());
}

#[test]
fn the_console_of_a_firmware_is_scripted_shared_and_logged() {
    let bed = Bed::new();
    let lab = Live::up(&bed, "firmware", FIRMWARE);
    for (node, address) in [("sensor-1", "10.79.0.2"), ("sensor-2", "10.79.0.3")] {
        let booted = format!("booted {node} at {address}");
        lab.ask(&["logs", node]).expect(0, &[&booted, "value 42"]);
    }
    let line = ["console", "sensor-2", "--send", "echo $((A + 1))", "--wait", "43"];
    lab.ask(&line).expect(0, &["43"]);
    lab.ask(&["console", "hub", "--send", "x"]).expect(1, &["hub has no console"]);

    // A user at a pipe sees the past and what others enter.
    let mut user = lab.command(&["console", "sensor-1"]);
    let mut user = user.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut keys = user.stdin.take().unwrap();
    keys.write_all(b"echo $((A * 10)); exit 7\n").unwrap();
    lab.awaits("sensor-1", "ended with status 7");
    let seen =
        CommandOutput::of(user.wait_with_output().unwrap()).expect(0, &["booted sensor-1", "420"]);
    assert!(seen.out.contains("value 42"), "{}", seen.out);
    drop(keys);

    // Nothing comes from a paused one, so the command does not wait for it.
    lab.ask(&["pause", "sensor-2"]).expect(0, &[]);
    lab.ask(&["console", "sensor-2", "--wait", "never", "--within", "600 s"])
        .expect(1, &["the machine of sensor-2 is paused", "thingbed resume sensor-2"]);
    lab.ask(&["resume", "sensor-2"]).expect(0, &[]);

    // A firmware that prints without end does not stop the tool or its readers.
    let flood = ["console", "sensor-2", "--send", "yes", "--wait", "y\r\ny", "--within", "60 s"];
    lab.ask(&flood).expect(0, &[]);
    lab.ask(&["kill", "sensor-2"]).expect(0, &[]);
    lab.ask(&["restart", "sensor-1"]).expect(0, &[]);
    lab.awaits("sensor-1", "running");
}

/// What failed before: the lab came up, and the machine ended a moment later.
#[test]
fn a_machine_that_cannot_run_is_an_error_of_up() {
    let bed = Bed::new();
    bed.write("damaged", "no kernel");
    let name = format!("ends-{}", std::process::id());
    let file = |machine: &str| {
        bed.write(
            "lab.yaml",
            &format!(
                "experiment: {name}\nnodes: {{gateway: {{}}, board: {{{machine}}}}}\nnetworks: {{field: {{attach: \
                 [gateway, board], subnet: 10.76.0.0/24}}}}\nduration: 1 s\n"
            ),
        );
    };
    // On a busy machine it may take longer than `up` waits.
    let up = || {
        let mut tries = (0..5).map(|_| bed.thingbed(&["up", "lab.yaml", "--detach"]));
        let failed = tries.find(|output| {
            let has_failed = output.status != 0;
            if !has_failed {
                bed.thingbed(&["down", "--lab", &name]).expect(0, &[]);
            }
            has_failed
        });
        failed.expect("a machine that cannot run")
    };
    file("firmware: [sh, -c, 'sleep 0.2; echo no flash; exit 3']");
    up().expect(1, &["the program of board ended with status 3", "| no flash"]);
    if has("qemu-system-x86_64") {
        file("qemu: {kernel: damaged}");
        let words =
            ["board ended with status 1", "invalid kernel header", "likely cause: `kernel`"];
        up().expect(1, &words);
    }
}

#[test]
fn a_firmware_with_its_network_stack_has_the_tap() {
    if !has_pc() || !has("busybox") {
        return;
    }
    let bed = Bed::new();
    let machine = LAB.split("    qemu: {memory: 64 MiB}\n").collect::<Vec<_>>();
    let firmware = "    firmware: [qemu-system-x86_64, -nographic, -m, 64M, -netdev, \
                    'tap,id=n,ifname=zeth,script=no,downscript=no', -device, \
                    'e1000,netdev=n,mac={mac}']\n    tap: zeth\n";
    let text = machine.join(firmware);
    bed.write("run.yaml", &text.replace("NAME", "tap"));
    bed.thingbed(&["plan", "run.yaml"]).expect(0, &["at zeth", "52:54:00:12:34:56"]);
    let lab = Live::up(&bed, "tap", &text);
    answers(&lab);
}

/// A firmware with a tunnel, behind a router.
const TUNNEL: &str = "experiment: NAME
nodes:
  gateway: {}
  router: {forward: true}
  board: {firmware: [FIRMWARE, --ignored, --exact, tunnel], tun: tun7, ready: {console: answers}}
networks:
  near: {attach: [router, board], subnet: [10.71.0.0/24, 'fd71::/64']}
  far: {attach: [gateway, router], subnet: [10.72.0.0/24, 'fd72::/64']}
duration: 1 s
";

/// Pings over both families, through a router, of the firmware and of its clone.
#[test]
fn a_firmware_with_a_tunnel_has_the_address_of_its_node() {
    if !has("ping") {
        return eprintln!("NOT RUN: ping is missing");
    }
    let bed = Bed::new();
    let own = std::env::current_exe().unwrap().display().to_string();
    let text = TUNNEL.replace("FIRMWARE", &own);
    bed.write("run.yaml", &text.replace("NAME", "tunnel"));
    bed.thingbed(&["plan", "run.yaml"]).expect(0, &["at the tunnel tun7"]);
    let lab = Live::up(&bed, "tunnel", &text);
    lab.ask(&["clone", "board"]).expect(0, &["board-2"]);
    for address in ["board", "board-2", "fd71::2"] {
        let words = ["exec", "gateway", "--", "ping", "-c", "2", "-W", "20", address];
        lab.ask(&words).expect(0, &[" 0% packet loss"]);
    }
}

/// Opens the tunnel and answers pings. Exchanged addresses do not change a checksum.
#[test]
#[ignore = "a firmware for a node"]
fn tunnel() {
    use std::io::Read;
    use std::os::fd::AsRawFd;
    let file = std::fs::File::options().read(true).write(true).open("/dev/net/tun");
    let mut tun = file.unwrap();
    // struct ifreq: name, then flags: IFF_TUN and IFF_NO_PI.
    let mut request = [0_u8; 40];
    request[..4].copy_from_slice(b"tun7");
    request[16..18].copy_from_slice(&0x1001_u16.to_ne_bytes());
    // SAFETY: TUNSETIFF reads and writes an ifreq of 40 bytes.
    let made = unsafe { libc::ioctl(tun.as_raw_fd(), 0x4004_54ca, request.as_mut_ptr()) };
    assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
    // As Contiki-NG does: such firmware must not make the packets for it those of its node.
    for words in ["link set tun7 down", "addr add fd71::2/64 dev tun7"] {
        let words = ["ip"].into_iter().chain(words.split(' '));
        let _ = std::process::Command::new("busybox").args(words).status();
    }
    // The harness captures what `println` prints.
    writeln!(std::io::stdout(), "answers").unwrap();
    let mut packet = [0; 2_000];
    loop {
        let length = tun.read(&mut packet).unwrap();
        let packet = &mut packet[..length];
        let (addresses, size, header, types) = match (packet[0] >> 4, packet[9], packet[6]) {
            (4, 1, _) => (12, 4, 20, [8, 0]),
            (6, _, 58) => (8, 16, 40, [128, 129]),
            _ => continue,
        };
        if packet[header] != types[0] {
            continue;
        }
        let (source, destination) = packet[addresses..addresses + 2 * size].split_at_mut(size);
        source.swap_with_slice(destination);
        packet[header] = types[1];
        // The type is the first byte of a word (RFC 1624, section 3).
        let old = u16::from_be_bytes([packet[header + 2], packet[header + 3]]);
        let [before, after] = types.map(|kind| u16::from_be_bytes([kind, 0]));
        let sum = u32::from(!old) + u32::from(!before) + u32::from(after);
        let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
        packet[header + 2..header + 4].copy_from_slice(&sum.to_be_bytes());
        tun.write_all(packet).unwrap();
    }
}

/// A machine that fetches a file during the run, and QEMU's capture of its adapter.
const CAPTURED: &str = "experiment: captured
nodes:
  gateway: {run: [busybox, httpd, -f, -p, '80'], ready: {tcp: 80}}
  board:
    qemu: {memory: 64 MiB, args: [-object, 'filter-dump,id=own,netdev=net0,file=own.pcap']}
    console:
      - {wait: Ctrl-B, keys: \"\\x02\", every: 0.3 s}
      - {wait: iPXE>, send: ifopen net0}
      - {wait: iPXE>, send: 'set net0/ip {address}'}
      - {wait: iPXE>, send: 'set net0/netmask {netmask}'}
      - {wait: iPXE>, pause: 1 s, send: 'imgfetch http://{gateway.address}/big'}
      - {wait: big... ok}
    ready: {console: net0/netmask}
networks:
  field:
    attach: [gateway, board]
    subnet: 10.78.0.0/24
    links: {board: {up: {loss: 2 %}, down: {delay: 5 ms, loss: 2 %}}}
capture: {}
workloads:
  - command: {on: gateway, run: [busybox, ping, -c, '40', -i, '0.2', -s, '1000', board]}
duration: 10 s
setup_limit: 5 min
drain: 10 s
";

/// Each frame that the machine sends and receives, byte by byte, in QEMU's capture and in Thingbed's.
#[test]
fn frames_of_a_machine_are_those_of_its_own_capture() {
    if !has_pc() || !has("busybox") {
        return;
    }
    let bed = Bed::new();
    std::fs::write(bed.path().join("big"), [0x5a; 150_000]).unwrap();
    bed.write("e.yaml", CAPTURED);
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    let [own, ours] = frames(&bed);
    for (way, (own, ours)) in ["sent", "received"].into_iter().zip(own.iter().zip(&ours)) {
        // The machine is switched off at the end, and the last frames may be on their way.
        let common = own.len().min(ours.len());
        assert!(common >= 50 && own.len().max(ours.len()) - common < 5, "{way}: {common}");
        let differ = (0..common).find(|k| own[*k] != ours[*k]);
        assert_eq!(differ, None, "frame {way} number");
    }
}

/// Frames that the machine sent, and those that it received, in QEMU's capture and in Thingbed's.
fn frames(bed: &Bed) -> [[Vec<Vec<u8>>; 2]; 2] {
    use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
    use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
    let open = |path: &std::path::Path| std::fs::File::open(path).unwrap();
    let (mut own, mut ours) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let mut reader = pcap_file::pcap::PcapReader::new(open(&bed.path().join("own.pcap"))).unwrap();
    while let Some(frame) = reader.next_packet() {
        // A capture that ends with the power may lack the end of a frame.
        let Ok(frame) = frame else { break };
        let is_sent = frame.data().get(6..12) == Some(&[2, 0, 10, 78, 0, 2]);
        own[usize::from(!is_sent)].push(frame.data().to_vec());
    }
    let capture = open(&bed.sweep("captured").join("capture.pcapng"));
    let mut reader = pcap_file::pcapng::PcapNgReader::new(capture).unwrap();
    let mut interfaces = Vec::new();
    while let Some(block) = reader.next_block() {
        match block.unwrap().0 {
            pcap_file::pcapng::Block::InterfaceDescription(interface) => {
                let is_board = interface.options.iter().any(|option| {
                    matches!(option, InterfaceDescriptionOption::IfName(name) if name.as_ref() == "board:eth0")
                });
                interfaces.push(is_board);
            }
            pcap_file::pcapng::Block::EnhancedPacket(frame) => {
                let is_sent = frame.options.iter().any(
                    |option| matches!(option, EnhancedPacketOption::Flags(flags) if flags & 3 == 2),
                );
                if interfaces[frame.interface_id as usize] {
                    ours[usize::from(!is_sent)].push(frame.data.to_vec());
                }
            }
            _ => {}
        }
    }
    [own, ours]
}

#[test]
fn a_machine_behind_a_router_answers() {
    if !has_pc() || !has("busybox") {
        return;
    }
    let bed = Bed::new();
    let lab = Live::up(&bed, "routed", ROUTED);
    answers(&lab);
}

/// A machine that knows nothing of the plan: it has its planned IPv6 address by DHCP, its router by
/// advertisements, and fetches a file behind it.
const CONFIGURED: &str = "experiment: configured
nodes:
  router: {forward: true}
  far: {run: [busybox, httpd, -f, -p, '[::]:80'], ready: {tcp: 80}}
  board:
    qemu: {memory: 64 MiB}
    console:
      - {wait: Ctrl-B, keys: \"\\x02\", every: 0.3 s}
      - {wait: iPXE>, send: ifopen net0}
      - {wait: iPXE>, send: ifconf --configurator ipv6 net0}
      - {wait: iPXE>, send: route}
      - {wait: 'fd00:1::1/64 gw fe80::', send: 'imgfetch http://[{far.address}]/e.yaml'}
      - {wait: e.yaml... ok}
networks:
  lan: {attach: [board, router], subnet: 'fd00:1::/64', dhcp: true}
  out: {attach: [router, far], subnet: 'fd00:2::/64'}
workloads:
  - command: {on: far, run: ['true']}
duration: 1 s
setup_limit: 5 min
";

#[test]
fn a_machine_configures_itself_over_ipv6() {
    if !has_pc() || !has("busybox") || !has("dnsmasq") {
        return;
    }
    let bed = Bed::new();
    bed.write("e.yaml", CONFIGURED);
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
}

#[test]
fn a_user_has_machines_too() {
    if !has_pc() || !is_root() || !has("busybox") {
        return;
    }
    let bed = Bed::new();
    bed.write("lab.yaml", &format!("{}{PINGS}", LAB.replace("NAME", "user-machine")));
    let folder = bed.path().display().to_string();
    Command::new("chown").args(["-R", "65534:65534", &folder]).status().unwrap();
    let line = format!(
        "exec setpriv --reuid 65534 --regid 65534 --clear-groups env HOME={folder} {} run lab.yaml",
        env!("CARGO_BIN_EXE_thingbed")
    );
    let answer = CommandOutput::of(
        Command::new("sh").args(["-c", &line]).current_dir(bed.path()).output().unwrap(),
    );
    if ["open /dev/net/tun", "user namespaces"].iter().any(|lost| answer.err.contains(lost)) {
        eprintln!("NOT RUN: {}", answer.err);
        return;
    }
    answer.ran(&["board"]);
}

/// A firmware that floods its console when it is told to.
const FLOODS: &str = "#!/bin/sh
echo boot
while read -r line; do
  case $line in
    flood) yes | head -c 3000000; echo drained ;;
    *) echo \"echo $line\" ;;
  esac
done
";

#[test]
fn a_slow_reader_of_a_console_misses_nothing_and_keeps_it() {
    let bed = Bed::new();
    write_program(&bed, "fw.sh", FLOODS);
    let text = "experiment: NAME
nodes: {board: {firmware: [./fw.sh], ready: {console: boot}}, other: {}}
networks: {lan: {attach: [board, other], subnet: 10.79.0.0/24}}
";
    let lab = Live::up(&bed, "floods", text);
    let console = |send: &str, wait: &str| {
        lab.ask(&["console", "board", "--send", send, "--wait", wait, "--within", "60 s"])
    };
    assert!(console("flood", "drained").expect(0, &[]).out.len() > 3_000_000);
    console("hello", "echo hello").expect(0, &[]);
}

#[test]
fn a_firmware_has_faults_and_its_console_must_get_through_its_steps() {
    let bed = Bed::new();
    write_program(&bed, "fw.sh", FLOODS);
    let text = "experiment: faulty
nodes: {board: {firmware: [./fw.sh], ready: {console: boot}, console: CONSOLE}, other: {}}
networks: {lan: {attach: [board, other], subnet: 10.79.0.0/24}}
faults:
  - {at: 0.3 s, restart: board}
  - {at: 0.6 s, kill: board, lasts: 0.3 s}
duration: 2 s
";
    bed.write("e.yaml", &text.replace("CONSOLE", "[{send: once}, {wait: echo once}]"));
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    bed.write("e.yaml", &text.replace("CONSOLE", "[{wait: nothing of the kind}]"));
    let output = bed.thingbed(&["run", "e.yaml", "-q"]);
    output.failed(&["console of board did not get through its steps: step 1 of 1 waits for"]);
}

/// What failed: helpers of RIOT's block signals and keep its terminal, so it was taken for a firmware that
/// ignores SIGTERM, and the run had failed. This firmware ends only by Ctrl-C, and its helper not at all.
#[test]
fn a_firmware_that_blocks_sigterm_is_interrupted_and_its_helpers_end() {
    let bed = Bed::new();
    let program = "#!/bin/sh
trap '' TERM HUP
(trap '' INT; exec sleep 1000) &
trap 'echo shutdown; exit 0' INT
while sleep 0.1; do :; done
";
    write_program(&bed, "fw.sh", program);
    let text = "experiment: stubborn
nodes: {board: {firmware: [./fw.sh]}, other: {}}
networks: {lan: {attach: [board, other], subnet: 10.79.0.0/24}}
duration: 0.5 s
";
    bed.write("e.yaml", text);
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    let log = bed.sweep("stubborn").join("programs/board.run.out");
    assert!(std::fs::read_to_string(log).unwrap().contains("shutdown"));
}

fn write_program(bed: &Bed, name: &str, text: &str) {
    bed.write(name, text);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bed.path().join(name), mode).unwrap();
}
