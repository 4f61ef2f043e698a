//! Packets on the air, compared with published formulas and with each other.

use super::*;
use crate::reception::{NodePosition, PathLoss};
use crate::test_times::at;
use crate::{Bandwidth, LoraSpec};
use units::{Distance, Span};

fn metres(x: f64, y: f64) -> NodePosition {
    let metres = |m| Distance::from_metres(m).unwrap();
    NodePosition { x: metres(x), y: metres(y) }
}

/// The air with a gateway, link 0, in the middle, and devices at these positions.
fn air(spec: &AlohaSpec, devices: &[NodePosition]) -> Air {
    let reception = spec.path_loss.map(|loss| {
        let all: Vec<_> = [metres(0.0, 0.0)].iter().chain(devices).copied().collect();
        Reception::by_distance(&PathLoss::from(loss), &all, Draw::new(1, 0, 0))
    });
    let mut air = Air::new(spec, reception);
    air.set_gateways(vec![0]);
    air
}

fn by_distance() -> AlohaSpec {
    AlohaSpec { path_loss: Some(LoraPathLoss::default()), ..AlohaSpec::default() }
}

/// A packet of 1 s, from this time on.
fn packet(id: u64, link: usize, channel: u32, lora: &LoraSpec, starts: Instant) -> Packet {
    let (listens, ends) = (starts + lora.spare_preamble(), starts + Span::from_s(1));
    Packet { id, link, channel, lora: lora.clone(), listens, ends }
}

/// The fates of packets of 1 s, from links 1, 2 and so on: channel, spreading factor and start in ms.
fn fates(air: &mut Air, packets: &[(u32, u32, u64)]) -> Vec<Fate> {
    let mut events = Vec::new();
    for (number, (channel, factor, starts)) in packets.iter().enumerate() {
        let starts = at(starts * 1_000_000);
        let lora = LoraSpec::at(*factor);
        events.push((starts, 1, packet(number as u64, number + 1, *channel, &lora, starts)));
        let ends = events[events.len() - 1].2.ends;
        events.push((ends, 0, packet(number as u64, number + 1, *channel, &lora, starts)));
    }
    events.sort_by_key(|(at, kind, packet)| (*at, *kind, packet.id));
    let mut fates = vec![Fate::TooWeak; packets.len()];
    for (now, kind, packet) in events {
        match kind {
            0 => fates[packet.id as usize] = air.end(packet.id),
            _ => air.start(packet, now, &Radios::default()),
        }
    }
    fates
}

const ALL: [Fate; 2] = [Fate::Received; 2];
const NONE: [Fate; 2] = [Fate::Collided; 2];

#[test]
fn packets_collide_on_the_same_channel_and_spreading_factor() {
    let equal = |packets: &[(u32, u32, u64)]| fates(&mut air(&AlohaSpec::default(), &[]), packets);
    assert_eq!(equal(&[(0, 7, 0), (0, 7, 500)]), NONE);
    assert_eq!(equal(&[(0, 7, 0), (1, 7, 500)]), ALL, "other channels");
    assert_eq!(equal(&[(0, 7, 0), (0, 8, 500)]), ALL, "other spreading factors");
    assert_eq!(equal(&[(0, 7, 0), (0, 7, 1_000)]), ALL, "one after the other");
    // The first three of the preamble's symbols, 32.8 ms each, may be disturbed: of the later packet.
    let late = [Fate::Collided, Fate::Received];
    assert_eq!(equal(&[(0, 12, 0), (0, 12, 902)]), late);
    assert_eq!(equal(&[(0, 12, 0), (0, 12, 901)]), NONE);
}

#[test]
fn frames_of_another_bandwidth_do_not_disturb() {
    let mut air = air(&AlohaSpec::default(), &[]);
    let wide = LoraSpec { bandwidth: Bandwidth::Khz250, ..LoraSpec::at(7) };
    air.start(packet(0, 1, 0, &LoraSpec::at(7), at(0)), at(0), &Radios::default());
    air.start(packet(1, 2, 0, &wide, at(1)), at(1), &Radios::default());
    assert_eq!([air.end(0), air.end(1)], ALL);
    assert_eq!(air.end(1), Fate::TooWeak, "it is not on the air any more");
}

