use super::*;
use link::{Delay, Distribution, Keys, Totals};
use units::{Draw, Purpose, Span};

fn set(configured: &mut Impairment, key: &str, value: &str) {
    let mut change = Keys::default();
    change.insert(key, &value);
    *configured = configured.with(&change).unwrap();
}

fn row(change: impl FnOnce(&mut Impairment, &mut Totals)) -> LinkRow {
    let (mut configured, mut measured) = (Impairment::default(), Totals::default());
    (measured.frames, measured.passed, measured.bytes) = (10_000, 10_000, 1_000_000);
    change(&mut configured, &mut measured);
    measured.passed -= measured.lost;
    LinkRow {
        node: "a".into(),
        interface: "eth0".into(),
        network: "field".into(),
        direction: "up",
        start_s: 0.0,
        end_s: 1.0,
        configured: Arc::new(configured),
        changing: false,
        measured,
        by_netem: false,
        sends_again: false,
    }
}

/// The deviating quantity of a run with only this row.
fn off(row: &LinkRow) -> Option<&'static str> {
    let deviation = Tolerances::of(std::slice::from_ref(row)).deviation(row)?;
    Some(deviation.quantity)
}

#[test]
fn a_delay_is_compared_by_its_mean_and_lateness() {
    let with = |ns: u64, late: u64| {
        row(|configured, measured| {
            configured.delay.mean = "30 ms".parse().unwrap();
            measured.delay_sum = Span::from_ns(10_000 * ns);
            (measured.released, measured.late_sum) = (10_000, Span::from_ns(10_000 * late));
        })
    };
    assert_eq!(off(&with(30_000_000, 1_000_000)), None);
    assert_eq!(off(&with(30_000_000, 2_000_000)), Some("delay"));
}

#[test]
fn of_few_frames_one_may_be_as_late_as_the_verdict_lets_one_be() {
    let with = |frames: u64, delay_ms: f64, late_ms: f64| {
        row(|configured, measured| {
            configured.delay.mean = "10 ms".parse().unwrap();
            (measured.frames, measured.passed, measured.released) = (frames, frames, frames);
            measured.delay_sum = Span::from_ns((frames as f64 * delay_ms * 1e6) as u64);
            measured.late_sum = Span::from_ns((late_ms * 1e6) as u64);
        })
    };
    assert_eq!(off(&with(4, 10.0, 9.0)), None, "one frame by 9 ms");
    for late_us in (3_000..9_900).step_by(7) {
        assert_eq!(off(&with(6, 10.0, f64::from(late_us) / 1e3)), None, "{late_us} us");
    }
    assert!(off(&with(4, 10.0, 12.0)).is_some(), "by more than the delay, or two of them");
    assert!(off(&with(40, 10.0, 24.0)).is_some(), "many are not one");
    assert!(off(&with(4, 12.0, 0.0)).is_some(), "a decided delay is no lateness");
}

#[test]
fn a_loss_may_differ_by_what_chance_allows() {
    let lost = |lost: u64| {
        row(|configured, measured| {
            configured.loss = "30 %".parse::<units::Ratio>().unwrap().into();
            measured.lost = lost;
        })
    };
    // A standard deviation is 45.8 frames of 10,000; the limit is at 3.5 of them.
    assert_eq!((off(&lost(3_000)), off(&lost(3_150))), (None, None));
    assert_eq!((off(&lost(3_180)), off(&lost(2_820))), (Some("loss"), Some("loss")));
}

#[test]
fn the_more_is_compared_the_further_one_may_be_off() {
    let lost = |lost: u64| {
        row(|configured, measured| {
            configured.loss = "30 %".parse::<units::Ratio>().unwrap().into();
            measured.lost = lost;
        })
    };
    let mut all = vec![lost(3_000); 10_000];
    all.push(lost(3_180));
    let tolerances = Tolerances::of(&all);
    assert!(all.iter().all(|row| tolerances.deviation(row).is_none()));
    all.push(lost(3_300));
    assert!(Tolerances::of(&all).deviation(&all[10_001]).is_some());
}

#[test]
fn bursts_and_trains_may_vary_more() {
    let tolerance = |change: &dyn Fn(&mut Impairment)| {
        let row = row(|configured, _| {
            configured.loss = "10 %".parse::<units::Ratio>().unwrap().into();
            change(configured);
        });
        Tolerances::of(std::slice::from_ref(&row)).loss_pct(&row)
    };
    let alone = tolerance(&|_| ());
    assert!(tolerance(&|a| set(a, "loss_correlation", "50 %")) > 1.5 * alone);
    assert!(tolerance(&|a| set(a, "loss_unit", "train")) > 10.0 * alone);
}

#[test]
fn a_rate_is_compared_by_the_time_it_took() {
    let took = |ns: u64| {
        row(|configured, measured| {
            configured.transmission = units::Rate::from_bit_s(1_000_000).unwrap().into();
            (measured.wire_bytes, measured.busy) = (1_000_000, Span::from_ns(ns));
        })
    };
    assert_eq!((off(&took(8_000_000_000)), off(&took(8_000_010_000))), (None, None));
    assert_eq!(off(&took(8_080_000_000)), Some("rate"));
}

