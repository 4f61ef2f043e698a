//! Messages that the model of some members can carry, and that of others cannot.

use crate::bed::*;
use crate::pair::Pair;
use director::{Conditions, Instant, ModelId, Pattern, Span};

/// A session in which one member has changed to datagrams of QUIC, and the other is away. The new
/// model does not carry 5,000 bytes.
#[cfg(feature = "quic")]
fn changing(pattern: Pattern) -> Pair {
    let models = [ModelId::UdpArq, ModelId::QuicDatagrams];
    let mut config = config(pattern, Conditions::default(), &models);
    config.targets.deadline = Some(Span::from_s(5));
    let mut pair = Pair::new(&config);
    pair.hub.force(ModelId::UdpArq, Instant::from_ns(pair.now));
    (0..2_000).for_each(|_| pair.step());
    pair.away = true;
    assert!(pair.hub.force(ModelId::QuicDatagrams, Instant::from_ns(pair.now)));
    (0..500).for_each(|_| pair.step());
    assert!(pair.hub.explain().changing);
    pair
}

/// Both members get the message: over the old model, or after another change.
#[cfg(feature = "quic")]
#[test]
fn a_message_that_the_new_model_refuses_waits_for_another() {
    for (pattern, to) in [
        (Pattern::RequestResponse, vec![0, 1]),
        (Pattern::PublishSubscribe, vec![0, 1]),
        // Only to the member that already has the new model.
        (Pattern::RequestResponse, vec![1]),
        (Pattern::RequestResponse, vec![0]),
    ] {
        let mut pair = changing(pattern);
        let long = vec![7; 5_000];
        let number = pair.hub.send_to(&long, &to, Instant::from_ns(pair.now)).unwrap();
        pair.away = false;
        (0..8_000).for_each(|_| pair.step());
        let received = (0..2).filter(|member| pair.received.contains(&(*member, long.clone())));
        assert_eq!(received.collect::<Vec<u32>>(), to, "{pattern:?}");
        // No application answers requests here.
        let lacking = if pattern == Pattern::RequestResponse { to } else { vec![] };
        assert_eq!(pair.over.get(&number), Some(&lacking), "{pattern:?}");
        assert_eq!(pair.hub.explain().model, ModelId::UdpArq);
    }
}

/// A message that neither model carries ends long before its lifetime does, and lacks both members.
#[cfg(feature = "quic")]
#[test]
fn a_message_that_no_model_carries_ends() {
    let mut pair = changing(Pattern::RequestResponse);
    let number = pair.hub.send(&vec![7; 1_000_000], Instant::from_ns(pair.now)).unwrap();
    pair.away = false;
    (0..4_000).for_each(|_| pair.step());
    assert_eq!(pair.over.get(&number), Some(&vec![0, 1]), "{}", pair.hub.explain());
    assert_eq!(pair.hub.open_messages(), 0);
    assert!(pair.received.is_empty());
}

/// What failed before: `multicast-fec`, with which a session that knows nothing begins, carries 65,535 B at most, and its
/// predicted gain kept it, so that longer messages were an error.
#[test]
fn a_longer_message_than_the_model_carries_changes_it() {
    for (pattern, first) in [
        (Pattern::PublishSubscribe, ModelId::MulticastFec),
        (Pattern::RequestResponse, ModelId::MulticastFec),
        (Pattern::RequestResponse, ModelId::UdpRequestResponse),
    ] {
        let models = [ModelId::UdpArq, first];
        let mut pair = Pair::new(&config(pattern, Conditions::default(), &models));
        (0..2_000).for_each(|_| pair.step());
        for length in [100, 70_000, 300_000, 100] {
            let message = vec![7; length];
            pair.hub.send(&message, Instant::from_ns(pair.now)).unwrap();
            (0..4_000).for_each(|_| pair.step());
            for member in 0..2 {
                assert!(pair.received.contains(&(member, message.clone())), "{length}");
            }
            pair.received.clear();
        }
    }
}

/// It is an error at once, with the reason.
#[test]
fn a_message_that_is_too_long_for_all_models_is_an_error() {
    let mut models = vec![
        ModelId::UdpArq,
        ModelId::MulticastFec,
        ModelId::UdpRequestResponse,
        ModelId::CoapConfirmable,
    ];
    models.extend(cfg!(feature = "quic").then_some(ModelId::QuicStreams));
    let mut pair = Pair::new(&config(Pattern::RequestResponse, Conditions::default(), &models));
    (0..2_000).for_each(|_| pair.step());
    let error = pair.hub.send(&vec![7; 20 << 20], Instant::from_ns(pair.now)).unwrap_err();
    assert!(error.to_string().contains("send it in parts"), "{error}");
    assert_eq!(pair.hub.open_messages(), 0);
}