#[test]
fn a_packet_survives_those_that_are_weaker_by_the_threshold() {
    // With exponent 3, 6 dB are a factor of 1.585.
    let near = metres(100.0, 0.0);
    let two = [(0, 9, 0), (0, 9, 500)];
    let strong = [Fate::Received, Fate::Collided];
    for (far, expected) in [(158.0, NONE), (159.0, strong), (100.0, NONE)] {
        let mut air = air(&by_distance(), &[near, metres(0.0, far)]);
        assert_eq!(fates(&mut air, &two), expected, "{far} m");
    }
    // Two of them at once are 3 dB more, which counts only while both send.
    let devices = [near, metres(0.0, 190.0), metres(0.0, -190.0)];
    let at_once = [(0, 9, 0), (0, 9, 500), (0, 9, 600)];
    assert_eq!(fates(&mut air(&by_distance(), &devices), &at_once)[0], Fate::Collided);
    let devices = [near, metres(0.0, 210.0), metres(0.0, -210.0)];
    assert_eq!(fates(&mut air(&by_distance(), &devices), &at_once)[0], Fate::Received);
    let in_turn = [(0, 9, 1_000), (0, 9, 500), (0, 9, 1_600)];
    let devices = [near, metres(0.0, 190.0), metres(0.0, -190.0)];
    assert_eq!(fates(&mut air(&by_distance(), &devices), &in_turn)[0], Fate::Received);
}

#[test]
fn other_spreading_factors_disturb_only_much_weaker_packets() {
    // SF7 stands SF12 of 20 dB more: a factor of 4.64 in distance.
    for (far, expected) in [(460.0, ALL), (470.0, [Fate::Collided, Fate::Received])] {
        let mut air = air(&by_distance(), &[metres(far, 0.0), metres(100.0, 0.0)]);
        assert_eq!(fates(&mut air, &[(0, 7, 0), (0, 12, 100)]), expected, "{far} m");
    }
}

#[test]
fn the_sensitivity_is_that_of_the_spreading_factor() {
    assert!((LoraSpec::at(7).sensitivity() + 124.5).abs() < 0.1);
    assert!((LoraSpec::at(12).sensitivity() + 137.0).abs() < 0.1);
    // 14 dBm less 31.2 dB and 30 dB per decade: 3.78 km for SF7, 9.87 km for SF12.
    for (factor, km, expected) in [
        (7, 3.7, Fate::Received),
        (7, 3.9, Fate::TooWeak),
        (12, 9.7, Fate::Received),
        (12, 10.0, Fate::TooWeak),
    ] {
        let mut air = air(&by_distance(), &[metres(km * 1e3, 0.0)]);
        assert_eq!(fates(&mut air, &[(0, factor, 0)]), [expected], "SF{factor}, {km} km");
    }
}

#[test]
fn one_of_several_gateways_suffices() {
    let positions =
        [metres(0.0, 0.0), metres(1_000.0, 0.0), metres(100.0, 0.0), metres(900.0, 0.0)];
    let spec = by_distance();
    let reception = Reception::by_distance(
        &PathLoss::from(spec.path_loss.unwrap()),
        &positions,
        Draw::new(1, 0, 0),
    );
    let mut air = Air::new(&spec, Some(reception));
    let lora = LoraSpec::at(9);
    let mut both = |gateways: &[usize]| {
        air.set_gateways(gateways.to_vec());
        air.start(packet(0, 2, 0, &lora, at(0)), at(0), &Radios::default());
        air.start(packet(1, 3, 0, &lora, at(1)), at(1), &Radios::default());
        [air.end(0), air.end(1)]
    };
    assert_eq!(both(&[0, 1]), ALL, "each is the strongest at its gateway");
    assert_eq!(both(&[0]), [Fate::Received, Fate::Collided]);
    assert_eq!(both(&[]), [Fate::TooWeak; 2]);
}

/// Packets at random times.
struct Traffic<'a> {
    devices: usize,
    lora: &'a LoraSpec,
    /// Packets per second.
    rate: f64,
    channels: u32,
}

