//! Devices and loads over loopback.
#![allow(dead_code, reason = "each test file has its own needs")]

use load::{DeviceSettings, Figures, MisbehaviourShares, Origin, Settings, run, serve};
use record::event::Served;
use std::io::{BufRead, Cursor};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use std::thread;
use trace::{Reader, Resource};
use units::Span;

pub fn device(resources: &[&str]) -> DeviceSettings {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let resources: Vec<Resource> = resources.iter().map(|text| text.parse().unwrap()).collect();
    DeviceSettings {
        coap: Some(any),
        http: Some(any),
        udp: Some(any),
        tcp: Some(any),
        resources,
        threads: 2,
        queue: 1_000,
        payload: 4,
        notify: None,
        misbehaviour: MisbehaviourShares::default(),
        core: None,
        spin: false,
        seed: 1,
    }
}

/// Runs a device while `f` runs with its addresses by protocol. Returns what the device has
/// served and the result of `f`.
pub fn served<T>(
    device: &DeviceSettings,
    f: impl FnOnce(&dyn Fn(&str) -> SocketAddr) -> T,
) -> (T, Served) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (tell, reported) = sync_channel(1);
        let serving = scope.spawn(|| {
            let tell = tell;
            serve(device, &stop, |addresses| tell.send(addresses.to_vec()).unwrap()).unwrap()
        });
        let addresses = reported.recv().unwrap();
        let at = |scheme: &str| addresses.iter().find(|(name, _)| *name == scheme).unwrap().1;
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f(&at)));
        // A failing test must not hang.
        stop.store(true, Relaxed);
        let served = serving.join().unwrap();
        match result {
            Ok(result) => (result, served),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// A load of `count` requests, one each 200 us. `line` builds a line from a device's
/// addresses by protocol.
pub fn sent(
    device: &DeviceSettings,
    settings: &Settings,
    count: u64,
    line: impl Fn(u64, &dyn Fn(&str) -> SocketAddr) -> String,
) -> (Figures, Served) {
    served(device, |at| {
        let text: String =
            (0..count).map(|i| format!("{}, {}, {}\n", i % 3, i * 200, line(i, at))).collect();
        let (figures, error) = load(&text, settings);
        assert_eq!(error, None);
        figures
    })
}

pub fn load(text: &str, settings: &Settings) -> (Figures, Option<String>) {
    let input: Box<dyn BufRead + Send> = Box::new(Cursor::new(text.to_owned().into_bytes()));
    let origin = Origin::Read(Reader::new(input));
    let (figures, error) = run(origin, settings, &AtomicBool::new(false), |_| ()).unwrap();
    let counts = figures.all().counts;
    let ends = counts.answered
        + counts.timed_out
        + counts.unreachable
        + counts.unsent
        + counts.without_answer;
    assert_eq!(counts.scheduled, ends, "an operation has no outcome: {counts:?}");
    (figures, error)
}

pub fn patient() -> Settings {
    // A busy machine must not fail a test.
    Settings { timeout: Span::from_s(20), patience: Span::MAX, ..Settings::default() }
}
