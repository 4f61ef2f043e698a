//! Very many messages in flight, and very many changes of the model, in whole sessions.

use crate::bed::*;
use director::{Conditions, ModelId, Pattern, Span};

fn here(loss: f64) -> Conditions {
    Conditions { loss, rate_bit_s: 10e6, rtt: Span::from_ms(60), ..Conditions::default() }
}

/// Models that repeat a message until it arrives; CoAP gives up after four times (RFC 7252, 4.2).
fn reliable() -> Vec<ModelId> {
    let models = [ModelId::UdpArq, ModelId::MulticastFec, ModelId::QuicStreams];
    let available = director::carrier::available();
    models.into_iter().filter(|model| available.contains(model)).collect()
}

/// Each member has each of `count` messages once, and for the hub each has ended with all answers.
fn assert_all_ended(bed: &Bed, count: u64, case: &str) {
    for had in &bed.had {
        let number = |bytes: &Vec<u8>| u64::from_be_bytes(bytes[..8].try_into().unwrap());
        let mut numbers: Vec<u64> = had.iter().map(number).collect();
        numbers.sort_unstable();
        assert!(numbers.iter().copied().eq(0..count), "{case}: {} of {count}", numbers.len());
    }
    assert_eq!(bed.over.len() as u64, count, "{case}");
    assert!(bed.over.values().all(|lacking| *lacking == 0), "{case}: {:?}", bed.over);
    assert_eq!(bed.hub.open_messages(), 0, "{case}");
}

/// What failed before: of more than 64 messages in flight, some that were delivered were reported as
/// lost, and others never ended.
#[test]
fn hundreds_of_messages_in_flight_end_as_they_arrived() {
    for model in reliable() {
        let mut bed = Bed::new(&config(Pattern::PublishCollect, here(0.2), &[model]), 3, 0.2, 5);
        (0..600).for_each(|_| bed.at(5 * SECOND, What::Send));
        bed.run(5 * SECOND + 1, |n| n.to_be_bytes().to_vec());
        assert_eq!(bed.hub.open_messages(), 600, "{model}");
        bed.run(600 * SECOND, |_| vec![]);
        assert_all_ended(&bed, 600, &format!("{model}"));
    }
}

/// A session that changes its model again as soon as it can, over a path that loses 30 %, with a message
/// every 50 ms.
fn changes_in_a_row(changes: usize) {
    let models = reliable();
    let mut bed = Bed::new(&config(Pattern::PublishCollect, here(0.3), &models), 2, 0.3, 7);
    let (mut now, mut requested, mut count) = (5 * SECOND, 0, 0_u64);
    bed.run(now, |_| vec![]);
    while bed.changes.len() < changes {
        now += SECOND / 20;
        if bed.changes.len() >= requested {
            requested = bed.changes.len() + 1;
            let at = models.iter().position(|model| *model == bed.hub.explain().model).unwrap();
            bed.at(now, What::Change(models[(at + 1) % models.len()]));
        }
        if bed.hub.open_messages() < 1_000 {
            bed.at(now, What::Send);
            bed.run(now, |_| count.to_be_bytes().to_vec());
            count += 1;
        }
        bed.run(now, |_| vec![]);
    }
    bed.run(now + 120 * SECOND, |_| vec![]);
    eprintln!("{} changes in {} s, {count} messages", bed.changes.len(), now / SECOND);
    assert_all_ended(&bed, count, "changes");
}

#[test]
fn a_thousand_changes_in_a_row_lose_nothing_and_double_nothing() {
    changes_in_a_row(1_000);
}

/// For evidence; `switching.rs` has as many changes of the state machine alone.
#[test]
#[ignore = "takes half an hour"]
fn a_hundred_thousand_changes_in_a_row_lose_nothing_and_double_nothing() {
    changes_in_a_row(100_000);
}
