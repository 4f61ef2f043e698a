//! Time to create and remove nodes; also the other benchmarks' nodes.

use engine::{Attach, FrameBackend, FramePath};
use lab::{FIRST_INTERFACE, Interface, Lab, Limits, Link, Member, NodeSpec, Ports, Setting};
use std::error::Error;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

/// The address of node `i`, from 0.
pub fn address(i: usize) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0001 + i as u32)
}

fn mac(i: usize) -> [u8; 6] {
    let [a, b, c, d] = address(i).octets();
    [2, 0, a, b, c, d]
}

/// Starts `count` nodes, each with neighbour entries of the nodes that `knows` returns.
pub fn up(
    count: usize,
    knows: impl Fn(usize) -> Vec<usize>,
    link: Link,
) -> Result<(Lab, Vec<OwnedFd>), Box<dyn Error>> {
    up_with(count, knows, link, 1500)
}

/// The same, with this MTU.
pub fn up_with(
    count: usize,
    knows: impl Fn(usize) -> Vec<usize>,
    link: Link,
    mtu: u32,
) -> Result<(Lab, Vec<OwnedFd>), Box<dyn Error>> {
    let member = |i: usize| {
        let interface = Interface {
            name: "eth0".into(),
            mac: mac(i),
            addresses: vec![(address(i).into(), 16)],
            mtu,
            offload: false,
            neighbours: knows(i).into_iter().map(|j| (address(j).into(), mac(j))).collect(),
            is_advertised: false,
            advertised: None,
            tap: None,
            is_port: false,
            tun: None,
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

/// The same, with their frame ends for this path.
pub fn up_by(
    path: FramePath,
    count: usize,
    knows: impl Fn(usize) -> Vec<usize>,
) -> Result<(Lab, FrameBackend), Box<dyn Error>> {
    let (mut lab, ends) = up(count, knows, link(path))?;
    let backend = backend(path, lab.ports().map(Arc::new), ends)?;
    Ok((lab, backend))
}

/// The interface type of a frame path.
pub fn link(path: FramePath) -> Link {
    match path {
        FramePath::Ring => Link::Bpf,
        FramePath::Tap => Link::Tap,
        FramePath::Packet => Link::Veth,
    }
}

/// The backend of this path for `ends`; `None` for those of another thread.
pub fn backend(
    path: FramePath,
    ports: Option<Arc<Ports>>,
    ends: Vec<impl Into<Option<OwnedFd>>>,
) -> Result<FrameBackend, Box<dyn Error>> {
    Ok(match path {
        FramePath::Packet => FrameBackend::over_packets(ends)?,
        FramePath::Tap => FrameBackend::over_taps(ends)?,
        FramePath::Ring => {
            let ports = ports.ok_or("no ports")?;
            let attach = Attach::by(move |number, program| ports.attach(number, program));
            FrameBackend::over_ring(ends, FIRST_INTERFACE, attach)?
        }
    })
}

/// Prints the times of 301 and of 1,001 nodes, medians of five.
pub fn bench() -> Result<(), Box<dyn Error>> {
    println!(
        "nodes: a hub and its leaves, one link each\n{:>6} {:>8} {:>8} {:>8}",
        "nodes", "path", "up s", "down s"
    );
    for (count, path) in [301, 1001]
        .into_iter()
        .flat_map(|n| crate::frames::paths().into_iter().map(move |p| (n, p)))
    {
        let (mut ups, mut downs) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            let begin = Instant::now();
            let neighbours = |i| if i == 0 { (1..count).collect() } else { vec![0] };
            let (lab, backend) = up_by(path, count, neighbours)?;
            ups.push(begin.elapsed().as_secs_f64());
            let begin = Instant::now();
            std::thread::scope(|scope| {
                scope.spawn(|| drop(backend));
                drop(lab);
            });
            downs.push(begin.elapsed().as_secs_f64());
        }
        let (up, down) = (crate::median(ups), crate::median(downs));
        println!("{count:>6} {:>8} {up:>8.3} {down:>8.3}", path.name());
    }
    Ok(())
}
