//! Messages that the model of some members can carry, and that of others cannot.

use crate::bed::*;
use crate::pair::Pair;
use director::{Conditions, Instant, ModelId, Pattern, Span};

/// While the session changes its model, one member has the old one, which carries the message, and
/// the other the new one, which does not.
#[cfg(feature = "quic")]
#[test]
fn a_message_is_rejected_only_if_no_member_gets_it() {
    for pattern in [Pattern::RequestResponse, Pattern::PublishSubscribe] {
        let models = [ModelId::UdpArq, ModelId::QuicDatagrams];
        let mut config = config(pattern, Conditions::default(), &models);
        config.targets.deadline = Some(Span::from_s(5));
        let mut pair = Pair::new(&config);
        pair.hub.force(ModelId::UdpArq, Instant::from_ns(pair.now));
        (0..2_000).for_each(|_| pair.step());
        pair.away = true;
        assert!(pair.hub.force(ModelId::QuicDatagrams, Instant::from_ns(pair.now)));
        (0..500).for_each(|_| pair.step());
        let long = vec![7; 5_000];
        let sent = pair.hub.send(&long, Instant::from_ns(pair.now));
        pair.away = false;
        (0..8_000).for_each(|_| pair.step());
        let received = (0..2).filter(|member| pair.received.contains(&(*member, long.clone())));
        let received: Vec<u32> = received.collect();
        match sent {
            Ok(number) => {
                assert!(received.contains(&0), "{pattern:?}: by the old model");
                assert!(pair.over.contains_key(&number), "{pattern:?}");
            }
            Err(error) => assert!(received.is_empty(), "{pattern:?}: {error}, {received:?}"),
        }
    }
}
