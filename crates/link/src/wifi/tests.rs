//! Saturated stations, compared with published results.

use super::contention::Contention;
use super::*;
use units::{Rate, Span};

/// Throughput of `stations` that always have a frame of `len` bytes to send, carrying `payload` bits, in
/// bit/s, and the share of their transmissions that collide.
fn saturate(spec: &WifiSpec, stations: usize, len: u64, payload: f64, seconds: f64) -> (f64, f64) {
    let mut contention = Contention::new(spec, Draw::new(7, 0, 0));
    (0..stations).for_each(|_| contention.attach());
    // All begin with a backoff, as if the channel had been busy.
    contention.begin();
    (0..stations).for_each(|station| contention.ended(station, true, true));
    contention.idle(Instant::START);
    let took = spec.airtime(len) + spec.acknowledgement();
    let (mut received, mut sent, mut collided) = (0u64, 0u64, 0u64);
    let mut now = Instant::START;
    while now.since_start().as_s() < seconds {
        now = contention.next().unwrap() + took;
        let senders = contention.begin();
        let is_alone = senders.len() == 1;
        sent += senders.len() as u64;
        received += u64::from(is_alone);
        collided += if is_alone { 0 } else { senders.len() as u64 };
        senders.iter().for_each(|station| contention.ended(*station, is_alone, true));
        contention.idle(now);
    }
    (received as f64 * payload / now.since_start().as_s(), collided as f64 / sent as f64)
}

fn us(us: u64) -> Span {
    Span::from_ns(us * 1_000)
}

#[test]
fn saturated_stations_have_the_throughput_that_ns_3_expects() {
    // The table `bianchiResultsEifs` of ns-3, src/wifi/examples/wifi-bianchi.cc: 1,500 B in frames of 1,536 B at
    // 54 Mbit/s (802.11a), in Mbit/s.
    let spec = WifiSpec {
        rate: Rate::from_bit_s(54_000_000).unwrap(),
        aggregate: 1,
        aifs: us(34),
        preamble: us(20),
        ..WifiSpec::default()
    };
    for (stations, published) in [(5, 29.2861), (10, 27.3763), (20, 25.3325), (50, 22.4162)] {
        let (found, _) = saturate(&spec, stations, 1_536, 12_000.0, 20.0);
        let off = found / (published * 1e6) - 1.0;
        assert!(off.abs() < 0.015, "{stations}: {found}, {:.1} % off", off * 100.0);
    }
}

/// The probability of a collision of each of `stations`, with a smallest window of `window` slots that doubles
/// up to `stages` times, and the share of slots in which one of them sends (Bianchi, IEEE JSAC 18 (3), 2000, equations 7
/// and 9).
fn bianchi(stations: i32, window: f64, stages: i32) -> (f64, f64) {
    let (mut least, mut most) = (0.0, 1.0);
    let mut both = (0.0, 0.0);
    for _ in 0..100 {
        let p: f64 = (least + most) / 2.0;
        let twice = 1.0 - 2.0 * p;
        // At one half, the limit of the formula is the same from both sides.
        let twice = if twice.abs() < 1e-6 { 1e-6 } else { twice };
        let sum = 1.0 - (1.0 - twice).powi(stages);
        let sends = 2.0 * twice / (twice * (window + 1.0) + p * window * sum);
        both = (p, sends);
        match 1.0 - f64::powi(1.0 - sends, stations - 1) > p {
            true => least = p,
            false => most = p,
        }
    }
    both
}

#[test]
fn collisions_and_throughput_are_those_of_bianchis_formula() {
    // Its table II: 8,184 bits of payload, headers of 272 and 128 bits at 1 Mbit/s, slots of 50 us. The
    // time of a collision is that of a success here (EIFS), so it is in the formula, too. In the formula
    // stations also count down while others send; with shorter frames this matters more.
    let rate = Rate::from_bit_s(1_000_000).unwrap();
    let spec = |window: u32, stages: u32| WifiSpec {
        cw_min: window - 1,
        cw_max: (window << stages) - 1,
        rate,
        basic_rate: rate,
        slot: us(50),
        aifs: us(128),
        ..WifiSpec::default()
    };
    for (window, stages) in [(32, 3), (32, 5), (128, 3)] {
        for stations in [5, 10, 20, 50] {
            let spec = spec(window, stages);
            let took = (spec.airtime(1_073) + spec.acknowledgement()).as_s();
            let (throughput, collided) = saturate(&spec, stations as usize, 1_073, 1.0, 100.0);
            let (p, sends) = bianchi(stations, f64::from(window), stages as i32);
            let any = 1.0 - f64::powi(1.0 - sends, stations);
            let one = f64::from(stations) * sends * f64::powi(1.0 - sends, stations - 1);
            let busy = took + spec.aifs.as_s();
            let expected = one / ((1.0 - any) * spec.slot.as_s() + any * busy);
            let text = format!("{window}, {stages}, {stations}: {collided} and {throughput}");
            // Four standard deviations of 12,000 transmissions, of which those of a collision go together.
            assert!((collided - p).abs() < 0.03 * p + 0.013, "{text}, not {p}");
            assert!((throughput / expected - 1.0).abs() < 0.02, "{text}, not {expected}");
        }
    }
}

#[test]
fn a_station_waits_for_an_idle_channel_and_joins_at_a_slot() {
    let spec = WifiSpec::default();
    let mut contention = Contention::new(&spec, Draw::new(1, 0, 0));
    (0..3).for_each(|_| contention.attach());
    assert_eq!(contention.next(), None);
    // 957 us are 106.3 slots after 43 us.
    let at = |us: u64| Instant::from_ns(us * 1_000);
    contention.ready(0, at(1_000));
    assert_eq!(contention.next(), Some(at(43 + 107 * 9)));
    // Within the same slot: neither can hear the other.
    contention.ready(1, at(1_003));
    assert_eq!(contention.begin(), [0, 1]);
    assert_eq!(contention.next(), None, "the channel is busy");
    [0, 1].into_iter().for_each(|station| contention.ended(station, false, true));
    contention.ready(2, at(1_100));
    contention.idle(at(1_200));
    let next = contention.next().unwrap();
    assert!(next >= at(1_200 + 43) && next < at(1_200 + 43 + 32 * 9), "{next:?}");
}
