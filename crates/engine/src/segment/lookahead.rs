//! Lookahead: how far ahead a segment's deliveries are known, whatever arrives.

use super::Segment;
use link::Direction;
use std::ops::Add;
use units::Span;

impl Segment {
    /// Minimum time from any node to any other: until that long after now, only
    /// frames already in flight can become due (the lookahead of conservative simulation,
    /// Chandy and Misra 1979). Rates, channels and slots only add to it.
    pub fn lookahead(&mut self) -> Span {
        if self.links.is_empty() {
            return Span::MAX;
        }
        if !self.impaired {
            return Span::ZERO;
        }
        if let Some(known) = self.lookahead {
            return known;
        }
        // The minimum of each direction, since any node may send to any other.
        let least = |direction: Direction| {
            self.links.iter().map(|link| link[direction].least_delay()).min()
        };
        let lookahead = Direction::BOTH.into_iter().filter_map(least).fold(Span::ZERO, Add::add);
        self.lookahead = Some(lookahead);
        lookahead
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_times::{instant, span};
    use crate::{Change, Endpoint, SegmentSpec};
    use link::{Impairment, Keys};
    use units::Span;

    fn way(change: impl FnOnce(&mut Impairment)) -> Impairment {
        let mut way = Impairment {
            delay: "5 ms".parse::<units::Span>().unwrap().into(),
            ..Impairment::default()
        };
        change(&mut way);
        way
    }

    fn segment(ends: &[Impairment]) -> Segment {
        let end = |up: &Impairment| Endpoint { up: up.clone(), ..Endpoint::default() };
        let endpoints = ends.iter().map(end).collect();
        Segment::new(&SegmentSpec { endpoints, ..SegmentSpec::switch(1) })
    }

    fn set(to: &str, over: &str) -> Change {
        let set: Keys = serde_json::from_value(serde_json::json!({ "delay": to })).unwrap();
        Change::Set { links: vec![(0, Direction::Up)], set, over: over.parse().unwrap() }
    }

    #[test]
    fn it_is_the_least_of_all_links_and_of_each_as_long_as_it_holds() {
        let jittered = way(|way| way.delay.jitter = "1 ms".parse().unwrap());
        let mut segment = segment(&[way(|_| ()), jittered]);
        assert_eq!(segment.lookahead(), span(0), "nothing is in effect yet");
        segment.impair(instant(0));
        assert_eq!(segment.lookahead(), span(4_000_000));
        segment.change(set("3 ms", "0 s"), instant(1));
        assert_eq!(segment.lookahead(), span(3_000_000));
        segment.change(set("1 ms", "1 s"), instant(2));
        assert_eq!(segment.lookahead(), span(1_000_000), "which a ramp goes to");
        segment.attach(Endpoint::default(), instant(3));
        assert_eq!(segment.lookahead(), span(0));
    }

    #[test]
    fn what_overtakes_or_was_recorded_is_not_foreseen() {
        let mut overtaking = segment(&[way(|way| way.reorder.share = "1 %".parse().unwrap())]);
        overtaking.impair(instant(0));
        assert_eq!(overtaking.lookahead(), span(0));
        let spec = SegmentSpec {
            endpoints: vec![Endpoint { up: way(|_| ()), ..Endpoint::default() }],
            replay: Some(vec![[link::Replay::default(), link::Replay::default()]]),
            ..SegmentSpec::switch(1)
        };
        let mut recorded = Segment::new(&spec);
        recorded.impair(instant(0));
        assert_eq!(recorded.lookahead(), span(0));
    }

    /// No frame arrives earlier, whatever the random decisions.
    #[test]
    fn no_frame_is_faster() {
        let wild = way(|way| {
            way.delay.jitter = Span::from_ns(1_200_000);
            way.delay.distribution = link::Distribution::Normal;
            way.delay.correlation = "30 %".parse().unwrap();
            way.duplicate.share = "20 %".parse().unwrap();
            way.transmission = "100 Mbit/s".parse::<units::Rate>().unwrap().into();
        });
        let mut segment = segment(&[wild.clone(), wild]);
        segment.impair(instant(0));
        let lookahead = segment.lookahead();
        assert!(lookahead > span(0));
        let frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 8, 0][..], &[0; 86]].concat();
        let mut delivered = 0;
        for number in 0..20_000 {
            let now = 1 + number * 1_000_000;
            while let Some(delivery) = segment.due(instant(now)) {
                delivered += 1;
                assert!(delivery.intended >= delivery.arrived + lookahead);
            }
            segment.send(0, &frame, instant(now));
        }
        assert!(delivered > 20_000, "{delivered}");
    }
}
