//! Tests of the switch alone.

use super::membership::tests::{JOIN_V3, igmp_frame};
use super::*;
use crate::test_times::instant;

const S: u64 = 1_000_000_000;
const ALL: Mac = [0xff; 6];

fn own(number: u8) -> Mac {
    [2, 0, 0, 0, 0, number]
}

fn frame(target: Mac, source: Mac) -> Vec<u8> {
    [&target[..], &source[..], &[0; 48]].concat()
}

/// A datagram to 239.1.2.3, which [`JOIN_V3`] joins.
fn to_group(from: u8) -> Vec<u8> {
    let mut frame = igmp_frame(&[0; 20]);
    frame[6..12].copy_from_slice(&own(from));
    frame[23] = 17;
    frame[30..34].copy_from_slice(&[239, 1, 2, 3]);
    frame
}

/// A switch whose three nodes have the addresses `own(0)` to `own(2)`.
fn switch(own_addresses_only: bool) -> Switch {
    let mut switch = Switch::new(own_addresses_only, Some(127), Span::from_ns(10 * S));
    (0..3).for_each(|number| switch.attach(Some(own(number)), None, false));
    switch
}

fn receivers(switch: &mut Switch, port: usize, frame: &[u8], now: Instant) -> Vec<usize> {
    switch.forward(port, frame, now).receivers.collect()
}

#[test]
fn frames_go_to_the_owner_of_an_address_and_broadcasts_to_all_others() {
    let mut switch = switch(false);
    assert_eq!(receivers(&mut switch, 0, &frame(own(2), own(0)), instant(0)), [2]);
    assert!(receivers(&mut switch, 2, &frame(own(2), own(0)), instant(0)).is_empty(), "not back");
    assert_eq!(receivers(&mut switch, 1, &frame(ALL, own(1)), instant(0)), [0, 2]);
    assert!(receivers(&mut switch, 1, &[1, 2, 3], instant(0)).is_empty());
}

#[test]
fn an_address_behind_a_port_is_learnt_from_accepted_frames() {
    let mut switch = switch(false);
    let guest = [6, 0, 0, 0, 0, 9];
    assert_eq!(receivers(&mut switch, 0, &frame(guest, own(0)), instant(0)), [1, 2]);
    assert!(switch.accepts(2, &frame(own(0), guest)));
    assert_eq!(receivers(&mut switch, 0, &frame(guest, own(0)), instant(0)), [2]);
}

#[test]
fn only_valid_frames_with_allowed_sources_are_accepted() {
    let mut strict = switch(true);
    let guest = [6, 0, 0, 0, 0, 9];
    assert!(strict.accepts(0, &frame(own(1), own(0))));
    assert!(!strict.accepts(0, &frame(own(1), guest)), "not its own address");
    let mut lenient = switch(false);
    assert!(lenient.accepts(0, &frame(own(1), guest)));
    assert!(!lenient.accepts(0, &frame(own(1), own(2))), "another port's");
    assert!(!lenient.accepts(0, &frame(own(1), [3, 0, 0, 0, 0, 9])), "a group's");
    assert!(!lenient.accepts(0, &[0; 13]), "no header");
    assert!(!lenient.accepts(0, &[&frame(own(1), own(0))[..], &[0; 68]].concat()), "too long");
}

#[test]
fn a_detached_port_neither_sends_nor_receives() {
    let mut switch = switch(false);
    switch.detach(2);
    assert!(!switch.accepts(2, &frame(own(0), own(2))));
    assert_eq!(receivers(&mut switch, 0, &frame(own(2), own(0)), instant(0)), [1], "flooded");
    assert_eq!(receivers(&mut switch, 0, &frame(ALL, own(0)), instant(0)), [1]);
    switch.attach(Some(own(3)), None, false);
    assert_eq!(receivers(&mut switch, 0, &frame(own(3), own(0)), instant(0)), [3]);
}

#[test]
fn ports_that_are_attached_to_a_partitioned_switch_are_in_partition_0() {
    let mut switch = switch(false);
    switch.set_partition(Some(vec![0, 1]));
    switch.attach(None, None, false);
    let separated = |one, other| switch.are_partitioned(one, other);
    assert!(separated(0, 1) && !separated(0, 2) && !separated(0, 3) && separated(1, 3));
    switch.set_partition(None);
    assert!(!switch.are_partitioned(0, 1));
}

#[test]
fn multicast_goes_to_members_unless_it_is_disabled() {
    let mut switch = switch(false);
    assert!(receivers(&mut switch, 2, &igmp_frame(&JOIN_V3), instant(0)).is_empty(), "no router");
    assert_eq!(receivers(&mut switch, 0, &to_group(0), instant(1)), [2]);
    switch.set_multicast(false);
    assert!(receivers(&mut switch, 0, &to_group(0), instant(1)).is_empty());
    assert_eq!(
        receivers(&mut switch, 0, &frame(ALL, own(0)), instant(1)),
        [1, 2],
        "broadcast passes"
    );
}

#[test]
fn the_first_sign_of_multicast_starts_queries() {
    let mut switch = switch(false);
    assert_eq!(switch.forward(0, &frame(ALL, own(0)), instant(0)).first_query, None);
    assert_eq!(switch.forward(0, &to_group(0), instant(S)).first_query, Some(instant(2 * S)));
    assert_eq!(switch.forward(0, &to_group(0), instant(S)).first_query, None, "they are scheduled");
    let Queries { frames, next } = switch.queries(instant(2 * S));
    assert_eq!((frames.len(), next), (1, instant(4 * S + S / 2)), "no MLD without IPv6 groups");
}

#[test]
fn a_member_that_no_longer_reports_is_forgotten() {
    let mut switch = switch(false);
    switch.forward(2, &igmp_frame(&JOIN_V3), instant(S));
    switch.queries(instant(25 * S));
    assert_eq!(receivers(&mut switch, 0, &to_group(0), instant(25 * S)), [2]);
    // 2 x 10 s + 5 s after its report.
    switch.queries(instant(26 * S));
    assert!(receivers(&mut switch, 0, &to_group(0), instant(26 * S)).is_empty());
}

#[test]
fn reports_go_only_to_routers_which_then_send_the_queries() {
    let mut switch = switch(false);
    // Sent to 224.0.0.22 here, which is flooded.
    let query = igmp_frame(&[0x11, 100, 0, 0, 0, 0, 0, 0]);
    assert_eq!(receivers(&mut switch, 0, &query, instant(S)), [1, 2]);
    assert_eq!(receivers(&mut switch, 2, &igmp_frame(&JOIN_V3), instant(2 * S)), [0]);
    assert!(switch.queries(instant(3 * S)).frames.is_empty(), "and the switch none");
    assert_eq!(
        receivers(&mut switch, 1, &to_group(1), instant(4 * S)),
        [0, 2],
        "routers get all groups"
    );
}

#[test]
fn a_bridge_gets_all_reports_and_multicast_for_ever() {
    let mut switch = Switch::new(false, None, Span::from_ns(10 * S));
    switch.attach(Some(own(0)), None, false);
    switch.attach(Some(own(1)), None, true);
    switch.attach(Some(own(2)), None, false);
    let all = |switch: &mut Switch, at| receivers(switch, 0, &to_group(0), instant(at));
    assert_eq!(all(&mut switch, 0), [1]);
    for turn in 0..100 {
        switch.queries(instant(turn * 10 * S));
    }
    assert_eq!(all(&mut switch, 1_000 * S), [1]);
}
