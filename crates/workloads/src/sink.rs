//! A sink: answers each message with one reply.

use crate::control::Control;
use crate::error::Error;
use crate::events::MessageEvents;
use crate::link::{SinkLink, Warning};
use crate::payload::Template;
use crate::protocols;
use crate::report::Reports;
use crate::seen::Seen;
use crate::wait::{Waiter, earlier};
use record::control::Command;
use record::event::{MessageEvent, SinkEvent};
use record::spec::{InteractionSpec, MAX_MESSAGE};
use std::collections::VecDeque;
use units::Instant;

/// Maximum messages per turn, so that replies and control messages get their share.
const MAX_PER_TURN: usize = 64;

/// Runs a sink until a stop message.
pub fn run(spec: &InteractionSpec, control: &mut Control) -> Result<(), Error> {
    let mut sink = Sink::new(spec)?;
    let mut waiter = Waiter::new(control.descriptor(), sink.link.descriptors()?);
    let mut control_ready = false;
    loop {
        // A sink needs no start: it answers each message.
        if control_ready && control.read()?.contains(&Command::Stop {}) {
            return sink.events.flush();
        }
        sink.take_messages()?;
        sink.answer()?;
        control_ready = waiter.wait(sink.turn(control)?)?;
    }
}

struct Sink<'a> {
    source: &'a str,
    messages: u64,
    link: Box<dyn SinkLink>,
    payload: Template,
    reply: Template,
    events: MessageEvents<'a, SinkEvent>,
    seen: Seen,
    /// Replies waiting for the transport: message and time of receipt.
    queue: VecDeque<(u64, Instant)>,
    message: Vec<u8>,
    received: u64,
    replies: u64,
    reports: Reports,
    warning: Warning,
}

impl<'a> Sink<'a> {
    fn new(spec: &'a InteractionSpec) -> Result<Self, Error> {
        Self::over(spec, protocols::sink(spec)?)
    }

    fn over(spec: &'a InteractionSpec, link: Box<dyn SinkLink>) -> Result<Self, Error> {
        let payload = Template::load(&spec.payload)?;
        let reply = Template::load(&spec.reply_payload)?;
        let events = MessageEvents::create(&spec.events)?;
        Ok(Self {
            source: &spec.peers[0].name,
            messages: spec.messages.min(MAX_MESSAGE + 1),
            link,
            payload,
            reply,
            events,
            seen: Seen::default(),
            queue: VecDeque::new(),
            message: Vec::new(),
            received: 0,
            replies: 0,
            reports: Reports::default(),
            warning: Warning::default(),
        })
    }

    fn take_messages(&mut self) -> Result<(), Error> {
        for _ in 0..MAX_PER_TURN {
            if !self.link.receive(&mut self.message)? {
                break;
            }
            let time = clock::now();
            let number = self.payload.number(&self.message).filter(|n| *n < self.messages);
            let Some(number) = number else {
                let bytes = self.message.len();
                self.warning.once(|| {
                    format!(
                        "ignored a message of {bytes} bytes without a message number; all \
                         programs need the same payload"
                    )
                });
                continue;
            };
            let new = self.seen.insert(number);
            if new {
                self.received += 1;
                self.queue.push_back((number, time));
            }
            self.events.record(&MessageEvent {
                event: if new { SinkEvent::Received } else { SinkEvent::Duplicate },
                message: number,
                peer: self.source.into(),
                time_ns: time.as_ns(),
                intended_ns: None,
                bytes: self.message.len() as u64,
            })?;
        }
        Ok(())
    }

    /// Sends the replies that the transport accepts.
    fn answer(&mut self) -> Result<(), Error> {
        while let Some(&(number, received)) = self.queue.front() {
            let message = self.reply.numbered(number);
            let time = clock::now();
            if !self.link.reply(message)? {
                break;
            }
            self.events.record(&MessageEvent {
                event: SinkEvent::ReplySent,
                message: number,
                peer: self.source.into(),
                time_ns: time.as_ns(),
                intended_ns: Some(received.as_ns()),
                bytes: message.len() as u64,
            })?;
            self.replies += 1;
            self.queue.pop_front();
        }
        Ok(())
    }

    /// Reports, and processes the link's timers; returns when to wake next.
    fn turn(&mut self, control: &mut Control) -> Result<Option<Instant>, Error> {
        let until = earlier(self.housekeeping(control)?, self.link.turn()?);
        // The link's turn may have taken the hello. Nothing may arrive after it that would wake
        // the sink to report it.
        let unreported = !self.reports.is_ready() && self.link.greeted();
        if unreported || self.link.pending()? {
            return Ok(Some(Instant::START));
        }
        // Idle: write the events, so that they survive a killed program.
        self.events.save()?;
        Ok(until)
    }

    /// Answers the hello and reports progress; returns when to wake next.
    fn housekeeping(&mut self, control: &mut Control) -> Result<Option<Instant>, Error> {
        if !self.reports.is_ready() {
            self.link.greet()?;
            if self.link.greeted() {
                self.reports.ready(control)?;
            }
        }
        self.reports.progress(control, self.received, self.replies, clock::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsRawFd, RawFd};
    use std::os::unix::net::UnixStream;

    /// A link whose hello arrives between the sink's look at messages and the link's turn, and
    /// that is silent from then on.
    #[derive(Default)]
    struct Late {
        greeted: bool,
    }

    impl SinkLink for Late {
        fn descriptors(&self) -> Result<Vec<RawFd>, Error> {
            Ok(Vec::new())
        }

        fn greet(&mut self) -> Result<(), Error> {
            Ok(())
        }

        fn greeted(&self) -> bool {
            self.greeted
        }

        fn receive(&mut self, _: &mut Vec<u8>) -> Result<bool, Error> {
            Ok(false)
        }

        fn reply(&mut self, _: &[u8]) -> Result<bool, Error> {
            Ok(true)
        }

        fn pending(&mut self) -> Result<bool, Error> {
            Ok(false)
        }

        fn turn(&mut self) -> Result<Option<Instant>, Error> {
            self.greeted = true;
            Ok(None)
        }
    }

    fn spec(folder: &std::path::Path) -> InteractionSpec {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let payload = root.join("../../experiments/payloads/event-state.xml");
        let spec = serde_json::json!({
            "role": "sink", "node": "meter", "down": "director", "up": "director",
            "address": "10.0.0.2", "port_down": 1, "mtu": 1_500,
            "peers": [{"name": "utility", "address": "10.0.0.1"}],
            "payload": payload, "reply_payload": payload, "events": folder.join("events.csv"),
            "every_ns": 1_000_000, "messages": 1,
        });
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn a_sink_that_is_greeted_in_the_links_turn_does_not_wait_to_report_it() {
        let folder = tempfile::tempdir().unwrap();
        let spec = spec(folder.path());
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut control = Control::over(ours.as_raw_fd(), ours.as_raw_fd()).unwrap();
        let mut sink = Sink::over(&spec, Box::new(Late::default())).unwrap();
        assert_eq!(sink.turn(&mut control).unwrap(), Some(Instant::START), "turns again at once");
        assert_eq!(sink.turn(&mut control).unwrap(), None, "now it may sleep");
        theirs.set_nonblocking(true).unwrap();
        let mut line = [0; 64];
        let length = std::io::Read::read(&mut &theirs, &mut line).unwrap();
        assert_eq!(&line[..length], b"{\"ready\":{}}\n");
    }
}
