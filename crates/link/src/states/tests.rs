//! The radio states compared with arithmetic.

use super::*;
use crate::test_times::at;
use crate::{Grant, GrantSpec};
use units::{Bytes, Span};

const MS: u64 = 1_000_000;

fn span(text: &str) -> Span {
    text.parse().unwrap()
}

/// Timing of lte-5mhz: 260 ms to connect, 10 s until idle.
fn lte() -> States {
    checked(StatesSpec::idle_connected(span("260 ms"), span("10 s")))
}

fn checked(spec: StatesSpec) -> States {
    assert_eq!(spec.check(), Ok(()));
    States::new(spec)
}

/// Parameters of umts-field.
fn umts() -> StatesSpec {
    let promotion = |delay, up, down| {
        let (up, down) = (Bytes::new(up), Bytes::new(down));
        Some(Promotion { delay: span(delay), up, down, to: None })
    };
    let slow = Service::Slow {
        up: Slow { fixed: span("20 ms"), byte: span("1600 us"), square: span("1400 ns") },
        down: Slow { fixed: span("10 ms"), byte: span("100 us"), square: Span::ZERO },
    };
    let state = |name: &str, service, promotion, inactivity| State {
        name: name.to_owned(),
        service,
        promotion,
        inactivity,
        reach: None,
    };
    StatesSpec {
        states: vec![
            state("idle", None, promotion("2000 ms", 0, 0), None),
            state("fach", Some(slow), promotion("1500 ms", 543, 475), Some(span("10 s"))),
            state("dch", Some(Service::Full), None, Some(span("4 s"))),
        ],
        initial: None,
        half_duplex: None,
    }
}

/// Full service that takes 10 ms per frame, regardless of load.
fn ten(_: usize, now: Instant) -> Instant {
    now + Span::from_ms(10)
}

#[test]
fn the_first_frame_waits_for_the_promotion_and_so_do_those_that_come_meanwhile() {
    let mut radio = lte();
    assert_eq!(radio.state(at(0)), "idle");
    assert_eq!(radio.send(Direction::Up, 100, at(1_000 * MS), &mut ten), at(1_270 * MS));
    assert_eq!(radio.promoted_at(), Some(at(1_260 * MS)));
    assert_eq!(radio.send(Direction::Up, 100, at(1_100 * MS), &mut ten), at(1_270 * MS));
    assert_eq!(radio.send(Direction::Down, 100, at(1_200 * MS), &mut ten), at(1_270 * MS));
    assert_eq!(radio.state(at(1_259 * MS)), "idle");
    assert_eq!(radio.state(at(1_260 * MS)), "connected");
    assert_eq!(radio.send(Direction::Down, 100, at(1_270 * MS), &mut ten), at(1_280 * MS));
}

#[test]
fn inactivity_counts_from_the_last_delivery_in_either_direction() {
    for (comes, state, arrives) in
        [(11_269, "connected", 11_279), (11_270, "idle", 11_540), (60_000, "idle", 60_270)]
    {
        let mut radio = lte();
        assert_eq!(radio.send(Direction::Up, 100, at(1_000 * MS), &mut ten), at(1_270 * MS));
        assert_eq!(radio.state(at(comes * MS)), state, "at {comes} ms");
        assert_eq!(radio.send(Direction::Up, 100, at(comes * MS), &mut ten), at(arrives * MS));
    }
    let mut radio = lte();
    radio.send(Direction::Up, 100, at(0), &mut ten);
    radio.send(Direction::Down, 100, at(9_000 * MS), &mut ten);
    assert_eq!(radio.state(at(19_009 * MS)), "connected");
    assert_eq!(radio.state(at(19_010 * MS)), "idle");
}

#[test]
fn umts_goes_down_by_fach_and_up_from_each() {
    let mut radio = checked(umts());
    assert_eq!(radio.send(Direction::Up, 1_014, at(0), &mut ten), at(2_010 * MS));
    // Delivered at 2.01 s; 4 s to FACH, then 10 s to idle.
    for (ms, state) in [(6_009, "dch"), (6_010, "fach"), (16_009, "fach"), (16_010, "idle")] {
        assert_eq!(radio.clone().state(at(ms * MS)), state, "at {ms} ms");
    }
    // From FACH 1.5 s, from idle 2 s.
    assert_eq!(radio.clone().send(Direction::Up, 1_014, at(7_000 * MS), &mut ten), at(8_510 * MS));
    assert_eq!(
        radio.clone().send(Direction::Up, 1_014, at(17_000 * MS), &mut ten),
        at(19_010 * MS)
    );
}

#[test]
fn fach_carries_little_slowly_and_stays_while_it_does() {
    let mut radio = checked(StatesSpec { initial: Some("fach".to_owned()), ..umts() });
    // 20 + 1.6 x 100 + 0.0014 x 100 x 100 ms.
    assert_eq!(radio.send(Direction::Up, 114, at(0), &mut ten), at(194 * MS));
    // The next frame waits for it; the other direction does not.
    assert_eq!(radio.send(Direction::Up, 114, at(100 * MS), &mut ten), at(388 * MS));
    assert_eq!(radio.send(Direction::Down, 114, at(150 * MS), &mut ten), at(170 * MS));
    assert_eq!(radio.state(at(10_387 * MS)), "fach");
    assert_eq!(radio.state(at(10_388 * MS)), "idle");
}

