//! Sessions with thousands of members: what one has to do costs nothing for the others.

use crate::bed::*;
use director::session::{Config, Security};
use director::{Conditions, Instant, MessageProperties, ModelId, Pattern};

/// CPU time of this thread, in ticks of 10 ms.
fn ticks() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    // The 14th and 15th field; the name before may have spaces.
    let fields = text.rsplit(')').next().unwrap().split_whitespace().skip(11).take(2);
    fields.map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

/// Polls of an idle hub, all of whose members have joined and sent a message, in 0.2 s of CPU time.
fn polls(members: usize) -> u64 {
    let mut config = Config::new(Pattern::RequestResponse, Security::InsecureOnPurpose);
    config.assumed = Conditions { rate_bit_s: 1e10, ..Conditions::default() };
    config.models = vec![ModelId::UdpRequestResponse];
    let mut bed = Bed::new(&config, members, 0.0, 1);
    bed.run(20 * SECOND, |_| Vec::new());
    assert!(bed.hub.is_ready());
    for member in 0..members as u32 {
        let (properties, now) = (MessageProperties::default(), Instant::from_ns(20 * SECOND));
        bed.members[member as usize].publish(b"a reading", properties, now).unwrap();
        bed.wake(Some(member), 20 * SECOND + 1);
    }
    bed.run(200 * SECOND, |_| Vec::new());
    let (begin, mut polls) = (ticks(), 0);
    while ticks() < begin + 20 {
        for _ in 0..100 {
            polls += 1;
            let (datagram, _) = bed.hub.poll(Instant::from_ns(201 * SECOND + polls));
            assert!(datagram.is_none());
        }
    }
    polls
}

/// What failed before: each poll looked at all members, 10,000 of them in ten times the time of 1,000.
#[test]
fn a_poll_looks_at_no_member_that_has_nothing_to_do() {
    let [few, many] = [1_000, 10_000].map(polls);
    eprintln!("{few} and {many} polls");
    assert!(few < 4 * many, "{few} {many}");
}
