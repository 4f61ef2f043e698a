//! How long nodes take to come and to go, and what nodes the others need.

use lab::{FIRST_INTERFACE, Interface, Lab, Limits, Link, Member, NodeSpec, Setting};
use medium::{Carrier, FramePath};
use std::error::Error;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::time::Instant;

/// The address of the node `i`, from 0.
pub fn address(i: usize) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0001 + i as u32)
}

fn mac(i: usize) -> [u8; 6] {
    let [a, b, c, d] = address(i).octets();
    [2, 0, a, b, c, d]
}

/// Brings `count` nodes up, each of which knows the link addresses of those that
/// `knows` names.
pub fn up(
    count: usize,
    knows: impl Fn(usize) -> Vec<usize>,
    link: Link,
) -> Result<(Lab, Vec<OwnedFd>), Box<dyn Error>> {
    up_with(count, knows, link, false)
}

/// The same, with TAPs that give super-frames where it says so.
pub fn up_with(
    count: usize,
    knows: impl Fn(usize) -> Vec<usize>,
    link: Link,
    super_frames: bool,
) -> Result<(Lab, Vec<OwnedFd>), Box<dyn Error>> {
    let member = |i: usize| {
        let interface = Interface {
            name: "eth0".into(),
            mac: mac(i),
            address: address(i),
            prefix: 16,
            mtu: 1500,
            super_frames,
            neighbours: knows(i).into_iter().map(|j| (address(j), mac(j))).collect(),
        };
        let spec = NodeSpec {
            name: format!("node-{i}"),
            interfaces: vec![interface],
            setting: Setting::default(),
        };
        Member { spec, limits: Limits::default() }
    };
    let members: Vec<_> = (0..count).map(member).collect();
    let hosts: String = (0..count).map(|i| format!("{} node-{i}\n", address(i))).collect();
    let (lab, taps) = Lab::up(&std::env::current_exe()?, &members, &hosts, link)?;
    Ok((lab, taps.into_iter().flatten().collect()))
}

/// The same with their ends taken over, by this path alone.
pub fn up_by(
    path: FramePath,
    count: usize,
    knows: impl Fn(usize) -> Vec<usize>,
) -> Result<(Lab, Carrier), Box<dyn Error>> {
    let link = if path == FramePath::Packet { Link::Veth } else { Link::Tap };
    let (lab, ends) = up(count, knows, link)?;
    if link == Link::Veth {
        return Ok((lab, Carrier::over_packets(ends)?));
    }
    let ends = ends.into_iter().map(medium::Tap::from).collect();
    match Carrier::over_taps(ends, FIRST_INTERFACE, path == FramePath::Tap)? {
        (carrier, _) if carrier.path() == path => Ok((lab, carrier)),
        (_, why) => Err(why.map_or("not this path".into(), Into::into)),
    }
}

/// Prints the times of 301 and of 1,001 nodes, medians of five.
pub fn bench() -> Result<(), Box<dyn Error>> {
    println!(
        "nodes: a hub and its leaves, one TAP each\n{:>6} {:>8} {:>8}",
        "nodes", "up s", "down s"
    );
    for count in [301, 1001] {
        let (mut ups, mut downs) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            let begin = Instant::now();
            let (lab, taps) =
                up(count, |i| if i == 0 { (1..count).collect() } else { vec![0] }, Link::Tap)?;
            ups.push(begin.elapsed().as_secs_f64());
            let taps = medium::Taps::new(taps)?;
            let begin = Instant::now();
            std::thread::scope(|scope| {
                scope.spawn(|| drop(taps));
                drop(lab);
            });
            downs.push(begin.elapsed().as_secs_f64());
        }
        println!("{count:>6} {:>8.3} {:>8.3}", crate::median(ups), crate::median(downs));
    }
    Ok(())
}
