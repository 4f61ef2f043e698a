//! Tests of segments in virtual time.

use super::*;
use crate::switch::membership::tests::{JOIN_V3, igmp_frame};
use crate::test_times::instant;
use etherparse::PacketBuilder;
use link::Channel;
use units::Rate;

fn frame(from: u8, to: [u8; 6], ip: [u8; 4]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, from], to)
        .ipv4([10, 0, 0, from], ip, 64)
        .udp(1, 2);
    let mut frame = Vec::new();
    builder.write(&mut frame, &[0; 85]).unwrap();
    frame
}

fn unicast(from: u8, to: u8) -> Vec<u8> {
    frame(from, [2, 0, 0, 0, 0, to], [10, 0, 0, to])
}

fn segment(channel: Channel, change: impl Fn(usize, &mut Endpoint)) -> Segment {
    let endpoint = |i| {
        let mut endpoint = Endpoint::default();
        change(i, &mut endpoint);
        endpoint
    };
    let endpoints = (0..4).map(endpoint).collect();
    Segment::new(&spec(channel, endpoints))
}

fn spec(channel: Channel, endpoints: Vec<Endpoint>) -> SegmentSpec {
    SegmentSpec { channel, endpoints, impaired: true, ..SegmentSpec::switch(7) }
}

/// Processes all events; returns receivers and times.
/// The deliveries of a segment: endpoints, and times in ns.
fn drain(segment: &mut Segment) -> Vec<(usize, u64)> {
    let mut all = Vec::new();
    while let Some(next) = segment.next() {
        while let Some(delivery) = segment.due(next) {
            all.push((delivery.endpoint, delivery.intended.as_ns()));
        }
    }
    all
}

#[test]
fn floods_until_it_has_learnt() {
    let mut switch = segment(Channel::Switch, |_, _| ());
    switch.send(0, &unicast(0, 1), instant(5));
    assert_eq!(drain(&mut switch), [(1, 5), (2, 5), (3, 5)]);
    switch.send(1, &unicast(1, 0), instant(6));
    assert_eq!(drain(&mut switch), [(0, 6)]);
}

#[test]
fn multicast_goes_to_members_and_reports_are_not_forwarded() {
    let mut switch = segment(Channel::Switch, |_, _| ());
    switch.send(2, &igmp_frame(&JOIN_V3), instant(0));
    assert!(drain(&mut switch).is_empty());
    switch.send(0, &frame(0, [1, 0, 0x5e, 1, 2, 3], [239, 1, 2, 3]), instant(1));
    assert_eq!(drain(&mut switch), [(2, 1)]);
}

/// Queries of the switch pass the links as other frames do.
#[test]
fn a_member_whose_report_is_lost_gets_a_query_over_its_link() {
    const S: u64 = 1_000_000_000;
    let mut spec = spec(Channel::Switch, vec![Endpoint::default(); 3]);
    spec.query_interval = Span::from_ns(10 * S);
    spec.endpoints.iter_mut().for_each(|link| link.down.delay = Span::from_ns(S / 2).into());
    let mut switch = Segment::new(&spec);
    let message = frame(0, [1, 0, 0x5e, 1, 2, 3], [239, 1, 2, 3]);
    switch.send(0, &message, instant(S));
    let mut received = Vec::new();
    while let Some(next) = switch.next().filter(|next| *next <= instant(3 * S)) {
        let deliveries = std::iter::from_fn(|| switch.due(next));
        received.extend(deliveries.map(|delivery| (delivery.endpoint, delivery.intended)));
    }
    let at = instant(2 * S + S / 2);
    assert_eq!(received, [(0, at), (1, at), (2, at)]);
}

#[test]
fn multicast_can_be_held_back() {
    let mut switch = segment(Channel::Switch, |_, _| ());
    switch.send(2, &igmp_frame(&JOIN_V3), instant(0));
    drain(&mut switch);
    let tell = frame(0, [1, 0, 0x5e, 1, 2, 3], [239, 1, 2, 3]);
    switch.change(Change::Multicast(false), instant(1));
    switch.send(0, &tell, instant(1));
    switch.send(0, &frame(0, [0xff; 6], [255; 4]), instant(1));
    assert_eq!(drain(&mut switch), [(1, 1), (2, 1), (3, 1)], "broadcast goes on");
    switch.change(Change::Multicast(true), instant(2));
    switch.send(0, &tell, instant(2));
    assert_eq!(drain(&mut switch), [(2, 2)]);
}

