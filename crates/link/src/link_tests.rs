//! Links of devices that do not receive all the time.

use super::*;
use crate::{
    HalfDuplex, LoraSpec, Promotion, Reach, Scheduler, Service, Slow, State, Transmission,
};
use units::{Bytes, Rate, Span};

/// A link that carries its steps out.
struct Run {
    link: Link,
    turns: Vec<(Instant, Direction)>,
    releases: Vec<(Direction, u64)>,
    dropped: usize,
}

fn at(ms: u64) -> Instant {
    Instant::START + Span::from_ms(ms)
}

impl Run {
    fn new(spec: StatesSpec, lora: Option<LoraSpec>) -> Self {
        assert_eq!(spec.check(), Ok(()));
        let transmission = lora.map_or_else(Default::default, |lora| Scheduler::Lora(lora).into());
        Self::with(spec, transmission)
    }

    fn with(spec: StatesSpec, transmission: Transmission) -> Self {
        let way = Impairment { transmission, ..Impairment::default() };
        let mut link = Link::new(way.clone(), way, Some(spec), 1, 0);
        link.begin(Instant::START);
        Self { link, turns: Vec::new(), releases: Vec::new(), dropped: 0 }
    }

    fn execute(&mut self, direction: Direction, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Release(_, at) => self.releases.push((direction, at.as_ns() / 1_000_000)),
                Step::Drop(_) => self.dropped += 1,
                Step::Turn(at) => self.turns.push((at, direction)),
                Step::TurnOther(at) => self.turns.push((at, direction.opposite())),
                Step::Decided(..) | Step::Offer(..) => {}
            }
        }
    }

    fn until(&mut self, ms: u64) {
        loop {
            self.turns.sort();
            if self.turns.first().is_none_or(|(next, _)| *next > at(ms)) {
                return;
            }
            let (now, direction) = self.turns.remove(0);
            let mut steps = Vec::new();
            self.link.turn(direction, now, false, &mut steps);
            self.execute(direction, steps);
        }
    }

    /// A frame of 100 B.
    fn send(&mut self, direction: Direction, ms: u64) {
        self.until(ms);
        let frame = StampedFrame { frame: vec![0; 100].into(), arrived: at(ms) };
        let mut steps = Vec::new();
        self.link.admit(direction, frame, 0, at(ms), false, &mut steps);
        self.execute(direction, steps);
    }

    /// Releases to the device, in ms.
    fn down(&self) -> Vec<u64> {
        let down = self.releases.iter().filter(|(direction, _)| *direction == Direction::Down);
        down.map(|(_, at)| *at).collect()
    }
}

use Direction::{Down, Up};

fn state(name: &str, service: Option<Service>, reach: Option<Reach>) -> State {
    let name = name.to_owned();
    State { name, service, promotion: None, inactivity: None, reach }
}

/// A device that is paged every 10 s, connects within 1 s, and is idle 5 s later.
fn paged(reach: Reach) -> StatesSpec {
    let (up, down) = (Bytes::ZERO, Bytes::ZERO);
    let promotion = Some(Promotion { delay: Span::from_ms(1_000), up, down, to: None });
    let connected = state("connected", Some(Service::Full), None);
    StatesSpec {
        states: vec![
            State { promotion, ..state("idle", None, Some(reach)) },
            State { inactivity: Some(Span::from_s(5)), ..connected },
        ],
        initial: None,
        half_duplex: None,
    }
}

fn every_ten() -> Reach {
    Reach { paging: Some(Span::from_s(10)), ..Reach::default() }
}

#[test]
fn frames_to_an_idle_device_wait_until_it_is_paged() {
    let mut run = Run::new(paged(every_ten()), None);
    for ms in [2_000, 3_000, 9_999, 10_500, 12_000] {
        run.send(Down, ms);
    }
    run.until(60_000);
    // Those after the occasion find it connecting, then connected.
    assert_eq!(run.down(), [11_000, 11_000, 11_000, 11_000, 12_000]);
}

