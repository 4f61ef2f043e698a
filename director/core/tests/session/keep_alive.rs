//! Known members behind a NAT that forgets the binding of an idle member.

use crate::bed::*;
use director::session::{Event, Hub, Member, MemberEvent};
use director::{Conditions, Instant, ModelId, Pattern, Span};

/// A binding without a datagram of the member ends after this time (RFC 4787, REQ-5: two minutes).
const BINDING: u64 = 120 * SECOND;
const STEP: u64 = SECOND / 20;

/// A hub and a known member behind a NAT.
struct Nat {
    hub: Hub,
    member: Member,
    now: u64,
    /// Time of the member's last datagram.
    outgoing_at: u64,
    /// Datagrams of the member so far.
    sent: usize,
    answers: usize,
}

impl Nat {
    fn new(keep_alive: Option<Span>) -> Self {
        let models = [ModelId::UdpArq];
        let config = config(Pattern::RequestResponse, Conditions::default(), &models);
        let own = member(&config, 2);
        let member = match keep_alive {
            Some(interval) => own.with_keep_alive(interval),
            None => own,
        };
        Self { hub: hub(&config, 1, 1), member, now: 0, outgoing_at: 0, sent: 0, answers: 0 }
    }

    /// Lets time pass; the member answers messages.
    fn run(&mut self, until: u64) {
        while self.now < until {
            self.now += STEP;
            let now = Instant::from_ns(self.now);
            for event in self.member.take_events() {
                if let MemberEvent::Message { number, .. } = event {
                    self.member.answer(number, b"a reading".to_vec(), now).unwrap();
                }
            }
            while let (Some(datagram), _) = self.member.poll(now) {
                self.outgoing_at = self.now;
                self.sent += 1;
                self.hub.receive(&datagram, Some(0), now);
            }
            while let (Some((_, datagram)), _) = self.hub.poll(now) {
                if self.now < self.outgoing_at + BINDING {
                    self.member.receive(&datagram, now);
                }
            }
            let answers = self.hub.take_events();
            let is_answer = |event: &&Event| matches!(event, Event::Answer { .. });
            self.answers += answers.iter().filter(is_answer).count();
        }
    }

    fn ask(&mut self) {
        let lifetime = Some(Span::from_s(5));
        self.hub.send_within(b"a request", &[0], lifetime, Instant::from_ns(self.now)).unwrap();
    }
}

#[test]
fn an_idle_member_behind_a_nat_is_reached_if_it_has_a_keep_alive() {
    for (keep_alive, reached) in [(None, false), (Some(60), true), (Some(115), true)] {
        let mut nat = Nat::new(keep_alive.map(Span::from_s));
        nat.run(10 * SECOND);
        assert!(nat.hub.is_ready());
        nat.run(3_600 * SECOND);
        nat.ask();
        nat.run(3_610 * SECOND);
        assert_eq!(nat.answers == 1, reached, "{keep_alive:?}");
    }
}

#[test]
fn a_keep_alive_costs_two_datagrams_in_its_interval_and_none_while_the_member_answers() {
    let idle = |keep_alive: Option<u64>, asks: bool| {
        let mut nat = Nat::new(keep_alive.map(Span::from_s));
        nat.run(10 * SECOND);
        let before = nat.sent;
        for minute in 0..60 {
            if asks {
                nat.ask();
            }
            nat.run((10 + (minute + 1) * 60) * SECOND);
        }
        assert_eq!(nat.answers, if asks { 60 } else { 0 });
        nat.sent - before
    };
    assert_eq!(idle(None, false), 0);
    // A report and the response to its answer, every 100 s for 3,600 s.
    let idle_with = idle(Some(100), false);
    assert!((70..=74).contains(&idle_with), "{idle_with}");
    assert_eq!(idle(Some(100), true), idle(None, true));
}

/// A hub that has restarted cannot reach the member: only the member can begin.
#[test]
fn a_member_with_a_keep_alive_notices_that_its_hub_has_restarted() {
    let mut nat = Nat::new(Some(Span::from_s(60)));
    nat.run(10 * SECOND);
    nat.hub = hub(&config(Pattern::RequestResponse, Conditions::default(), &[]), 1, 77);
    // The new hub's announcements do not pass the NAT in this time.
    nat.outgoing_at = 0;
    nat.now += BINDING;
    nat.run(400 * SECOND);
    assert!(nat.hub.is_ready());
    nat.ask();
    nat.run(410 * SECOND);
    assert_eq!(nat.answers, 1);
}