#[test]
fn netem_is_compared_by_the_loss_that_it_counts_and_by_no_delay() {
    let with = |lost: u64, duplicate: &str| {
        let mut row = row(|configured, measured| {
            configured.delay.mean = "30 ms".parse().unwrap();
            configured.loss = "30 %".parse::<units::Ratio>().unwrap().into();
            configured.duplicate.share = duplicate.parse().unwrap();
            measured.lost = lost;
        });
        row.by_netem = true;
        row
    };
    let row = with(3_000, "0 %");
    assert_eq!((row.delay_measured_ms(), off(&row)), (30.0, None));
    assert_eq!(off(&with(3_500, "0 %")), Some("loss"));
    assert_eq!(off(&with(3_500, "5 %")), None);
    let mut rated = with(3_500, "0 %");
    Arc::make_mut(&mut rated.configured).transmission =
        units::Rate::from_bit_s(1_000_000).unwrap().into();
    assert_eq!(off(&rated), None, "drops of a full queue may be among them");
}

#[test]
fn changing_links_and_channels_that_send_again_are_not_compared() {
    let mut row = row(|configured, measured| {
        configured.loss = "30 %".parse::<units::Ratio>().unwrap().into();
        measured.lost = 0;
    });
    assert_eq!(off(&row), Some("loss"));
    row.sends_again = true;
    assert_eq!(off(&row), None);
    (row.sends_again, row.changing) = (false, true);
    assert_eq!(off(&row), None);
}

#[test]
fn many_intervals_of_a_frame_each_are_compared_together() {
    let one = |lost: u64| {
        row(|configured, measured| {
            configured.loss = "2 %".parse::<units::Ratio>().unwrap().into();
            (measured.frames, measured.passed, measured.lost) = (1, 1, lost);
        })
    };
    // 60 of 1,000 at 2 %: no single interval shows it.
    let rows: Vec<_> = (0..1_000).map(|i| one(u64::from(i % 50 < 3))).collect();
    let tolerances = Tolerances::of(&rows);
    assert!(rows.iter().all(|row| tolerances.deviation(row).is_none()));
    let found = tolerances.group_deviations(&rows);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].quantity, found[0].measured), ("loss", 6.0));
    assert!(found[0].link.contains("all links of field"), "{}", found[0].link);
}

/// The intervals of a valid run: `nodes` links in both directions, `intervals` intervals with these
/// numbers of frames, drawn from the models themselves.
fn sound(
    seed: u64,
    nodes: u64,
    intervals: u64,
    frames: u64,
    configured: &Arc<Impairment>,
) -> Vec<LinkRow> {
    let mut rows = Vec::new();
    for link in 0..nodes {
        for (number, direction) in ["up", "down"].into_iter().enumerate() {
            let draw = Draw::new(seed, link, number as u64);
            let share = configured.mean_loss();
            let mut index = 0;
            for interval in 0..intervals {
                let mut measured = Totals { frames, bytes: 100 * frames, ..Totals::default() };
                for _ in 0..frames {
                    measured.lost += u64::from(draw.uniform(Purpose::Loss, index) < share);
                    let jitters = match configured.delay.jitter.as_ns() {
                        0 => 0.0,
                        _ => configured
                            .delay
                            .distribution
                            .quantile(draw.uniform(Purpose::Jitter, index)),
                    };
                    let jitter = (jitters * configured.delay.jitter.as_ns() as f64) as i64;
                    let delay = configured.delay.mean.as_ns().saturating_add_signed(jitter);
                    measured.delay_sum += Span::from_ns(delay);
                    index += 1;
                }
                // A lost frame has no delay.
                measured.passed = frames - measured.lost;
                measured.delay_sum = measured.delay_sum / frames * measured.passed;
                rows.push(LinkRow {
                    node: format!("n{link}"),
                    direction,
                    start_s: interval as f64,
                    configured: configured.clone(),
                    measured,
                    ..row(|_, _| ())
                });
            }
        }
    }
    rows
}

/// Number of valid runs among 1,000 that are reported.
fn flagged(nodes: u64, intervals: u64, frames: u64, loss: &str) -> usize {
    let mut configured =
        Impairment { loss: loss.parse::<units::Ratio>().unwrap().into(), ..Impairment::default() };
    configured.delay.mean = "20 ms".parse().unwrap();
    let configured = Arc::new(configured);
    let is_flagged = |seed: &u64| {
        let rows = sound(*seed, nodes, intervals, frames, &configured);
        let tolerances = Tolerances::of(&rows);
        rows.iter().any(|row| tolerances.deviation(row).is_some())
            || !tolerances.group_deviations(&rows).is_empty()
    };
    (0..1_000u64).filter(is_flagged).count()
}

/// The nominal rate is one in a thousand; ten would be wrong with a probability of 10^-7.
const MOST: usize = 10;

#[test]
fn of_a_thousand_sound_runs_at_most_ten_are_flagged() {
    for loss in ["0 %", "0.1 %", "2 %", "10 %", "30 %"] {
        for (nodes, intervals, frames) in [(2, 6, 100), (30, 3, 20), (300, 1, 4), (1_000, 1, 1)] {
            let found = flagged(nodes, intervals, frames, loss);
            assert!(found <= MOST, "{found} of 1,000 with {nodes} nodes and a loss of {loss}");
        }
    }
}

#[test]
fn jitter_of_any_shape_is_no_deviation() {
    for shape in [Distribution::Uniform, Distribution::Normal, Distribution::Pareto] {
        for frames in [1, 5, 300] {
            let configured = Arc::new(Impairment {
                delay: Delay {
                    mean: "30 ms".parse().unwrap(),
                    jitter: "5 ms".parse().unwrap(),
                    distribution: shape.clone(),
                    ..Delay::default()
                },
                ..Impairment::default()
            });
            let flagged = (0..200u64).filter(|seed| {
                let rows = sound(*seed, 30, 1, frames, &configured);
                let tolerances = Tolerances::of(&rows);
                rows.iter().any(|row| tolerances.deviation(row).is_some())
            });
            assert!(flagged.count() <= 2, "{shape:?}, {frames} frames");
        }
    }
}
