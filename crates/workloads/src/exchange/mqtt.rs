//! MQTT with libmosquitto: the source publishes through a broker to the sink, which subscribes.
//!
//! The exchange is measured at the publisher; with a new connection it ends when that is closed.
//! The subscriber records whether the payload arrived. With QoS 0, the section `payload` ends when
//! the broker's kernel has acknowledged all data; with QoS 1 and 2, when the broker has
//! acknowledged the message. TLS is part of `protocol_connect`: libmosquitto continues from the
//! handshake to CONNECT without an event in between.

use super::body::Body;
use super::failure::{Failure, Reason};
use super::log::Receipts;
use super::protocol::{Driver, Outcome, Server, Turn};
use super::sections::Section;
use super::stream;
use super::watch::Watch;
use crate::clock::{MILLISECOND, Nanos, SECOND, monotonic_now};
use crate::error::Error;
use crate::mqtt;
use record::spec::{ExchangeSpec, Peer};
use record::{Connection, MqttChoice};
use stacks::mqtt::{MIN_REFUSAL, Options, Session, SessionEvent, is_tls};
use std::ffi::CString;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// Interval of libmosquitto's keep-alive check.
const KEEP_ALIVE_CHECK: Nanos = SECOND;
/// Time before a subscriber reconnects.
const RETRY_AFTER: Nanos = 200 * MILLISECOND;
/// Keep-alive interval, in s: longer than exchanges, which would contain a keep-alive.
const KEEP_ALIVE_S: u16 = 600;

pub(super) fn driver(spec: &ExchangeSpec, options: &MqttChoice) -> Result<Box<dyn Driver>, Error> {
    let broker = spec.brokers.first().ok_or_else(|| no_broker(spec))?;
    let topic = topic(spec, spec.address);
    Ok(Box::new(Publisher {
        broker: Broker::of(spec, options, broker),
        topic: CString::new(topic).unwrap_or_default(),
        qos: options.qos,
        persistent: spec.connection == Connection::Kept,
        session: None,
        keep_alive_at: 0,
    }))
}

pub(super) fn server(spec: &ExchangeSpec, options: &MqttChoice) -> Result<Box<dyn Server>, Error> {
    if spec.brokers.is_empty() {
        return Err(no_broker(spec));
    }
    let brokers = spec.brokers.iter().map(|broker| {
        let broker = Broker::of(spec, options, broker);
        Ok(Subscription {
            session: Session::new(&broker.options)?,
            broker,
            connect_at: Some(0),
            keep_alive_at: 0,
            answers: 0,
            warned: false,
        })
    });
    Ok(Box::new(Subscriber {
        qos: options.qos,
        body: Body::new(spec.seed, spec.longest()),
        brokers: brokers.collect::<Result<_, Error>>()?,
        spec: spec.clone(),
    }))
}

fn no_broker(spec: &ExchangeSpec) -> Error {
    Error::protocol(&format!("use MQTT at {}", spec.node), "the spec has no broker")
}

/// Topic of a source; short, because each message carries it.
fn topic(spec: &ExchangeSpec, source: std::net::Ipv4Addr) -> String {
    format!("{}/{:x}", spec.workload, u32::from(source) & 0xffff)
}

/// A broker of an exchange.
struct Broker {
    name: String,
    options: Options,
}

impl Broker {
    fn of(spec: &ExchangeSpec, choice: &MqttChoice, broker: &Peer) -> Self {
        let options = Options {
            client: format!("{}-{}", spec.node, spec.workload),
            // A certificate is checked against the host name of the connection.
            host: match spec.tls {
                Some(_) => broker.name.clone(),
                None => broker.address.to_string(),
            },
            port: spec.port,
            keep_alive_s: KEEP_ALIVE_S,
            ..mqtt::options(choice.version, spec.tls.as_ref())
        };
        Self { name: broker.name.clone(), options }
    }
}

struct Publisher {
    broker: Broker,
    topic: CString,
    qos: u8,
    persistent: bool,
    session: Option<Session>,
    keep_alive_at: Nanos,
}

impl Publisher {
    /// Opens a session that the broker has accepted.
    fn connect(&self, turn: &mut Turn<'_, '_>) -> Result<Session, Failure> {
        turn.enter(Section::TransportConnect);
        let mut session = Session::new(&self.broker.options)
            .map_err(|error| Failure::of(Reason::Certificate, error.to_string()))?;
        session.connect().map_err(|code| self.ended(&mut session, code))?;
        let Some(fd) = session.descriptor() else {
            return Err(Failure::of(Reason::Lost, "libmosquitto has no connection"));
        };
        turn.wait(fd, libc::POLLOUT)?;
        if let Some(error) = pending_error(fd) {
            let Options { host, port, .. } = &self.broker.options;
            return Err(Failure::io(&format!("connect to the broker at {host}:{port}"))(error));
        }
        stream::no_delay(fd);
        turn.enter(Section::ProtocolConnect);
        session.continue_handshake();
        self.await_event(turn, &mut session, &mut |event| match event {
            SessionEvent::Connack(0) => Some(Ok(())),
            SessionEvent::Connack(code) => Some(Err(*code)),
            _ => None,
        })?
        .map_err(|code| {
            Failure::of(
                Reason::Rejected,
                format!("the broker refused the connection: {}", session.answer(code)),
            )
        })?;
        Ok(session)
    }

