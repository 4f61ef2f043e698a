//! A member that is away while the others get very many messages.

use crate::bed::*;
use crate::pair::Pair;
use director::{Conditions, Instant, ModelId, Pattern, Span};

/// Sends a message's number to a member.
fn send(pair: &mut Pair, number: u64, to: u32) {
    while pair.hub.open_messages() > 100 {
        pair.step();
    }
    let (now, lifetime) = (Instant::from_ns(pair.now), Some(Span::from_s(600)));
    let sent = pair.hub.send_within(&number.to_be_bytes(), &[to], lifetime, now).unwrap();
    assert_eq!(sent, number);
}

/// Messages that overtake the first one: more than the windows of members cover.
const OTHERS: u64 = 17_000;

#[cfg(feature = "quic")]
#[test]
fn what_very_many_have_overtaken_is_not_acknowledged_unless_it_was_received() {
    let rtt = Span::from_ms(2);
    let here = Conditions { rate_bit_s: 1e9, rtt, ..Conditions::default() };
    for model in [ModelId::UdpArq, ModelId::CoapConfirmable, ModelId::QuicStreams] {
        let config = config(Pattern::PublishSubscribe, here, &[model]);
        let mut pair = Pair::new(&config);
        pair.away = true;
        let (early, late) = (0, OTHERS + 1);
        send(&mut pair, early, 0);
        (1..=OTHERS).for_each(|number| send(&mut pair, number, 1));
        // The newest message to the first member overtakes its oldest one.
        send(&mut pair, late, 0);
        pair.away = false;
        let until = pair.now + 200 * SECOND;
        while pair.hub.open_messages() > 0 && pair.now < until {
            pair.step();
        }
        for number in [early, late] {
            let received = pair.received.contains(&(0, number.to_be_bytes().to_vec()));
            let acknowledged = pair.acknowledged.contains(&(number, 0));
            assert!(received || !acknowledged, "{model}: {number}");
            let lacking = if acknowledged { vec![] } else { vec![0] };
            assert_eq!(pair.over.get(&number), Some(&lacking), "{model}: {number}");
        }
        assert!(pair.acknowledged.contains(&(late, 0)), "{model}");
    }
}
