//! An attacker replays datagrams of members within their epoch.

use crate::bed::*;
use director::{Conditions, ModelId, Pattern, Span};

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
