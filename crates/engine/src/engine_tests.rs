//! Engines with one and with two threads, over sockets instead of nodes' interfaces.

use super::*;
use crate::change::Change;
use crate::io::Taps;
use crate::spec::{Delivery, Drop, Endpoint};
use link::Direction;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;
use units::Instant;

/// Counts what it observes.
#[derive(Default)]
struct Counts {
    begun: u32,
    ended: u32,
    sent: Vec<Place>,
    delivered: Vec<Place>,
    attached: Vec<Place>,
}

impl Observer for Counts {
    fn begin(&mut self, _: Instant) {
        self.begun += 1;
    }
    fn end(&mut self, _: Instant) {
        self.ended += 1;
    }
    fn sent(&mut self, from: Place, _: &[u8], _: Instant) {
        self.sent.push(from);
    }
    fn delivered(&mut self, segment: usize, delivery: &Delivery, _: Instant) {
        self.delivered.push(Place { segment, endpoint: delivery.endpoint });
    }
    fn dropped(&mut self, _: usize, _: Drop, _: Instant) {}
    fn refused(&mut self, _: Place, _: Instant) {}
}

/// The node's end and the engine's end of an interface.
fn interface() -> (UnixDatagram, OwnedFd) {
    let (node, end) = UnixDatagram::pair().unwrap();
    node.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    (node, end.into())
}

/// A broadcast with this number.
fn broadcast(number: u8) -> Vec<u8> {
    [&[0xff; 6][..], &[2, 0, 0, 0, 0, number], &[0x88, 0xb5, number], &[0; 45]].concat()
}

fn number_of_next(node: &UnixDatagram) -> u8 {
    let mut frame = [0; 100];
    assert_eq!(node.recv(&mut frame).unwrap(), 60);
    frame[14]
}

#[test]
fn a_segment_is_carried_by_one_thread_and_all_have_one_outcome() {
    for count in [1, 2] {
        let endpoints = vec![Endpoint::default(); 2];
        let segments = vec![SegmentSpec { endpoints, ..SegmentSpec::switch(1) }; 2];
        let place = |segment, endpoint| Place { segment, endpoint };
        let places = vec![place(0, 0), place(1, 0), place(0, 1), place(1, 1)];
        let (nodes, ends): (Vec<_>, Vec<_>) = places.iter().map(|_| interface()).unzip();
        let threads = Threads::balanced(&segments, count);
        assert_eq!(threads.count(), count);
        let taps = threads.split(ends, &places).into_iter().map(|ends| Taps::new(ends).unwrap());
        let (taps, observer) = (taps.collect(), Counts::default());
        let engine =
            Engine::start_threads(&threads, taps, segments, places, observer, units::Span::ZERO)
                .unwrap();
        engine.begin();
        for (from, to) in [(0, 2), (1, 3), (2, 0), (3, 1)] {
            nodes[from].send(&broadcast(from as u8)).unwrap();
            assert_eq!(usize::from(number_of_next(&nodes[to])), from);
        }
        // Ports that are added have the next numbers in all threads.
        let remote = engine.remote();
        let mut added = Vec::new();
        for segment in [1, 0, 1] {
            let (node, end) = interface();
            let met = |counts: &mut Counts, place| counts.attached.push(place);
            let at = remote.attach(segment, Endpoint::default(), end, met).unwrap();
            nodes[segment].send(&broadcast(9)).unwrap();
            assert_eq!(number_of_next(&node), 9);
            added.push((node, at));
        }
        let (newest, at) = &added[2];
        newest.send(&broadcast(8)).unwrap();
        assert_eq!(number_of_next(&nodes[1]), 8);
        // Links change in the thread of their segment.
        remote.change(1, Change::Down { links: vec![(0, Direction::Up)], down: true });
        let states = remote.states().unwrap();
        let down: Vec<Vec<bool>> =
            states.iter().map(|ends| ends.iter().map(|[up, _]| up.down).collect()).collect();
        assert_eq!(down, [vec![false; 3], vec![true, false, false, false]]);
        engine.end();
        let outcome = engine.stop().unwrap();
        let sent = |segment: usize| -> Vec<u64> {
            outcome.totals[segment].iter().map(|[up, _]| up.frames).collect()
        };
        assert_eq!([sent(0), sent(1)], [vec![2, 1, 0], vec![3, 1, 0, 1]]);
        let Counts { begun, ended, sent, delivered, attached } = outcome.observer;
        assert_eq!((begun, ended, sent.len()), (1, 1, 8));
        assert_eq!(delivered.iter().filter(|to| **to == place(0, 1)).count(), 2);
        assert_eq!(attached, [place(1, 2), place(0, 2), *at]);
    }
}

#[test]
fn no_frame_sent_after_the_start_escapes_the_impairments() {
    for _ in 0..50 {
        let all: units::Ratio = "100 %".parse().unwrap();
        let up = link::Impairment { loss: all.into(), ..link::Impairment::default() };
        let endpoints = vec![Endpoint { up, ..Endpoint::default() }, Endpoint::default()];
        let segments = vec![SegmentSpec { endpoints, ..SegmentSpec::switch(1) }];
        let places = vec![Place { segment: 0, endpoint: 0 }, Place { segment: 0, endpoint: 1 }];
        let (nodes, ends): (Vec<_>, Vec<_>) = places.iter().map(|_| interface()).unzip();
        let taps = Taps::new(ends).unwrap();
        let engine = Engine::start(taps, segments, places, Counts::default()).unwrap();
        engine.begin();
        nodes[0].send(&broadcast(1)).unwrap();
        while engine.frames() == 0 {
            std::thread::sleep(Duration::from_micros(100));
        }
        engine.end();
        assert!(engine.stop().unwrap().observer.delivered.is_empty());
    }
}

#[test]
fn an_engine_that_is_dropped_releases_its_interfaces() {
    let (node, end) = interface();
    let endpoints = vec![Endpoint::default()];
    let segments = vec![SegmentSpec { endpoints, ..SegmentSpec::switch(1) }];
    let places = vec![Place { segment: 0, endpoint: 0 }];
    let taps = Taps::new(vec![end]).unwrap();
    drop(Engine::start(taps, segments, places, Counts::default()).unwrap());
    assert!(node.send(&broadcast(1)).is_err(), "the other end is closed");
}
