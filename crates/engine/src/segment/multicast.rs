//! Multicast snooping and queries of a segment.

use super::Segment;
use crate::change::Direction;
use crate::event_queue::Event;
use crate::membership::Message;
use crate::{Frame, Instant};

impl Segment {
    /// Learns from a membership message.
    pub(super) fn on_membership(&mut self, message: &Message, link: usize, now: Instant) {
        match message {
            Message::Query { from_router: true } => self.querier.router_asks(now),
            Message::Report(groups) => {
                self.has_ipv6_groups |= groups.iter().any(|(group, _)| group.is_ipv6());
                self.wake_querier(now);
            }
            _ => {}
        }
        let until = self.querier.holds_until(now);
        self.table.learn_groups(message, link, until);
    }

    /// Multicast was seen on the segment.
    pub(super) fn wake_querier(&mut self, now: Instant) {
        if let Some(first) = self.querier.wake(now) {
            self.events_due.add(first, Event::Query);
        }
    }

    /// Sends membership queries to all hosts, over their links.
    pub(super) fn query(&mut self, now: Instant) {
        self.table.expire(now);
        let (asks, next) = self.querier.turn(now);
        self.events_due.add(next, Event::Query);
        if !asks {
            return;
        }
        let mut queries = vec![self.querier.igmp()];
        if self.has_ipv6_groups {
            queries.push(self.querier.mld());
        }
        let before = vec![0; self.prefix];
        for query in &queries {
            let query = Frame::from([&before[..], &query[..]].concat());
            for endpoint in 0..self.links.len() {
                match self.impaired {
                    true => self.enter(endpoint, Direction::Down, query.clone(), now, now),
                    false => self.queue_delivery(endpoint, query.clone(), now, now),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::tests::{JOIN_V3, igmp_frame};
    use crate::{Endpoint, SegmentSpec};

    const S: Instant = 1_000_000_000;

    fn segment(query_interval: &str) -> Segment {
        let endpoints = vec![Endpoint::default(); 3];
        let query_interval = query_interval.parse().unwrap();
        let spec =
            SegmentSpec { endpoints, query_interval, impaired: true, ..SegmentSpec::switch(1) };
        Segment::new(&spec)
    }

    /// Receivers until then, and whether each got a query.
    fn received(segment: &mut Segment, until: Instant) -> Vec<(Instant, usize, bool)> {
        let mut all = Vec::new();
        while let Some(next) = segment.next().filter(|next| *next <= until) {
            while let Some(delivery) = segment.due(next) {
                let message = crate::membership::read(delivery.bytes());
                let query = matches!(message, Some(Message::Query { .. }));
                all.push((next / S, delivery.endpoint, query));
            }
        }
        all
    }

    fn to_group(from: u8) -> Vec<u8> {
        let mut frame = igmp_frame(&[0; 20]);
        frame[11] = from;
        // UDP to 239.1.2.3.
        frame[23] = 17;
        frame[30..34].copy_from_slice(&[239, 1, 2, 3]);
        frame
    }

    #[test]
    fn without_multicast_there_are_no_queries() {
        let mut segment = segment("10 s");
        segment.send(0, &[2; 60], S);
        assert!(received(&mut segment, 100 * S).iter().all(|(_, _, query)| !query));
    }

    #[test]
    fn a_member_whose_report_is_lost_is_asked_again() {
        let mut segment = segment("10 s");
        // The report of endpoint 2 was lost; endpoint 0 sends to the group.
        segment.send(0, &to_group(1), S);
        assert_eq!(received(&mut segment, 2 * S), [(2, 0, true), (2, 1, true), (2, 2, true)]);
        // Endpoint 2 answers and receives the next message.
        segment.send(2, &igmp_frame(&JOIN_V3), 3 * S);
        segment.send(0, &to_group(1), 4 * S);
        assert_eq!(received(&mut segment, 4 * S), [(4, 2, false)]);
    }

    #[test]
    fn who_says_no_more_is_forgotten() {
        let mut segment = segment("10 s");
        segment.send(2, &igmp_frame(&JOIN_V3), S);
        received(&mut segment, 25 * S);
        segment.send(0, &to_group(1), 25 * S);
        assert_eq!(received(&mut segment, 25 * S), [(25, 2, false)]);
        // 2 x 10 s + 5 s after its report.
        received(&mut segment, 40 * S);
        segment.send(0, &to_group(1), 40 * S);
        assert_eq!(received(&mut segment, 40 * S), []);
    }

    #[test]
    fn reports_go_to_routers_alone_which_then_ask() {
        let mut segment = segment("10 s");
        let query = igmp_frame(&[0x11, 100, 0, 0, 0, 0, 0, 0]);
        // Sent to 224.0.0.22 here, which is flooded.
        segment.send(0, &query, S);
        assert_eq!(received(&mut segment, S), [(1, 1, true), (1, 2, true)]);
        segment.send(2, &igmp_frame(&JOIN_V3), 2 * S);
        assert_eq!(received(&mut segment, 20 * S), [(2, 0, false)], "and no other querier sends");
        // The router receives what members receive.
        segment.send(1, &to_group(3), 21 * S);
        assert_eq!(received(&mut segment, 21 * S), [(21, 0, false), (21, 2, false)]);
    }
}
