//! Two ends over a lossy pipe, in virtual time.

use super::*;
use crate::conditions::Conditions;
use crate::envelope::DATA_OVERHEAD;
use crate::keys::Root;
use crate::model::ModelId;
use crate::rng::{Rng, Seed};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const MS: Span = Span::from_ms(1);
const SECOND: Span = Span::from_s(1);

fn params(root: Root, datagram: usize) -> Params {
    Params {
        pair: root.clone(),
        root,
        epoch: 3,
        members: 4,
        datagram,
        below: 42,
        rate_bit_s: 10e6,
        loss: 0.0,
        round_trip: 40 * MS,
        wait: 40 * MS,
        estimated: false,
        answered: true,
        answer: 100,
        efficient: false,
        seed: Seed::reproducible(7),
    }
}

fn keyed() -> Params {
    params(Root::new(b"sixteen bytes of key and more", [7; 16]), 1_472)
}

fn ends(params: &Params, kind: Kind) -> [Quic; 2] {
    let hub = Quic::new(params, kind, Party::Hub, Party::Member(2), 2).unwrap();
    [hub, restarted(params, kind)]
}

fn restarted(params: &Params, kind: Kind) -> Quic {
    Quic::new(params, kind, Party::Member(2), Party::Hub, 2).unwrap()
}

/// Datagrams in flight: arrival time, receiving end, content.
type Arrival = (Instant, u64, usize, Vec<u8>);

/// A hub, a member, and the path between them.
struct Pipe {
    ends: [Quic; 2],
    now: Instant,
    loss: f64,
    rng: Rng,
    queue: BinaryHeap<Reverse<Arrival>>,
    sent: u64,
    longest: usize,
    /// Messages that each end has received, and that each knows the other to have received.
    got: [Vec<Vec<u8>>; 2],
    delivered: [Vec<MessageId>; 2],
    frames: (u32, u32),
    trips: Vec<Span>,
}

impl Pipe {
    fn new(ends: [Quic; 2], loss: f64) -> Self {
        Self {
            ends,
            now: Instant::START,
            loss,
            rng: Rng::new(&Seed::reproducible(11)),
            queue: BinaryHeap::new(),
            sent: 0,
            longest: 0,
            got: Default::default(),
            delivered: Default::default(),
            frames: (0, 0),
            trips: Vec::new(),
        }
    }

    fn run(&mut self, until: Instant) {
        while self.now < until {
            let mut wake = until;
            for from in 0..2 {
                loop {
                    let (datagram, look) = self.ends[from].poll(self.now);
                    self.ends[from].take_delivered(&mut self.delivered[from]);
                    let Some(datagram) = datagram else {
                        wake = wake.min(look.unwrap_or(until));
                        break;
                    };
                    self.sent += 1;
                    self.longest = self.longest.max(datagram.len());
                    let at = self.now + 20 * MS;
                    if self.rng.uniform() >= self.loss {
                        self.queue.push(Reverse((at, self.sent, 1 - from, datagram)));
                    }
                }
            }
            let next = self.queue.peek().map_or(until, |Reverse((at, ..))| *at);
            // Timers fire late, never early.
            self.now = next.min(wake.max(self.now + Span::from_us(1))).min(until);
            while self.queue.peek().is_some_and(|Reverse((at, ..))| *at <= self.now) {
                let Some(Reverse((_, _, to, datagram))) = self.queue.pop() else { break };
                let received = self.ends[to].receive(&datagram, self.now);
                self.got[to].extend(received.envelopes);
                if to == 0 {
                    self.frames.0 += received.frames.0;
                    self.frames.1 += received.frames.1;
                    self.trips.extend(received.round_trip);
                }
                if let Some(reply) = received.reply {
                    self.sent += 1;
                    self.queue.push(Reverse((self.now + 20 * MS, self.sent, 1 - to, reply)));
                }
            }
        }
    }

    /// Each end sends one message of these lengths every 100 ms.
    fn talk(&mut self, lengths: &[usize]) {
        for (number, length) in lengths.iter().enumerate() {
            for end in &mut self.ends {
                end.send(number as u64, vec![number as u8; *length], None).unwrap();
            }
            self.run(self.now + 100 * MS);
        }
    }
}

