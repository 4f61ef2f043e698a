//! MQTT with libmosquitto: the source publishes through a broker to the sink, which subscribes.
//!
//! The exchange is measured at the publisher; with a new connection it ends when that is closed.
//! The subscriber records whether the payload arrived. With QoS 0, the section `payload` ends when
//! the broker's kernel has acknowledged all data; with QoS 1 and 2, when the broker has
//! acknowledged the message. TLS is part of `protocol_connect`: libmosquitto continues from the
//! handshake to CONNECT without an event in between.

use super::options;
use crate::error::Error;
use crate::exchange::failure::{Failure, Reason};
use crate::exchange::outcome::Outcome;
use crate::exchange::protocol::{Connecting, Driver, Protocol, Turn};
use crate::exchange::sections::Section;
use crate::exchange::watch::Watch;
use crate::protocols::tcp::stream;
use record::spec::{ExchangeSpec, Peer};
use record::{Connection, MqttChoice};
use stacks::mqtt::{MIN_REFUSAL, Options, Session, SessionEvent, is_tls};
use std::ffi::CString;
use std::io;
use std::net::IpAddr;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use units::{Instant, Span};

/// Interval of libmosquitto's keep-alive check.
pub(super) const KEEP_ALIVE_CHECK: Span = Span::from_s(1);
/// Keep-alive interval, in s: longer than exchanges, which would contain a keep-alive.
const KEEP_ALIVE_S: u16 = 600;

pub(crate) fn driver(spec: &ExchangeSpec, options: &MqttChoice) -> Result<Box<dyn Driver>, Error> {
    let broker = spec.brokers.first().ok_or_else(|| no_broker(spec))?;
    let topic = topic(spec, spec.address);
    let publisher = Publisher {
        broker: Broker::of(spec, options, broker),
        topic: CString::new(topic).unwrap_or_default(),
        qos: options.qos,
        keep_alive_at: Instant::START,
    };
    Ok(Box::new(Connecting::new(publisher, spec.connection == Connection::Kept)))
}

pub(super) fn no_broker(spec: &ExchangeSpec) -> Error {
    Error::protocol(&format!("use MQTT at {}", spec.node), "the spec has no broker")
}

/// Topic of a source: the workload's number and the source's whole address, since addresses of
/// different networks may differ in any of their bits.
pub(super) fn topic(spec: &ExchangeSpec, source: IpAddr) -> String {
    format!("{}/{source}", spec.workload)
}

/// A broker of an exchange.
pub(super) struct Broker {
    pub name: String,
    pub options: Options,
}

impl Broker {
    pub fn of(spec: &ExchangeSpec, choice: &MqttChoice, broker: &Peer) -> Self {
        let options = Options {
            client: format!("{}-{}", spec.node, spec.workload),
            // A certificate is checked against the host name of the connection.
            host: match spec.tls {
                Some(_) => broker.name.clone(),
                None => broker.address.to_string(),
            },
            port: spec.port,
            keep_alive_s: KEEP_ALIVE_S,
            ..options(choice.version, spec.tls.as_ref())
        };
        Self { name: broker.name.clone(), options }
    }
}

struct Publisher {
    broker: Broker,
    topic: CString,
    qos: u8,
    keep_alive_at: Instant,
}

impl Publisher {
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
            session.transfer(set[0].revents);
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
}

impl Protocol for Publisher {
    type Connection = Session;

    /// Opens a session that the broker has accepted.
    fn connect(&mut self, turn: &mut Turn<'_, '_>) -> Result<Session, Failure> {
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
        // Otherwise small messages may wait until earlier data is acknowledged.
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

    fn exchange(
        &mut self,
        turn: &mut Turn<'_, '_>,
        session: &mut Session,
    ) -> Result<Outcome, Failure> {
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
            return Ok(Outcome::default());
        }
        while session.has_output() {
            let Some(fd) = session.descriptor() else { break };
            turn.wait(fd, libc::POLLOUT)?;
            session.write();
        }
        match session.descriptor() {
            Some(fd) => stream::drain(turn, fd).map(|()| Outcome::default()),
            None => Err(Failure::of(Reason::Lost, "the connection was closed")),
        }
    }

    /// Disconnects, then closes. libmosquitto does both at once, so a duplicate descriptor keeps
    /// the connection open in between.
    fn close(&mut self, turn: &mut Turn<'_, '_>, mut session: Session) -> Result<(), Failure> {
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

    fn is_open(&self, session: &Session) -> bool {
        session.descriptor().is_some()
    }

    fn rest(
        &mut self,
        kept: &mut Option<Session>,
        watch: &mut Watch<'_>,
        until: Instant,
    ) -> Result<(), Failure> {
        while let Some(session) = kept {
            let now = clock::now();
            if now >= until {
                return Ok(());
            }
            // Sleep the rest without descriptors, so that none wakes the driver late.
            if until - now < Span::from_ms(2) {
                break;
            }
            if now >= self.keep_alive_at {
                session.check_keep_alive();
                self.keep_alive_at = now + KEEP_ALIVE_CHECK;
            }
            let Some(fd) = session.descriptor() else { break };
            let mut set = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
            watch.wait(&mut set, Some(self.keep_alive_at.min(until - Span::from_ms(1))))?;
            session.transfer(set[0].revents);
            session.take();
        }
        watch.sleep(until)
    }

    fn tear_down(&mut self, mut session: Session) {
        session.disconnect();
    }
}

/// Pending error of a non-blocking connect.
fn pending_error(fd: RawFd) -> Option<io::Error> {
    // SAFETY: the descriptor is open; libmosquitto owns it, and this only reads its state.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    socket2::SockRef::from(&socket).take_error().ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::tests::spec;
    use serde_json::json;
    use std::collections::BTreeSet;

    /// What failed: topics had only the low 16 bits of the address.
    #[test]
    fn sources_of_different_networks_have_different_topics() {
        let protocol = json!({"mqtt": {"qos": 0, "version": "5"}});
        let spec = spec(std::path::Path::new("x"), &protocol, &json!({"workload": 3}));
        let addresses = [
            "10.0.0.7",
            "10.1.0.7",
            "10.0.1.7",
            "10.0.0.107",
            "172.16.0.7",
            "0.10.0.7",
            "fd00::7",
            "fd00:0:0:1::7",
            "fd00:1::7",
            "fd01::7",
            "fd00::a00:7",
        ];
        let topics = addresses.map(|address| topic(&spec, address.parse().unwrap()));
        assert_eq!(topics.iter().collect::<BTreeSet<_>>().len(), addresses.len(), "{topics:?}");
        for topic in topics {
            // A subscription to it has no wildcards (MQTT 3.1.1, section 4.7.1).
            assert!(topic.starts_with("3/") && !topic.contains(['+', '#', '\0']), "{topic}");
        }
    }
}
