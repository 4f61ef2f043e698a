//! Compares the written options word by word with the layouts of `linux/pkt_sched.h`.

use super::*;

/// The options of `netem`: the leading structure, and the attributes.
fn options(netem: &Netem) -> (Vec<u32>, Vec<u8>) {
    let mut message = Message::new(libc::RTM_NEWQDISC, 0, &at_root(7));
    message.text(TCA_KIND, "netem");
    netem.write(&mut message);
    let bytes = message.finish();
    let options = find(&bytes[16 + TCMSG..], TCA_OPTIONS).unwrap();
    (numbers(&options[..24]), options[24..].to_vec())
}

fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect()
}

fn percent(percent: f64) -> Ratio {
    Ratio::from_fraction(percent / 100.0).unwrap()
}

fn chance(share: f64, correlation: f64) -> Chance {
    Chance { share: percent(share), correlation: percent(correlation) }
}

const ALL: u32 = u32::MAX;
/// A quarter and a half of 2^32 - 1, rounded.
const QUARTER: u32 = 1 << 30;
const HALF: u32 = 1 << 31;

#[test]
fn the_header_names_interface_and_root() {
    assert_eq!(numbers(&at_root(7)), [0, 7, 0, TC_H_ROOT, 0]);
}

#[test]
fn what_is_not_asked_is_nothing() {
    let (head, rest) = options(&Netem { limit: 1000, ..Netem::default() });
    assert_eq!(head, [0, 1000, 0, 0, 0, 0]);
    assert_eq!(find(&rest, LATENCY64), Some(&[0; 8][..]));
    for kind in [DELAY_DIST, LOSS, RATE, RATE64, SLOT] {
        assert_eq!(find(&rest, kind), None, "{kind}");
    }
}

#[test]
fn delay_and_jitter_are_nanoseconds() {
    let (delay, jitter) = (Span::from_ns(30_000_000_001), Span::from_ns(5_000_000));
    let distribution = vec![-8192, 0, 8192];
    let netem = Netem { delay, jitter, distribution, ..Netem::default() };
    let (_, rest) = options(&netem);
    assert_eq!(find(&rest, LATENCY64), Some(&30_000_000_001i64.to_ne_bytes()[..]));
    assert_eq!(find(&rest, JITTER64), Some(&5_000_000i64.to_ne_bytes()[..]));
    let table: Vec<u8> = [-8192i16, 0, 8192].iter().flat_map(|n| n.to_ne_bytes()).collect();
    assert_eq!(find(&rest, DELAY_DIST), Some(&table[..]));
}

#[test]
fn the_largest_table_fits() {
    let netem = Netem { distribution: vec![1; DISTRIBUTION_MOST + 5], ..Netem::default() };
    let (_, rest) = options(&netem);
    assert_eq!(find(&rest, DELAY_DIST).unwrap().len(), 2 * DISTRIBUTION_MOST);
    assert!(find(&rest, PRNG_SEED).is_some(), "what follows is found");
}

#[test]
fn shares_are_of_all_32_bits() {
    let netem = Netem {
        correlation: percent(25.0),
        loss: Loss::Random(chance(100.0, 50.0)),
        duplicate: chance(25.0, 100.0),
        corrupt: chance(50.0, 25.0),
        reorder: chance(25.0, 50.0),
        gap: 5,
        limit: 9,
        ..Netem::default()
    };
    let (head, rest) = options(&netem);
    assert_eq!(head, [0, 9, ALL, 5, QUARTER, 0]);
    let found = |kind: u16| numbers(find(&rest, kind).unwrap());
    assert_eq!(found(CORR), [QUARTER, HALF, ALL]);
    assert_eq!(found(CORRUPT), [HALF, QUARTER]);
    assert_eq!(found(REORDER), [QUARTER, HALF]);
}

#[test]
fn models_of_loss_are_in_the_kernels_order() {
    let loss = |loss: Loss| {
        let (head, rest) = options(&Netem { loss, ..Netem::default() });
        assert_eq!(head[2], 0, "no additional random loss");
        find(&rest, LOSS).unwrap().to_vec()
    };
    let [p, r, bad, good] = [100.0, 25.0, 50.0, 0.0].map(percent);
    let gilbert = loss(Loss::GilbertElliott { p, r, bad, good });
    assert_eq!(numbers(find(&gilbert, LOSS_GE).unwrap()), [ALL, QUARTER, ALL - HALF, 0]);
    let [p13, p31, p32, p23, p14] = [100.0, 25.0, 50.0, 0.0, 12.5].map(percent);
    let markov = loss(Loss::Markov { p13, p31, p32, p23, p14 });
    let want = [ALL, QUARTER, HALF, 1 << 29, 0];
    assert_eq!(numbers(find(&markov, LOSS_GI).unwrap()), want);
}

#[test]
fn rates_are_bytes_and_have_a_place_of_their_own_when_large() {
    let rated = |bit_s: u64| Netem {
        rate: Rate::from_bit_s(bit_s),
        overhead: -14,
        cell: Some((Bytes::new(48), Bytes::new(5))),
        ..Netem::default()
    };
    let (_, rest) = options(&rated(1_000_000));
    let minus_14 = u32::from_ne_bytes((-14i32).to_ne_bytes());
    assert_eq!(numbers(find(&rest, RATE).unwrap()), [125_000, minus_14, 48, 5]);
    assert_eq!(find(&rest, RATE64), None);
    let (_, rest) = options(&rated(80_000_000_000));
    assert_eq!(numbers(find(&rest, RATE).unwrap())[0], ALL);
    assert_eq!(find(&rest, RATE64), Some(&10_000_000_000u64.to_ne_bytes()[..]));
}

#[test]
fn slots_have_their_bounds_and_room() {
    let (min, max) = (Span::from_ns(20), Span::from_ns(40));
    let slot = Slot { min, max, packets: Some(10), bytes: Some(Bytes::new(1 << 40)) };
    let (_, rest) = options(&Netem { slot: Some(slot), ..Netem::default() });
    let want = [20, 0, 40, 0, 10, i32::MAX as u32, 0, 0, 0, 0];
    assert_eq!(numbers(find(&rest, SLOT).unwrap()), want);
}

#[test]
fn counts_are_read_from_an_answer() {
    let mut answer = Message::new(libc::RTM_NEWQDISC, 0, &at_root(7));
    answer.text(TCA_KIND, "netem");
    let counts = answer.begin(TCA_STATS2 | NESTED);
    answer.bytes(TCA_STATS_BASIC, &[&5000u64.to_ne_bytes()[..], &words([50, 0])].concat());
    answer.bytes(TCA_STATS_QUEUE, &words([1, 100, 7, 0, 0]));
    answer.end(counts);
    let bytes = &answer.finish()[16 + TCMSG..];
    assert_eq!(Passed::read(bytes), Some(Passed { frames: 50, bytes: 5000, dropped: 7 }));
    assert_eq!(Passed::read(&bytes[..20]), None);
}