#[test]
fn more_than_the_threshold_queued_promotes() {
    let fach = || checked(StatesSpec { initial: Some("fach".to_owned()), ..umts() });
    // 543 B of packet stay in FACH, 544 do not; the downlink threshold is 475.
    let mut radio = fach();
    radio.send(Direction::Up, 557, at(0), &mut ten);
    assert_eq!(radio.promoted_at(), None);
    assert_eq!(fach().send(Direction::Up, 558, at(0), &mut ten), at(1_510 * MS));
    assert_eq!(fach().send(Direction::Down, 490, at(0), &mut ten), at(1_510 * MS));
    // Six frames of 100 B, none delivered yet, exceed the threshold as well.
    let mut radio = fach();
    let ends: Vec<_> =
        (0..6).map(|_| radio.send(Direction::Up, 114, at(0), &mut ten).as_ns() / MS).collect();
    assert_eq!(ends, [194, 388, 582, 776, 970, 1_510]);
    // With 100 B each 200 ms, each is delivered before the next arrives.
    let mut radio = fach();
    for i in 0..100 {
        assert_eq!(
            radio.send(Direction::Up, 114, at(i * 200 * MS), &mut ten),
            at((i * 200 + 194) * MS)
        );
    }
}

#[test]
fn nothing_overtakes_and_what_is_behind_is_asked_in_order() {
    use units::{Draw, Purpose};
    let draw = Draw::new(4, 0, 0);
    let mut radio = checked(umts());
    let mut grants = [(); 2].map(|()| {
        let mut spec = GrantSpec::always(span("20 ms"), Bytes::new(160));
        spec.cycle = Some(span("50 ms"));
        Grant::new(spec)
    });
    let (mut now, mut starts, mut ends) = (0, [at(0); 2], [at(0); 2]);
    let mut seen = std::collections::HashSet::new();
    for i in 0..20_000 {
        now += (draw.uniform(Purpose::Jitter, i).powi(12) * 2e10) as u64;
        seen.insert(radio.state(at(now)).to_owned());
        let way =
            if draw.uniform(Purpose::Loss, 2 * i) < 0.5 { Direction::Up } else { Direction::Down };
        let len = 20 + (draw.uniform(Purpose::Loss, 2 * i + 1) * 300.0) as usize;
        let place = way as usize;
        let end = radio.send(way, len, at(now), &mut |len, from| {
            assert!(from >= starts[place] && from >= at(now));
            starts[place] = from;
            grants[place].send(len, from)
        });
        assert!(end >= ends[place] && end > at(now));
        ends[place] = end;
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
}

#[test]
fn nonsense_is_refused_with_what_to_write() {
    let wrong = |change: fn(&mut StatesSpec)| {
        let mut spec = umts();
        change(&mut spec);
        spec.check().unwrap_err()
    };
    assert!(wrong(|spec| spec.states.clear()).contains("remove `states`"));
    assert_eq!(
        wrong(|spec| spec.states[2].name = "idle".to_owned()),
        "two states have the name `idle`; rename one"
    );
    assert_eq!(
        wrong(|spec| spec.initial = Some("cell".to_owned())),
        "`initial` is `cell`, which is not a state; use one of `idle`, `fach`, `dch`"
    );
    assert!(wrong(|spec| spec.states[0].promotion = None).contains("neither"));
    assert!(
        wrong(|spec| spec.states[0].inactivity = Some(span("1 s"))).contains("cannot fall back")
    );
    assert!(wrong(|spec| spec.states[1].inactivity = Some(Span::ZERO)).contains("10 s"));
    let to = |spec: &mut StatesSpec, state: usize, to: &str| {
        spec.states[state].promotion.as_mut().unwrap().to = Some(to.to_owned());
    };
    let mut spec = umts();
    to(&mut spec, 1, "idle");
    assert!(spec.check().unwrap_err().ends_with("use one of `dch`"));
    let mut spec = umts();
    to(&mut spec, 0, "fach");
    assert_eq!(spec.check(), Ok(()));
    assert!(
        wrong(|spec| spec.states[2].promotion = spec.states[1].promotion.clone())
            .contains("is the last state")
    );
    assert!(wrong(|spec| spec.states[2].service = None).contains("add a `service`"));
}

#[test]
fn an_unchecked_spec_does_not_panic() {
    let mut radio =
        States::new(StatesSpec { states: Vec::new(), initial: None, half_duplex: None });
    assert_eq!(radio.send(Direction::Up, 0, at(5), &mut ten), at(5 + 10 * MS));
    assert_eq!(radio.state(at(6)), "");
    let mut spec = umts();
    spec.states[1].promotion = None;
    spec.initial = Some("fach".to_owned());
    States::new(spec).send(Direction::Up, usize::MAX, at(u64::MAX), &mut |_, now| now);
}
