//! Messages to some members reach the applications of these members only.

use crate::bed::*;
use director::{Conditions, ModelId, Pattern, Span};

/// What failed before: by multicast, the others' applications got them too.
#[test]
fn no_other_application_gets_a_message_to_chosen_members() {
    let quiet = Conditions { rate_bit_s: 2e6, rtt: Span::from_ms(60), ..Conditions::default() };
    for model in director::carrier::available().into_iter().chain(OUTSIDE) {
        for pattern in [Pattern::PublishSubscribe, Pattern::PublishCollect] {
            if !model.features().patterns.contains(&pattern) {
                continue;
            }
            for chosen in 1..=3 {
                // Without loss, because some models do not repeat messages.
                let mut bed = Bed::new(&config(pattern, quiet, &[model]), 4, 0.0, 3);
                bed.at(SECOND, What::Reach(chosen));
                (0..10).for_each(|n| bed.at(2 * SECOND + n * SECOND / 10, What::Send));
                // To all again: those that were not chosen take part.
                bed.at(20 * SECOND, What::Reach(4));
                bed.at(21 * SECOND, What::Send);
                bed.run(60 * SECOND, |n| vec![n as u8; 400]);
                let had: Vec<usize> = bed.had.iter().map(Vec::len).collect();
                let expected: Vec<usize> =
                    (0..4).map(|at| if at < chosen { 11 } else { 1 }).collect();
                assert_eq!(had, expected, "{model} {pattern:?}");
                assert_eq!(bed.over.len(), 11, "{model} {pattern:?}");
                assert!(bed.over.values().all(|lacking| *lacking == 0), "{model} {pattern:?}");
            }
        }
    }
}

/// A model that fails hands its messages over to another one: they stay for the chosen members.
#[test]
fn the_choice_survives_a_change_of_the_model() {
    let slow = Conditions { rate_bit_s: 100e3, rtt: Span::from_ms(60), ..Conditions::default() };
    let models = [ModelId::MulticastFec, ModelId::UdpArq];
    for to in models {
        let mut bed = Bed::new(&config(Pattern::PublishCollect, slow, &models), 4, 0.2, 7);
        bed.at(SECOND, What::Reach(2));
        (0..20).for_each(|n| bed.at(2 * SECOND + n, What::Send));
        bed.at(2 * SECOND + SECOND / 10, What::Change(to));
        bed.run(120 * SECOND, |n| vec![n as u8; 400]);
        let had: Vec<usize> = bed.had.iter().map(Vec::len).collect();
        assert_eq!(had, [20, 20, 0, 0], "{to}");
    }
}
