//! Requests per second that a load submits and a device answers on two cores, compared with a bare
//! loop of the same system calls without generation, measurement or state.

use load::{DeviceSettings, MisbehaviourShares, Origin, Settings, run, serve};
use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};
use trace::{Group, Method, Mix, TraceSpec};

const RATES: [u64; 7] = [10_000, 50_000, 100_000, 150_000, 200_000, 250_000, 300_000];
/// Duration of each measurement.
const EACH: Duration = Duration::from_secs(2);
/// Number of datagrams per call, as in the load.
const CALL: usize = 16;
/// Requests in flight in the bare loop: no socket overflows.
const UNDER_WAY: u64 = 128;
/// Bytes of a request: header, token, and a short CoAP path.
const REQUEST: usize = 14;

/// The bare loop, then the curve.
pub fn bench() -> Result<(), Box<dyn Error>> {
    let bare: Vec<f64> = (0..3).map(|_| bare()).collect::<Result<_, _>>()?;
    println!("requests: bare loop {:.0} a second, answered", crate::median(bare));
    let device = DeviceSettings {
        coap: Some(([127, 0, 0, 1], 0).into()),
        http: None,
        udp: None,
        tcp: None,
        resources: vec!["*, r, sleep, constant:0ns".parse()?],
        threads: 1,
        queue: 1,
        payload: 4,
        notify: None,
        misbehaviour: MisbehaviourShares::default(),
        core: Some(0),
        spin: true,
        seed: 1,
    };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (sender, address) = sync_channel(1);
        let (stop, device) = (&stop, &device);
        scope.spawn(move || serve(device, stop, |at| sender.send(at[0].1).unwrap_or_default()));
        let curve = address.recv().map_err(Into::into).and_then(|at| {
            libcoap(at);
            curve(&at.to_string())
        });
        stop.store(true, Relaxed);
        curve
    })
}

/// Poisson arrivals at each rate.
fn curve(at: &str) -> Result<(), Box<dyn Error>> {
    println!("configured sent/s  answered    lost  unsent  slip p50  p99 us  least gap us");
    for rate in RATES {
        let group = Group {
            devices: 0..1,
            targets: vec![format!("coap://{at}")],
            arrivals: format!("exponential:{}ns", 1_000_000_000 / rate).parse()?,
            together: false,
            methods: Mix::of(Method::Get),
            paths: Mix::of("r".to_owned()),
            service: None,
            sizes: None,
        };
        let span = Some(EACH.as_nanos() as u64);
        let recipe = TraceSpec { seed: 1, groups: vec![group], span, requests: None };
        let settings = Settings { cores: vec![1], spin: true, ..Settings::default() };
        let origin = Origin::Made(recipe.requests()?);
        let (figures, _) = run(origin, &settings, &AtomicBool::new(false), |_| ())?;
        let all = figures.all();
        println!(
            "{rate:>7} {:>9.0} {:>9} {:>7} {:>7} {:>9.2} {:>7.1} {:>8.2}",
            all.counts.sent as f64 * 1e9 / figures.span.as_ns().max(1) as f64,
            all.counts.answered,
            all.counts.timed_out,
            all.counts.unsent,
            all.slip.quantile_ns(0.5) as f64 / 1e3,
            all.slip.quantile_ns(0.99) as f64 / 1e3,
            figures.submission.submitted.quantile_ns(0.0) as f64 / 1e3,
        );
    }
    Ok(())
}

/// libcoap's own client at its maximum rate, on the sender's core; prints a note if it is not
/// available.
fn libcoap(at: SocketAddr) {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/libcoap.c");
    let program = std::env::temp_dir().join(format!("thingbed-libcoap-{}", std::process::id()));
    let built = Command::new("cc")
        .args(["-O2", "-o"])
        .arg(&program)
        .args([source, "-lcoap-3-openssl"])
        .output();
    let built = built.is_ok_and(|built| built.status.success());
    for under_way in [1, 16, 128] {
        let rates: Vec<f64> = (0..if built { 3 } else { 0 })
            .filter_map(|_| {
                let mut command = Command::new("taskset");
                command.args(["-c", "1"]).arg(&program);
                command.args([at.ip().to_string(), at.port().to_string()]);
                command.args([EACH.as_secs().to_string(), under_way.to_string()]);
                let output = String::from_utf8(command.output().ok()?.stdout).ok()?;
                output.split_whitespace().nth(1)?.parse().ok()
            })
            .collect();
        match rates.is_empty() {
            true => return println!("libcoap: its client cannot be built or run here"),
            false => println!(
                "libcoap: {under_way} under way, {:.0} a second, answered",
                crate::median(rates)
            ),
        }
    }
    let _ = std::fs::remove_file(program);
}

/// Requests per second that two threads exchange at the maximum rate.
fn bare() -> Result<f64, Box<dyn Error>> {
    let (near, far) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    near.connect(far.local_addr()?)?;
    far.connect(near.local_addr()?)?;
    let stop = AtomicBool::new(false);
    let answered = std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(0);
            let mut batch = Batch::new(far.as_raw_fd());
            while !stop.load(Relaxed) {
                let count = batch.receive();
                batch.send(count);
            }
        });
        pin(1);
        let mut batch = Batch::new(near.as_raw_fd());
        let (mut sent, mut answered) = (0_u64, 0_u64);
        let begun = Instant::now();
        while begun.elapsed() < EACH {
            if sent - answered < UNDER_WAY {
                sent += batch.send(CALL) as u64;
            }
            answered += batch.receive() as u64;
        }
        stop.store(true, Relaxed);
        answered as f64 / begun.elapsed().as_secs_f64()
    });
    unpin();
    Ok(answered)
}

/// Buffers for the datagrams of one call.
struct Batch {
    socket: i32,
    bytes: Vec<[u8; 64]>,
}

impl Batch {
    fn new(socket: i32) -> Self {
        Self { socket, bytes: vec![[0; 64]; CALL] }
    }

    fn call(&mut self, count: usize, length: usize, receives: bool) -> usize {
        let mut parts: Vec<libc::iovec> = self
            .bytes
            .iter_mut()
            .map(|bytes| libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length })
            .collect();
        let mut headers: Vec<libc::mmsghdr> = parts
            .iter_mut()
            .map(|part| {
                // SAFETY: an all-zero header is valid.
                let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
                header.msg_hdr.msg_iov = part;
                header.msg_hdr.msg_iovlen = 1;
                header
            })
            .collect();
        let (list, count) = (headers.as_mut_ptr(), count.min(CALL) as u32);
        let none = std::ptr::null_mut();
        // SAFETY: headers, parts and bytes are ours, have the given number, and live over the
        // calls, which do not wait.
        let done = unsafe {
            match receives {
                true => libc::recvmmsg(self.socket, list, count, libc::MSG_DONTWAIT, none),
                false => libc::sendmmsg(self.socket, list, count, libc::MSG_DONTWAIT),
            }
        };
        done.max(0) as usize
    }

    fn send(&mut self, count: usize) -> usize {
        if count == 0 { 0 } else { self.call(count, REQUEST, false) }
    }

    fn receive(&mut self) -> usize {
        self.call(CALL, 64, true)
    }
}

/// Pins this thread to a core, if permitted.
fn pin(core: usize) {
    // SAFETY: an all-zero set is empty, and a small number lies within it; 0 is this thread.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

/// Undoes the pinning.
fn unpin() {
    // SAFETY: as above.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (0..libc::CPU_SETSIZE as usize).for_each(|core| libc::CPU_SET(core, &mut set));
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}
