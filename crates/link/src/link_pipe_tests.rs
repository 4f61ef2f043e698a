//! Tests of directions in virtual time.

use super::*;
use crate::test_times::at;
use crate::{
    Cell, Codel, Delay, Discipline, Handover, Handovers, Keys, Limit, Outage, Outages, PathMtu,
    Scheduler, Serialiser, Slot, Trace, Transmission,
};
use units::{Bytes, Rate, Ratio};

const FRAME: [u8; 127] = [0; 127];
const MS: u64 = 1_000_000;
/// 127 bytes at 250 kbit/s.
const TIME: Span = Span::from_ns(4_064_000);

fn rate(bit_s: u64) -> Transmission {
    Rate::from_bit_s(bit_s).unwrap().into()
}

/// Outcome of a frame.
#[derive(Debug, Clone, PartialEq)]
enum Outcome {
    Release(Instant),
    Dropped(Cause),
}

/// A pipe with its pending turns; executes its steps as a network does.
struct Pipe {
    pipe: LinkPipe,
    turns: Vec<Instant>,
    outcomes: Vec<Outcome>,
    frames: Vec<Frame>,
}

impl Pipe {
    fn new(change: impl FnOnce(&mut Impairment)) -> Self {
        let mut config = Impairment::default();
        change(&mut config);
        let pipe = LinkPipe::new(config, Draw::new(7, 1, 0));
        Self { pipe, turns: Vec::new(), outcomes: Vec::new(), frames: Vec::new() }
    }

    fn execute(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Release(frame, at) => {
                    self.outcomes.push(Outcome::Release(at));
                    self.frames.push(frame.frame);
                }
                Step::Drop(cause) => self.outcomes.push(Outcome::Dropped(cause)),
                Step::Turn(at) => self.turns.push(at),
                Step::Decided(..) => {}
                Step::Offer(..) | Step::TurnOther(_) => panic!("it has no channel and no radio"),
            }
        }
    }

    fn turns_until(&mut self, now: Instant) {
        while let Some(at) = self.turns.pop_if(|at| *at <= now) {
            let mut steps = Vec::new();
            self.pipe.turn(at, false, None, &mut steps);
            self.execute(steps);
        }
    }

    fn send(&mut self, frame: &[u8], now: Instant) {
        self.turns_until(now);
        let mut steps = Vec::new();
        let frame = StampedFrame { frame: frame.into(), arrived: now };
        self.pipe.admit(frame, 0, now, false, None, &mut steps);
        self.execute(steps);
    }

    /// Outcomes of `frames` frames, one per `gap`.
    fn outcomes(&mut self, frames: u64, gap: Span) -> Vec<Outcome> {
        (0..frames).for_each(|i| self.send(&FRAME, at(0) + gap * i));
        self.turns_until(Instant::NEVER);
        std::mem::take(&mut self.outcomes)
    }
}

fn releases(outcomes: &[Outcome]) -> Vec<Instant> {
    let release =
        |outcome: &Outcome| if let Outcome::Release(at) = outcome { Some(*at) } else { None };
    outcomes.iter().filter_map(release).collect()
}

fn share(percent: f64) -> Ratio {
    Ratio::from_fraction(percent / 100.0).unwrap()
}

fn span(ms: u64) -> Span {
    Span::from_ms(ms)
}

#[test]
fn nothing_asked_nothing_done() {
    assert_eq!(
        Pipe::new(|_| ()).outcomes(3, Span::from_ns(5)),
        [0, 5, 10].map(at).map(Outcome::Release)
    );
}

#[test]
fn loss_is_the_share_asked_and_independent() {
    let mut link = Pipe::new(|config| config.loss = share(30.0).into());
    let outcomes = link.outcomes(1_000_000, Span::from_ns(1));
    let lost: Vec<bool> =
        outcomes.iter().map(|outcome| *outcome == Outcome::Dropped(Cause::Lost)).collect();
    let mean = |n: usize| n as f64 / 1e6;
    let single = mean(lost.iter().filter(|l| **l).count());
    let pair = mean(lost.windows(2).filter(|w| w[0] && w[1]).count());
    // Four standard deviations of a binomial of a million: 0.0018.
    assert!((single - 0.3).abs() < 0.0018, "{single}");
    assert!((pair - 0.09).abs() < 0.0018, "{pair}");
}