#[test]
fn nothing_is_due_before_its_time() {
    let mut switch = segment(Channel::Switch, |_, link| {
        link.down.delay.mean = "30 ms".parse().unwrap();
    });
    switch.send(0, &unicast(0, 1), instant(0));
    assert!(switch.due(instant(29_999_999)).is_none());
    assert_eq!(switch.next(), Some(instant(30_000_000)));
    assert!(switch.due(instant(30_000_000)).is_some());
}

#[test]
fn a_multicast_takes_the_shared_channel_once() {
    let rate = Rate::from_bit_s(250_000).unwrap();
    let mut radio = segment(Channel::Shared(rate), |_, _| ());
    radio.send(0, &unicast(0, 9), instant(0));
    radio.send(1, &unicast(1, 0), instant(0));
    let time = 127 * 32_000;
    assert_eq!(drain(&mut radio), [(1, time), (2, time), (3, time), (0, 2 * time)]);
}

#[test]
fn each_receiver_of_a_multicast_has_losses_of_its_own() {
    let mut switch = segment(Channel::Switch, |_, link| {
        link.down.loss = "30 %".parse::<units::Ratio>().unwrap().into();
    });
    for now in 0..10_000 {
        switch.send(0, &unicast(0, 9), instant(now));
    }
    let mut got = [0u32; 4];
    drain(&mut switch).iter().for_each(|(endpoint, _)| got[*endpoint] += 1);
    // Four standard deviations of a binomial of 10,000: 183.
    assert!(got[1..].iter().all(|n| n.abs_diff(7000) < 183), "{got:?}");
    assert!(got[1] != got[2] || got[2] != got[3]);
    let all = got.iter().sum::<u32>() as usize;
    assert_eq!(all + switch.drops().count(), 30_000, "every copy is accounted for");
}

#[test]
fn the_same_seed_and_frames_meet_the_same_fate() {
    let run = || {
        let mut radio = segment(Channel::Shared(Rate::from_bit_s(250_000).unwrap()), |_, link| {
            link.up.loss = "30 %".parse::<units::Ratio>().unwrap().into();
            link.up.delay.jitter = "5 ms".parse().unwrap();
            link.up.delay.mean = "30 ms".parse().unwrap();
        });
        (0..500)
            .for_each(|i| radio.send(i % 4, &unicast((i % 4) as u8, 9), instant(i as u64 * 1_000)));
        drain(&mut radio)
    };
    assert_eq!(run(), run());
}

#[test]
fn runts_are_ignored() {
    let mut switch = segment(Channel::Switch, |_, _| ());
    switch.send(0, &[1, 2, 3], instant(0));
    assert!(drain(&mut switch).is_empty());
}

#[test]
fn a_cell_gives_links_their_turns_and_a_flood_delays_no_other_link() {
    let rate = Rate::from_bit_s(1_016_000).unwrap();
    let mut cell = segment(Channel::Cell { up: rate, down: rate }, |_, _| ());
    // All addresses are learnt.
    (0..4).for_each(|i| cell.send(i, &unicast(i as u8, 9), instant(0)));
    drain(&mut cell);
    let begin = 1_000_000_000;
    (0..100).for_each(|_| cell.send(0, &unicast(0, 3), instant(begin)));
    (0..3).for_each(|_| cell.send(1, &unicast(1, 2), instant(begin)));
    let got = drain(&mut cell);
    // A frame takes 1 ms; the two links take turns up, then down.
    let quiet: Vec<_> =
        got.iter().filter(|(to, _)| *to == 2).map(|(_, at)| (at - begin) / 1_000_000).collect();
    // One frame of the flood is in transmission, one had its turn before: then every
    // second.
    assert_eq!(quiet, [4, 6, 8]);
}

#[test]
fn links_with_frames_share_a_cell_evenly() {
    let rate = Rate::from_bit_s(1_016_000).unwrap();
    let fast = Rate::from_bit_s(1_000_000_000).unwrap();
    let mut cell = segment(Channel::Cell { up: rate, down: fast }, |_, _| ());
    (0..4).for_each(|i| cell.send(i, &unicast(i as u8, 9), instant(0)));
    drain(&mut cell);
    // Three send to the fourth, one of them three times as much.
    for i in 0..1500 {
        let from = [0, 1, 2, 0, 0][i % 5];
        cell.send(from, &unicast(from as u8, 3), instant(1_000_000_000));
    }
    let mut got = [0; 4];
    while let Some(next) = cell.next().filter(|next| *next < instant(1_451_000_000)) {
        while let Some(delivery) = cell.due(next) {
            got[usize::from(delivery.frame[11])] += 1;
        }
    }
    assert_eq!(got, [150, 150, 150, 0], "450 ms of 1 ms each");
}

