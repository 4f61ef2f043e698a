//! MQTT client: connects, publishes on schedule, receives messages.

use crate::control::Control;
use crate::error::Error;
use crate::events::MessageEvents;
use crate::link::Warning;
use crate::payload::Template;
use crate::report::Reports;
use crate::seen::Seen;
use crate::wait::{Waiter, earlier, next_wake, wake_precisely};
use record::MqttVersion;
use record::control::Command;
use record::event::{ClientEvent, MessageEvent};
use record::spec::MqttSpec;
use stacks::mqtt::{MIN_REFUSAL, Options, Retry, Session, SessionEvent, is_tls};
use std::collections::{HashMap, HashSet};
use std::ffi::{CString, c_int};
use units::{Instant, Span};

/// Maximum time of the final disconnect.
const DISCONNECT_TIMEOUT: Span = Span::from_ms(500);

/// Runs a client until a stop message.
///
/// # Errors
/// The broker refuses the client or is unreachable, or a file is unusable.
pub fn run(spec: &MqttSpec, control: &mut Control) -> Result<(), Error> {
    let mut client = Client::new(spec)?;
    wake_precisely();
    let mut waiter = Waiter::new(control.descriptor(), vec![-1]);
    let mut control_ready = false;
    loop {
        if control_ready {
            for command in control.read()? {
                match command {
                    Command::Start { at_ns } => client.start(Instant::from_ns(at_ns)),
                    Command::Stop {} => return client.end(&mut waiter),
                }
            }
        }
        client.connect_if_due()?;
        client.session.transfer(waiter.revents());
        client.publish_due()?;
        client.handle_events()?;
        let until = client.housekeeping(control)?;
        waiter.watch(client.session.descriptor(), client.session.has_output());
        control_ready = waiter.wait(until)?;
    }
}

/// State of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Not before this time; none if the time is unknown.
    Waiting(Option<Instant>),
    /// Connecting.
    Connecting,
    /// Accepted by the broker.
    Connected,
}

struct Client<'a> {
    spec: &'a MqttSpec,
    session: Session,
    topic: CString,
    payload: Template,
    events: MessageEvents<'a, ClientEvent>,
    stage: Stage,
    retry: Retry,
    start: Option<Instant>,
    /// Time of the first connection attempt.
    since: Option<Instant>,
    /// Reason of the last failure.
    last_error: String,
    /// Whether it has connected, and subscribed if the spec has a subscription.
    joined: bool,
    next: usize,
    acknowledged: u64,
    numbers: HashMap<c_int, u64>,
    /// Numbers of the messages that others publish to this client.
    expected: HashSet<u64>,
    seen: Seen,
    received: u64,
    tend_at: Instant,
    reports: Reports,
    warning: Warning,
}

impl<'a> Client<'a> {
    fn new(spec: &'a MqttSpec) -> Result<Self, Error> {
        let payload = Template::load(&spec.payload)?;
        let topic = spec.publish.clone().unwrap_or_default();
        Ok(Self {
            spec,
            session: Session::new(&Options {
                client: spec.client.clone(),
                host: spec.host.clone(),
                port: spec.port,
                clean_session: spec.clean_session,
                keep_alive_s: spec.keep_alive_s,
                ..super::options(spec.version, spec.tls.as_ref())
            })?,
            topic: CString::new(topic).map_err(|_| Error::mqtt("use the topic", "zero byte"))?,
            payload,
            events: MessageEvents::create(&spec.events)?,
            // A client that joins later waits for the start; any other connects at once.
            stage: Stage::Waiting(spec.join_ns.is_none().then_some(Instant::START)),
            retry: Retry::new(
                Span::from_ns(spec.reconnect_min_ns),
                Span::from_ns(spec.reconnect_max_ns),
            ),
            start: None,
            since: None,
            last_error: String::new(),
            joined: false,
            next: 0,
            acknowledged: 0,
            numbers: HashMap::new(),
            expected: spec.expected.iter().copied().collect(),
            seen: Seen::default(),
            received: 0,
            tend_at: Instant::START,
            reports: Reports::default(),
            warning: Warning::default(),
        })
    }

    fn start(&mut self, at: Instant) {
        if self.start.is_some() {
            return;
        }
        self.start = Some(at);
        if self.stage == Stage::Waiting(None) {
            self.stage = Stage::Waiting(self.spec.join_ns.map(|join| at + Span::from_ns(join)));
        }
    }

    /// Scheduled time of the next message, if there is one and the start is known.
    fn due(&self) -> Option<Instant> {
        let (_, offset) = self.spec.schedule.get(self.next)?;
        self.start.map(|start| start + Span::from_ns(*offset))
    }

