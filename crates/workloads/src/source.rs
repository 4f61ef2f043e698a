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
        Self::over(spec, protocols::source(spec)?)
    }

    fn over(spec: &'a InteractionSpec, link: Box<dyn SourceLink>) -> Result<Self, Error> {
        let payload = Template::load(&spec.payload)?;
        let reply = Template::load(&spec.reply_payload)?;
        let events = MessageEvents::create(&spec.events)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::tests::pair;
    use record::event::read;
    use serde_json::{Value, json};
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::io::Read;
    use std::os::fd::RawFd;
    use std::path::Path;
    use std::rc::Rc;

    /// What passes over a link: hellos, messages with their peers, and replies to come.
    #[derive(Default)]
    struct Traffic {
        hellos: usize,
        sent: Vec<(Option<usize>, Vec<u8>)>,
        replies: VecDeque<(usize, Vec<u8>)>,
        greeted: bool,
    }

    struct Scripted(Rc<RefCell<Traffic>>);

    impl SourceLink for Scripted {
        fn descriptors(&self) -> Result<Vec<RawFd>, Error> {
            Ok(Vec::new())
        }

        fn hello(&mut self) -> Result<(), Error> {
            self.0.borrow_mut().hellos += 1;
            Ok(())
        }

        fn greeted(&self) -> bool {
            self.0.borrow().greeted
        }

        fn send(&mut self, peer: Option<usize>, message: &[u8]) -> Result<(), Error> {
            self.0.borrow_mut().sent.push((peer, message.to_vec()));
            Ok(())
        }

        fn receive(&mut self, message: &mut Vec<u8>) -> Result<Option<usize>, Error> {
            let next = self.0.borrow_mut().replies.pop_front();
            Ok(next.map(|(peer, bytes)| {
                *message = bytes;
                peer
            }))
        }

        fn pending(&mut self) -> Result<bool, Error> {
            Ok(false)
        }
    }

    fn spec(folder: &Path, more: &Value) -> InteractionSpec {
        std::fs::write(folder.join("payload"), "m##########").unwrap();
        std::fs::write(folder.join("reply"), "reply ##########").unwrap();
        let mut spec = json!({
            "role": "source", "node": "utility", "down": "udp/request-response",
            "up": "udp/request-response", "address": "10.0.0.1", "port_down": 1, "mtu": 1_500,
            "peers": [{"name": "a", "address": "10.0.0.2"}, {"name": "b", "address": "10.0.0.3"}],
            "payload": folder.join("payload"), "reply_payload": folder.join("reply"),
            "events": folder.join("events.csv"), "every_ns": 1_000_000, "messages": 3,
        });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(spec).unwrap()
    }

    fn of<'a>(spec: &'a InteractionSpec) -> (Source<'a>, Rc<RefCell<Traffic>>) {
        let traffic = Rc::new(RefCell::new(Traffic::default()));
        (Source::over(spec, Box::new(Scripted(traffic.clone()))).unwrap(), traffic)
    }

    fn events(spec: &InteractionSpec) -> Vec<(SourceEvent, u64, String)> {
        let text = std::fs::read(&spec.events).unwrap();
        let events: Vec<MessageEvent<'_, SourceEvent>> = read(&text).unwrap();
        events.into_iter().map(|one| (one.event, one.message, one.peer.into_owned())).collect()
    }

    #[test]
    fn messages_go_to_the_peers_in_turn_and_overdue_ones_one_by_one() {
        let folder = tempfile::tempdir().unwrap();
        let spec = spec(folder.path(), &json!({}));
        let (mut source, traffic) = of(&spec);
        source.send_due().unwrap();
        assert_eq!(traffic.borrow().sent.len(), 0, "not before the start");
        // Long ago, so that all are overdue.
        source.schedule.start(Instant::START);
        for sent in 1..=3 {
            source.send_due().unwrap();
            assert_eq!(traffic.borrow().sent.len(), sent);
        }
        source.send_due().unwrap();
        let expected = [
            (Some(0), b"m0000000000".to_vec()),
            (Some(1), b"m0000000001".to_vec()),
            (Some(0), b"m0000000002".to_vec()),
        ];
        assert_eq!(traffic.borrow().sent, expected);
        source.events.flush().unwrap();
        let sent = |number, peer: &str| (SourceEvent::Sent, number, peer.to_owned());
        assert_eq!(events(&spec), [sent(0, "a"), sent(1, "b"), sent(2, "a")]);
    }

    #[test]
    fn only_replies_with_a_number_of_the_schedule_count_and_each_once() {
        let folder = tempfile::tempdir().unwrap();
        let spec = spec(folder.path(), &json!({}));
        let (mut source, traffic) = of(&spec);
        let reply = |number: u64| format!("reply {number:010}").into_bytes();
        traffic.borrow_mut().replies.extend([
            (0, reply(0)),
            (1, reply(0)),
            (0, reply(0)),
            (0, reply(3)),
            (0, reply(9_999_999_999)),
            (1, b"reply 000000000x".to_vec()),
            (1, b"".to_vec()),
            (1, reply(2)),
        ]);
        source.take_replies().unwrap();
        source.events.flush().unwrap();
        let event = |event, number, peer: &str| (event, number, peer.to_owned());
        assert_eq!(
            events(&spec),
            [
                event(SourceEvent::ReplyReceived, 0, "a"),
                event(SourceEvent::ReplyReceived, 0, "b"),
                event(SourceEvent::Duplicate, 0, "a"),
                event(SourceEvent::ReplyReceived, 2, "b"),
            ]
        );
        assert_eq!(source.replies, 3);
    }

    #[test]
    fn it_greets_until_all_sinks_have_answered_and_is_done_after_the_last_reply() {
        let folder = tempfile::tempdir().unwrap();
        let spec = spec(folder.path(), &json!({"messages": 1}));
        let (mut source, traffic) = of(&spec);
        let (near, mut control) = pair();
        near.set_nonblocking(true).unwrap();
        let reported = || {
            let mut text = [0; 512];
            let length = (&near).read(&mut text).unwrap_or(0);
            String::from_utf8_lossy(&text[..length]).into_owned()
        };
        let wake = source.housekeeping(&mut control).unwrap();
        assert!(wake.is_some() && traffic.borrow().hellos == 1 && reported().is_empty());
        traffic.borrow_mut().greeted = true;
        source.housekeeping(&mut control).unwrap();
        assert_eq!((reported().as_str(), traffic.borrow().hellos), ("{\"ready\":{}}\n", 1));
        source.schedule.start(Instant::START);
        source.send_due().unwrap();
        source.housekeeping(&mut control).unwrap();
        assert!(!reported().contains("done"), "a reply is missing");
        traffic.borrow_mut().replies.push_back((0, b"reply 0000000000".to_vec()));
        source.take_replies().unwrap();
        source.housekeeping(&mut control).unwrap();
        assert!(reported().ends_with("{\"done\":{}}\n"));
        // The events are in the file when it says so.
        assert_eq!(events(&spec).len(), 2);
        source.housekeeping(&mut control).unwrap();
        assert!(!reported().contains("done"), "only once");
    }

    #[test]
    fn a_message_to_all_expects_a_reply_of_each() {
        let folder = tempfile::tempdir().unwrap();
        let more = json!({"down": "tcp/publish-subscribe", "up": "tcp/request-reply"});
        let spec = spec(folder.path(), &more);
        let (mut source, traffic) = of(&spec);
        assert_eq!(source.expected, 6);
        source.schedule.start(Instant::START);
        source.send_due().unwrap();
        assert_eq!(traffic.borrow().sent, [(None, b"m0000000000".to_vec())]);
        source.events.flush().unwrap();
        assert_eq!(events(&spec), [(SourceEvent::Sent, 0, ALL_PEERS.to_owned())]);
    }
}