#[test]
fn packets_above_the_path_mtu_are_dropped_from_the_change_on_and_count_apart() {
    // 113 B of packet in each frame.
    let mtu = |text: &str| PathMtu(Some(text.parse().unwrap()));
    for loss in [0.0, 30.0] {
        let mut link = Pipe::new(|config| {
            config.loss = share(loss).into();
            config.path_mtu = mtu("113 B");
        });
        let outcomes = link.outcomes(100, Span::from_ns(1));
        assert!(!outcomes.contains(&Outcome::Dropped(Cause::TooLong)));
        let set: Keys = serde_json::from_value(serde_json::json!({"path_mtu": "112 B"})).unwrap();
        link.pipe.set(&set, Span::ZERO, at(100)).unwrap();
        let dropped = vec![Outcome::Dropped(Cause::TooLong); 100];
        assert_eq!(link.outcomes(100, Span::from_ns(1)), dropped);
        let none: Keys = serde_json::from_value(serde_json::json!({"path_mtu": null})).unwrap();
        link.pipe.set(&none, Span::ZERO, at(300)).unwrap();
        assert_eq!(link.pipe.totals().too_long, 100);
        let last = link.outcomes(100, Span::from_ns(1));
        assert!(!last.contains(&Outcome::Dropped(Cause::TooLong)));
        let lost = |outcomes: &[Outcome]| {
            outcomes.iter().filter(|o| **o == Outcome::Dropped(Cause::Lost)).count() as u64
        };
        let totals = link.pipe.totals();
        assert_eq!(totals.lost, lost(&outcomes) + lost(&last), "the dropped ones are not losses");
        assert_eq!((totals.frames, totals.at_risk()), (300, 200));
        assert_eq!(loss > 0.0, totals.lost > 0);
    }
}

#[test]
fn jitter_reorders_unless_order_is_kept() {
    let in_order = |keep: bool| {
        let mut link = Pipe::new(|config| {
            (config.delay.mean, config.delay.jitter) = (span(30), span(5));
            config.delay.keep_order = keep;
        });
        releases(&link.outcomes(1000, Span::from_us(100))).is_sorted()
    };
    assert!(in_order(true) && !in_order(false));
}

#[test]
fn a_full_queue_drops_and_drains_at_the_rate() {
    let mut link = Pipe::new(|config| {
        config.transmission = rate(250_000);
        config.queue.limit = Limit::Frames(3);
    });
    (0..5).for_each(|_| link.send(&FRAME, at(0)));
    link.send(&FRAME, at(0) + TIME);
    link.turns_until(Instant::NEVER);
    assert_eq!(releases(&link.outcomes), [1, 2, 3, 4].map(|n| at(0) + n * TIME));
    let dropped = link.outcomes.iter().filter(|f| **f == Outcome::Dropped(Cause::Overflow)).count();
    assert_eq!((dropped, link.pipe.totals().overflow), (2, 2));
}

#[test]
fn the_throughput_is_the_rates_over_a_long_time() {
    let mut link = Pipe::new(|config| {
        config.transmission = rate(1_000_000);
        config.queue.limit = Limit::Frames(100_000);
    });
    let last = *releases(&link.outcomes(10_000, Span::ZERO)).last().unwrap();
    assert_eq!(last, at(10_000 * 127 * 8_000));
    let totals = link.pipe.totals();
    assert_eq!((totals.wire_bytes, totals.busy), (1_270_000, last.since_start()));
}

#[test]
fn overhead_and_cells_take_their_share_of_the_rate() {
    let mut link = Pipe::new(|config| {
        config.transmission = rate(8_000_000);
        config.transmission.framing.overhead = 8;
        let cell = Cell { size: Bytes::new(48), overhead: Bytes::new(5) };
        config.transmission.framing.cell = Some(cell);
    });
    assert_eq!(link.outcomes(1, Span::ZERO), [Outcome::Release(at(3 * 53 * 1000))]);
}

