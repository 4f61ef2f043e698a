//! The applications of a storm: they send, answer and log.

use super::bed::{Bed, MEMBERS, MS, Open, PROBE_LIFETIME, What};
use crate::log::{End, HEAD, answer_to, message};
use director::session::{Event, Member, MemberEvent};
use director::{MessageId, MessageProperties, Outcome, Pattern, Span};

impl Bed {
    /// The application of a member takes what has happened.
    pub fn member_events(&mut self, member: usize) {
        let (now, start) = (self.instant(), self.starts[member]);
        let answered = self.setup.pattern != Pattern::PublishSubscribe;
        let events = self.members[member].as_mut().map(Member::take_events);
        for event in events.into_iter().flatten() {
            match event {
                MemberEvent::Joined { .. }
                | MemberEvent::Published { .. }
                | MemberEvent::Stored { .. } => {}
                MemberEvent::Message { number, bytes } => {
                    let sent = self.log.receive(&bytes, Some((member as u32, start)));
                    let Some(sent) = sent.filter(|_| answered) else { continue };
                    // Some are never answered.
                    if let Some(own) = &mut self.members[member]
                        && (!self.storm || self.draws.below(20) > 0)
                    {
                        let _ = own.answer(number, answer_to(sent, member as u32 + 1), now);
                    }
                }
                MemberEvent::Outcome { number, outcome } => {
                    let Some(open) = self.up.remove(&(member, start, number)) else { continue };
                    if open.probe && matches!(outcome, Outcome::Acknowledged(_)) {
                        self.lacks_up.remove(&(member as u32));
                    }
                    self.log.outcome(open.number, open.request, Ok(outcome));
                    if self.storm {
                        let at = self.now + self.draws.below(50 * MS);
                        self.at(at, What::Send(Some(member)));
                    }
                }
            }
        }
    }

    /// The hub's application takes what has happened.
    pub fn hub_events(&mut self) {
        for event in self.hub.take_events() {
            match event {
                Event::Answer { message, member, bytes } => {
                    self.answered(message, member, Some(bytes));
                }
                Event::Acknowledged { message, member } => self.answered(message, member, None),
                Event::Over { message, .. } => {
                    let Some(open) = self.down.remove(&message) else { continue };
                    for member in open.to {
                        self.log.end(open.number, Some(member), End::Unknown);
                    }
                    if self.storm {
                        let at = self.now + self.draws.below(50 * MS);
                        self.at(at, What::Send(None));
                    }
                }
                Event::Message { from, bytes, answered } => {
                    let Some(number) = self.log.receive(&bytes, None) else { continue };
                    match answered {
                        true => self.hub.answer(from, &answer_to(number, 0)),
                        false => self.hub.accept(from),
                    }
                    self.wake(None, self.now);
                }
                Event::Joined(_)
                | Event::Left(_)
                | Event::Published { .. }
                | Event::ModelChange { .. } => {}
            }
        }
    }

    fn answered(&mut self, message: MessageId, member: u32, answer: Option<Vec<u8>>) {
        let Some(open) = self.down.get_mut(&message) else { return };
        if answer.is_some_and(|answer| answer != answer_to(open.number, member + 1)) {
            self.log.violation(format!("{message} to {member}: a wrong answer"));
        }
        open.to.retain(|to| *to != member);
        if open.probe {
            self.lacks_down.remove(&member);
        }
        self.log.end(open.number, Some(member), End::Acknowledged);
    }

    fn compose(&mut self) -> (u64, Vec<u8>) {
        let number = self.log.number();
        let longest = if self.draws.below(50) == 0 { 30_000 } else { 1_500 };
        (number, message(number, HEAD + self.draws.below(longest) as usize))
    }

    fn lifetime(&mut self) -> Span {
        if self.storm { Span::from_ms(200 + self.draws.below(4_000)) } else { PROBE_LIFETIME }
    }

    /// A member's application sends.
    pub fn publish(&mut self, member: usize) {
        let (number, bytes) = self.compose();
        let (now, probe, lifetime) = (self.instant(), !self.storm, self.lifetime());
        let properties = MessageProperties {
            lifetime,
            priority: self.draws.below(3) as u32,
            ..MessageProperties::default()
        };
        let request = self.draws.below(4) == 0;
        let own = self.members[member].as_mut();
        let sent = own.map(|own| match request {
            true => own.request(&bytes, properties, now),
            false => own.publish(&bytes, properties, now),
        });
        if let Some(Ok(own)) = sent {
            let open = Open { number, request, to: Vec::new(), probe };
            self.up.insert((member, self.starts[member], own), open);
        } else {
            self.log.end(number, None, End::Failed);
            self.at(self.now + 10 * MS, What::Send(Some(member)));
        }
    }

    /// The hub's application sends.
    pub fn send(&mut self) {
        let to: Vec<u32> = match self.storm {
            true => {
                let some = 1 + self.draws.below((1 << MEMBERS) - 1);
                (0..MEMBERS as u32).filter(|member| some >> member & 1 == 1).collect()
            }
            false => self.lacks_down.iter().copied().collect(),
        };
        let (number, bytes) = self.compose();
        let (now, lifetime) = (self.instant(), self.lifetime());
        match self.hub.send_within(&bytes, &to, Some(lifetime), now) {
            Ok(message) => {
                let open = Open { number, request: false, to, probe: !self.storm };
                self.down.insert(message, open);
            }
            Err(_) => {
                to.iter().for_each(|to| self.log.end(number, Some(*to), End::Failed));
                self.at(self.now + 10 * MS, What::Send(None));
            }
        }
    }
}
