//! Any datagrams for a hub and a member of a session without keys, of each model: what is
//! not sealed gets as far as it can.
#![no_main]

use director::session::{Config, Hub, Member, Security};
use director::{Pattern, PerformanceMap};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

fuzz_target!(|input: (u8, Vec<(bool, Vec<u8>)>)| {
    let (model, datagrams) = input;
    let models = director::carrier::available();
    let mut config = Config::new(Pattern::PublishCollect, Security::InsecureOnPurpose);
    config.models = vec![models[usize::from(model) % models.len()]];
    let map = Arc::new(PerformanceMap::new());
    let mut hub = Hub::new(config, map, 3, 1, 7).expect("it suits");
    let mut member = Member::new(Security::InsecureOnPurpose, 42, 7).expect("no key");
    // Not all models carry as much as this.
    let _ = hub.send(&[5; 3_000], 0);
    hub.send(&[5; 1_000], 0).expect("it is carried");
    let mut now = 1;
    for (to_hub, datagram) in datagrams.iter().take(200) {
        now += 1_000_000;
        if *to_hub {
            hub.receive(datagram, Some(u32::from(datagram.len() as u8 % 4)), now);
        } else {
            member.receive(datagram, now);
        }
        // What each of them says reaches the other.
        for _ in 0..4 {
            if let (Some((_, said)), _) = hub.poll(now) {
                member.receive(&said, now);
            }
            if let (Some(said), _) = member.poll(now) {
                hub.receive(&said, Some(0), now);
            }
        }
        hub.take_events();
        member.take_events();
    }
});
