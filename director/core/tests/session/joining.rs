//! Joining a session.

use crate::bed::*;
use director::session::{Config, Hub, Security};
use director::{Conditions, ModelId, Pattern, PerformanceMap, Seed, Span};
use std::sync::Arc;

#[test]
fn three_hundred_meters_join_hear_a_price_and_answer() {
    let config = config(Pattern::PublishCollect, constrained(), &[]);
    let mut bed = Bed::new(&config, 300, 0.3, 5);
    bed.at(20 * SECOND, What::Send);
    bed.run(120 * SECOND, |_| (0..1_699).map(|at| at as u8).collect());
    assert!(bed.hub.is_ready(), "{} are absent", bed.hub.absent().count());
    assert_eq!((bed.answers.len(), bed.over.get(&0)), (300, Some(&0)));
    assert!(bed.had.iter().all(|had| had.len() == 1 && had[0].len() == 1_699));
    for ((_, member), answer) in &bed.answers {
        assert!(answer.iter().enumerate().all(|(at, byte)| *byte == at as u8 ^ *member as u8));
    }
    let explanation = bed.hub.explain().to_string();
    assert!(explanation.starts_with("multicast-fec"), "{explanation}");
}

/// Members repeat their hello until they are invited; to invite all members takes seconds.
#[test]
fn who_has_joined_is_not_invited_again() {
    let whole = Conditions { loss: 0.0, ..constrained() };
    for loss in [0.0, 0.3] {
        let mut bed = Bed::new(&config(Pattern::PublishCollect, whole, &[]), 300, loss, 5);
        bed.run(60 * SECOND, |_| Vec::new());
        let invited = bed.invited;
        // Per member until the answer to its hello arrives, and then until both an invitation and
        // the response to it do.
        let needed = 300.0 * (loss / (1.0 - loss) + 1.0 / (1.0 - loss).powi(2));
        assert!(bed.hub.is_ready() && (invited as f64) < 1.2 * needed, "{invited}, {loss}");
        // A restarted member is invited again.
        bed.at(61 * SECOND, What::Restart(7));
        bed.at(62 * SECOND, What::Send);
        bed.run(120 * SECOND, |_| vec![7; 50]);
        assert!(bed.invited > invited && bed.answers.contains_key(&(0, 7)));
    }
}

/// Endpoints of two versions, or with different features, use a common model; additions of a
/// later version to an invitation are ignored (`envelope`).
#[test]
fn ends_that_have_other_models_agree() {
    let config = config(Pattern::PublishCollect, constrained(), &[]);
    let mut bed = Bed::new(&config, 3, 0.1, 5);
    let few = [ModelId::UdpArq, ModelId::UdpRequestResponse].into_iter().collect();
    let older = member(&config, 99).with_models(few);
    bed.members[1] = older;
    bed.at(20 * SECOND, What::Send);
    bed.run(200 * SECOND, |_| vec![3; 500]);
    assert!(bed.hub.is_ready(), "{} are absent", bed.hub.absent().count());
    assert_eq!((bed.answers.len(), bed.over.get(&0)), (3, Some(&0)));
    let first = bed.changes.first().map(|(from, _)| *from);
    assert_eq!(first, Some(ModelId::MulticastFec), "{:?}", bed.changes);
    assert!(bed.hub.explain().to_string().starts_with("udp-"), "{}", bed.hub.explain());
}

#[test]
fn a_session_without_other_stacks_has_none_of_their_models() {
    for (of_hub, of_member) in [(false, false), (true, false), (false, true)] {
        let models = [ModelId::Mqtt, ModelId::UdpRequestResponse];
        let mut config = config(Pattern::PublishCollect, Conditions::default(), &models);
        config.outside.retain(|_| of_hub);
        let mut bed = Bed::new(&config, 2, 0.0, 3);
        let one = member(&config, 99);
        bed.members[1] = if of_member { one.with_outside(&OUTSIDE) } else { one };
        bed.at(SECOND, What::Change(ModelId::Mqtt));
        bed.at(2 * SECOND, What::Send);
        bed.run(30 * SECOND, |_| vec![3; 100]);
        let explanation = bed.hub.explain().to_string();
        assert_eq!((bed.answers.len(), bed.over.get(&0)), (2, Some(&0)), "{explanation}");
        assert!(explanation.starts_with("udp-request-response"), "{explanation}");
    }
}

#[cfg(feature = "quic")]
#[test]
fn a_member_that_starts_anew_in_the_middle_hears_the_rest() {
    let lossy = Conditions {
        loss: 0.1,
        rate_bit_s: 100e3,
        rtt: Span::from_ms(60),
        ..Conditions::default()
    };
    for model in [ModelId::UdpArq, ModelId::MulticastFec, ModelId::QuicStreams] {
        let config = config(Pattern::PublishSubscribe, lossy, &[model]);
        let mut bed = Bed::new(&config, 3, 0.1, 11);
        // Ten seconds per member at this rate; the restart is in the middle.
        bed.at(5 * SECOND, What::Send);
        bed.at(6 * SECOND, What::Restart(1));
        bed.run(400 * SECOND, |_| vec![9; 40_000]);
        assert_eq!(bed.over.get(&0), Some(&0), "{model}");
        assert!(bed.had.iter().all(|had| had.len() == 1), "{model}");
    }
}