impl Traffic<'_> {
    /// The fates of `PACKETS` packets. `others` does what else happens on the air until a time.
    fn fates(&self, air: &mut Air, mut others: impl FnMut(&mut Air, Instant)) -> Vec<Fate> {
        let on_air = self.lora.time_on_air(20);
        let draw = Draw::new(4, 0, 0);
        let (mut seconds, mut fates) = (0.0, Vec::new());
        let mut sent: std::collections::VecDeque<(Instant, u64)> = Default::default();
        let mut end = |air: &mut Air, sent: &mut std::collections::VecDeque<_>, now: Instant| {
            while let Some((_, id)) = sent.pop_front_if(|(ends, _)| *ends <= now) {
                fates.push(air.end(id));
            }
        };
        for id in 0..PACKETS {
            seconds -= f64::ln(1.0 - draw.uniform(Purpose::Arrival, id)) / self.rate;
            let starts = Instant::from_ns((seconds * 1e9) as u64);
            others(air, starts);
            end(air, &mut sent, starts);
            let link = 1 + (draw.uniform(Purpose::Choice, id) * self.devices as f64) as usize;
            let channel = draw.uniform(Purpose::RadioChannel, id) * f64::from(self.channels);
            let (listens, ends) = (starts + self.lora.spare_preamble(), starts + on_air);
            let (lora, channel) = (self.lora.clone(), channel as u32);
            let packet = Packet { id, link, channel, lora, listens, ends };
            air.start(packet, starts, &Radios::default());
            sent.push_back((ends, id));
        }
        end(air, &mut sent, Instant::NEVER);
        fates
    }
}

fn share_of(fates: &[Fate], fate: Fate) -> f64 {
    fates.iter().filter(|own| **own == fate).count() as f64 / fates.len() as f64
}

/// Share of packets that arrive at a gateway with any number of demodulators.
fn delivered(air: &mut Air, devices: usize, lora: &LoraSpec, rate: f64, channels: u32) -> f64 {
    air.demodulators = usize::MAX;
    let fates = Traffic { devices, lora, rate, channels }.fates(air, |_, _| {});
    share_of(&fates, Fate::Received)
}

const PACKETS: u64 = 40_000;
/// Four standard deviations of a share of that many packets, and the correlation of colliding ones.
const MARGIN: f64 = 0.014;

/// Load: time on air of all packets per time.
fn load(lora: &LoraSpec, rate: f64) -> f64 {
    lora.time_on_air(20).as_s() * rate
}

#[test]
fn without_capture_packets_arrive_as_often_as_pure_aloha_gives() {
    // Abramson 1970: exp(-2 G), here with vulnerable times that are shorter by what the receiver does not
    // need of the preamble.
    for (rate, channels) in [(0.05, 1), (0.3, 1), (0.3, 3), (1.0, 8)] {
        let lora = LoraSpec::at(12);
        let load = load(&lora, rate) / f64::from(channels);
        let spare = lora.spare_preamble().as_s() * rate / f64::from(channels);
        let expected = f64::exp(-2.0 * load + spare);
        let found = delivered(&mut air(&AlohaSpec::default(), &[]), 1, &lora, rate, channels);
        assert!((found - expected).abs() < MARGIN, "{rate}, {channels}: {found}, not {expected}");
    }
}

#[test]
fn with_capture_near_devices_arrive_as_often_as_their_distance_gives() {
    // Devices all over a disc. One at the share u of its area survives those farther by the factor a with
    // a^3 = 6 dB: of random interferers all but min(1, a^2 u), so exp(-2 G min(1, a^2 u)), whose mean over u is
    // below. The formula has no sums of interferers, which are few at these loads.
    let devices: Vec<_> = (0..300)
        .map(|device| {
            // A sunflower: evenly over a disc of 1 km.
            let (radius, angle) =
                (((f64::from(device) + 0.5) / 3e2).sqrt(), f64::from(device) * 2.4);
            metres(1e3 * radius * angle.cos(), 1e3 * radius * angle.sin())
        })
        .collect();
    let lora = LoraSpec::at(9);
    let spare = lora.spare_preamble().as_s() / lora.time_on_air(20).as_s();
    let area = 10f64.powf(2.0 * 6.0 / 30.0);
    for rate in [0.5, 1.5] {
        let exposed = load(&lora, rate) * (2.0 - spare);
        let expected =
            (1.0 - f64::exp(-exposed)) / (exposed * area) + (1.0 - 1.0 / area) * f64::exp(-exposed);
        let found = delivered(&mut air(&by_distance(), &devices), devices.len(), &lora, rate, 1);
        assert!((found - expected).abs() < MARGIN + 0.01, "{rate}: {found}, not {expected}");
    }
}

/// Probability that all of `servers` are busy at this load (Erlang 1917).
fn erlang_b(servers: u32, load: f64) -> f64 {
    (1..=servers)
        .fold(1.0, |blocked, servers| load * blocked / (f64::from(servers) + load * blocked))
}

