//! A path that drops long packets without a word, and carries messages of members alone.

use crate::bed::*;
use crate::handshakes::Pair;
use director::{Conditions, Instant, MessageProperties, ModelId, Pattern, Span};

/// What failed before: the hub searches for the path MTU when its own messages are late, and it had none;
/// the members' messages never arrived, also none of the later ones.
#[test]
fn long_messages_of_members_arrive_although_the_hub_sends_none() {
    for (carries, answered) in [(548, true), (1_252, false)] {
        let pattern = if answered { Pattern::RequestResponse } else { Pattern::PublishSubscribe };
        let config = config(pattern, Conditions::default(), &[ModelId::UdpArq]);
        let mut pair = Pair::new(&config, std::slice::from_ref(&config));
        pair.run(2);
        // Those that are on their way keep their datagrams, and end with their lifetimes.
        for (count, lifetime_s) in [(3, 5), (5, 60)] {
            for n in 0..count {
                let (lifetime, now) = (Span::from_s(lifetime_s), Instant::from_ns(pair.now));
                let properties = MessageProperties { lifetime, ..MessageProperties::default() };
                pair.members[0].publish(&[n; 3_000], properties, now).unwrap();
            }
            let until = pair.now + 30 * SECOND;
            while pair.now < until {
                pair.step(|datagram| datagram.len() <= carries);
            }
        }
        assert_eq!((pair.accepted, pair.members[0].open_messages()), (5, 0), "{carries}");
    }
}

/// Losses are no limit of packets: a path that loses a third of them keeps its packet size.
#[test]
fn losses_of_messages_of_members_are_no_limit_of_packets() {
    let config = config(Pattern::RequestResponse, Conditions::default(), &[ModelId::UdpArq]);
    let mut pair = Pair::new(&config, std::slice::from_ref(&config));
    pair.run(2);
    let mut count = 0_u32;
    for n in 0..10 {
        let now = Instant::from_ns(pair.now);
        pair.members[0].publish(&[n; 3_000], MessageProperties::default(), now).unwrap();
        let until = pair.now + 10 * SECOND;
        while pair.now < until {
            pair.step(|_| {
                count = count.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                count >> 16 & 7 > 2
            });
        }
    }
    assert_eq!((pair.accepted, pair.members[0].open_messages()), (10, 0));
    assert_eq!(pair.hub.explain().conditions.mtu, 1_500.0);
}
