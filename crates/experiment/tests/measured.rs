//! Profiles compared with published measurements, on their links alone. The sources and what could
//! explain each difference: `docs/results/profiles.md`.

use experiment::LinkProfile;
use link::{Direction, Grant, States};
use std::path::Path;
use units::{Instant, Span};

/// Bytes of an echo request of 56 B, with headers of ICMP, IPv4 and Ethernet.
const ECHO: usize = 98;
/// Bytes of a full TCP segment with its headers, and its payload.
const SEGMENT: usize = 1_514;
const PAYLOAD: usize = 1_460;

/// A device with the links of a profile. Transmission times at a rate, below 0.1 ms, are left out.
struct Device {
    states: Option<States>,
    grants: [Option<Grant>; 2],
    delays: [Span; 2],
}

impl Device {
    fn new(profile: &LinkProfile) -> Self {
        let ways = [&profile.up, &profile.down];
        Self {
            states: profile.states.clone().map(States::new),
            grants: ways.map(|way| way.transmission.grant().cloned().map(Grant::new)),
            delays: ways.map(|way| way.delay.mean),
        }
    }

    /// When a frame of `len` bytes that is queued at `now` arrives.
    fn send(&mut self, way: Direction, len: usize, now: Instant) -> Instant {
        let grant = &mut self.grants[way as usize];
        let mut onward = |len, now| grant.as_mut().map_or(now, |grant| grant.send(len, now));
        let arrives = match &mut self.states {
            Some(states) => states.send(way, len, now, &mut onward),
            None => onward(len, now),
        };
        arrives + self.delays[way as usize]
    }

    /// Mean round trip of echo requests, ms; the first ten are left out.
    fn round_trip(mut self, every: Span) -> f64 {
        let mut at = Instant::START;
        let mut times = Vec::new();
        for _ in 0..1_010 {
            at += every;
            let there = self.send(Direction::Up, ECHO, at);
            times.push((self.send(Direction::Down, ECHO, there) - at).as_ns() as f64 / 1e6);
        }
        times[10..].iter().sum::<f64>() / 1_000.0
    }

    /// Payload of TCP segments that always wait, kbit/s, without acknowledgements.
    fn rate(mut self, way: Direction) -> f64 {
        let at = Instant::START + Span::from_s(100);
        let ends: Vec<Instant> = (0..201).map(|_| self.send(way, SEGMENT, at)).collect();
        let seconds = (ends[200] - ends[0]).as_ns() as f64 / 1e9;
        (200 * PAYLOAD * 8) as f64 / seconds / 1e3
    }
}

fn profile(name: &str) -> LinkProfile {
    LinkProfile::find(name, Path::new("")).unwrap()
}

fn device(name: &str) -> Device {
    Device::new(&profile(name))
}

/// `nr-tdd` with requests every 2 ms and k2 of two slots, as the profile proposes.
fn low_latency() -> Device {
    let profile = profile("nr-tdd");
    let mut device = Device::new(&profile);
    let mut grant = profile.up.transmission.grant().unwrap().clone();
    grant.request_period = Some("2 ms".parse().unwrap());
    grant.delay = Some(Span::from_ms(1));
    device.grants[0] = Some(Grant::new(grant));
    device
}

#[test]
fn profiles_differ_from_measurements_by_what_the_documents_say() {
    use Direction::{Down, Up};
    let second = Span::from_ms(997);
    // Name, here, published, documented ratio.
    let rows = [
        ("geo, round trip, ms", device("geo").round_trip(second), 630.0, 1.13),
        ("nr-tdd, round trip, ms", device("nr-tdd").round_trip(second), 14.4, 1.58),
        ("nr-tdd, low latency, ms", low_latency().round_trip(second), 14.4, 0.96),
        ("lte-m, TCP up, kbit/s", device("lte-m").rate(Up), 293.0, 1.25),
        ("lte-m, TCP down, kbit/s", device("lte-m").rate(Down), 264.0, 1.11),
        ("lte-5mhz, TCP down, Mbit/s", device("lte-5mhz").rate(Down) / 1e3, 19.0, 0.94),
        ("lte-5mhz, TCP up, Mbit/s", device("lte-5mhz").rate(Up) / 1e3, 12.0, 0.87),
        ("nb-iot, TCP up, kbit/s", device("nb-iot").rate(Up), 56.0, 1.08),
        ("nb-iot, TCP down, kbit/s", device("nb-iot").rate(Down), 24.0, 1.10),
        ("nb-iot, round trip, ms", device("nb-iot").round_trip(second), 185.0, 1.84),
    ];
    let mut wrong = Vec::new();
    for (name, here, published, documented) in rows {
        let ratio: f64 = here / published;
        println!("{name}: {here:.1} here, {published} published, {ratio:.2}");
        if (ratio - documented).abs() > 0.02 * documented {
            wrong.push(format!("{name}: {ratio:.3}, documented {documented}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
