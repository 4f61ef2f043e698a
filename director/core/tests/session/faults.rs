//! Faults of earlier versions, on whole sessions: repeated nonces, replayed messages, predictable
//! draws, estimates that strangers move.

use crate::bed::*;
use director::carrier::To;
use director::session::{Hub, Member, MemberEvent, Security};
use director::{Conditions, Instant, ModelId, Pattern, Span};

/// Length of the clear header of an envelope of the hub.
const HEAD: usize = 7;

/// Lets a hub and a member talk, without loss, for a second; returns the hub's datagrams.
fn talk(hub: &mut Hub, member: &mut Member, message: &[u8]) -> Vec<Vec<u8>> {
    let mut output = Vec::new();
    let mut sent = false;
    for step in 0..2_000 {
        let now = step * SECOND / 1_000;
        while let (Some(datagram), _) = member.poll(Instant::from_ns(now)) {
            hub.receive(&datagram, Some(0), Instant::from_ns(now));
        }
        if hub.is_ready() && !sent {
            hub.send(message, Instant::from_ns(now)).unwrap();
            sent = true;
        }
        while let (Some((to, datagram)), _) = hub.poll(Instant::from_ns(now)) {
            assert_ne!(to, To::Hub);
            member.receive(&datagram, Instant::from_ns(now));
            output.push(datagram);
        }
    }
    assert!(sent, "the member has joined");
    output
}

/// A start of a hub and of its member, which exchange one message. No clock is involved.
fn start(seed: u64, message: &[u8]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let models = [ModelId::UdpRequestResponse];
    let config = config(Pattern::RequestResponse, Conditions::default(), &models);
    let mut hub = hub(&config, 1, seed);
    let mut member = member(&config, seed + 1);
    let output = talk(&mut hub, &mut member, message);
    let delivered = member.take_events().into_iter().filter_map(|event| match event {
        MemberEvent::Message { bytes, .. } => Some(bytes),
        MemberEvent::Joined { .. }
        | MemberEvent::Published { .. }
        | MemberEvent::Stored { .. }
        | MemberEvent::Outcome { .. } => None,
    });
    (output, delivered.collect())
}

/// A device without a battery-backed clock starts twice at the same time of day. Of two messages under the
/// same key and nonce, the plaintext of one gives that of the other; equal messages are then sealed equally.
#[test]
fn two_starts_with_the_clock_set_back_share_no_key() {
    let sealed = |seed| {
        let message = b"a message that is secret";
        let (output, delivered) = start(seed, message);
        assert_eq!(delivered, [message]);
        output.into_iter().find(|bytes| bytes[0] == 0x21).unwrap()
    };
    assert_eq!(sealed(1), sealed(1), "nothing else differs between two starts");
    let (first, second) = (sealed(1), sealed(2));
    assert_eq!(first[..HEAD], second[..HEAD], "the same epoch, sender and number");
    assert_ne!(first[HEAD..], second[HEAD..]);
}

#[test]
fn a_member_that_has_just_started_takes_no_recorded_message() {
    let config =
        config(Pattern::RequestResponse, Conditions::default(), &[ModelId::UdpRequestResponse]);
    let (recorded, delivered) = start(1, b"open the valve");
    assert_eq!(delivered.len(), 1);
    let mut member = member(&config, 99);
    for (datagram, now) in recorded.iter().chain(&recorded).zip(1..) {
        member.receive(datagram, Instant::from_ns(now * SECOND));
        while member.poll(Instant::from_ns(now * SECOND)).0.is_some() {}
    }
    let taken = member.take_events();
    assert!(!taken.iter().any(|event| matches!(event, MemberEvent::Message { .. })), "{taken:?}");
}

/// xorshift64* is invertible: one output gives its state, and so all later ones. A hello without security
/// has the draws as they are; with security, a public key is computed from them.
#[test]
fn a_hello_gives_no_later_draw_away() {
    let mut config = config(Pattern::RequestResponse, Conditions::default(), &[]);
    config.security = Security::InsecureOnPurpose;
    let mut member = member(&config, 5);
    let hello = member.poll(Instant::START).0.unwrap();
    let draw = |at: usize| u64::from_le_bytes(hello[at..at + 8].try_into().unwrap());
    let (first, second) = (draw(1), draw(9));
    const FACTOR: u64 = 0x2545_F491_4F6C_DD1D;
    // Newton's iteration for the inverse modulo 2^64.
    let inverse = (0..6).fold(FACTOR, |inverse, _| {
        inverse.wrapping_mul(2_u64.wrapping_sub(FACTOR.wrapping_mul(inverse)))
    });
    let mut state = first.wrapping_mul(inverse);
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    assert_ne!(state.wrapping_mul(FACTOR), second);
}

/// The channel narrows to a quarter. Meanwhile strangers send bursts, which must not hide that.
#[test]
fn datagrams_of_strangers_are_no_arrivals() {
    let here = Conditions { rate_bit_s: 1e6, rtt: Span::from_ms(60), ..Conditions::default() };
    let config = config(Pattern::PublishCollect, here, &[ModelId::MulticastFec]);
    let rate = |strangers: bool| {
        let mut bed = Bed::new(&config, 20, 0.0, 5);
        (0..24).for_each(|n| bed.at((2 + 2 * n) * SECOND, What::Send));
        bed.at(11 * SECOND, What::Carry(250_000));
        for burst in 0..if strangers { 500 } else { 0 } {
            for n in 0..10 {
                let noise = vec![0x7f ^ n as u8; 900];
                bed.at(burst * SECOND / 10 + n, What::Arrive(None, Some(n as u32), noise));
            }
        }
        bed.run(50 * SECOND, |_| vec![3; 700]);
        bed.hub.explain().conditions.rate_bit_s
    };
    let (alone, among) = (rate(false), rate(true));
    assert!(alone < 6e5, "the session detects the narrow channel: {alone}");
    assert!(among < 6e5, "{alone} {among}");
}
