//! The exchanges of Dürkop, Czybik and Jasperneite ("Performance Evaluation of
//! M2M Protocols Over Cellular Networks in a Lab Environment") over EDGE,
//! against the times that the paper has and those that the profile was fitted
//! with.
//!
//! The paper gives the bytes and the time of each section, link header included,
//! for 2500 B of payload. Its drawings of the frames are not in our copy, so the
//! frames are inferred. MQTT's follow from the sums: 66 + 66 + 54, 90 + 60,
//! 2669 + 60, 56 + 60, 54 + 60, with 60 for what Ethernet pads. CoAP's 1137, 1137
//! and 565 B less 1024, 1024 and 452 B of payload leave 113 B for a request and
//! two sets of headers, however split. OPC UA's 2959 B leave 213 B for the request
//! if one response has the overhead that the paper says (60 B and 18 B for a
//! variable), and less if there are two: below 186 B it takes 20 ms longer.
//!
//! One thing is not among the profile's keys and inferred here. An uplink frame
//! that needs no cycle and its answer would take 80 ms, since 19 ms of delay
//! always end 1 ms before the next block; the paper has 105 and 107, the fit 100.
//! The uplink of GSM runs three timeslots (45/26 ms) behind the downlink (3GPP
//! TS 45.002), so that each answer misses that block. With it as `offset` all
//! fitted times follow within the choice of when an exchange starts, but for
//! CoAP's last block: 540 ms, fitted 520, in the paper 534. The fitted one would
//! follow if all of a queue waited for the second grant, instead of what exceeds
//! the first.

use super::*;
use units::{Bytes, Ratio, Span};

const MS: f64 = 1e6;
const DELAY: u64 = 19_000_000;

/// Profile edge-lab.
struct Cell {
    up: Grant,
    down: Grant,
}

impl Cell {
    fn new() -> Self {
        let span = |ms: u64| Span::from_ns(ms * 1_000_000);
        let up = GrantSpec {
            efficiency: Ratio::from_fraction(0.9).unwrap(),
            overhead: Bytes::new(11),
            offset: Span::from_ns(45_000_000 / 26),
            cycle: Some(span(157)),
            initial: Some(Bytes::new(176)),
            hold: Some(span(100)),
            ..GrantSpec::always(span(20), Bytes::new(148))
        };
        let down = GrantSpec {
            overhead: Bytes::new(11),
            cycle: Some(span(42)),
            hold: Some(span(500)),
            ..GrantSpec::always(span(20), Bytes::new(444))
        };
        assert_eq!((up.check(), down.check()), (Ok(()), Ok(())));
        Self { up: Grant::new(up), down: Grant::new(down) }
    }

    /// When the last of `frames` that the device sends at `now` has come.
    fn up(&mut self, frames: &[usize], now: Instant) -> Instant {
        frames.iter().map(|len| self.up.send(*len, now)).last().unwrap() + DELAY
    }

    fn down(&mut self, frame: usize, now: Instant) -> Instant {
        self.down.send(frame, now) + DELAY
    }

    /// The times at which each section ends.
    fn mqtt(&mut self, start: Instant) -> Vec<Instant> {
        // The acknowledgement that ends the TCP handshake goes with CONNECT.
        let sections: [(&[usize], usize); 5] =
            [(&[66], 66), (&[54, 90], 60), (&[1514, 1155], 60), (&[56], 60), (&[54], 60)];
        let mut now = start;
        let mut exchange = |(sent, answer): (&[usize], usize)| {
            let there = self.up(sent, now);
            now = self.down(answer, there);
            now
        };
        sections.map(&mut exchange).to_vec()
    }

    /// Requests come down, and data goes up.
    fn requests(&mut self, start: Instant, sections: &[(usize, &[usize])]) -> Vec<Instant> {
        let mut now = start;
        let mut exchange = |(request, data): &(usize, &[usize])| {
            let there = self.down(*request, now);
            now = self.up(data, there);
            now
        };
        sections.iter().map(&mut exchange).collect()
    }
}

/// Mean length of each section in ms, over starts anywhere in a block.
fn mean(exchange: impl Fn(&mut Cell, Instant) -> Vec<Instant>) -> Vec<f64> {
    let runs: Vec<Vec<f64>> = (0..20)
        .map(|phase| {
            let start = 10_000_000_000 + phase * 1_000_000 + 500_000;
            let mut last = start;
            let mut length = |end: Instant| (end - std::mem::replace(&mut last, end)) as f64 / MS;
            exchange(&mut Cell::new(), start).into_iter().map(&mut length).collect()
        })
        .collect();
    (0..runs[0].len()).map(|i| runs.iter().map(|run| run[i]).sum::<f64>() / 20.0).collect()
}

#[test]
fn the_exchanges_of_the_paper_take_what_the_profile_was_fitted_to() {
    let mqtt = mean(Cell::mqtt);
    let coap =
        mean(|cell, start| cell.requests(start, &[(63, &[1074]), (63, &[1074]), (63, &[502])]));
    let opc_ua =
        |request, rest| mean(|cell, start| cell.requests(start, &[(request, &[1514, rest])]))[0];
    // Here, in the paper, as fitted; ms.
    let rows = [
        ("MQTT d1", mqtt[0], 305.0, 304.5),
        ("MQTT d2", mqtt[1], 278.0, 280.0),
        ("MQTT d3", mqtt[2], 517.0, 480.0),
        ("MQTT d4", mqtt[3], 105.0, 100.0),
        ("MQTT d5", mqtt[4], 107.0, 100.0),
        ("CoAP d1", coap[0], 623.0, 613.2),
        ("CoAP d2", coap[1], 618.0, 620.0),
        ("CoAP d3", coap[2], 534.0, 520.0),
        ("OPC UA", opc_ua(213, 1172), 840.0, 852.2),
    ];
    let mut squares = 0.0;
    for (name, here, paper, fitted) in rows {
        println!("{name}: {here:.1} here, {paper} paper, {fitted} fitted");
        // 20 starts for a mean, whichever the fit had: their deviation is 20 ms /
        // sqrt(12 x 20), 1.3 ms.
        let said = if name == "CoAP d3" { 540.0 } else { fitted };
        assert!((here - said).abs() < 1.3, "{name}: {here}");
        let off: f64 = here / paper - 1.0;
        assert!(off.abs() <= 0.072, "worst of the profile: {name} is off by {off}");
        squares += off * off;
    }
    let rms = (squares / rows.len() as f64).sqrt();
    assert!(rms <= 0.038, "root mean square of the profile: {rms}");
    // The other reading of the OPC UA bytes.
    assert!((opc_ua(120, 1265) - 872.2).abs() < 1.3);
}
