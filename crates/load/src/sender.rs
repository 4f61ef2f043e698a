//! A sender thread: takes operations when they are due, and sends them over its transport. The
//! loop is the same for all transports.

use crate::outstanding::Outstanding;
use crate::pacer::{Next, Pacer};
use crate::request_feed::Operation;
use crate::request_queue::MAX_DUE_PER_TURN;
use crate::scheduling;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::targets::Targets;
use std::sync::atomic::Ordering::Relaxed;
use units::{Instant, Span};

/// The interval of timeout checks.
pub(crate) const CHECK_INTERVAL: Span = Span::from_ms(1);
/// Within this time before the next request the sender spins instead of sleeping.
const SPIN_WINDOW: Span = Span::from_us(100);

/// An operation that is due, and the number of its target.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Due {
    pub intended: Instant,
    pub operation: Operation,
    pub target: u32,
}

/// What senders of all transports have.
pub(crate) struct Core<'a> {
    pub settings: &'a Settings,
    pub shared: &'a Shared,
    pub pacer: Pacer,
    pub outstanding: Outstanding,
    pub targets: Targets,
    /// Whether the socket for all targets is of IPv4; None if each target has a separate one.
    ipv4: Option<bool>,
    /// Time before the next request within which the sender spins.
    margin: Span,
    last_check: Instant,
}

impl<'a> Core<'a> {
    pub fn new(
        settings: &'a Settings,
        shared: &'a Shared,
        pacer: Pacer,
        outstanding: Outstanding,
        ipv4: Option<bool>,
    ) -> Self {
        let targets = Targets::default();
        let margin = if settings.spin { Span::MAX } else { scheduling::margin().max(SPIN_WINDOW) };
        Self {
            settings,
            shared,
            pacer,
            outstanding,
            targets,
            ipv4,
            margin,
            last_check: Instant::START,
        }
    }

    /// The next operation that is due, if it can be sent; None if there is none.
    fn due(&mut self, now: Instant) -> Option<Due> {
        loop {
            let (intended, operation) = self.pacer.due(now, &mut self.outstanding)?;
            let lag = now - intended;
            self.shared.lag.store(lag.as_ns(), Relaxed);
            if lag > self.settings.patience {
                self.outstanding.unsent(operation.series);
                self.outstanding.explain("too far behind the schedule: the rest was not sent");
                self.pacer.give_up(&mut self.outstanding);
                return None;
            }
            let templates = &self.pacer.templates;
            if let Some(target) = self.targets.find(operation.template, templates, self.ipv4) {
                return Some(Due { intended, operation, target });
            }
            let why = match &templates[operation.template as usize].to {
                Err(why) => why,
                Ok(_) => "the target has another address family than the first target",
            };
            self.outstanding.unsent(operation.series);
            self.outstanding.explain(why);
        }
    }

    /// Drops timed out requests, at intervals. Returns whether it was time for that.
    fn expire(&mut self, now: Instant) -> bool {
        let due = now - self.last_check > CHECK_INTERVAL;
        if due {
            self.last_check = now;
            self.outstanding.expire(now);
        }
        due
    }

    /// Lets the users of a closed loop go on whose requests are finished.
    fn finished(&mut self, now: Instant) {
        let finished = self.outstanding.take_finished();
        if finished > 0 {
            self.pacer.finished(finished, now);
        }
    }

    /// How long to sleep if nothing is due before `until`; None to spin.
    fn sleep(&self, until: Instant, now: Instant) -> Option<Span> {
        let left = until - now;
        // At most ten intervals, so that timeouts and a stop are noticed.
        (left > self.margin).then(|| (left - self.margin).min(10 * CHECK_INTERVAL))
    }
}

/// How requests travel and answers come back.
pub(crate) trait Transport<'a>: Sized {
    /// The state that all transports share.
    fn core(&mut self) -> &mut Core<'a>;

    /// Whether it takes another operation in this turn.
    fn has_room(&self) -> bool {
        true
    }

    /// Takes an operation, to send it now, or when its target is ready for it.
    fn take(&mut self, due: Due, now: Instant);

    /// Sends what it has taken and receives the answers that are there. Returns whether there was
    /// anything to do.
    fn turn(&mut self) -> bool;

    /// Drops what has timed out, except outstanding requests.
    fn expire(&mut self, now: Instant);

    /// Waits for an answer for at most `span`.
    fn wait(&mut self, span: Span, now: Instant);

    /// Whether no request is outstanding or waits.
    fn is_over(&self) -> bool;

    /// Drops the requests that wait.
    fn abandon(&mut self, now: Instant);

    /// The results.
    fn finish(self) -> Outstanding;

    /// Sends until the schedule has ended and all requests are answered or timed out.
    fn run(mut self) -> Outstanding {
        loop {
            let now = clock::now();
            if self.core().shared.stop.load(Relaxed) {
                self.abandon(now);
                let Core { pacer, outstanding, .. } = self.core();
                pacer.give_up(outstanding);
            }
            for _ in 0..MAX_DUE_PER_TURN {
                let Some(due) = self.has_room().then(|| self.core().due(now)).flatten() else {
                    break;
                };
                self.take(due, now);
            }
            let busy = self.turn();
            let now = clock::now();
            if self.core().expire(now) {
                self.expire(now);
            }
            self.core().finished(now);
            if busy {
                continue;
            }
            let Core { pacer, outstanding, .. } = self.core();
            let until = match pacer.next(outstanding) {
                Next::At(at) => at,
                Next::Over if self.is_over() => break,
                _ => now + CHECK_INTERVAL,
            };
            match self.core().sleep(until, now) {
                Some(span) => self.wait(span, now),
                None => std::hint::spin_loop(),
            }
        }
        self.finish()
    }
}
