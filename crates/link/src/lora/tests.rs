use super::*;
use units::{Ratio, Span};

fn ms(instant: Instant) -> u64 {
    instant.as_ns() / 1_000_000
}

fn on_air(spec: &LoraSpec, bytes: u64) -> u64 {
    spec.time_on_air(bytes).as_ns() / 1_000_000
}

/// 23 B and 64 B on air are 10 B and 51 B of LoRaWAN's payload.
#[test]
fn times_on_air_are_those_of_the_data_sheet() {
    let expected = [
        (7, 61, 118),
        (8, 113, 215),
        (9, 205, 390),
        (10, 370, 698),
        (11, 823, 1_560),
        (12, 1_482, 2_793),
    ];
    for (factor, short, long) in expected {
        let spec = LoraSpec::at(factor);
        assert_eq!((on_air(&spec, 23), on_air(&spec, 64)), (short, long), "SF{factor}");
    }
    let wide = LoraSpec { bandwidth: Bandwidth::Khz500, ..LoraSpec::at(12) };
    assert!(wide.time_on_air(64) < LoraSpec::at(10).time_on_air(64), "no optimisation at 8.2 ms");
    // SF7 at 125 kHz has 5,469 bit/s by the data sheet.
    assert_eq!(LoraSpec::at(7).bit_s().round(), 5_469.0);
}

/// Measured: from the start to the end of a transmission by an SX1276, in the logs of the issues 968, 458
/// and 258 of mcci-catena/arduino-lmic, whose clock has ticks of 16 us. Joining takes 23 B.
#[test]
fn times_on_air_are_those_measured() {
    let measured = [(7, 26, 3_864), (7, 23, 3_893), (10, 23, 23_204)];
    for (factor, bytes, ticks) in measured {
        let here = LoraSpec::at(factor).time_on_air(bytes).as_ns() as f64 / 1e6;
        let there = f64::from(ticks) * 0.016;
        println!("SF{factor}, {bytes} B: {here:.1} ms here, {there:.1} ms measured");
        // The driver's own time is in the measured one: up to 0.6 ms.
        assert!((0.0..0.65).contains(&(there - here)), "SF{factor}: {here} for {there}");
    }
}

#[test]
fn a_pause_follows_each_packet() {
    let duty_cycle = Ratio::from_fraction(0.01);
    let mut lora = Lora::new(LoraSpec { duty_cycle, ..LoraSpec::at(12) });
    let ends: Vec<_> = (0..3).map(|_| ms(lora.send(64, Instant::START))).collect();
    assert_eq!(ends, [2_793, 282_140, 561_487]);
    // After a longer silence it sends at once.
    let late = Instant::START + Span::from_s(3_600);
    assert_eq!(ms(lora.send(64, late)), 3_602_793);
}

#[test]
fn an_hour_has_its_budget_and_no_more() {
    let duty_cycle = Ratio::from_fraction(0.01);
    let duty_period = Some(Span::from_s(3_600));
    let mut lora = Lora::new(LoraSpec { duty_cycle, duty_period, ..LoraSpec::at(12) });
    let ends: Vec<_> = (0..60).map(|_| lora.send(64, Instant::START)).collect();
    // 12 packets of 2.79 s fit into 36 s; then one every 279.3 s.
    let first = ends.iter().filter(|end| **end < Instant::START + Span::from_s(36)).count();
    assert_eq!(first, 12);
    let gap = (ends[59] - ends[58]).as_ns() as f64 / 1e6;
    assert!((gap - 279_347.2).abs() < 1.0, "{gap}");
}

#[test]
fn packets_do_not_overlap_and_keep_their_order() {
    let mut lora = Lora::new(LoraSpec::at(7));
    let first = lora.send(64, Instant::START);
    let second = lora.send(23, Instant::START + Span::from_ms(10));
    assert_eq!((ms(first), ms(second)), (118, 179));
}

#[test]
fn wrong_parameters_are_refused() {
    let refused = |spec: LoraSpec| spec.check().is_err();
    let duty = |share| Ratio::from_fraction(share);
    assert!(LoraSpec::at(7).check().is_ok());
    assert!(refused(LoraSpec::at(6)) && refused(LoraSpec::at(13)));
    assert!(refused(LoraSpec { preamble: 5, ..LoraSpec::at(7) }));
    assert!(refused(LoraSpec { duty_cycle: duty(0.0), ..LoraSpec::at(7) }));
    assert!(refused(LoraSpec { duty_period: Some(Span::from_s(1)), ..LoraSpec::at(7) }));
    let zero = Some(Span::ZERO);
    assert!(refused(LoraSpec { duty_cycle: duty(0.1), duty_period: zero, ..LoraSpec::at(7) }));
}

/// Lengths and times of any size do no harm.
#[test]
fn extremes_do_not_overflow() {
    let duty_cycle = Ratio::from_fraction(1e-6);
    let spec = LoraSpec { duty_cycle, preamble: 65_535, ..LoraSpec::at(12) };
    let mut lora = Lora::new(spec);
    let ends: Vec<_> = (0..4).map(|_| lora.send(u64::MAX, Instant::START)).collect();
    assert!(ends.is_sorted());
}
