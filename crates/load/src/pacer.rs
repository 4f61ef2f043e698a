//! The pacer: which operation is next, and when it is due.

use crate::figures::Series;
use crate::outstanding::Outstanding;
use crate::request_feed::{Chunk, Operation};
use crate::settings::Closed;
use crate::template::Template;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::mpsc::{Receiver, TryRecvError};
use trace::Distribution;
use units::{Draw, Instant, Purpose, Span};

/// The time of the next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// An operation is due at this time.
    At(Instant),
    /// After the next answer.
    AfterAnswer,
    /// The request feed has not kept up.
    Starved,
    /// All operations are done.
    Over,
}

/// The operations of one sender in order, and their request templates.
#[derive(Debug)]
pub(crate) struct Pacer {
    from: Receiver<Chunk>,
    operations: Vec<Operation>,
    at: usize,
    over: bool,
    start: Instant,
    users: Option<Users>,
    pub templates: Vec<Template>,
}

/// The users of a closed loop.
#[derive(Debug)]
struct Users {
    ready: BinaryHeap<Reverse<Instant>>,
    think: Option<Distribution>,
    draw: Draw,
    thought: u64,
}

impl Pacer {
    /// The operations from the channel `from`, with times relative to `start`. In a closed
    /// loop this sender has `users` users.
    pub fn new(
        from: Receiver<Chunk>,
        start: Instant,
        closed: Option<(&Closed, usize)>,
        draw: Draw,
    ) -> Self {
        let users = closed.map(|(closed, users)| Users {
            ready: (0..users).map(|_| Reverse(start)).collect(),
            think: closed.think.clone(),
            draw,
            thought: 0,
        });
        let operations = Vec::new();
        Self { from, operations, at: 0, over: false, start, users, templates: Vec::new() }
    }

    /// Takes the next operation if it is due, with its intended time.
    pub fn due(
        &mut self,
        now: Instant,
        outstanding: &mut Outstanding,
    ) -> Option<(Instant, Operation)> {
        match self.next(outstanding) {
            Next::At(at) if at <= now => {
                let operation = self.operations[self.at];
                self.at += 1;
                if let Some(users) = &mut self.users {
                    users.ready.pop();
                }
                Some((at, operation))
            }
            _ => None,
        }
    }

    /// The time of the next action.
    pub fn next(&mut self, outstanding: &mut Outstanding) -> Next {
        while self.at == self.operations.len() {
            if self.over {
                return Next::Over;
            }
            match self.from.try_recv() {
                Ok(chunk) => self.take(chunk, outstanding),
                Err(TryRecvError::Empty) => return Next::Starved,
                Err(TryRecvError::Disconnected) => self.over = true,
            }
        }
        match &self.users {
            None => Next::At(self.start + self.operations[self.at].at),
            Some(users) => users.ready.peek().map_or(Next::AfterAnswer, |at| Next::At(at.0)),
        }
    }

    fn take(&mut self, chunk: Chunk, outstanding: &mut Outstanding) {
        self.operations = chunk.operations;
        self.at = 0;
        self.templates.extend(chunk.templates);
        // Hundreds of series with three digits would fill the CPU caches.
        for (method, device) in chunk.series {
            let digits = if outstanding.series.len() < 64 { 3 } else { 2 };
            outstanding.series.push(Series::new(method, device, digits));
        }
    }

    /// `count` users have their answer, or no longer wait for it.
    pub fn finished(&mut self, count: usize, now: Instant) {
        let Some(users) = &mut self.users else { return };
        for _ in 0..count {
            let chance = users.draw.uniform(Purpose::Arrival, users.thought);
            let think = users.think.as_ref().map_or(0, |of| of.draw_ns(chance, users.thought));
            let think = Span::from_ns(think);
            users.thought += 1;
            users.ready.push(Reverse(now + think));
        }
    }

    /// Counts all remaining operations as unsent.
    pub fn give_up(&mut self, outstanding: &mut Outstanding) {
        loop {
            for operation in self.operations.drain(..).skip(self.at) {
                outstanding.unsent(operation.series);
            }
            self.at = 0;
            // Waits for the feed to end: operations that it has not read yet count as unsent, too.
            match self.from.recv() {
                Ok(chunk) => self.take(chunk, outstanding),
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;
    use trace::Method;

    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    fn pacer(closed: Option<&Closed>) -> (Pacer, Outstanding) {
        let (to, from) = sync_channel(2);
        let operation = |i: u64| Operation { at: Span::from_ns(i * 10), template: 0, series: 0 };
        let operations = (0..4).map(operation).collect();
        let series = vec![(Method::Get, Some(0))];
        to.send(Chunk { operations, templates: Vec::new(), series }).unwrap();
        let closed = closed.map(|closed| (closed, closed.users));
        let outstanding = Outstanding::new(Span::from_ns(10), at(100), None);
        (Pacer::new(from, at(100), closed, Draw::new(1, 0, 0)), outstanding)
    }

    #[test]
    fn an_open_loop_waits_for_no_answer() {
        let (mut pacer, mut outstanding) = pacer(None);
        assert_eq!(pacer.next(&mut outstanding), Next::At(at(100)));
        assert!(pacer.due(at(99), &mut outstanding).is_none());
        assert_eq!(pacer.due(at(115), &mut outstanding).unwrap().0, at(100));
        assert_eq!(pacer.due(at(115), &mut outstanding).unwrap().0, at(110));
        assert!(pacer.due(at(115), &mut outstanding).is_none());
        pacer.give_up(&mut outstanding);
        assert_eq!(outstanding.series[0].counts.unsent, 2);
        assert_eq!(pacer.next(&mut outstanding), Next::Over);
    }

    #[test]
    fn in_a_closed_loop_a_user_sends_after_the_answer() {
        let think = Some("constant:5ns".parse().unwrap());
        let (mut pacer, mut outstanding) = pacer(Some(&Closed { users: 2, think }));
        assert_eq!(pacer.due(at(100), &mut outstanding).unwrap().0, at(100));
        assert_eq!(pacer.due(at(100), &mut outstanding).unwrap().0, at(100));
        assert_eq!(pacer.next(&mut outstanding), Next::AfterAnswer);
        pacer.finished(1, at(200));
        assert_eq!(pacer.next(&mut outstanding), Next::At(at(205)));
        assert_eq!(pacer.due(at(300), &mut outstanding).unwrap().0, at(205));
        assert!(pacer.due(at(300), &mut outstanding).is_none());
    }
}