#[test]
fn without_the_key_no_member_joins_and_deadlines_expire() {
    let mut config = config(Pattern::RequestResponse, Conditions::default(), &[]);
    config.targets.deadline = Some(Span::from_s(2));
    let mut bed = Bed::new(&config, 1, 0.0, 1);
    let stranger = Config::new(
        Pattern::RequestResponse,
        Security::Key(b"another key, of a stranger".to_vec()),
    );
    bed.members[0] = member(&stranger, 9);
    bed.at(SECOND, What::Send);
    bed.run(10 * SECOND, |_| vec![1; 10]);
    assert!(!bed.hub.is_ready() && bed.had[0].is_empty());
    assert_eq!(bed.over.get(&0), Some(&1));
}

#[test]
fn a_hub_that_starts_anew_is_heard() {
    for seed in [9, 10] {
        let config = config(Pattern::PublishCollect, Conditions::default(), &[]);
        let mut bed = Bed::new(&config, 3, 0.0, 5);
        bed.at(SECOND, What::Send);
        bed.run(2 * SECOND, |_| vec![1; 50]);
        assert_eq!(bed.answers.len(), 3);
        bed.hub = hub(&config, 3, seed);
        bed.answers.clear();
        bed.wakes.clear();
        bed.wake(None, 2 * SECOND);
        (0..3).for_each(|n| bed.wake(Some(n), 2 * SECOND));
        bed.at(3 * SECOND, What::Send);
        bed.run(9 * SECOND, |_| vec![2; 50]);
        assert_eq!(bed.answers.len(), 3, "seed {seed}");
    }
}

#[test]
fn what_cannot_be_is_said() {
    let map = || Arc::new(PerformanceMap::new());
    let short = Config::new(Pattern::RequestResponse, Security::Key(b"short".to_vec()));
    let error_of =
        |config: Config, members| match Hub::new(config, map(), members, &Seed::reproducible(1)) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
    assert!(error_of(short, 1).contains("5 bytes is too short"));
    let mut config = config(Pattern::RequestResponse, Conditions::default(), &[]);
    assert!(error_of(config.clone(), 0).contains("not 0"));
    config.properties.multicast = director::Preference::Require;
    let why = error_of(config, 1);
    assert!(
        why.contains("udp-arq: multicast") && why.contains("does not serve the pattern"),
        "{why}"
    );
}

/// What joining costs on the papers' constrained network: bytes on the wire and time.
#[test]
fn joining_costs_few_bytes() {
    for (members, loss, most_bytes, most_seconds) in [
        (1, 0.0, 500, 1.0),
        (1, 0.3, 1_500, 10.0),
        (300, 0.0, 220_000, 10.0),
        (300, 0.3, 450_000, 30.0),
    ] {
        let (mut bytes, mut seconds, seeds) = (0, 0.0, 10);
        for seed in 1..=seeds {
            let here = Conditions { loss, ..constrained() };
            let config = config(Pattern::PublishCollect, here, &[]);
            let mut bed = Bed::new(&config, members, loss, seed);
            let ready = (1..2_000).find(|tenth| {
                bed.run(tenth * SECOND / 10, |_| Vec::new());
                bed.hub.is_ready()
            });
            seconds += ready.expect("all join") as f64 / 10.0;
            bytes += bed.bytes;
        }
        let (bytes, seconds) = (bytes / seeds, seconds / seeds as f64);
        println!("{members} members, loss {loss}: {bytes} B, {seconds:.1} s");
        assert!(
            bytes < most_bytes && seconds < most_seconds,
            "{members} {loss}: {bytes} {seconds}"
        );
    }
}

/// A price to 300 meters and their answers on the constrained network, after all have joined: bytes
/// on the wire against the bound of 1,148,000 (`docs/results/adaptive.md`).
#[test]
fn a_price_costs_little_more_than_it_must() {
    for seed in [1, 3] {
        let config = config(Pattern::PublishCollect, constrained(), &[]);
        let mut bed = Bed::new(&config, 300, 0.3, seed);
        bed.run(60 * SECOND, |_| Vec::new());
        assert!(bed.hub.is_ready());
        let before = bed.bytes;
        bed.at(60 * SECOND + 1, What::Send);
        bed.run(180 * SECOND, |_| vec![7; 1_699]);
        let (bytes, took) = (bed.bytes - before, bed.took[&0] / 1_000_000);
        println!("{bytes} B, {took} ms");
        assert_eq!(bed.answers.len(), 300);
        assert!(bytes < 1_400_000 && took < 50_000, "{bytes} B, {took} ms");
    }
}