#[test]
fn packets_find_no_demodulator_as_often_as_erlang_gives() {
    // Packets of equal length: the formula does not depend on the distribution of service times.
    assert!((erlang_b(8, 4.0) - 0.0304).abs() < 1e-4, "tables have 3.04 %");
    for (demodulators, load) in [(8, 4.0), (8, 8.0), (1, 0.5), (16, 12.0)] {
        let mut air = air(&AlohaSpec { demodulators, ..AlohaSpec::default() }, &[]);
        let lora = &LoraSpec::at(12);
        let rate = load / lora.time_on_air(20).as_s();
        let fates = Traffic { devices: 1, lora, rate, channels: 96 }.fates(&mut air, |_, _| {});
        let (found, expected) =
            (share_of(&fates, Fate::NoDemodulator), erlang_b(demodulators, load));
        let what = format!("{demodulators}, {load}: {found}, not {expected}");
        assert!((found - expected).abs() < MARGIN, "{what}");
        // Those that collide take a demodulator too.
        assert!(load < 4.0 || share_of(&fates, Fate::Collided) > 0.05);
    }
}

#[test]
fn a_gateway_misses_what_overlaps_its_packets() {
    // Packets to devices at random times, which take as long as those from them: one is received if none of
    // these begins within both times, less the preamble that it does not need.
    let lora = &LoraSpec::at(10);
    let on_air = lora.time_on_air(20);
    let exposed = 2.0 - lora.spare_preamble().as_s() / on_air.as_s();
    let rate = 0.2 / on_air.as_s();
    for (load, half_duplex) in [(0.05, true), (0.3, true), (0.3, false)] {
        let draw = Draw::new(7, 0, 0);
        let (mut next, mut number) = (Instant::START, 0);
        let sends = |air: &mut Air, now: Instant| {
            while next <= now {
                air.send_down(0, next, next + on_air);
                let wait = -f64::ln(1.0 - draw.uniform(Purpose::Arrival, number)) / load;
                next += Span::from_ns((wait * on_air.as_ns() as f64) as u64);
                number += 1;
            }
        };
        let mut air = air(&AlohaSpec { half_duplex, ..AlohaSpec::default() }, &[]);
        let fates = Traffic { devices: 1, lora, rate, channels: 96 }.fates(&mut air, sends);
        let found = share_of(&fates, Fate::HalfDuplex);
        let expected = if half_duplex { 1.0 - f64::exp(-load * exposed) } else { 0.0 };
        assert!((found - expected).abs() < MARGIN, "{load}: {found}, not {expected}");
    }
}

#[test]
fn a_packet_counts_by_the_gateway_where_it_came_farthest() {
    let both = || {
        let mut air = air(&AlohaSpec { demodulators: 1, ..AlohaSpec::default() }, &[]);
        air.set_gateways(vec![0, 1]);
        air
    };
    let (lora, on) = (LoraSpec::at(9), Radios::default());
    // Both gateways have one demodulator, for the first of two packets on two channels.
    let mut air = both();
    (0..2).for_each(|id| air.start(packet(id, 2, id as u32, &lora, at(id)), at(id), &on));
    assert_eq!([air.end(0), air.end(1)], [Fate::Received, Fate::NoDemodulator]);
    // One that sends gives up its packet, and with it the demodulator.
    let mut air = both();
    air.start(packet(0, 2, 0, &lora, at(0)), at(0), &on);
    air.send_down(1, at(100_000_000), at(200_000_000));
    air.start(packet(1, 2, 1, &lora, at(300_000_000)), at(300_000_000), &on);
    air.send_down(0, at(400_000_000), at(500_000_000));
    assert_eq!([air.end(0), air.end(1)], [Fate::HalfDuplex, Fate::Received]);
    // Of those that are off, none counts.
    let mut radios = Radios::default();
    radios.set(0, false, at(0));
    let mut air = both();
    air.start(packet(0, 2, 0, &lora, at(0)), at(0), &radios);
    air.send_down(1, at(1), at(2));
    assert_eq!(air.end(0), Fate::Received, "the start of a preamble is not needed");
    air.start(packet(1, 2, 0, &lora, at(0)), at(0), &radios);
    air.switch_off(1);
    assert_eq!(air.end(1), Fate::Off);
    // What it sent is no longer on the air.
    air.start(packet(2, 2, 0, &lora, at(0)), at(0), &on);
    air.switch_off(2);
    air.start(packet(3, 3, 0, &lora, at(5)), at(5), &on);
    assert_eq!([air.end(2), air.end(3)], [Fate::TooWeak, Fate::Received]);
}
