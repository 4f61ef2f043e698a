//! MQTT 3.1.1 through a broker, at least once (QoS 1), with libmosquitto.
//!
//! A member subscribes to a topic for all members and to a topic named after the address by which
//! the hub knows it; the hub subscribes to a topic for answers.

use super::channel::{self, Channel, Frame};
use super::{Endpoints, ExternalStack, StackFactory};
use crate::Span;
use crate::carrier::{self, To};
use crate::io::Error;
use crate::model::ModelId;
use crate::rng::{Rng, Seed};
use stacks::mqtt::{Options, Retry, Session, SessionEvent};
use std::ffi::CString;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::thread::Builder;
use std::time::{Duration, Instant};

/// At least once: both client and broker acknowledge and retransmit.
const QOS: u8 = 1;
/// Maximum number of unacknowledged messages; further ones are dropped.
const MAX_WAITING: usize = 1_024;
/// Delay between connection attempts: initial and maximum.
const FIRST_PAUSE: Span = Span::from_ms(100);
const LONGEST_PAUSE: Span = Span::from_s(2);
/// Maximum time that the thread sleeps before it checks keep-alives and reconnects, in ms.
const TURN: u16 = 500;

/// A broker, as a stack for the model `mqtt`.
#[derive(Clone)]
pub struct Mqtt {
    host: String,
    port: u16,
    topic: String,
    credentials: Option<(String, String)>,
}

impl Mqtt {
    /// A broker with this name or address and port (usually 1883).
    pub fn new(host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port, topic: "director".to_owned(), credentials: None }
    }

    /// Sets user name and password. The broker receives them unencrypted, unlike messages.
    #[must_use]
    pub fn credentials(mut self, name: &str, password: &str) -> Self {
        self.credentials = Some((name.to_owned(), password.to_owned()));
        self
    }

    /// Sets the topic prefix, for brokers with access control; default `director`.
    #[must_use]
    pub fn topic(mut self, topic: &str) -> Self {
        topic.clone_into(&mut self.topic);
        self
    }
}

impl fmt::Debug for Mqtt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omit the password.
        write!(f, "Mqtt({}:{})", self.host, self.port)
    }
}

impl StackFactory for Mqtt {
    fn models(&self) -> Vec<ModelId> {
        vec![ModelId::Mqtt]
    }

    fn open(&self, ends: &Endpoints) -> Result<Box<dyn ExternalStack>, Error> {
        let wrong =
            |source| Error::Socket { what: format!("cannot start the client {self:?}"), source };
        let text = |text: String| CString::new(text).map_err(|nul| wrong(io::Error::other(nul)));
        let topic = |end: &str| format!("{}/{}/{end}", self.topic, ends.hub);
        let of = |member: &SocketAddr| topic(&format!("member/{member}"));
        let topics = match ends.is_hub() {
            true => vec![topic("hub")],
            false => vec![topic("all"), of(&ends.local)],
        };
        let (all, hub) = (text(topic("all"))?, text(topic("hub"))?);
        let members =
            ends.members.iter().map(|member| text(of(member))).collect::<Result<_, _>>()?;
        let (ours, theirs) = channel::pair().map_err(wrong)?;
        let options = Options {
            // Unique: a broker disconnects the older of two clients.
            client: format!("director-{:016x}", Rng::new(&Seed::from_system()?).bits()),
            host: self.host.clone(),
            port: self.port,
            credentials: self.credentials.clone(),
            // An answer must not wait for the acknowledgement of earlier data.
            no_delay: true,
            ..Options::default()
        };
        let session = Session::new(&options).map_err(|error| wrong(io::Error::other(error)))?;
        let client = Client {
            session,
            channel: theirs,
            topics,
            all,
            hub,
            members,
            retry: Retry::new(FIRST_PAUSE, LONGEST_PAUSE),
            connect_at: Some(Instant::now()),
            waiting: 0,
        };
        Builder::new().name("mqtt".to_owned()).spawn(move || client.run()).map_err(wrong)?;
        Ok(Box::new(ours))
    }
}

/// The thread of a client: keeps it connected, publishes the session's frames and passes on those
/// that arrive, until the session ends.
struct Client {
    session: Session,
    channel: Channel,
    /// Subscriptions.
    topics: Vec<String>,
    all: CString,
    hub: CString,
    members: Vec<CString>,
    retry: Retry,
    /// When to connect; none while connecting or connected.
    connect_at: Option<Instant>,
    /// Number of unacknowledged messages.
    waiting: usize,
}

impl Client {
    fn run(mut self) {
        loop {
            if self.connect_at.take_if(|at| *at <= Instant::now()).is_some() {
                let _ = self.session.connect();
            }
            if self.session.descriptor().is_some() {
                self.session.check_keep_alive();
            }
            self.handle_events();
            // The attempt failed, or the connection ended.
            if self.connect_at.is_none() && self.session.descriptor().is_none() {
                let pause = Duration::from(self.retry.pause());
                self.connect_at = Some(Instant::now() + pause);
            }
            let pause = self
                .connect_at
                .map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
            let turn = u16::try_from(pause.as_millis() + 1).unwrap_or(TURN).min(TURN);
            self.session.turn(self.channel.as_fd(), turn);
            self.handle_events();
            loop {
                match self.channel.receive() {
                    Ok(Some(frame)) => self.publish(&frame),
                    Ok(None) => break,
                    // Disconnect cleanly, so that the broker sends no last will.
                    Err(_) => return self.session.disconnect(),
                }
            }
        }
    }

    /// Publishes now or after a reconnect; drops the message if too many are queued.
    fn publish(&mut self, (to, frame): &Frame) {
        let topic = match to {
            To::Hub => Some(&self.hub),
            To::Group => Some(&self.all),
            To::Member(member) => self.members.get(*member as usize),
        };
        let Some(topic) = topic.filter(|_| self.waiting < MAX_WAITING) else { return };
        // Without a connection the library queues the message.
        self.waiting += usize::from(self.session.publish(topic, frame, QOS).is_ok());
    }

    fn handle_events(&mut self) {
        for event in self.session.take() {
            match event {
                SessionEvent::Connack(0) => {
                    self.retry.succeeded();
                    // Subscribe after each connect: the session is not persistent.
                    for topic in &self.topics {
                        let _ = self.session.subscribe(topic, QOS);
                    }
                }
                // The broker closes a connection that it refuses.
                SessionEvent::Connack(_) | SessionEvent::Closed(_) | SessionEvent::Suback(_) => {}
                SessionEvent::Acknowledged { .. } => self.waiting = self.waiting.saturating_sub(1),
                // Ignore messages that do not belong to a session.
                SessionEvent::Message { payload, .. } => {
                    if carrier::model_of(&payload).is_some() {
                        self.channel.send((To::Hub, payload));
                    }
                }
            }
        }
    }
}