    fn connect_if_due(&mut self) -> Result<(), Error> {
        let now = clock::now();
        if !matches!(self.stage, Stage::Waiting(Some(at)) if at <= now) {
            return Ok(());
        }
        self.since.get_or_insert(now);
        self.stage = Stage::Connecting;
        match self.session.connect() {
            Ok(()) => Ok(()),
            Err(code) => self.ended(code),
        }
    }

    /// Records the end of a connection, or a failed attempt.
    fn ended(&mut self, code: c_int) -> Result<(), Error> {
        let reason = self.session.reason(code);
        // A wrong certificate does not become right. Later, it may be a fault of the run.
        if is_tls(code) && !self.joined {
            return Err(self.untrusted(&reason));
        }
        self.lost(reason)
    }

    /// Schedules the next attempt.
    fn lost(&mut self, reason: String) -> Result<(), Error> {
        let now = clock::now();
        let limit = Span::from_ns(self.spec.connect_limit_ns);
        if !self.joined && self.since.is_some_and(|since| now > since + limit) {
            return Err(self.unreachable(&reason));
        }
        // Each reason once: a client may retry for the whole run.
        if self.last_error != reason {
            let MqttSpec { host, port, broker, .. } = self.spec;
            crate::log!(
                "no connection to the broker at {host}:{port} (node {broker}): \
                 {reason}; trying again"
            );
            self.last_error = reason;
        }
        if self.stage == Stage::Connected {
            self.note(ClientEvent::Disconnected, 0, now)?;
        }
        self.stage = Stage::Waiting(Some(now + self.retry.pause()));
        Ok(())
    }

    fn unreachable(&self, reason: &str) -> Error {
        let MqttSpec { host, port, broker, connect_limit_ns, .. } = self.spec;
        let seconds = *connect_limit_ns as f64 / 1e9;
        Error::mqtt(
            &format!("connect to the broker at {host}:{port} (node {broker}) within {seconds} s"),
            format!("{reason}; check that a broker runs on {broker} and listens on that port"),
        )
    }

    /// Publishes one due message; others wait for the next turns, so that incoming messages are
    /// processed in between.
    fn publish_due(&mut self) -> Result<(), Error> {
        let now = clock::now();
        let Some(intended) = self.due().filter(|due| *due <= now) else { return Ok(()) };
        let number = self.spec.schedule[self.next].0;
        self.next += 1;
        let message = self.payload.numbered(number);
        let time = clock::now();
        let mid = self.session.publish(&self.topic, message, self.spec.qos)?;
        if self.spec.qos > 0 {
            self.numbers.insert(mid, number);
        }
        self.events.record(&MessageEvent {
            event: ClientEvent::Sent,
            message: number,
            peer: self.spec.broker.as_str().into(),
            time_ns: time.as_ns(),
            intended_ns: Some(intended.as_ns()),
            bytes: message.len() as u64,
        })
    }

    /// Processes libmosquitto's events.
    fn handle_events(&mut self) -> Result<(), Error> {
        for event in self.session.take() {
            match event {
                SessionEvent::Connack(0) => self.connected()?,
                SessionEvent::Connack(code) => self.refused(code)?,
                SessionEvent::Closed(code) => self.ended(code)?,
                SessionEvent::Suback(levels) => self.subscription(&levels)?,
                SessionEvent::Acknowledged { mid, reason, at } => {
                    self.confirmed(mid, reason, Instant::from_ns(at))?
                }
                SessionEvent::Message { topic, payload, at } => {
                    self.arrived(&topic, &payload, Instant::from_ns(at))?
                }
            }
        }
        Ok(())
    }

    fn connected(&mut self) -> Result<(), Error> {
        self.stage = Stage::Connected;
        self.retry.succeeded();
        self.last_error.clear();
        self.note(ClientEvent::Connected, 0, clock::now())?;
        match &self.spec.subscribe {
            // Subscribe after each connect: a restarted broker may have lost the subscription.
            Some(topic) => self.session.subscribe(topic, self.spec.qos)?,
            None => self.joined = true,
        }
        Ok(())
    }

    fn refused(&mut self, code: c_int) -> Result<(), Error> {
        let reason = self.session.answer(code);
        let temporary: &[c_int] = match self.spec.version {
            // Server unavailable (MQTT 3.1.1, 3.2.2.3).
            MqttVersion::V311 => &[3],
            // Server unavailable, server busy, quota exceeded, connection rate exceeded.
            MqttVersion::V5 => &[0x88, 0x89, 0x97, 0x9f],
        };
        if temporary.contains(&code) {
            return self.lost(format!("the broker refused the connection: {reason}"));
        }
        let MqttSpec { host, port, broker, .. } = self.spec;
        Err(Error::mqtt(
            &format!("connect to the broker at {host}:{port} (node {broker})"),
            format!(
                "the broker refused the connection: {reason}; compare its configuration (users, \
                 MQTT versions) with the workload's"
            ),
        ))
    }

