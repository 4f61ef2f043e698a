//! Shared medium with contention: the links' queues around CSMA-CA.

use crate::channel::Said;
use crate::csma::{Arrival, Csma, CsmaSpec, Ending, Usage};
use crate::queue::Queue;
use crate::step::{Carried, Cause};
use crate::{Impairment, Instant};
use units::{Draw, Purpose};

/// The queues of all links and the channel that they contend for.
#[derive(Debug)]
pub(crate) struct Air {
    csma: Csma,
    queues: Vec<Queue<Carried>>,
    /// The frame of each link that contends.
    heads: Vec<Option<Carried>>,
    /// Loss probability of each link's retransmissions.
    losses: Vec<f64>,
    draws: Vec<Draw>,
    /// Time of the last requested call of [`Self::turn`].
    asked: Option<Instant>,
    dropped: Vec<Carried>,
}

impl Air {
    /// An idle channel for links with these uplink settings.
    pub fn new(spec: &CsmaSpec, asked: &[&Impairment], draws: Vec<Draw>, seed: u64) -> Self {
        Self {
            // The links' own streams are 0, 1, ...
            csma: Csma::new(spec, asked.len(), Draw::new(seed, u64::MAX, 0)),
            queues: asked.iter().map(|a| Queue::new(a.queue, a.codel, a.red)).collect(),
            heads: vec![None; asked.len()],
            losses: asked.iter().map(|a| a.mean_loss()).collect(),
            draws,
            asked: None,
            dropped: Vec::new(),
        }
    }

    /// Adds a link with these uplink settings.
    pub fn attach(&mut self, asked: &Impairment, draw: Draw) {
        self.csma.attach();
        self.queues.push(Queue::new(asked.queue, asked.codel, asked.red));
        self.heads.push(None);
        self.losses.push(asked.mean_loss());
        self.draws.push(draw);
    }

    /// Applies new settings to `link`.
    pub fn change(&mut self, link: usize, asked: &Impairment) {
        self.queues[link].change(asked.queue, asked.codel, asked.red);
        self.losses[link] = asked.mean_loss();
    }

    /// Sets the loss probability of `link`'s retransmissions.
    pub fn lose(&mut self, link: usize, share: f64) {
        self.losses[link] = share;
    }

    /// Channel usage of each link.
    pub fn usage(&self) -> Vec<Usage> {
        self.csma.usage()
    }

    /// Accepts a frame of `link` for transmission at `now` or later.
    pub fn offer(&mut self, link: usize, frame: Carried, now: Instant, said: &mut Vec<Said>) {
        if self.heads[link].is_none() {
            self.contend(link, frame, now);
        } else {
            let own = self.heads[link].as_ref().map(|head| head.frame.size());
            let (len, place) = (frame.frame.size(), (self.draws[link], frame.index));
            if self.queues[link].push(frame, len, now, place, own).is_err() {
                said.push(Said::Drop(link, Cause::Overflow));
            }
        }
        self.ask(now, said);
    }

    /// Processes all events until `now`.
    pub fn turn(&mut self, now: Instant, said: &mut Vec<Said>) {
        while let Some(attempt) = {
            let Self { csma, heads, losses, draws, .. } = self;
            csma.step(now, &mut |arrival| received(arrival, heads, losses, draws, said))
        } {
            let link = attempt.link;
            self.heads[link] = None;
            if attempt.delivered.is_none() {
                let cause = match attempt.outcome {
                    Ending::Lost => Cause::Lost,
                    _ => Cause::Denied,
                };
                said.push(Said::Drop(link, cause));
            }
            let next = self.queues[link].pop(attempt.at, &mut self.dropped);
            said.extend(self.dropped.drain(..).map(|_| Said::Drop(link, Cause::Overflow)));
            if let Some(next) = next {
                self.contend(link, next, attempt.at);
            }
        }
        self.ask(now, said);
    }

    fn contend(&mut self, link: usize, frame: Carried, now: Instant) {
        let len = frame.frame.size();
        // The lowest bit of an Ethernet address's first byte marks a group address.
        match frame.frame.head().first().is_some_and(|first| first & 1 == 1) {
            true => self.csma.ready_for_all(link, len, now),
            false => self.csma.ready(link, len, now),
        }
        self.heads[link] = Some(frame);
    }

    fn ask(&mut self, now: Instant, said: &mut Vec<Said>) {
        let Some(next) = self.csma.next() else { return };
        if self.asked.is_none_or(|asked| asked <= now || next < asked) {
            self.asked = Some(next);
            said.push(Said::Turn(next));
        }
    }
}

/// Whether the receiver gets a frame that did not collide. Its first reception emits
/// [`Said::Left`].
fn received(
    arrival: Arrival,
    heads: &[Option<Carried>],
    losses: &[f64],
    draws: &[Draw],
    said: &mut Vec<Said>,
) -> bool {
    let link = arrival.link;
    let Some(head) = &heads[link] else { return false };
    let lost = match arrival.attempt {
        0 => head.decision.lost,
        // Each retransmission has a separate loss draw.
        again => {
            let place = head.index << 8 | u64::from(again);
            draws[link].uniform(Purpose::Retry, place) < losses[link]
        }
    };
    if !lost && !arrival.duplicate {
        let mut frame = head.clone();
        frame.decision.lost = false;
        said.push(Said::Left(link, frame, arrival.at));
    }
    !lost
}