#[test]
fn what_is_no_frame_of_the_link_is_counted_and_goes_no_further() {
    let mut spec = spec(Channel::Switch, vec![Endpoint::default(); 4]);
    spec.endpoints[0].mac = Some([2, 0, 0, 0, 0, 0]);
    spec.own_addresses_only = true;
    spec.longest = Some(127);
    let mut switch = Segment::new(&spec);
    switch.send(0, &unicast(0, 1), instant(0));
    assert_eq!(drain(&mut switch).len(), 3);
    switch.send(0, &unicast(3, 1), instant(1));
    switch.send(0, &[0; 13], instant(1));
    switch.send(0, &[vec![0; 6], vec![2, 0, 0, 0, 0, 0], vec![0; 116]].concat(), instant(1));
    assert!(drain(&mut switch).is_empty());
    let rejected = Drop { endpoint: 0, way: Direction::Up, cause: Cause::Rejected };
    assert_eq!(switch.drops().collect::<Vec<_>>(), [rejected; 3]);
    assert_eq!(switch.totals()[0][0].rejected, 3);
}

#[test]
fn a_bridge_in_a_node_has_many_addresses_but_none_of_another_node() {
    let mut spec = spec(Channel::Switch, vec![Endpoint::default(); 3]);
    for (number, end) in (0..).zip(&mut spec.endpoints) {
        end.mac = Some([2, 0, 0, 0, 0, number]);
    }
    let mut switch = Segment::new(&spec);
    switch.send(0, &unicast(77, 99), instant(0));
    assert_eq!(drain(&mut switch).len(), 2);
    switch.send(1, &unicast(1, 77), instant(1));
    assert_eq!(drain(&mut switch), [(0, 1)], "it knows who is behind the bridge");
    switch.send(0, &unicast(2, 1), instant(2));
    let mut group = unicast(77, 1);
    group[6] = 3;
    switch.send(0, &group, instant(3));
    assert!(drain(&mut switch).is_empty(), "the address of endpoint 2, and a group's");
    assert_eq!(switch.totals()[0][0].rejected, 2);
}

#[test]
fn the_timetable_is_kept() {
    let set = |text: &str| Change::Set {
        links: vec![(1, Direction::Down)],
        set: serde_json::from_str(text).unwrap(),
        over: Span::ZERO,
    };
    let mut spec = spec(Channel::Switch, vec![Endpoint::default(); 2]);
    spec.impaired = false;
    let span = |text: &str| text.parse().unwrap();
    spec.timetable = vec![
        (span("1 s"), set("{\"delay\": \"30 ms\"}")),
        (span("2 s"), Change::Partition(Some(vec![0, 1]))),
        (span("3 s"), Change::Partition(None)),
        (span("3 s"), Change::Down { links: vec![(1, Direction::Down)], down: true }),
        (span("4 s"), Change::Down { links: vec![(1, Direction::Down)], down: false }),
    ];
    let mut switch = Segment::new(&spec);
    let begin = 5_000_000_000;
    switch.impair(instant(begin));
    let mut got = Vec::new();
    for half in 0..9 {
        let at = begin + half * 500_000_000;
        switch.send(0, &unicast(0, 9), instant(at));
        while let Some(delivery) = switch.due(instant(at + 400_000_000)) {
            got.push((half, (delivery.intended.as_ns() - at) / 1_000_000));
        }
    }
    assert_eq!(got, [(0, 0), (1, 0), (2, 30), (3, 30), (8, 30)]);
    let causes: Vec<_> = switch.drops().map(|drop| drop.cause).collect();
    assert_eq!(causes, [Cause::Partitioned, Cause::Partitioned, Cause::Outage, Cause::Outage]);
    let [_, intervals] = &switch.intervals()[1];
    assert_eq!(intervals[0].measured.frames, 2, "what came before the delay");
}

