use super::*;
use proptest::prelude::*;

fn at(ms: u64) -> Instant {
    Instant::START + Span::from_ms(ms)
}

fn ms(ms: u64) -> Option<Span> {
    Some(Span::from_ms(ms))
}

/// The next time in ms, `None` for never, of a device that is idle since `idle` ms.
fn next(reach: &Reach, idle: u64, now: u64) -> Option<u64> {
    match reach.next(Past { active: at(idle), sent: &VecDeque::new() }, at(now)) {
        Reachable::Now => Some(now),
        Reachable::At(at) => Some(at.as_ns() / 1_000_000),
        Reachable::Never => None,
    }
}

fn drx() -> Reach {
    Reach { paging: ms(2_560), ..Reach::default() }
}

#[test]
fn a_frame_waits_for_the_next_occasion() {
    assert_eq!(next(&drx(), 0, 1), Some(2_560));
    assert_eq!(next(&drx(), 0, 2_560), Some(2_560));
    let later = Reach { offset: Span::from_ms(40), ..drx() };
    assert_eq!((next(&later, 0, 1), next(&later, 0, 41)), (Some(40), Some(2_600)));
}

#[test]
fn with_edrx_it_waits_for_a_window() {
    let edrx = Reach { cycle: ms(20_480), window: ms(5_120), ..drx() };
    assert_eq!(edrx.check("idle", false), Ok(()));
    assert_eq!(next(&edrx, 0, 1), Some(2_560), "within the window");
    assert_eq!(next(&edrx, 0, 2_561), Some(20_480), "the window is over at 5.12 s");
}

#[test]
fn with_psm_it_waits_for_the_periodic_update_or_for_ever() {
    let psm = Reach { active: ms(16_000), ..drx() };
    assert_eq!(next(&psm, 1_000, 10_000), Some(10_240));
    assert_eq!(next(&psm, 1_000, 20_000), None);
    let updated = Reach { periodic: ms(3_600_000), ..psm };
    // The update is at 3,601 s; the next occasion is at 1,407 x 2.56 s.
    assert_eq!(next(&updated, 1_000, 20_000), Some(3_601_920));
    // No occasion ever falls into the time of listening.
    let short = Reach { active: ms(1), periodic: ms(2_560), offset: Span::from_ms(100), ..drx() };
    assert_eq!(next(&short, 0, 10), None);
}

#[test]
fn texts_say_when_it_receives() {
    let psm = Reach { active: ms(16_000), periodic: ms(3_600_000), ..drx() };
    assert_eq!(psm.text(), "paged every 2.56 s for 16 s and again every 60 min");
    let edrx = Reach { cycle: ms(20_480), window: ms(5_120), ..drx() };
    assert_eq!(edrx.text(), "paged every 2.56 s in the first 5.12 s of 20.48 s");
    let after_uplink = vec![Span::from_s(1), Span::from_s(2)];
    let class_a = Reach { after_uplink, ..Reach::default() };
    assert_eq!(class_a.text(), "receives 1 s or 2 s after it sent");
}

#[test]
fn a_connected_device_listens_for_a_while() {
    let connected = Reach { awake: Span::from_ms(100), ..drx() };
    assert_eq!(
        (next(&connected, 3_000, 3_100), next(&connected, 3_000, 3_101)),
        (Some(3_100), Some(5_120))
    );
}

#[test]
fn windows_follow_its_own_frames() {
    let windows = vec![Span::from_ms(1_000), Span::from_ms(2_000)];
    let class_a = Reach { after_uplink: windows, ..Reach::default() };
    assert_eq!(class_a.check("a", true), Ok(()));
    let after = |sent: Option<u64>, now: u64| {
        let sent = sent.map(at).into_iter().collect();
        class_a.next(Past { active: at(0), sent: &sent }, at(now))
    };
    assert_eq!(after(None, 5), Reachable::Never);
    assert_eq!(after(Some(100), 100), Reachable::At(at(1_100)));
    assert_eq!(after(Some(100), 1_100), Reachable::Now);
    assert_eq!(after(Some(100), 1_101), Reachable::At(at(2_100)));
    assert_eq!(after(Some(100), 2_101), Reachable::Never);
}

#[test]
fn contradictions_are_refused() {
    let refused = |reach: Reach, serves: bool, why: &str| {
        let error = reach.check("idle", serves).unwrap_err();
        assert!(error.contains(why), "{error}");
    };
    let after = vec![Span::from_ms(1)];
    refused(Reach::default(), false, "either `paging` or");
    refused(Reach { after_uplink: after.clone(), ..drx() }, true, "either `paging` or");
    let windows = Reach { after_uplink: after, ..Reach::default() };
    refused(windows.clone(), false, "carries nothing");
    refused(Reach { cycle: ms(5), ..windows }, true, "keys of paging");
    refused(Reach { paging: ms(0), ..Reach::default() }, false, "of zero");
    refused(Reach { offset: Span::from_ms(2_560), ..drx() }, false, "`offset`");
    refused(Reach { cycle: ms(20_480), ..drx() }, false, "give both");
    refused(Reach { cycle: ms(20_480), window: ms(1), ..drx() }, false, "between");
    refused(Reach { periodic: ms(9), ..drx() }, false, "without `active`");
    refused(Reach { active: ms(9), ..drx() }, true, "without a connection");
}

fn any_span() -> impl Strategy<Value = Span> {
    prop_oneof![Just(0), 0..10_u64, 0..10_000_000_000_u64, any::<u64>()].prop_map(Span::from_ns)
}

proptest! {
    /// A checked spec never panics, and never says that a device listens in the past.
    #[test]
    fn any_times_do_no_harm(
        spans in prop::array::uniform8(prop::option::of(any_span())),
        after_uplink in prop::collection::vec(any_span(), 0..3),
        past in prop::array::uniform3(any::<u64>()),
        serves: bool,
    ) {
        let [awake, paging, offset, cycle, window, active, periodic, _] = spans;
        let (awake, offset) = (awake.unwrap_or_default(), offset.unwrap_or_default());
        let reach = Reach { awake, paging, offset, cycle, window, active, periodic, after_uplink };
        if reach.check("idle", serves).is_ok() {
            let [a, b, now] = past.map(Instant::from_ns);
            let past = Past { active: a.min(now), sent: &VecDeque::from([b.min(now)]) };
            if let Reachable::At(at) = reach.next(past, now) {
                prop_assert!(at > now);
            }
        }
    }
}
