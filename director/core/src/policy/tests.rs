//! Tests of model selection.

use super::*;
use crate::map::Point;
use crate::map::tests::figures;

/// UDP is fast and loses messages, ARQ is slower and does not; the best one depends on the
/// requirements and the loss.
fn map() -> PerformanceMap {
    let mut map = PerformanceMap::new();
    for (loss, udp, arq) in [(0.0, (1.0, 1.0), 4.0), (0.3, (1.0, 0.7), 3.0)] {
        let at =
            Conditions { loss, rtt: Span::from_ms(1), rate_bit_s: 100e6, ..Conditions::default() };
        let point = |ms, delivery, bytes| Point { at, figures: figures(ms, delivery, bytes) };
        map.add(ModelId::UdpRequestResponse, point(udp.0, udp.1, 100.0));
        map.add(ModelId::UdpArq, point(arq, 1.0, 150.0));
        map.add(ModelId::Mqtt, point(20.0, 1.0, 400.0));
    }
    map
}

fn policy(targets: QosTargets) -> Policy {
    let all = [ModelId::UdpRequestResponse, ModelId::UdpArq];
    let asked = TransportProperties::default();
    let start = ModelId::UdpRequestResponse;
    Policy::new(Pattern::RequestResponse, asked, targets, &all, start, Settings::default())
}

fn at(loss: f64) -> Conditions {
    Conditions { loss, rtt: Span::from_ms(1), rate_bit_s: 100e6, ..Conditions::default() }
}

/// The time `s` seconds after the start.
fn second(s: u64) -> Instant {
    Instant::START + Span::from_s(s)
}

#[test]
fn it_changes_for_a_gain_that_lasts_and_not_back_at_once() {
    let targets = QosTargets { delivery_ratio: Some(0.999), ..Default::default() };
    let (map, mut policy) = (map(), policy(targets));
    assert_eq!(policy.decide(second(1), &at(0.0), &map, false).reason, Reason::Best);
    let whys: Vec<Reason> = (10..13)
        .map(|second| policy.decide(self::second(second), &at(0.3), &map, false).reason)
        .collect();
    assert_eq!(whys, [Reason::NotSustained, Reason::NotSustained, Reason::Gain]);
    assert_eq!(policy.current(), ModelId::UdpArq);
    let back: Vec<Reason> = (13..20)
        .map(|second| policy.decide(self::second(second), &at(0.0), &map, false).reason)
        .collect();
    assert_eq!(
        back[..4],
        [Reason::NotSustained, Reason::NotSustained, Reason::Dwelling, Reason::Dwelling]
    );
    assert_eq!(back[4], Reason::Gain);
}

#[test]
fn while_little_is_known_what_sends_again_is_worth_its_price() {
    // A loss is detected after 3 x 1 ms, two round trips and 100 ms.
    let (map, mut policy) = (map(), policy(QosTargets::default()));
    policy.may_lose(0.1);
    assert_eq!(policy.begin(&at(0.0), &map), ModelId::UdpArq);
    policy.may_lose(0.0);
    assert_eq!(policy.begin(&at(0.0), &map), ModelId::UdpRequestResponse);
    // Without a reliability requirement there is no surcharge.
    policy.properties.reliability = Preference::Avoid;
    policy.may_lose(0.1);
    policy.at = None;
    assert_eq!(policy.begin(&at(0.0), &map), ModelId::UdpRequestResponse);
}

/// UDP would be the faster one here; it gives no measurement of an unknown path.
#[test]
fn an_unknown_path_is_measured_unless_no_such_model_works_or_reliability_is_avoided() {
    let (map, mut policy) = (map(), policy(QosTargets::default()));
    assert_eq!(policy.begin(&at(0.0), &map), ModelId::UdpRequestResponse);
    policy.needs_measuring(true);
    assert_eq!(policy.begin(&at(0.0), &map), ModelId::UdpArq);
    let stays = policy.decide(second(1), &at(0.0), &map, true);
    assert_eq!((stays.choice, stays.all.len()), (Choice::Stay, 1));
    // A member that has nothing else.
    policy.set_member_models([ModelId::UdpRequestResponse].into_iter().collect());
    let changes = policy.decide(second(2), &at(0.0), &map, true);
    assert_eq!(changes.choice, Choice::Change(ModelId::UdpRequestResponse));
    policy.set_member_models(Models::ALL);
    policy.properties.reliability = Preference::Avoid;
    let stays = policy.decide(second(3), &at(0.0), &map, true);
    assert_eq!((stays.choice, stays.all.len()), (Choice::Stay, 2));
}