#[test]
fn a_ramp_is_followed_frame_by_frame() {
    let mut spec = spec(Channel::Switch, vec![Endpoint::default(); 2]);
    let ramp = Change::Set {
        links: vec![(0, Direction::Up)],
        set: serde_json::from_str("{\"delay\": \"100 ms\"}").unwrap(),
        over: "10 s".parse().unwrap(),
    };
    spec.impaired = false;
    spec.timetable = vec![("10 s".parse().unwrap(), ramp)];
    let mut switch = Segment::new(&spec);
    switch.impair(instant(0));
    let delays: Vec<_> = (0..6)
        .map(|i| {
            let at = i * 5_000_000_000;
            switch.send(0, &unicast(0, 9), instant(at));
            (drain_until(&mut switch, instant(at + 1_000_000_000)) - at) / 1_000_000
        })
        .collect();
    assert_eq!(delays, [0, 0, 0, 50, 100, 100]);
}

fn set(keys: &str, over: &str) -> Change {
    let set = serde_json::from_str(keys).unwrap();
    Change::Set { links: vec![(0, Direction::Up)], set, over: over.parse().unwrap() }
}

#[test]
fn a_second_change_leaves_the_ramp_of_another_key_as_it_is() {
    const S: u64 = 1_000_000_000;
    let mut spec = spec(Channel::Switch, vec![Endpoint::default(); 2]);
    spec.impaired = false;
    let ramp = set("{\"delay\": \"100 ms\"}", "10 s");
    let slow = set("{\"rate\": \"1 Gbit/s\"}", "0 s");
    spec.timetable = vec![("10 s".parse().unwrap(), ramp), ("12 s".parse().unwrap(), slow)];
    let mut switch = Segment::new(&spec);
    switch.impair(instant(0));
    let mut delay_ms = |at: u64| {
        switch.send(0, &unicast(0, 9), instant(at));
        (drain_until(&mut switch, instant(at + S)) - at) / 1_000_000
    };
    assert_eq!([11, 15, 18, 20, 25].map(|s| delay_ms(s * S)), [10, 50, 80, 100, 100]);
    // The intervals agree with the settings.
    switch.end_interval(instant(30 * S));
    let intervals = switch.intervals()[0][0].clone();
    let changing: Vec<_> =
        intervals.iter().map(|i| (i.from.as_ns() / S, i.to.as_ns() / S, i.changing)).collect();
    assert_eq!(changing, [(10, 12, true), (12, 20, true), (20, 30, false)]);
    assert_eq!(intervals[2].configured.delay.mean, "100 ms".parse().unwrap());
}

#[test]
fn an_idle_link_says_what_it_would_do_now() {
    const S: u64 = 1_000_000_000;
    let mut switch = segment(Channel::Switch, |_, _| ());
    switch.impair(instant(0));
    switch.change(set("{\"delay\": \"100 ms\"}", "10 s"), instant(0));
    let delays = [0, 5 * S, 20 * S].map(|at| switch.state(0, Direction::Up, instant(at)).now.delay);
    assert_eq!(delays.map(|delay| delay.mean.as_ns() / 1_000_000), [0, 50, 100]);
    // The ramp has ended, although no frame has ended it.
    assert_eq!(switch.state(0, Direction::Up, instant(20_000_000_000)).target, None);
}

#[test]
fn a_ramp_of_the_loss_holds_on_a_channel_that_all_contend_for_too() {
    const S: u64 = 1_000_000_000;
    let mut radio = segment(Channel::Csma(link::CsmaSpec::default()), |_, _| ());
    radio.impair(instant(0));
    radio.change(set("{\"loss\": \"100 %\"}", "10 s"), instant(0));
    radio.send(0, &unicast(0, 1), instant(20 * S));
    assert!(drain(&mut radio).is_empty(), "all of its attempts are lost");
    let [up, _] = radio.totals()[0];
    assert_eq!((up.lost, up.retried), (1, 3));
}

fn drain_until(segment: &mut Segment, until: Instant) -> u64 {
    let mut last = 0;
    while let Some(delivery) = segment.due(until) {
        last = delivery.intended.as_ns();
    }
    last
}

#[test]
fn an_invalid_change_is_reported_and_changes_nothing() {
    let mut switch = segment(Channel::Switch, |_, _| ());
    let set = serde_json::from_str("{\"dely\": \"1 s\"}").unwrap();
    switch
        .change(Change::Set { links: vec![(0, Direction::Up)], set, over: Span::ZERO }, instant(5));
    assert!(switch.refused()[0].contains("dely"));
    assert!(switch.state(0, Direction::Up, instant(5)).now.is_none());
}