#[test]
fn a_trace_is_followed_from_the_start_of_impairments() {
    let trace = Trace::parse("t".as_ref(), "2\n10\n").unwrap();
    let mut link = Pipe::new(|config| config.transmission = Scheduler::Trace(trace).into());
    link.pipe.begin(at(100 * MS));
    link.send(&FRAME, at(101 * MS));
    link.send(&FRAME, at(103 * MS));
    assert_eq!(releases(&link.outcomes), [102 * MS, 110 * MS].map(at));
}

#[test]
fn codel_keeps_the_wait_near_its_target() {
    // 250 kbit/s; the offered load exceeds it by a tenth.
    let wait = |codel: Option<Codel>| {
        let mut link = Pipe::new(|config| {
            config.transmission = rate(250_000);
            config.queue.discipline = codel.map_or(Discipline::DropTail, Discipline::Codel);
        });
        let gap = TIME * 10 / 11;
        let outcomes = link.outcomes(20_000, gap);
        let mut waits: Vec<f64> = Vec::new();
        // Frames leave in order, so the delay of the last frame is its departure minus its
        // arrival.
        let left = releases(&outcomes);
        let came = at(0) + gap * 20_000;
        waits.push((*left.last().unwrap() - came).as_ms());
        waits[0]
    };
    let (with, without) = (wait(Some(Codel::default())), wait(None));
    assert!(without > 4000.0, "the queue of 1000 is full: {without}");
    assert!(with < 100.0, "{with}");
}

#[test]
fn an_outage_takes_what_leaves_in_it() {
    let mut link = Pipe::new(|config| {
        let outage = Outage::Scheduled { at: span(10), lasts: span(5), every: None };
        config.outage = Outages(vec![outage]);
    });
    let outcomes = link.outcomes(20, span(1));
    let gone = |i: usize| outcomes[i] == Outcome::Dropped(Cause::Outage);
    assert!((0..20).all(|i| gone(i) == (10..15).contains(&i)), "{outcomes:?}");
    assert_eq!(link.pipe.totals().outage, 5);
}

#[test]
fn frames_of_a_handover_arrive_together_and_in_order() {
    let mut link = Pipe::new(|config| {
        config.delay = Delay { mean: span(20), keep_order: true, ..Delay::default() };
        let handover = Handover { every: span(100), spread: span(0), pause: span(30) };
        config.handover = Handovers(Some(handover));
    });
    let releases = releases(&link.outcomes(20, span(10)));
    let expected = |sent: u64| match sent % 100 {
        within if within < 30 => sent - within + 50,
        _ => sent + 20,
    };
    let times: Vec<Instant> = (0..20).map(|n| at(expected(n * 10) * MS)).collect();
    assert_eq!(releases, times);
    assert_eq!(link.pipe.totals().passed, 20);
}

#[test]
fn a_path_with_less_delay_never_overtakes_if_order_is_kept() {
    for keep_order in [true, false] {
        let mut link = Pipe::new(|config| {
            config.delay.keep_order = keep_order;
            let handover = Handover { every: span(10), spread: span(100), pause: span(0) };
            config.handover = Handovers(Some(handover));
        });
        let releases = releases(&link.outcomes(100, span(5)));
        assert_eq!(releases.is_sorted(), keep_order, "{releases:?}");
    }
}

#[test]
fn a_copy_comes_as_well_and_has_delays_of_its_own() {
    let mut link = Pipe::new(|config| {
        config.duplicate.share = share(100.0);
        (config.delay.mean, config.delay.jitter) = (span(30), span(5));
    });
    let releases = releases(&link.outcomes(100, span(100)));
    assert_eq!(releases.len(), 200);
    assert!(releases.chunks(2).all(|pair| pair[0] != pair[1]));
    assert_eq!(link.pipe.totals().duplicated, 100);
}

#[test]
fn corruption_turns_one_bit_over() {
    let mut link = Pipe::new(|config| config.corrupt.share = share(100.0));
    link.outcomes(100, Span::from_ns(1));
    let bits = |frame: &Frame| frame.iter().map(|byte| byte.count_ones()).sum::<u32>();
    assert!(link.frames.iter().all(|frame| frame.len() == 127 && bits(frame) == 1));
}