    fn untrusted(&self, reason: &str) -> Error {
        let MqttSpec { host, port, broker, .. } = self.spec;
        Error::mqtt(
            &format!("connect to the broker at {host}:{port} (node {broker}) over TLS"),
            format!(
                "{reason}; its certificate must be valid now, signed by the `ca` of the workload, \
                 and name {host}"
            ),
        )
    }

    fn subscription(&mut self, levels: &[c_int]) -> Result<(), Error> {
        if let Some(refusal) = levels.iter().find(|level| **level >= MIN_REFUSAL) {
            let topic = self.spec.subscribe.clone().unwrap_or_default();
            return Err(Error::mqtt(
                &format!("subscribe to {topic} at the broker (node {})", self.spec.broker),
                format!(
                    "the broker refused with code {refusal}; check its access control for \
                         topics"
                ),
            ));
        }
        self.joined = true;
        Ok(())
    }

    fn confirmed(&mut self, mid: c_int, reason: c_int, at: Instant) -> Result<(), Error> {
        let Some(number) = self.numbers.remove(&mid) else { return Ok(()) };
        self.acknowledged += 1;
        if reason < MIN_REFUSAL {
            return self.note(ClientEvent::Acknowledged, number, at);
        }
        let reason = self.session.answer(reason);
        self.warning.once(|| format!("the broker refused a message: {reason}"));
        Ok(())
    }

    fn arrived(&mut self, topic: &str, payload: &[u8], at: Instant) -> Result<(), Error> {
        let is_subscribed = self.spec.subscribe.as_deref() == Some(topic);
        let number = self.payload.number(payload);
        let number = number.filter(|number| is_subscribed && self.expected.contains(number));
        let Some(number) = number else {
            let bytes = payload.len();
            let what = || format!("ignored a message of {bytes} bytes of another workload");
            self.warning.once(what);
            return Ok(());
        };
        let new = self.seen.insert(number);
        self.received += u64::from(new);
        self.note(if new { ClientEvent::Received } else { ClientEvent::Duplicate }, number, at)
    }

    fn note(&mut self, event: ClientEvent, message: u64, at: Instant) -> Result<(), Error> {
        let (peer, bytes) = (self.spec.broker.as_str().into(), self.payload.bytes() as u64);
        self.events.record(&MessageEvent {
            event,
            message,
            peer,
            time_ns: at.as_ns(),
            intended_ns: None,
            bytes,
        })
    }

    /// Keep-alive, progress and the events file; returns when to wake next.
    fn housekeeping(&mut self, control: &mut Control) -> Result<Option<Instant>, Error> {
        let now = clock::now();
        let due = self.due();
        let mut until = due.map(|due| next_wake(due, now));
        match self.stage {
            Stage::Waiting(Some(at)) => until = earlier(until, Some(next_wake(at, now))),
            Stage::Waiting(None) => {}
            Stage::Connecting | Stage::Connected => {
                if now >= self.tend_at {
                    self.session.check_keep_alive();
                    // A tenth of the keep-alive: libmosquitto checks in whole seconds.
                    let tenth = Span::from_s(self.spec.keep_alive_s.into()) / 10;
                    self.tend_at = now + tenth.max(Span::from_s(1));
                }
                until = earlier(until, Some(self.tend_at));
            }
        }
        // A client that joins later cannot be connected before the start, for which the runner
        // waits for it.
        if self.joined || self.spec.join_ns.is_some() {
            self.reports.ready(control)?;
        }
        let progress = self.reports.progress(control, self.next as u64, self.received, now)?;
        let done = self.is_done();
        let flush = self.reports.flush(control, &mut self.events, due, done, now)?;
        Ok(earlier(until, earlier(progress, flush)))
    }

    /// Whether all messages are sent and acknowledged, and all expected ones received.
    fn is_done(&self) -> bool {
        let all = self.spec.schedule.len();
        let acknowledged = self.spec.qos == 0 || self.acknowledged >= all as u64;
        let active = self.joined && self.start.is_some();
        active && self.next == all && acknowledged && self.received >= self.expected.len() as u64
    }