#[test]
fn frames_leave_in_slots() {
    let slot = link::Slot {
        min: "10 ms".parse().unwrap(),
        max: "10 ms".parse().unwrap(),
        packets: Some(2),
        bytes: None,
    };
    let mut switch = segment(Channel::Switch, |i, link| {
        link.up.slot.0 = (i == 0).then_some(slot);
    });
    switch.send(1, &unicast(1, 9), instant(0));
    drain(&mut switch);
    let begin = 1_000_000_000;
    (0..3).for_each(|i| switch.send(0, &unicast(0, 1), instant(begin + i * 1_000_000)));
    let times: Vec<_> = drain(&mut switch).iter().map(|(_, at)| (at - begin) / 1_000_000).collect();
    assert_eq!(times, [10, 10, 20]);
}

/// Saturated senders on a CSMA-CA channel for `s` seconds: number of delivered frames, and
/// the totals.
fn contention(senders: usize, s: u64, loss: &str) -> (u64, Vec<[Totals; 2]>) {
    let spec = link::CsmaSpec::default();
    let endpoints = (0..=senders).map(|_| {
        let mut link = Endpoint::default();
        link.up.loss = loss.parse::<units::Ratio>().unwrap().into();
        link.up.queue.limit = link::Limit::Frames(3);
        link
    });
    let mut radio = Segment::new(&self::spec(Channel::Csma(spec), endpoints.collect()));
    let to = senders as u8;
    radio.send(senders, &unicast(to, 0xfe), instant(0));
    drain(&mut radio);
    let mut got = 0;
    for ms in 0..s * 1000 {
        for from in 0..senders {
            radio.send(from, &unicast(from as u8, to), instant(1_000_000_000 + ms * 1_000_000));
        }
        while radio.due(instant(1_000_000_000 + ms * 1_000_000)).is_some() {
            got += 1;
        }
    }
    (got, radio.totals())
}

/// What 802.15.4 in UDP costs on the air: 48 B and the header of 6 B at 32 us per byte, in place of 92 B; its
/// acknowledgement neither contends nor waits behind the sender's next frame.
#[test]
fn simulated_radios_are_charged_what_is_on_the_air() {
    let datagram = |from: u8, radio: &[u8]| {
        let to = [1, 0, 0x5e, 0, 0, 0x74];
        let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, from], to)
            .ipv4([10, 0, 0, from], [224, 0, 0, 116], 1)
            .udp(9001, 9000);
        let mut frame = Vec::new();
        builder.write(&mut frame, &[&[11][..], radio].concat()).unwrap();
        frame
    };
    let data = datagram(1, &[&[0x61, 0x88][..], &[0; 46]].concat());
    let ack = datagram(2, &[2, 0, 7, 0xaa, 0xbb]);
    let sent_with = |ack_at: Option<u64>| {
        let carries = link::Carried::Openthread;
        // Without backoff.
        let spec = link::CsmaSpec { carries, min_be: 0, ..Default::default() };
        let mut radio = segment(Channel::Csma(spec), |_, _| ());
        radio.send(0, &unicast(0, 1), Instant::from_ns(0));
        radio.send(1, &data, Instant::from_ns(0));
        ack_at.into_iter().for_each(|at| radio.send(2, &ack, instant(at)));
        let times: Vec<_> = drain(&mut radio).iter().map(|(to, at)| (*to, at / 1_000)).collect();
        // The host's frame takes no air time; its receiver is unknown, so all get it.
        let (host, times): (Vec<_>, Vec<_>) = times.into_iter().partition(|(_, at)| *at == 0);
        assert_eq!(host.len(), 3, "{host:?}");
        let (denied, busy) = (radio.totals()[1][0].denied, radio.totals()[2][0].busy);
        (times, denied, busy)
    };
    // CCA and turnaround, 54 B at 32 us.
    let frame = 128 + 192 + 54 * 32;
    let (times, ..) = sent_with(None);
    assert_eq!(times, [(0, frame), (2, frame), (3, frame)]);
    // 192 us, and 5 B and 6 B at 32 us.
    let (times, denied, busy) = sent_with(Some(10_000_000));
    assert_eq!(times[3..], [(0, 10_544), (1, 10_544), (3, 10_544)], "{times:?}");
    assert_eq!((denied, busy), (0, Span::from_us(352)));
    // On the air at the same time, both are lost.
    let (times, denied, _) = sent_with(Some(1_000_000));
    assert_eq!((times, denied), (vec![], 1));
}

