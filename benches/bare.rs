//! The least that can carry frames: receive, look the address up, send. No models,
//! no counting, no clock. The ratio's other side.

use crate::load;
use medium::{Carrier, FrameIo};
use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;

/// A bare forwarder at work on the first processor, where the medium is measured.
pub struct Bare {
    stop: Arc<AtomicBool>,
    frames: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Bare {
    /// Forwards between the ports of `io`; what goes to a group, to all of them or to nobody.
    pub fn start(io: Carrier, ports: usize, groups: bool) -> std::io::Result<Self> {
        let (stop, frames) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (its_stop, its_frames) = (stop.clone(), frames.clone());
        // Under the medium's name, so that its time is found as the medium's is.
        let thread = std::thread::Builder::new().name("medium".into()).spawn(move || {
            load::keep_to(load::Cpu::First);
            let ports = Ports { count: ports, groups };
            forward(io, ports, &its_stop, &its_frames);
        })?;
        Ok(Self { stop, frames, thread })
    }

    /// Frames that were sent so far, each copy one.
    pub fn frames(&self) -> u64 {
        self.frames.load(Relaxed)
    }

    /// Stops.
    pub fn stop(self) -> Result<(), Box<dyn Error>> {
        self.stop.store(true, Relaxed);
        self.thread.join().map_err(|_| "the bare forwarder panicked".into())
    }
}

#[derive(Clone, Copy)]
struct Ports {
    count: usize,
    /// Whether what goes to a group is passed on.
    groups: bool,
}

fn forward(mut io: Carrier, ports: Ports, stop: &AtomicBool, frames: &AtomicU64) {
    // As the medium is when it never sleeps.
    // SAFETY: setpriority with integer arguments; 0 is this thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
    let mut places: HashMap<[u8; 6], usize> = HashMap::new();
    let mut buffer = vec![0u8; 65_536];
    while !stop.load(Relaxed) {
        let mut count = 0;
        while count < 64
            && let Some(received) = io.receive(&mut buffer)
        {
            let frame = &buffer[..received.len];
            let mac = |at: usize| -> [u8; 6] {
                frame.get(at..at + 6).and_then(|mac| mac.try_into().ok()).unwrap_or([0; 6])
            };
            places.insert(mac(6), received.port);
            let target = mac(0);
            if target[0] & 1 == 1 {
                let all = if ports.groups { ports.count } else { 0 };
                for to in (0..all).filter(|to| *to != received.port) {
                    io.send(to, frame);
                    frames.fetch_add(1, Relaxed);
                }
                continue;
            }
            // The benchmark's link addresses end with the node's number.
            let to = places.get(&target).copied().unwrap_or_else(|| {
                usize::from(u16::from_be_bytes([target[4], target[5]])).wrapping_sub(1)
            });
            if to < ports.count {
                io.send(to, frame);
                count += 1;
            }
        }
        frames.fetch_add(count, Relaxed);
        if count < 64 {
            let now = medium::monotonic_now();
            if io.wait(now, Some(now + 10_000_000)).is_err() {
                return;
            }
        }
    }
}