/// The verdict compares bytes and time of transmission with the configured rate (`LinkRow::rate_measured_bit_s`).
#[test]
fn waiting_for_a_state_and_slow_service_are_no_transmission_at_the_rate() {
    let slow = Slow { fixed: Span::from_ms(100), ..Slow::default() };
    let promotion =
        Promotion { delay: Span::from_ms(500), up: Bytes::new(200), down: Bytes::ZERO, to: None };
    let states = vec![
        State {
            promotion: Some(promotion),
            ..state("fach", Some(Service::Slow { up: slow, down: slow }), None)
        },
        State { inactivity: Some(Span::from_s(5)), ..state("dch", Some(Service::Full), None) },
    ];
    let slow_first = StatesSpec { states, initial: None, half_duplex: None };
    // All wait for a page; or some are served slowly, and the rest waits for the other state.
    for (spec, carried) in [(paged(every_ten()), 6), (slow_first, 4)] {
        let mut run = Run::with(spec, Rate::from_bit_s(100_000).unwrap().into());
        for ms in [2_000, 2_001, 2_050, 2_090, 2_800, 2_803] {
            run.send(Up, ms);
        }
        run.until(60_000);
        assert_eq!(run.releases.len(), 6);
        let totals = run.link[Up].totals();
        assert_eq!((totals.wire_bytes, totals.busy), (carried * 100, carried * Span::from_ms(8)));
    }
}

#[test]
fn frames_to_an_idle_device_leave_when_it_sends() {
    let mut run = Run::new(paged(every_ten()), None);
    run.send(Down, 2_000);
    run.send(Up, 4_000);
    run.until(60_000);
    assert_eq!(run.down(), [5_000]);
    assert_eq!(run.releases.len(), 2);
}

#[test]
fn a_device_in_power_saving_mode_gets_nothing_until_it_sends() {
    let psm = Reach { active: Some(Span::from_s(10)), ..every_ten() };
    let mut run = Run::new(paged(psm), None);
    run.send(Down, 15_000);
    run.until(3_600_000);
    assert_eq!(run.down(), Vec::<u64>::new());
    run.send(Up, 3_600_000);
    run.until(4_000_000);
    assert_eq!(run.down(), [3_601_000]);
}

#[test]
fn a_network_keeps_a_limited_number_of_frames() {
    let psm = Reach { active: Some(Span::from_ms(1)), ..every_ten() };
    let mut run = Run::new(paged(psm), None);
    (0..1_500).for_each(|n| run.send(Down, 15_000 + n));
    assert_eq!(run.dropped, 500);
}

/// A device of class A gets one frame after each that it sends, 1 s or 2 s after its end.
#[test]
fn class_a_receives_after_its_own_frames() {
    let after_uplink = vec![Span::from_s(1), Span::from_s(2)];
    let reach = Some(Reach { after_uplink, ..Reach::default() });
    let states = vec![state("class-a", Some(Service::Full), reach)];
    let spec = StatesSpec { states, initial: None, half_duplex: None };
    let mut run = Run::new(spec, Some(LoraSpec::at(7)));
    // 100 B take 174.336 ms on air.
    run.send(Down, 0);
    run.send(Down, 100);
    run.send(Up, 10_000);
    run.until(20_000);
    assert_eq!(run.releases, [(Up, 10_174), (Down, 11_348)]);
    run.send(Up, 20_000);
    // Too late for the first window of this one.
    run.send(Up, 30_000);
    run.send(Down, 31_500);
    run.until(60_000);
    assert_eq!(run.down(), [11_348, 21_348, 32_348]);
}

/// A device that sends again before its windows are over would never receive.
#[test]
fn class_a_sends_again_after_its_windows() {
    let after_uplink = vec![Span::from_s(1), Span::from_s(2)];
    let reach = Some(Reach { after_uplink, ..Reach::default() });
    let states = vec![state("class-a", Some(Service::Full), reach)];
    let spec = StatesSpec { states, initial: None, half_duplex: None };
    let mut run = Run::new(spec, Some(LoraSpec::at(7)));
    run.send(Up, 10_000);
    run.send(Up, 10_500);
    run.send(Down, 10_900);
    run.send(Down, 10_900);
    run.until(60_000);
    // The second one waits for the second window of the first, 2 s after its end.
    assert_eq!(run.down(), [11_348, 13_523]);
    let up: Vec<u64> =
        run.releases.iter().filter(|(way, _)| *way == Up).map(|(_, at)| *at).collect();
    assert_eq!(up, [10_174, 12_348]);
}

#[test]
fn a_half_duplex_device_does_not_receive_while_it_sends() {
    let guard = Span::from_ms(1);
    let states = vec![state("on", Some(Service::Full), None)];
    let spec = StatesSpec { states, initial: None, half_duplex: Some(HalfDuplex { guard }) };
    let mut run = Run::new(spec, Some(LoraSpec::at(7)));
    run.send(Up, 1_000);
    run.send(Down, 1_010);
    run.send(Down, 5_000);
    run.until(60_000);
    assert_eq!(run.releases, [(Up, 1_174), (Down, 1_349), (Down, 5_174)]);
}
