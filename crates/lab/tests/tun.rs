//! A node whose firmware has a tunnel, without Ethernet headers, in place of an interface.

mod common;

use common::{arguments, ended, helper, member};
use lab::{Lab, Link};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

const V6: [&str; 2] = ["fd00::1", "fd00::2"];
const PATIENCE: Duration = Duration::from_secs(60);

/// Carries frames between the interfaces of two nodes.
fn carry(ends: Vec<OwnedFd>) {
    let ends: Vec<File> = ends.into_iter().map(File::from).collect();
    for (from, to) in [(0, 1), (1, 0)] {
        let [mut from, mut to] = [from, to].map(|end: usize| ends[end].try_clone().unwrap());
        std::thread::spawn(move || {
            let mut frame = [0; 2_000];
            loop {
                match from.read(&mut frame) {
                    // Refused until the other interface is up.
                    Ok(len) => drop(to.write(&frame[..len])),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        std::thread::sleep(Duration::from_micros(200));
                    }
                    Err(_) => return,
                }
            }
        });
    }
}

/// The plan's neighbours are left out: the node must answer ARP and neighbour discovery for its
/// firmware, and find the others by them.
#[test]
fn a_firmware_with_a_tunnel_has_the_address_of_its_node() {
    let members = [0, 1].map(|i| {
        let mut member = member(i, 0, 1500);
        let interface = &mut member.spec.interfaces[0];
        interface.addresses.push((V6[i].parse().unwrap(), 64));
        if i == 1 {
            interface.tun = Some("tun0".to_owned());
            member.spec.setting.is_router = true;
        }
        member
    });
    let fork_server = Path::new(env!("CARGO_BIN_EXE_thingbed-fork-server"));
    let (lab, ends) = match Lab::up(fork_server, &members, "127.0.0.1 localhost\n", Link::Tap) {
        Ok(up) => up,
        Err(error) => return eprintln!("NOT RUN: {error}"),
    };
    carry(ends.into_iter().flatten().collect());
    // The second time, the firmware has been started again.
    for [firmware, ask] in [[1, 2], [3, 4]] {
        let round = firmware.to_string();
        helper(&lab, 1, firmware, "firmware", &round);
        helper(&lab, 0, ask, "ask", &round);
        ended(&lab, vec![firmware, ask]);
    }
}

/// Opens the tunnel and returns datagrams to their senders, without a change of anything but addresses
/// and ports, until it gets the last one of this round.
#[test]
#[ignore = "a program for a node"]
fn firmware() {
    let [round] = arguments()[..] else { return };
    let last = end_of(round);
    let mut tun = File::options().read(true).write(true).open("/dev/net/tun").unwrap();
    // struct ifreq: name, then flags: IFF_TUN and IFF_NO_PI.
    let mut request = [0; 40];
    request[..4].copy_from_slice(b"tun0");
    request[16..18].copy_from_slice(&0x1001_u16.to_ne_bytes());
    // SAFETY: TUNSETIFF reads and writes an ifreq of 40 bytes.
    let made = unsafe { libc::ioctl(tun.as_raw_fd(), 0x4004_54ca, request.as_mut_ptr()) };
    assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
    let mut packet = [0; 2_000];
    loop {
        let len = tun.read(&mut packet).unwrap();
        let packet = &mut packet[..len];
        let (addresses, size, header, protocol) = match packet[0] >> 4 {
            4 => (12, 4, 20, packet[9]),
            6 => (8, 16, 40, packet[6]),
            _ => panic!("not an IP packet: {packet:x?}"),
        };
        // The node's kernel may send multicast listener reports.
        if protocol != 17 {
            continue;
        }
        for (at, size) in [(addresses, size), (header, 2)] {
            let (first, second) = packet[at..at + 2 * size].split_at_mut(size);
            first.swap_with_slice(second);
        }
        tun.write_all(packet).unwrap();
        // Late copies of the round before may come, too.
        if packet.get(header + 8..) == Some(last.as_bytes()) {
            return;
        }
    }
}

/// The content of the last datagram of a round.
fn end_of(round: u64) -> String {
    format!("end of round {round}")
}

/// Sends datagrams to the firmware over IPv4 and IPv6 until each has come back, then the last one.
#[test]
#[ignore = "a program for a node"]
fn ask() {
    let [round] = arguments()[..] else { return };
    let last = end_of(round);
    let own = UdpSocket::bind("[::]:0").unwrap();
    own.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let until = Instant::now() + PATIENCE;
    for (to, text) in [("::ffff:10.0.0.2", "four"), (V6[1], "six"), (V6[1], &last)] {
        let to = SocketAddr::new(to.parse::<IpAddr>().unwrap(), 7);
        let mut answer = [0; 100];
        loop {
            own.send_to(text.as_bytes(), to).unwrap();
            match own.recv_from(&mut answer) {
                // Copies of those before may be late.
                Ok((len, from)) if from == to && &answer[..len] == text.as_bytes() => break,
                _ => assert!(Instant::now() < until, "no answer from {to}"),
            }
        }
    }
}