    /// Processes I/O until `find` matches an event.
    fn await_event<T>(
        &self,
        turn: &mut Turn<'_, '_>,
        session: &mut Session,
        find: &mut dyn FnMut(&SessionEvent) -> Option<T>,
    ) -> Result<T, Failure> {
        loop {
            for event in session.take() {
                if let SessionEvent::Closed(code) = event {
                    return Err(self.ended(session, code));
                }
                if let Some(found) = find(&event) {
                    return Ok(found);
                }
            }
            let Some(fd) = session.descriptor() else {
                return Err(Failure::of(Reason::Lost, "the connection was closed"));
            };
            let out = if session.has_output() { libc::POLLOUT } else { 0 };
            let mut set = [libc::pollfd { fd, events: libc::POLLIN | out, revents: 0 }];
            turn.wait_until(&mut set, turn.deadline).and_then(|ready| match ready {
                true => Ok(()),
                false => Err(Failure::timeout()),
            })?;
            transfer(session, set[0].revents);
        }
    }

    fn ended(&self, session: &mut Session, code: i32) -> Failure {
        let text = session.reason(code);
        let reason = match code {
            code if is_tls(code) => Reason::Certificate,
            _ if text.contains("refused") => Reason::Refused,
            _ => Reason::Lost,
        };
        Failure::of(reason, format!("broker {}: {text}", self.broker.name))
    }

    fn publish(&self, turn: &mut Turn<'_, '_>, session: &mut Session) -> Result<(), Failure> {
        turn.enter(Section::Payload);
        let failed = |error: stacks::mqtt::Error| Failure::of(Reason::Lost, error.to_string());
        let id = session.publish(&self.topic, &turn.payload(), self.qos).map_err(failed)?;
        if self.qos > 0 {
            let mut acknowledged = |event: &SessionEvent| match event {
                SessionEvent::Acknowledged { mid, reason, .. } if *mid == id => Some(*reason),
                _ => None,
            };
            let reason = self.await_event(turn, session, &mut acknowledged)?;
            if reason >= MIN_REFUSAL {
                let why = format!("the broker refused the message: {}", session.answer(reason));
                return Err(Failure::of(Reason::Rejected, why));
            }
            return Ok(());
        }
        while session.has_output() {
            let Some(fd) = session.descriptor() else { break };
            turn.wait(fd, libc::POLLOUT)?;
            session.write();
        }
        match session.descriptor() {
            Some(fd) => stream::drain(turn, fd),
            None => Err(Failure::of(Reason::Lost, "the connection was closed")),
        }
    }

    /// Disconnects, then closes. libmosquitto does both at once, so a duplicate descriptor keeps
    /// the connection open in between.
    fn close(&self, turn: &mut Turn<'_, '_>, mut session: Session) -> Result<(), Failure> {
        let Some(fd) = session.descriptor() else {
            return Err(Failure::of(Reason::Lost, "the broker has closed the connection"));
        };
        // SAFETY: the descriptor belongs to the session, which is alive.
        let duplicate = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned();
        let duplicate = TcpStream::from(duplicate.map_err(Failure::io("duplicate a descriptor"))?);
        turn.enter(Section::ProtocolClose);
        session.disconnect();
        // A broker that has closed before the TLS close_notify resets the connection.
        match stream::drain(turn, duplicate.as_raw_fd()) {
            Err(failure) if failure.reason != Reason::Lost => return Err(failure),
            _ => {}
        }
        turn.enter(Section::TransportClose);
        drop(session);
        stream::close(turn, duplicate)
    }
}

impl Driver for Publisher {
    fn set_up(&mut self, turn: &mut Turn<'_, '_>) -> Result<(), Failure> {
        if self.persistent {
            self.session = Some(self.connect(turn)?);
        }
        Ok(())
    }

    fn exchange(&mut self, turn: &mut Turn<'_, '_>) -> Result<Outcome, Failure> {
        let mut session = match self.session.take().filter(|session| session.descriptor().is_some())
        {
            Some(session) => session,
            None => self.connect(turn)?,
        };
        self.publish(turn, &mut session)?;
        match self.persistent {
            true => self.session = Some(session),
            false => self.close(turn, session)?,
        }
        Ok(Outcome::default())
    }

    fn rest(&mut self, watch: &mut Watch<'_>, until: Nanos) -> Result<(), Failure> {
        while let Some(session) = &mut self.session {
            let now = monotonic_now();
            if now >= until {
                return Ok(());
            }
            // Sleep the rest without descriptors, so that none wakes the driver late.
            if until - now < 2 * MILLISECOND {
                break;
            }
            if now >= self.keep_alive_at {
                session.check_keep_alive();
                self.keep_alive_at = now + KEEP_ALIVE_CHECK;
            }
            let Some(fd) = session.descriptor() else { break };
            let mut set = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
            watch.wait(&mut set, Some(self.keep_alive_at.min(until - MILLISECOND)))?;
            transfer(session, set[0].revents);
            session.take();
        }
        watch.sleep(until)
    }

