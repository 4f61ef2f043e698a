//! The source: sends on schedule and receives replies in between.

use crate::control::Control;
use crate::error::Error;
use crate::events::MessageEvents;
use crate::link::{SourceLink, Warning};
use crate::payload::Template;
use crate::protocols;
use crate::report::Reports;
use crate::schedule::Schedule;
use crate::seen::Seen;
use crate::wait::{Waiter, earlier, next_wake, wake_precisely};
use record::control::Command;
use record::event::{ALL_PEERS, MessageEvent, SourceEvent};
use record::spec::InteractionSpec;
use units::{Instant, Span};

/// Interval of hellos.
const HELLO_EVERY: Span = Span::from_ms(200);
/// Maximum replies per turn, so that the control channel gets its share.
const MAX_PER_TURN: usize = 64;

/// Runs a source until a stop message.
pub fn run(spec: &InteractionSpec, control: &mut Control) -> Result<(), Error> {
    let mut source = Source::new(spec)?;
    wake_precisely();
    let mut waiter = Waiter::new(control.descriptor(), source.link.descriptors()?);
    let mut control_ready = false;
    loop {
        if control_ready {
            for command in control.read()? {
                match command {
                    Command::Start { at_ns } => source.schedule.start(Instant::from_ns(at_ns)),
                    Command::Stop {} => return source.events.flush(),
                }
            }
        }
        source.take_replies()?;
        source.send_due()?;
        let until = earlier(source.housekeeping(control)?, source.link.turn()?);
        // Do not sleep if a socket has data that it does not signal again.
        let until = if source.link.pending()? { Some(Instant::START) } else { until };
        control_ready = waiter.wait(until)?;
    }
}

struct Source<'a> {
    spec: &'a InteractionSpec,
    link: Box<dyn SourceLink>,
    payload: Template,
    reply: Template,
    events: MessageEvents<'a, SourceEvent>,
    schedule: Schedule,
    seen: Vec<Seen>,
    replies: u64,
    expected: u64,
    message: Vec<u8>,
    reports: Reports,
    hello_at: Instant,
    warning: Warning,
}

impl<'a> Source<'a> {
    fn new(spec: &'a InteractionSpec) -> Result<Self, Error> {
        let payload = Template::load(&spec.payload)?;
        let reply = Template::load(&spec.reply_payload)?;
        let events = MessageEvents::create(&spec.events)?;
        let link = protocols::source(spec)?;
        let sinks = |message| if spec.down.is_to_all() { spec.sinks_of(message) as u64 } else { 1 };
        Ok(Self {
            spec,
            link,
            payload,
            reply,
            events,
            schedule: Schedule::new(Span::from_ns(spec.every_ns), spec.messages),
            seen: spec.peers.iter().map(|_| Seen::default()).collect(),
            replies: 0,
            expected: (0..spec.messages).map(sinks).sum(),
            message: Vec::new(),
            reports: Reports::default(),
            hello_at: Instant::START,
            warning: Warning::default(),
        })
    }

    /// Receives replies until there are none, a message is due, or the turn ends.
    fn take_replies(&mut self) -> Result<(), Error> {
        for _ in 0..MAX_PER_TURN {
            let Some(peer) = self.link.receive(&mut self.message)? else { break };
            let time = clock::now();
            let number = self.reply.number(&self.message).filter(|n| *n < self.spec.messages);
            let name = self.spec.peers[peer].name.as_str();
            let Some(number) = number else {
                let bytes = self.message.len();
                self.warning.once(|| {
                    format!(
                        "ignored a reply of {bytes} bytes from {name} without a message number; \
                         all programs need the same reply_payload"
                    )
                });
                continue;
            };
            let new = self.seen[peer].insert(number);
            self.replies += u64::from(new);
            self.events.record(&MessageEvent {
                event: if new { SourceEvent::ReplyReceived } else { SourceEvent::Duplicate },
                message: number,
                peer: name.into(),
                time_ns: time.as_ns(),
                intended_ns: None,
                bytes: self.message.len() as u64,
            })?;
            // Sending on time has priority over receiving.
            if self.schedule.due().is_some_and(|due| due <= time) {
                break;
            }
        }
        Ok(())
    }

    /// Sends one due message. Other overdue messages wait for the next turns, so that replies are
    /// received in between.
    fn send_due(&mut self) -> Result<(), Error> {
        let time = clock::now();
        let Some((number, intended)) = self.schedule.take(time) else { return Ok(()) };
        let peers = &self.spec.peers;
        let peer = (!self.spec.down.is_to_all()).then_some((number % peers.len() as u64) as usize);
        let message = self.payload.numbered(number);
        let time = clock::now();
        self.link.send(peer, message)?;
        self.events.record(&MessageEvent {
            event: SourceEvent::Sent,
            message: number,
            peer: peer.map_or(ALL_PEERS, |peer| peers[peer].name.as_str()).into(),
            time_ns: time.as_ns(),
            intended_ns: Some(intended.as_ns()),
            bytes: message.len() as u64,
        })
    }

    /// Handles hellos, progress and the events file; returns when to wake next.
    fn housekeeping(&mut self, control: &mut Control) -> Result<Option<Instant>, Error> {
        let now = clock::now();
        let due = self.schedule.due();
        let mut until = due.map(|due| next_wake(due, now));
        if self.link.greeted() {
            self.reports.ready(control)?;
        } else if !self.reports.is_ready() {
            if now >= self.hello_at {
                self.link.hello()?;
                self.hello_at = now + HELLO_EVERY;
            }
            until = earlier(until, Some(self.hello_at));
        }
        let progress = self.reports.progress(control, self.schedule.taken(), self.replies, now)?;
        let done = self.schedule.over() && self.replies >= self.expected;
        let flush = self.reports.flush(control, &mut self.events, due, done, now)?;
        Ok(earlier(until, earlier(progress, flush)))
    }
}
