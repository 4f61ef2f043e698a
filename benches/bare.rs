//! Baseline: a bare forwarder that only receives, looks the address up and sends, without models,
//! counters or clock. The medium's throughput is compared with it.

use crate::load;
use engine::{FrameBackend, FrameIo};
use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;

/// A running bare forwarder, on the first CPU, as for the medium.
pub struct Bare {
    stop: Arc<AtomicBool>,
    frames: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Bare {
    /// Forwards between the ports of `io`; multicast goes to all of them, or is dropped.
    pub fn start(io: FrameBackend, ports: usize, groups: bool) -> std::io::Result<Self> {
        let (stop, frames) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (its_stop, its_frames) = (stop.clone(), frames.clone());
        // Uses the medium's thread name, so that its CPU time is found in the same way.
        let thread = std::thread::Builder::new().name("medium".into()).spawn(move || {
            load::pin_to(load::Cpu::First);
            let ports = Ports { count: ports, groups };
            forward(io, ports, &its_stop, &its_frames);
        })?;
        Ok(Self { stop, frames, thread })
    }

    /// Number of frames sent so far, each copy counted.
    pub fn frames(&self) -> u64 {
        self.frames.load(Relaxed)
    }

    /// Stops it.
    pub fn stop(self) -> Result<(), Box<dyn Error>> {
        self.stop.store(true, Relaxed);
        self.thread.join().map_err(|_| "the bare forwarder panicked".into())
    }
}

#[derive(Clone, Copy)]
struct Ports {
    count: usize,
    /// Whether multicast is forwarded.
    groups: bool,
}

fn forward(mut io: FrameBackend, ports: Ports, stop: &AtomicBool, frames: &AtomicU64) {
    // The priority of a medium that never sleeps.
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
            let now = clock::now();
            if io.wait(now, Some(now + units::Span::from_ms(10))).is_err() {
                return;
            }
        }
    }
}