#[test]
fn csma_carries_what_the_standards_times_allow() {
    let (got, totals) = contention(1, 100, "0 %");
    // 6.88 ms each, with four standard errors of the backoff.
    assert!((14_400..14_700).contains(&got), "{got}");
    assert_eq!(totals[0][0].collided, 0);
    let (several, totals) = contention(10, 20, "0 %");
    let collided: u64 = totals.iter().map(|[up, _]| up.collided).sum();
    assert!(several < got / 5 && collided > 0, "{several} {collided}");
    let ended: u64 = totals.iter().map(|[up, _]| up.denied).sum();
    assert!(ended > 0, "some are given up");
}

#[test]
fn what_the_air_loses_is_sent_again() {
    let (clean, _) = contention(1, 100, "0 %");
    let (lossy, totals) = contention(1, 100, "30 %");
    let [up, _] = totals[0];
    assert!(up.retried > 0 && lossy < clean);
    // Four transmissions: 0.3^4 of the frames are lost in the end.
    let share = up.lost as f64 / (up.lost + lossy) as f64;
    assert!((share - 0.0081).abs() < 0.004, "{share}");
}

#[test]
fn a_grant_and_a_radios_states_hold_frames_back() {
    let ms = |ms: u64| Span::from_ns(ms * 1_000_000);
    let mut endpoint = Endpoint::default();
    let grant = link::GrantSpec::always(ms(20), units::Bytes::new(148));
    endpoint.up.transmission = link::Scheduler::Grant(grant).into();
    endpoint.states = Some(link::StatesSpec::idle_connected(ms(260), ms(10_000)));
    let mut cell = Segment::new(&spec(Channel::Switch, vec![endpoint, Endpoint::default()]));
    cell.impair(instant(0));
    cell.send(1, &unicast(1, 9), instant(0));
    drain(&mut cell);
    let times: Vec<u64> = [1000, 1400, 20_000]
        .iter()
        .map(|at| {
            cell.send(0, &unicast(0, 1), instant(at * 1_000_000));
            drain(&mut cell)[0].1 / 1_000_000 - at
        })
        .collect();
    // The first frame (on the downlink) wakes the radio; it is awake at 1000 and idle again
    // by 20,000.
    assert_eq!(times, [20, 20, 280]);
}

#[test]
fn what_is_under_way_is_bounded_where_nothing_else_bounds_it() {
    let mut switch =
        segment(Channel::Switch, |_, link| link.up.delay.mean = "10 s".parse().unwrap());
    let long = [&[2, 0, 0, 0, 0, 9][..], &[2, 0, 0, 0, 0, 0], &[8, 0], &[0; 65_522]].concat();
    (0..1200).for_each(|now| switch.send(0, &long, instant(now)));
    assert_eq!(switch.waiting(), 1024, "64 MiB");
    assert_eq!(switch.totals()[0][0].overflow, 176);
    // The limit is per link.
    switch.send(1, &unicast(1, 9), instant(2000));
    assert_eq!(switch.waiting(), 1025);
    drain(&mut switch);
    switch.send(0, &long, instant(60_000_000_000));
    assert_eq!(switch.waiting(), 1);
}

#[test]
fn a_prefix_of_frames_is_passed_on_unread() {
    const PREFIX: usize = 10;
    let endpoints = vec![Endpoint::default(); 3];
    let spec = SegmentSpec {
        endpoints,
        prefix: PREFIX,
        query_interval: "10 s".parse().unwrap(),
        impaired: true,
        ..SegmentSpec::switch(1)
    };
    let mut switch = Segment::new(&spec);
    let frame = |from: u8, to: u8| {
        let addresses = [[2, 0, 0, 0, 0, to], [2, 0, 0, 0, 0, from]].concat();
        [&[7; PREFIX][..], &addresses, &[8, 0], &[from; 50]].concat()
    };
    switch.send(0, &frame(1, 2), instant(0));
    switch.send(1, &frame(2, 1), instant(1));
    switch.send(2, &[0; PREFIX], instant(1));
    let all: Vec<_> = std::iter::from_fn(|| switch.due(instant(1))).collect();
    let ends: Vec<_> = all.iter().map(|delivery| delivery.endpoint).collect();
    assert_eq!(ends, [1, 2, 0], "flooded, then by the learnt address");
    assert_eq!((&all[2].frame[..], all[2].bytes()), (&frame(2, 1)[..], &frame(2, 1)[PREFIX..]));
    assert_eq!(switch.drops().count(), 1, "a frame without addresses");
}