fn numbers(got: &[Vec<u8>]) -> Vec<u8> {
    let mut numbers: Vec<u8> = got.iter().map(|bytes| bytes[0]).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn streams_bring_all_once_through_a_pipe_that_loses_much() {
    let mut pipe = Pipe::new(ends(&keyed(), Kind::Streams), 0.3);
    let lengths: Vec<usize> = (0..60).map(|n| if n % 10 == 5 { 30_000 } else { 300 }).collect();
    pipe.talk(&lengths);
    pipe.run(Instant::START + 120 * SECOND);
    for end in 0..2 {
        assert_eq!(numbers(&pipe.got[end]), (0..60).collect::<Vec<u8>>());
        assert!(pipe.got[end].iter().all(|bytes| bytes.len() == lengths[usize::from(bytes[0])]));
        pipe.delivered[end].sort_unstable();
        assert_eq!(pipe.delivered[end], (0..60).collect::<Vec<u64>>());
        assert!(pipe.ends[end].waiting.is_empty() && pipe.ends[end].links.len() <= MAX_LINKS);
    }
    assert!(pipe.longest <= 1_472, "{}", pipe.longest);
    let (received, lost) = pipe.frames;
    let share = f64::from(lost) / f64::from(received + lost);
    assert!(received > 100 && (0.2..0.45).contains(&share), "{received} {lost}");
}

#[test]
fn a_quiet_pipe_tells_its_round_trip_and_no_loss() {
    let mut pipe = Pipe::new(ends(&keyed(), Kind::Streams), 0.0);
    pipe.ends[0].send(1, b"first".to_vec(), None).unwrap();
    pipe.run(Instant::START + 110 * MS);
    // Two one-way delays for the handshake, one for the message.
    assert_eq!(pipe.got[1], [b"first"]);
    pipe.run(Instant::START + SECOND);
    let sent = pipe.sent;
    pipe.run(Instant::START + 500 * SECOND);
    assert_eq!((pipe.delivered[0].as_slice(), pipe.frames.1), (&[1][..], 0));
    assert!(pipe.trips.iter().all(|trip| (40 * MS..50 * MS).contains(trip)), "{:?}", pipe.trips);
    assert!(pipe.sent <= sent, "no traffic without messages");
}

#[test]
fn datagrams_are_lost_and_never_doubled() {
    let mut pipe = Pipe::new(ends(&keyed(), Kind::Datagrams), 0.3);
    pipe.talk(&[400; 100]);
    pipe.run(Instant::START + 60 * SECOND);
    for end in 0..2 {
        let got = numbers(&pipe.got[end]);
        assert!((50..90).contains(&got.len()), "{}", got.len());
        assert!(got.windows(2).all(|pair| pair[0] < pair[1]), "{got:?}");
        assert!(pipe.delivered[end].is_empty());
    }
    let (received, lost) = pipe.frames;
    assert!(received > 50 && lost > 10, "{received} {lost}");
}

#[test]
fn the_longest_that_is_taken_fits_and_more_is_refused() {
    for datagram in [1_202, 1_400, 65_000] {
        let params = params(Root::insecure([1; 16]), datagram);
        for kind in [Kind::Streams, Kind::Datagrams] {
            let mut pipe = Pipe::new(ends(&params, kind), 0.0);
            let most = pipe.ends[0].most;
            pipe.ends[0].send(1, vec![1; most], None).unwrap();
            let why = pipe.ends[0].send(2, vec![1; most + 1], None).unwrap_err();
            assert!(why.contains("at most"), "{why}");
            pipe.run(Instant::START + 60 * SECOND);
            assert_eq!(pipe.got[1].len(), 1, "{kind:?} {datagram}");
            assert!(pipe.longest <= datagram);
        }
    }
}

#[test]
fn where_a_packet_has_no_room_there_is_no_end() {
    let small = params(Root::insecure([1; 16]), 1_201);
    assert!(Quic::new(&small, Kind::Streams, Party::Hub, Party::Member(0), 0).is_none());
    let tiny = params(Root::insecure([1; 16]), 1);
    assert!(Quic::new(&tiny, Kind::Datagrams, Party::Hub, Party::Member(0), 0).is_none());
}

/// The policy's packet sizes match the transport's.
#[test]
fn what_fits_is_what_can_be() {
    for packet in [500, 1_229, 1_230, 1_400, 1_500, 9_000] {
        let here = Conditions { mtu: f64::from(packet), payload: 0.0, ..Conditions::default() };
        let params = params(keyed().root, packet as usize - 28);
        let end = |kind| Quic::new(&params, kind, Party::Hub, Party::Member(0), 0);
        assert_eq!(ModelId::QuicStreams.fits(&here), end(Kind::Streams).is_some());
        let Some(datagrams) = end(Kind::Datagrams) else {
            assert!(!ModelId::QuicDatagrams.fits(&here));
            continue;
        };
        // An answer has a header that is 6 bytes longer than a message's.
        let most = (datagrams.most - DATA_OVERHEAD - 6) as f64;
        assert!(ModelId::QuicDatagrams.fits(&Conditions { payload: most, ..here }));
        assert!(!ModelId::QuicDatagrams.fits(&Conditions { payload: most + 1.0, ..here }));
    }
}

#[test]
fn a_member_that_starts_anew_gets_what_it_had_not() {
    let params = keyed();
    let mut pipe = Pipe::new(ends(&params, Kind::Streams), 0.1);
    pipe.talk(&[300; 10]);
    // In the middle of a long message.
    pipe.ends[0].send(10, vec![10; 200_000], None).unwrap();
    pipe.run(pipe.now + 300 * MS);
    pipe.ends[1] = restarted(&params, Kind::Streams);
    pipe.run(pipe.now + 30 * SECOND);
    assert_eq!(pipe.delivered[0].len(), 11);
    assert!(pipe.got[1].iter().any(|bytes| bytes.len() == 200_000));
    // It answers over the connection that the hub has opened.
    pipe.ends[1].send(11, b"an answer".to_vec(), None).unwrap();
    pipe.run(pipe.now + 5 * SECOND);
    assert!(pipe.got[0].iter().any(|bytes| bytes == b"an answer"));
    assert!(pipe.ends.iter().all(|end| end.links.len() == 1));
}

#[test]
fn a_member_answers_after_the_connection_is_forgotten() {
    let mut pipe = Pipe::new(ends(&keyed(), Kind::Streams), 0.0);
    pipe.ends[0].send(1, b"a question".to_vec(), None).unwrap();
    pipe.run(Instant::START + 1_000 * SECOND);
    assert!(pipe.ends.iter().all(|end| end.links.is_empty()));
    pipe.ends[1].send(1, b"an answer".to_vec(), None).unwrap();
    pipe.run(Instant::START + 1_001 * SECOND);
    assert_eq!(pipe.got[0], [b"an answer"]);
}

#[test]
fn an_outage_is_over_when_it_is_over() {
    let mut pipe = Pipe::new(ends(&keyed(), Kind::Streams), 0.0);
    pipe.talk(&[300; 3]);
    pipe.loss = 1.0;
    pipe.talk(&[300; 6]);
    pipe.run(Instant::START + 200 * SECOND);
    assert_eq!(pipe.got[1].len(), 3);
    pipe.loss = 0.0;
    pipe.run(Instant::START + 206 * SECOND);
    assert_eq!(pipe.got[1].len(), 9);
}

#[test]
fn who_has_another_key_or_epoch_is_not_heard() {
    let (own, other) = (keyed(), params(Root::new(b"another key of sixteen", [7; 16]), 1_472));
    let [hub, _] = ends(&own, Kind::Streams);
    let mut pipe = Pipe::new([hub, restarted(&other, Kind::Streams)], 0.0);
    pipe.talk(&[100; 3]);
    pipe.run(Instant::START + 30 * SECOND);
    assert!(pipe.got.iter().all(Vec::is_empty) && pipe.delivered.iter().all(Vec::is_empty));
    assert!(pipe.ends.iter().all(|end| end.links.len() <= MAX_LINKS));
    // Two epochs in use in parallel do not see each other's datagrams.
    let [mut hub, _] = ends(&own, Kind::Streams);
    let mut next = restarted(&Params { epoch: 4, ..own }, Kind::Streams);
    hub.send(1, b"x".to_vec(), None).unwrap();
    let first = hub.poll(Instant::START).0.unwrap();
    assert!(next.receive(&first, Instant::from_ns(1)).reply.is_none() && next.links.is_empty());
}

#[test]
fn what_is_too_late_is_given_up() {
    let mut pipe = Pipe::new(ends(&keyed(), Kind::Streams), 0.0);
    pipe.talk(&[100; 2]);
    pipe.loss = 1.0;
    pipe.ends[0].send(2, b"late".to_vec(), Some(pipe.now + SECOND)).unwrap();
    pipe.run(pipe.now + 2 * SECOND);
    pipe.loss = 0.0;
    pipe.run(pipe.now + 60 * SECOND);
    assert_eq!((numbers(&pipe.got[1]).len(), pipe.delivered[0].len()), (2, 2));
    assert!(pipe.ends[0].waiting.is_empty());
}

#[test]
fn foreign_bytes_do_no_harm() {
    let mut pipe = Pipe::new(ends(&params(Root::insecure([1; 16]), 1_472), Kind::Streams), 0.0);
    let mut rng = Rng::new(&Seed::reproducible(5));
    pipe.ends[0].send(0, vec![0; 5_000], None).unwrap();
    let mut seen: Vec<Vec<u8>> = Vec::new();
    for round in 0..3_000_u64 {
        pipe.run(pipe.now + MS);
        seen.extend(pipe.queue.iter().map(|Reverse((.., datagram))| datagram.clone()));
        seen.truncate(200);
        // Recorded datagrams, modified or truncated, and random ones.
        let mut bytes = match seen.get(rng.bits() as usize % 250) {
            Some(datagram) => datagram.clone(),
            None => (0..rng.bits() % 1_300).map(|_| rng.bits() as u8).collect(),
        };
        let length = bytes.len().max(1);
        if round % 3 > 0 && !bytes.is_empty() {
            bytes[rng.bits() as usize % length] ^= rng.bits() as u8;
            bytes.truncate(if round % 3 > 1 { rng.bits() as usize % length } else { length });
        }
        if let [first, second, ..] = &mut bytes[..] {
            [*first, *second] = pipe.ends[0].mark;
        }
        let now = pipe.now;
        pipe.ends[(round % 2) as usize].receive(&bytes, now);
        assert!(pipe.ends.iter().all(|end| end.links.len() <= MAX_LINKS + 1));
    }
    pipe.ends[0].send(1, b"still here".to_vec(), None).unwrap();
    pipe.run(pipe.now + 20 * SECOND);
    assert_eq!(pipe.got[1].iter().filter(|bytes| *bytes == b"still here").count(), 1);
}
