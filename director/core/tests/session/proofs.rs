//! The hub and a member disagree on the keys or the epoch of the member: they notice it.

use crate::bed::*;
use crate::handshakes::Pair;
use director::session::Config;
use director::{Conditions, Instant, MessageProperties, ModelId, Pattern, Span};

const INVITATION: u8 = 0x24;
const READY: u8 = 0x25;
const HELLO: u8 = 0x26;
const WELCOME: u8 = 0x29;

fn two_models() -> Config {
    let models = [ModelId::UdpRequestResponse, ModelId::UdpArq];
    config(Pattern::RequestResponse, Conditions::default(), &models)
}

/// A session of one member, which has restarted, while the first of the messages that prove its new
/// keys were lost: the hub has the former ones.
fn unproved(config: &Config, mut lost: u32) -> Pair {
    let mut pair = Pair::new(config, std::slice::from_ref(config));
    pair.run(2);
    pair.members[0] = member(config, 60);
    for _ in 0..200 {
        pair.step(|datagram| {
            let lose = datagram[0] == READY && lost > 0;
            lost -= u32::from(lose);
            !lose
        });
    }
    assert_eq!(lost, 0);
    pair
}

#[test]
fn a_member_whose_proof_was_lost_sends_messages() {
    let mut pair = unproved(&two_models(), 1);
    publish(&mut pair, b"an alarm");
    pair.run(5);
    assert_eq!((pair.accepted, pair.members[0].open_messages()), (1, 0));
}

#[test]
fn a_member_whose_proof_was_lost_holds_up_no_change_of_the_model() {
    let mut pair = unproved(&two_models(), 1);
    assert!(pair.hub.force(ModelId::UdpArq, now(&pair)));
    pair.run(5);
    assert!(!pair.hub.explain().changing);
    assert_eq!(pair.ask(b"a price"), [0]);
}

/// A hub that has no keys of a member does not know its messages: the member joins again.
#[test]
fn a_member_that_the_hub_does_not_know_joins_again_to_send() {
    let config = two_models();
    let mut pair = Pair::new(&config, std::slice::from_ref(&config));
    pair.run(2);
    pair.hub = hub(&config, 1, 77);
    // The hub cannot announce itself, for example because the member's address has changed.
    for second in 0..90 {
        if second == 60 {
            publish(&mut pair, b"an alarm");
        } else if second == 0 {
            publish(&mut pair, b"to the hub before");
        }
        (0..100).for_each(|_| pair.step(|datagram| datagram[0] != 0x2a));
    }
    // What was sent to the hub before is not sent again.
    assert_eq!((pair.accepted, pair.members[0].open_messages()), (1, 0));
}

/// The invitation of a second handshake is late: meanwhile, the hub knows the member in a later epoch.
#[test]
fn a_member_in_a_former_epoch_is_invited_again() {
    let config = two_models();
    let mut pair = Pair::new(&config, std::slice::from_ref(&config));
    let keep_alive = member(&config, 50).with_keep_alive(Span::from_s(15));
    pair.members[0] = keep_alive;
    pair.run(2);
    // The hub seems to be away until the member begins another handshake.
    let (mut begun, mut late) = (false, None);
    for _ in 0..60 * 100 {
        pair.step(|datagram| match datagram[0] {
            HELLO => {
                begun = true;
                true
            }
            WELCOME => true,
            INVITATION if begun => {
                late.get_or_insert_with(|| datagram.to_vec());
                false
            }
            _ => false,
        });
        if late.is_some() {
            break;
        }
    }
    let late = late.expect("an invitation");
    assert!(pair.hub.force(ModelId::UdpArq, now(&pair)));
    pair.run(2);
    assert!(!pair.hub.explain().changing);
    let time = now(&pair);
    pair.members[0].receive(&late, time);
    pair.run(2);
    assert_eq!(pair.ask(b"a price"), [0]);
}

fn publish(pair: &mut Pair, bytes: &[u8]) {
    let (properties, now) = (MessageProperties::default(), now(pair));
    pair.members[0].publish(bytes, properties, now).unwrap();
}

fn now(pair: &Pair) -> Instant {
    Instant::from_ns(pair.now)
}