#[test]
fn it_changes_at_once_when_the_model_fails() {
    let targets = QosTargets { delivery_ratio: Some(0.999), ..Default::default() };
    let (map, mut policy) = (map(), policy(targets));
    let decision = policy.decide(second(1), &at(0.3), &map, true);
    assert_eq!(decision.choice, Choice::Change(ModelId::UdpArq));
    assert!(decision.to_string().contains("urgent change to udp-arq"), "{decision}");
}

#[test]
fn small_gains_change_nothing() {
    let (map, mut policy) = (map(), policy(QosTargets::default()));
    // Losses are acceptable.
    policy.properties.reliability = Preference::Avoid;
    policy.current = ModelId::UdpArq;
    for second in 1..50 {
        let decision = policy.decide(self::second(second), &at(0.28), &map, false);
        assert_ne!(decision.reason, Reason::Urgent);
        if second > 3 {
            // Half the delay at 70 % delivery is a gain.
            assert_eq!(policy.current(), ModelId::UdpRequestResponse, "{decision}");
        }
        if second < 3 {
            assert_eq!(policy.current(), ModelId::UdpArq, "nothing was observed yet: {decision}");
        }
        policy.record_delay(6.7);
    }
    let mut near = self::policy(QosTargets::default());
    near.settings.gain = 0.9;
    near.current = ModelId::UdpArq;
    assert_eq!(near.decide(second(1), &at(0.0), &map, false).reason, Reason::SmallGain);
}

#[test]
fn what_would_fill_the_network_is_the_last_choice() {
    let (map, mut policy) = (map(), policy(QosTargets::default()));
    // 100 B per message are 80 % of the rate, 150 B are too much.
    let here = Conditions { rate_bit_s: 1_000.0, messages_s: 1.0, ..at(0.0) };
    let mut reaching = PerformanceMap::new();
    for model in map.models() {
        let (figures, _) = map.predict(model, &map.near(&at(0.0))).unwrap();
        reaching.add(model, Point { at: here, figures });
    }
    let decision = policy.decide(second(1), &here, &reaching, false);
    assert_eq!(decision.best, Some(ModelId::UdpRequestResponse));
    let fuller = Conditions { messages_s: 1.2, ..here };
    let decision = policy.decide(second(1), &fuller, &reaching, false);
    // Nothing has room: the best of all, however much it costs.
    assert_eq!(decision.best, Some(ModelId::UdpRequestResponse));
    let [before, after] = [&here, &fuller].map(|at| {
        let costs = policy.decide(second(1), at, &reaching, false).all;
        costs.first().unwrap().1
    });
    assert!(after > 10.0 * before, "{before} {after}");
    // A slower model that has room.
    let (mut figures, _) = map.predict(ModelId::UdpArq, &map.near(&at(0.0))).unwrap();
    figures.bytes = 50.0;
    figures.delay_ms = figures.delay_ms.last_of(4.0);
    reaching.add(ModelId::UdpArq, Point { at: fuller, figures });
    // Forces new predictions.
    policy.fragments_vanish(false);
    let decision = policy.decide(second(1), &fuller, &reaching, false);
    assert_eq!(decision.best, Some(ModelId::UdpArq), "{decision}");
}

#[test]
fn what_is_seen_corrects_what_the_map_says_of_all() {
    let (map, mut policy) = (map(), policy(QosTargets::default()));
    policy.decide(second(1), &at(0.0), &map, false);
    let before = policy.expected_ms().unwrap();
    // The network is slower than in the map: no reason to change the model.
    let (figures, _) = map.predict(policy.current(), &map.near(&at(0.0))).unwrap();
    (0..200).for_each(|_| policy.record_delay(3.0 * figures.delay_ms.p50));
    let expected = policy.expected_ms().unwrap();
    assert!((expected / before - 3.0).abs() < 0.2, "{before} {expected}");
    assert_eq!(policy.decide(self::second(2), &at(0.0), &map, true).reason, Reason::Best);
    // A failure of the model is a reason, until it has decayed.
    (0..2).for_each(|_| policy.record_failure(true));
    let decision = policy.decide(self::second(3), &at(0.0), &map, true);
    assert_eq!(decision.choice, Choice::Change(ModelId::UdpArq), "{decision}");
    let later = policy.decide(self::second(900), &at(0.0), &map, true);
    assert_eq!(later.choice, Choice::Change(ModelId::UdpRequestResponse), "{later}");
}

