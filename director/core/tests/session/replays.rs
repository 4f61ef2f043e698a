//! An attacker replays datagrams of members within their epoch.

use crate::bed::*;
use director::carrier::To;
use director::session::{Event, MemberEvent};
use director::{Conditions, Instant, ModelId, Pattern, Span};

/// What failed before: each replayed frame counted as an arrival and as a sign that a member is there, and
/// replayed requests for repairs caused repairs.
#[test]
fn what_an_attacker_replays_changes_nothing() {
    let here = Conditions { rate_bit_s: 250e3, rtt: Span::from_ms(60), ..Conditions::default() };
    let estimated = Conditions { rate_bit_s: 0.0, ..here };
    for model in [ModelId::UdpArq, ModelId::MulticastFec, ModelId::CoapConfirmable] {
        for (pattern, assumed) in [Pattern::PublishCollect, Pattern::PublishSubscribe]
            .into_iter()
            .flat_map(|pattern| [here, estimated].map(|assumed| (pattern, assumed)))
        {
            let run = |recorded| {
                let mut bed = Bed::new(&config(pattern, assumed, &[model]), 5, 0.2, 7);
                bed.recorded = recorded;
                (0..20).for_each(|n| bed.at((5 + 2 * n) * SECOND, What::Send));
                bed.run(60 * SECOND, |_| vec![3; 2_700]);
                let seen = bed.hub.explain();
                (bed.over, bed.bytes, format!("{:?} {:?}", seen.conditions, seen.estimate))
            };
            assert_eq!(run(None), run(Some(Vec::new())), "{model} {pattern:?} {assumed:?}");
        }
    }
}

/// Answers that the hub has are forgotten; of a model without acknowledgements they are kept. Recorded datagrams of the
/// hub bring no second answer, and the application's second one is none.
#[test]
fn a_member_forgets_the_answers_that_the_hub_has() {
    for (model, forgets) in [
        (ModelId::UdpArq, true),
        (ModelId::MulticastFec, true),
        (ModelId::UdpRequestResponse, false),
    ] {
        let here = Conditions { rate_bit_s: 10e6, ..Conditions::default() };
        let config = config(Pattern::PublishCollect, here, &[model]);
        let mut hub = hub(&config, 2, 1);
        let mut members = [member(&config, 2), member(&config, 3)];
        let (mut recorded, mut sent, mut answers) = (Vec::new(), None, 0);
        for ms in 0..4_000 {
            let now = Instant::START + ms * Span::from_ms(1);
            if hub.is_ready() && sent.is_none() {
                sent = Some(hub.send(b"message", now).unwrap());
            }
            while let (Some((to, datagram)), _) = hub.poll(now) {
                for (number, member) in (0..).zip(&mut members) {
                    if to == To::Group || to == To::Member(number) {
                        member.receive(&datagram, now);
                    }
                }
                recorded.push(datagram);
            }
            for (from, member) in (0..).zip(&mut members) {
                for event in member.take_events() {
                    if let MemberEvent::Message { number, .. } = event {
                        member.answer(number, b"answer".to_vec(), now).unwrap();
                    }
                }
                while let (Some(datagram), _) = member.poll(now) {
                    hub.receive(&datagram, Some(from), now);
                }
            }
            let all = hub.take_events();
            answers += all.iter().filter(|event| matches!(event, Event::Answer { .. })).count();
        }
        assert_eq!(answers, 2, "{model}");
        let now = Instant::START + Span::from_ms(4_000);
        for member in &mut members {
            assert_eq!(
                member.answer(sent.unwrap(), b"other".to_vec(), now).is_err(),
                forgets,
                "{model}"
            );
            recorded.iter().for_each(|datagram| member.receive(datagram, now));
            let events = member.take_events();
            assert!(!events.iter().any(|event| matches!(event, MemberEvent::Message { .. })));
        }
    }
}