#[test]
fn what_overtakes_is_not_delayed() {
    let mut link = Pipe::new(|config| {
        config.delay = span(30).into();
        config.reorder.share = share(100.0);
        config.reorder.gap = 2;
    });
    assert_eq!(releases(&link.outcomes(4, span(1))), [30, 1, 32, 3].map(|ms| at(ms * MS)));
}

#[test]
fn a_change_holds_from_its_moment() {
    let mut link = Pipe::new(|config| config.transmission = rate(250_000));
    (0..3).for_each(|_| link.send(&FRAME, at(0)));
    let faster = serde_json::from_str::<Keys>("{\"rate\": \"2.5 Mbit/s\"}").unwrap();
    link.pipe.set(&faster, Span::ZERO, at(MS)).unwrap();
    link.turns_until(Instant::NEVER);
    // The first frame is already on the wire; the others take a tenth of the time.
    assert_eq!(
        releases(&link.outcomes),
        [TIME, TIME + TIME / 10, TIME + TIME / 5].map(|time| at(0) + time)
    );
    assert_eq!(link.pipe.record.intervals.len(), 1);
    assert_eq!(link.pipe.record.intervals[0].measured.frames, 3);
}

#[test]
fn a_slot_is_made_for_those_that_gather() {
    let config = Slot { min: span(10), max: span(10), packets: None, bytes: None };
    let link = Pipe::new(|a| a.slot.0 = Some(config));
    assert!(link.pipe.slots.is_some(), "tested in its module and in the segment");
}

#[test]
fn the_same_frames_meet_the_same_fate() {
    let run = || {
        Pipe::new(|config| {
            (config.delay.mean, config.delay.jitter) = (span(30), span(5));
            config.loss = share(5.0).into();
            (config.corrupt.share, config.duplicate.share) = (share(5.0), share(5.0));
            config.delay.correlation = share(25.0);
            let outage = Outage::Random { mean_up: span(500), mean_down: span(50) };
            config.outage = Outages(vec![outage]);
        })
        .outcomes(10_000, Span::from_us(100))
    };
    assert_eq!(run(), run());
}

#[test]
fn serialisers_of_the_first_version_give_the_same_times() {
    let mut serialiser = Serialiser::new(Rate::from_bit_s(250_000).unwrap(), Bytes::new(1600));
    let mut link = Pipe::new(|config| {
        let (rate, burst) = (Rate::from_bit_s(250_000).unwrap(), Bytes::new(1600));
        config.transmission = Scheduler::Rate { rate, burst }.into();
    });
    let want: Vec<_> = (0..50).map(|_| serialiser.send(127, at(0))).collect();
    assert_eq!(releases(&link.outcomes(50, Span::ZERO)), want);
}

#[test]
fn a_replay_decides_again_what_was_decided() {
    let run = |seed: u64, replay: Option<Vec<Recorded>>| {
        let config = Impairment { loss: share(30.0).into(), ..Impairment::default() };
        let mut pipe = LinkPipe::new(config, Draw::new(seed, 1, 0));
        if let Some(replay) = replay {
            pipe.replay(Replay::new(replay));
        }
        let mut decided = Vec::new();
        for i in 0..1000 {
            let mut steps = Vec::new();
            let frame = StampedFrame { frame: FRAME.as_slice().into(), arrived: at(i) };
            pipe.admit(frame, 0, at(i), false, None, &mut steps);
            let made = steps.iter().filter_map(|step| match step {
                Step::Decided(recorded, _) => Some(*recorded),
                _ => None,
            });
            decided.extend(made);
        }
        decided
    };
    let first = run(7, None);
    assert_ne!(run(8, None), first);
    assert_eq!(run(8, Some(first.clone())), first, "whatever the seed");
    let half = run(8, Some(first[..500].to_vec()));
    assert_eq!(half[..500], first[..500]);
    assert_eq!(half[500..], run(8, None)[500..], "beyond the record draws decide");
}