#[test]
fn a_model_whose_messages_end_in_time_does_not_overload_the_path() {
    // The estimated rate is far below what the messages need.
    let here = Conditions { rate_bit_s: 2e3, messages_s: 5.0, ..at(0.0) };
    let cost = |delay_ms: f64| {
        let (map, mut policy) = (map(), policy(QosTargets::default()));
        let before = policy.decide(second(1), &here, &map, false).costs.0.unwrap();
        (0..4).for_each(|_| policy.record_delay(delay_ms));
        policy.decide(second(2), &here, &map, false).costs.0.unwrap() / before
    };
    assert!(cost(50.0) < 0.1, "{}", cost(50.0));
    assert!(cost(1_000.0) > 0.5, "{}", cost(1_000.0));
}

#[test]
fn who_is_alone_is_as_fast_as_usual() {
    let (map, mut policy) = (map(), policy(QosTargets::default()));
    let before = policy.decide(second(1), &at(0.0), &map, false).all;
    let (figures, _) = map.predict(policy.current(), &map.near(&at(0.0))).unwrap();
    assert!(figures.delay_ms.p99 > 2.0 * figures.delay_ms.p50);
    (0..200).for_each(|_| policy.record_delay(figures.delay_ms.p50));
    let after = policy.decide(self::second(2), &at(0.0), &map, false).all;
    let close = |(a, b): (&(_, f64), &(_, f64))| (a.1 / b.1 - 1.0).abs() < 1e-6;
    assert!(before.iter().zip(&after).all(close), "{before:?} {after:?}");
}

#[test]
fn an_unmeasured_model_is_no_better_than_a_similar_one() {
    let all = PerformanceMap::shipped().to_json();
    let mut all: serde_json::Value = serde_json::from_str(&all).unwrap();
    let points = all["points"].as_object_mut().unwrap();
    points.retain(|name, _| !name.starts_with("quic"));
    let map = PerformanceMap::from_json(&all.to_string()).unwrap();
    for loss in [0.0, 0.1, 0.3] {
        for (rate_bit_s, payload) in [(250e3, 100.0), (2e6, 700.0), (100e6, 1_300.0)] {
            let here = Conditions { rate_bit_s, payload, rtt: Span::from_ms(20), ..at(loss) };
            let pairs = [
                [ModelId::UdpArq, ModelId::QuicStreams],
                [ModelId::UdpRequestResponse, ModelId::QuicDatagrams],
                [ModelId::UdpArq, ModelId::TcpRouterDealer],
                [ModelId::UdpArq, ModelId::Mqtt],
            ];
            for pair in pairs {
                let (targets, settings) = (QosTargets::default(), Settings::default());
                let asked = TransportProperties::default();
                let one = Pattern::RequestResponse;
                let mut policy = Policy::new(one, asked, targets, &pair, pair[1], settings);
                assert_eq!(policy.begin(&here, &map), pair[0], "{here:?}");
            }
        }
    }
}

#[test]
fn a_decision_looks_at_the_map_only_when_the_session_has_moved() {
    let (map, mut policy) = (map(), policy(QosTargets::default()));
    policy.decide(second(1), &at(0.1), &map, false);
    let asked = policy.at;
    policy.decide(second(1), &at(0.101), &map, false);
    assert_eq!(policy.at, asked);
    policy.decide(second(1), &at(0.2), &map, false);
    assert_ne!(policy.at, asked);
}

