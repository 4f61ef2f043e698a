//! Measures the time to create and remove nodes: `bring-up [nodes]...`

use lab::{Interface, Lab, Limits, Member, NodeSpec, Setting};
use std::net::Ipv4Addr;
use std::time::Instant;

fn main() -> std::process::ExitCode {
    let mut args = std::env::args().skip(1).peekable();
    if args.peek().map(String::as_str) == Some(lab::FORK_SERVER) {
        return lab::fork_server();
    }
    let counts: Vec<u16> = args.filter_map(|n| n.parse().ok()).collect();
    println!("nodes  up s   down s");
    for nodes in if counts.is_empty() { vec![301, 1001] } else { counts } {
        let members: Vec<_> = (1..=nodes).map(|i| member(i, nodes)).collect();
        let hosts: String = members
            .iter()
            .filter_map(|m| {
                Some(format!("{} {}\n", m.spec.interfaces[0].addresses.first()?.0, m.spec.name))
            })
            .collect();
        let begin = Instant::now();
        let tool = std::env::current_exe().unwrap_or_default();
        let (lab, taps) = match Lab::up(&tool, &members, &hosts, lab::Link::Tap) {
            Ok(up) => up,
            Err(error) => {
                eprintln!("{error}");
                return std::process::ExitCode::FAILURE;
            }
        };
        let up = begin.elapsed();
        let begin = Instant::now();
        std::thread::scope(|scope| {
            let mut taps: Vec<_> = taps.into_iter().flatten().collect();
            let share = taps.len().div_ceil(64);
            while !taps.is_empty() {
                let part = taps.split_off(taps.len().saturating_sub(share));
                scope.spawn(move || drop(part));
            }
            drop(lab);
        });
        println!("{nodes:5}  {:.3}  {:.3}", up.as_secs_f64(), begin.elapsed().as_secs_f64());
    }
    std::process::ExitCode::SUCCESS
}

/// Node 1 is a hub: it has neighbour entries of all nodes, and they have its entry.
fn member(i: u16, nodes: u16) -> Member {
    let address = |i: u16| Ipv4Addr::from(0x0a00_0000 + u32::from(i));
    let mac = |i: u16| [2, 0, 10, 0, i.to_be_bytes()[0], i.to_be_bytes()[1]];
    let known = if i == 1 { 2..=nodes } else { 1..=1 };
    let interface = Interface {
        name: "eth0".into(),
        mac: mac(i),
        addresses: vec![(address(i).into(), 16)],
        mtu: 113,
        offload: false,
        neighbours: known.map(|j| (address(j).into(), mac(j))).collect(),
        is_advertised: false,
        advertised: None,
        tap: None,
        tun: None,
        is_port: false,
    };
    let spec = NodeSpec {
        name: format!("node-{i}"),
        interfaces: vec![interface],
        setting: Setting::default(),
    };
    Member { spec, limits: Limits::default() }
}