    /// Disconnects from the broker, if connected, and writes the remaining records.
    fn end(&mut self, waiter: &mut Waiter) -> Result<(), Error> {
        self.session.disconnect();
        let deadline = clock::now() + DISCONNECT_TIMEOUT;
        while self.session.descriptor().is_some() && clock::now() < deadline {
            waiter.watch(self.session.descriptor(), self.session.has_output());
            waiter.wait(Some(deadline.min(clock::now() + Span::from_ms(10))))?;
            self.session.transfer(waiter.revents());
        }
        for event in self.session.take() {
            match event {
                SessionEvent::Acknowledged { mid, reason, at } => {
                    self.confirmed(mid, reason, Instant::from_ns(at))?
                }
                SessionEvent::Message { topic, payload, at } => {
                    self.arrived(&topic, &payload, Instant::from_ns(at))?
                }
                _ => {}
            }
        }
        self.events.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::tests::{Running, events};
    use crate::protocols::mqtt::broker::{self, Manners};
    use serde_json::json;
    use std::net::TcpListener;
    use std::path::Path;

    /// A client that publishes three messages to the topic that it subscribes to.
    fn spec(folder: &Path, port: u16, qos: u8) -> MqttSpec {
        let payload = folder.join("payload");
        std::fs::write(&payload, "m##########").unwrap();
        serde_json::from_value(json!({
            "node": "meter", "client": "meter-0", "broker": "broker", "host": "127.0.0.1",
            "port": port, "version": "3.1.1", "qos": qos, "keep_alive_s": 60,
            "clean_session": true, "reconnect_min_ns": 1_000_000, "reconnect_max_ns": 2_000_000,
            "connect_limit_ns": 300_000_000, "subscribe": "a/b", "expected": [7, 8, 9], "publish": "a/b",
            "schedule": [[7, 0], [8, 0], [9, 1_000_000]], "payload": payload,
            "events": folder.join("events.csv"),
        }))
        .unwrap()
    }

    fn run_until_done(spec: &MqttSpec) {
        std::thread::scope(|scope| {
            let mut client = Running::with(scope, move |control| run(spec, control));
            client.wait_for("ready");
            client.send(&Command::Start { at_ns: clock::now_ns() });
            client.wait_for("done");
            client.stop();
        });
    }

    #[test]
    fn messages_are_acknowledged_with_qos_and_received_once() {
        for qos in 0..=2 {
            let folder = tempfile::tempdir().unwrap();
            let spec = spec(folder.path(), broker::start(Manners::Good), qos);
            run_until_done(&spec);
            let all: Vec<MessageEvent<'_, ClientEvent>> = events(&spec.events);
            assert_eq!(all[0].event, ClientEvent::Connected);
            assert!(all.iter().all(|event| event.peer == "broker" && event.bytes == 11));
            let of = |kind| -> Vec<u64> {
                let own = all.iter().filter(|event| event.event == kind);
                own.map(|event| event.message).collect()
            };
            let acknowledged = if qos == 0 { vec![] } else { vec![7, 8, 9] };
            assert_eq!(of(ClientEvent::Sent), [7, 8, 9]);
            assert_eq!(of(ClientEvent::Received), [7, 8, 9]);
            assert_eq!(of(ClientEvent::Acknowledged), acknowledged);
            assert!(of(ClientEvent::Duplicate).is_empty());
        }
    }

    /// What failed: foreign messages of the same length counted as received, so that the client was
    /// done before its own had arrived.
    #[test]
    fn foreign_messages_at_the_topic_are_not_received() {
        for manners in [Manners::Babbles, Manners::Renumbers] {
            let folder = tempfile::tempdir().unwrap();
            let spec = spec(folder.path(), broker::start(manners), 0);
            run_until_done(&spec);
            let all: Vec<MessageEvent<'_, ClientEvent>> = events(&spec.events);
            let kinds = [ClientEvent::Received, ClientEvent::Duplicate];
            let of = all.iter().filter(|event| kinds.contains(&event.event));
            let numbers: Vec<u64> = of.map(|event| event.message).collect();
            assert_eq!(numbers, [7, 8, 9], "{manners:?}");
        }
    }

    #[test]
    fn a_broker_that_does_not_take_the_client_is_an_error_with_a_hint() {
        let none = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        for (port, words) in [
            (broker::start(Manners::Refuses(5)), ["refused the connection", "(users, MQTT"]),
            // Unavailable: tried again until the limit.
            (broker::start(Manners::Refuses(3)), ["within 0.3 s", "refused the connection"]),
            (broker::start(Manners::RefusesSubscriptions), ["subscribe to a/b", "access control"]),
            (broker::start(Manners::Closes), ["within 0.3 s", "check that a broker runs"]),
            (broker::start(Manners::Garbles), ["within 0.3 s", "check that a broker runs"]),
            (none, ["within 0.3 s", "check that a broker runs on broker"]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let spec = spec(folder.path(), port, 1);
            let error = std::thread::scope(|scope| {
                let spec = &spec;
                let client = Running::with(scope, move |control| run(spec, control));
                client.join().unwrap_err().to_string()
            });
            assert!(words.iter().all(|word| error.contains(word)), "{words:?}: {error}");
            assert!(error.contains("node broker") && !error.contains('\n'), "{error}");
        }
    }
}