    fn tear_down(&mut self) {
        if let Some(session) = &mut self.session {
            session.disconnect();
        }
    }
}

/// Lets libmosquitto read and write, given the events of a poll.
fn transfer(session: &mut Session, seen: libc::c_short) {
    let is = |events: libc::c_short| seen & events != 0;
    session.transfer(is(libc::POLLIN | libc::POLLHUP | libc::POLLERR), is(libc::POLLOUT));
}

/// Pending error of a non-blocking connect.
fn pending_error(fd: RawFd) -> Option<io::Error> {
    // SAFETY: the descriptor is open; libmosquitto owns it, and this only reads its state.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    socket2::SockRef::from(&socket).take_error().ok().flatten()
}

struct Subscriber {
    spec: ExchangeSpec,
    qos: u8,
    body: Body,
    brokers: Vec<Subscription>,
}

/// A session with one of the brokers.
struct Subscription {
    broker: Broker,
    session: Session,
    /// When to connect; none while connecting or connected.
    connect_at: Option<Nanos>,
    keep_alive_at: Nanos,
    /// Number of SUBACKs received.
    answers: usize,
    warned: bool,
}

impl Server for Subscriber {
    fn serve(&mut self, watch: &mut Watch<'_>, receipts: &mut Receipts) -> Result<(), Error> {
        loop {
            let mut wake = monotonic_now() + KEEP_ALIVE_CHECK;
            let mut set = Vec::new();
            for broker in &mut self.brokers {
                broker.connect_if_due();
                broker.check_keep_alive();
                wake = broker.connect_at.map_or(wake, |at| wake.min(at));
                let out = if broker.session.has_output() { libc::POLLOUT } else { 0 };
                let fd = broker.session.descriptor().unwrap_or(-1);
                set.push(libc::pollfd { fd, events: libc::POLLIN | out, revents: 0 });
            }
            if watch.wait(&mut set, Some(wake)).is_err() {
                break;
            }
            for (place, seen) in set.iter().enumerate() {
                transfer(&mut self.brokers[place].session, seen.revents);
                self.handle_events(place, receipts)?;
            }
            let subscribed = |broker: &Subscription| broker.answers >= self.spec.peers.len();
            if self.brokers.iter().all(subscribed) {
                watch.ready()?;
            }
        }
        for broker in &mut self.brokers {
            broker.session.disconnect();
        }
        Ok(())
    }
}

impl Subscriber {
    fn handle_events(&mut self, place: usize, receipts: &mut Receipts) -> Result<(), Error> {
        let Self { spec, qos, body, brokers } = self;
        let broker = &mut brokers[place];
        for event in broker.session.take() {
            match event {
                SessionEvent::Connack(0) => {
                    for peer in &spec.peers {
                        broker.session.subscribe(&topic(spec, peer.address), *qos)?;
                    }
                }
                SessionEvent::Connack(code) => {
                    broker.schedule_retry(&format!(
                        "the broker refused: {}",
                        broker.session.answer(code)
                    ));
                }
                SessionEvent::Closed(code) => {
                    let reason = broker.session.reason(code);
                    broker.schedule_retry(&reason);
                }
                SessionEvent::Suback(levels) => {
                    // SUBACKs arrive in the order of the SUBSCRIBEs.
                    let peer = spec.peers.get(broker.answers).map_or("", |peer| &peer.name);
                    broker.answers += 1;
                    if let Some(code) = levels.iter().find(|level| **level >= MIN_REFUSAL) {
                        let why = format!(
                            "broker {}: subscription refused, code {code}",
                            broker.broker.name
                        );
                        let failure = Failure::of(Reason::Rejected, why);
                        receipts.refuse(peer, &failure, monotonic_now())?;
                    }
                }
                SessionEvent::Message { topic: name, payload, at } => {
                    let from = spec.peers.iter().find(|peer| topic(spec, peer.address) == name);
                    if let (Some(peer), Some(number)) = (from, body.number(&payload)) {
                        receipts.note(&peer.name, number, payload.len(), at)?;
                    }
                }
                SessionEvent::Acknowledged { .. } => {}
            }
        }
        Ok(())
    }
}

impl Subscription {
    fn connect_if_due(&mut self) {
        let now = monotonic_now();
        if self.connect_at.take_if(|at| *at <= now).is_none() {
            return;
        }
        self.answers = 0;
        if let Err(code) = self.session.connect() {
            let reason = self.session.reason(code);
            self.schedule_retry(&reason);
        }
    }

    fn schedule_retry(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.warned, true) {
            let broker = &self.broker.name;
            eprintln!("thingbed-workload: no connection to the broker {broker}: {reason}");
        }
        self.connect_at = Some(monotonic_now() + RETRY_AFTER);
    }

    fn check_keep_alive(&mut self) {
        let now = monotonic_now();
        if now >= self.keep_alive_at && self.session.descriptor().is_some() {
            self.session.check_keep_alive();
            self.keep_alive_at = now + KEEP_ALIVE_CHECK;
        }
    }
}
