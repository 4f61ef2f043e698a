//! Members that are off hold up no others.

use crate::bed::*;
use director::{Conditions, Instant, ModelId, Pattern, Span};

fn quiet() -> Conditions {
    Conditions { rate_bit_s: 1e6, rtt: Span::from_ms(60), ..Conditions::default() }
}

/// What failed before: the session changed its model once, and never again.
#[test]
fn the_model_changes_more_than_once_while_a_member_is_off() {
    let models = [ModelId::UdpArq, ModelId::MulticastFec];
    let mut bed = Bed::new(&config(Pattern::PublishCollect, quiet(), &models), 3, 0.0, 5);
    bed.off.insert(2);
    bed.run(3 * SECOND, |_| Vec::new());
    let first = bed.hub.explain().model;
    let other = if first == models[0] { models[1] } else { models[0] };
    for (at, model) in [(4, other), (40, first), (80, other)] {
        bed.at(at * SECOND, What::Change(model));
    }
    bed.run(120 * SECOND, |_| Vec::new());
    assert_eq!(bed.changes, [(first, other), (other, first), (first, other)]);
    // It is on now, and has missed all of that.
    bed.off.clear();
    bed.wake(Some(2), 120 * SECOND + 1);
    bed.at(150 * SECOND, What::Send);
    bed.run(170 * SECOND, |_| vec![7; 100]);
    assert!(bed.hub.is_ready());
    assert_eq!((bed.answers.len(), &bed.over[&0]), (3, &0));
}

/// What failed before: after the second revocation, no message went out any more.
#[test]
fn members_can_be_revoked_while_another_one_is_off() {
    let models = [ModelId::UdpArq];
    let mut bed = Bed::new(&config(Pattern::PublishCollect, quiet(), &models), 4, 0.0, 5);
    bed.off.insert(3);
    bed.run(3 * SECOND, |_| Vec::new());
    for member in [0, 1] {
        bed.hub.revoke(member, Instant::from_ns(3 * SECOND)).unwrap();
    }
    bed.wake(None, 3 * SECOND + 1);
    bed.run(40 * SECOND, |_| Vec::new());
    let now = Instant::from_ns(40 * SECOND);
    let number = bed.hub.send_within(b"hello", &[2], Some(Span::from_s(30)), now).unwrap();
    bed.wake(None, 40 * SECOND);
    bed.run(60 * SECOND, |_| Vec::new());
    assert!(bed.answers.contains_key(&(number, 2)), "{:?}", bed.over);
}