/// What failed before: members that lose far more than the others did not count at all, so a model that
/// serves them badly was kept for the others.
#[test]
fn members_that_lose_far_more_count_by_their_number() {
    let mut map = PerformanceMap::new();
    for (loss, arq, fec) in [(0.0, 4.0, 5.0), (0.5, 60.0, 20.0)] {
        let at = Conditions { group: 10.0, ..at(loss) };
        let point = |ms| Point { at, figures: figures(ms, 1.0, 100.0) };
        map.add(ModelId::UdpArq, point(arq));
        map.add(ModelId::MulticastFec, point(fec));
    }
    let all = [ModelId::UdpArq, ModelId::MulticastFec];
    let (targets, asked) = (QosTargets::default(), TransportProperties::default());
    let best = |bad: Option<Bad>| {
        let mut policy =
            Policy::new(Pattern::PublishCollect, asked, targets, &all, all[0], Settings::default());
        policy.set_bad(bad);
        let here = Conditions { group: 10.0, ..at(0.0) };
        policy.decide(second(1), &here, &map, false).best
    };
    let bad = |share| Some(Bad { share, loss: [0.5, 0.0], farther: Span::ZERO });
    assert_eq!(best(None), Some(ModelId::UdpArq));
    assert_eq!(best(bad(0.2)), Some(ModelId::MulticastFec));
    assert_eq!(best(bad(0.001)), Some(ModelId::UdpArq), "hardly any");
}

/// In overload each model misses deadlines: the director changed all the time.
#[test]
fn a_model_that_is_too_late_as_well_is_no_better() {
    let mut policy = policy(QosTargets::default()).with_lifetime(Some(Span::from_ms(100)));
    let mut judge = |cost, own| policy.judge(second(1), ModelId::UdpArq, cost, own, true);
    assert_eq!(judge(300.0, Some(500.0)), Reason::SmallGain);
    assert_eq!(judge(240.0, Some(500.0)), Reason::Urgent, "it carries twice as much");
    assert_eq!(judge(99.0, Some(110.0)), Reason::Urgent, "it is in time");
    assert_eq!(judge(300.0, None), Reason::Urgent, "the model in use works no more");
    // What failed before: a member that was cut off made the session change to a model that was hardly
    // better, and back.
    assert_eq!(judge(80.0, Some(90.0)), Reason::SmallGain, "both are in time");
}

/// `multicast-fec` and `udp-arq`, which takes `share` of the former's time.
fn wide(share: f64) -> (PerformanceMap, Policy) {
    let mut map = PerformanceMap::new();
    let at = at(0.0);
    for (model, ms) in [(WIDE, 100.0), (ModelId::UdpArq, 100.0 * share)] {
        map.add(model, Point { at, figures: figures(ms, 1.0, 100.0) });
    }
    let all = [ModelId::UdpArq, WIDE];
    let (asked, targets) = (TransportProperties::default(), QosTargets::default());
    let pattern = Pattern::PublishCollect;
    (map, Policy::new(pattern, asked, targets, &all, all[0], Settings::default()))
}

/// What failed before: sessions that know nothing left `multicast-fec` within some messages for predictions
/// from these, and came back a minute later.
#[test]
fn what_measures_begins_with_the_model_that_fits_most_networks() {
    for (share, measures, first) in [
        (0.7, true, WIDE),
        (0.7, false, ModelId::UdpArq),
        (0.3, true, WIDE),
        (0.15, true, ModelId::UdpArq),
        (1.2, false, WIDE),
    ] {
        let (map, mut policy) = wide(share);
        policy.needs_measuring(measures);
        assert_eq!(policy.begin(&at(0.0), &map), first, "{share} {measures}");
    }
    for (share, reason) in [(0.3, Reason::SmallGain), (0.15, Reason::Gain)] {
        let (map, mut policy) = wide(share);
        policy.needs_measuring(true);
        policy.set_current(WIDE, Instant::START);
        let last = (10..13).map(|s| policy.decide(second(s), &at(0.0), &map, false).reason).last();
        assert_eq!(last, Some(reason), "{share}");
    }
    // That messages are too late under one model and in time under the other is a prediction too.
    for (measures, reason) in [(true, Reason::SmallGain), (false, Reason::Urgent)] {
        let (_, policy) = wide(0.3);
        let mut policy = policy.with_lifetime(Some(Span::from_ms(100)));
        policy.needs_measuring(measures);
        policy.set_current(WIDE, Instant::START);
        assert_eq!(policy.judge(second(1), ModelId::UdpArq, 99.0, Some(110.0), true), reason);
    }
}

/// Without multicast, `multicast-fec` is predicted as `udp-arq`, and stays.
#[test]
fn what_can_send_to_each_stays_without_multicast() {
    let (map, mut policy) = wide(1.2);
    policy.begin(&at(0.0), &map);
    policy.multicast(false);
    let decision = policy.decide(second(10), &at(0.0), &map, true);
    assert_eq!((policy.current(), decision.all[0].1), (WIDE, decision.all[1].1), "{decision}");
}
