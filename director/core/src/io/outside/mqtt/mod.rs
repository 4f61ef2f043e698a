//! MQTT 3.1.1 through a broker, at least once (QoS 1), with libmosquitto.
//!
//! A member subscribes to a topic for all members and to a topic named after the address by which
//! the hub knows it; the hub subscribes to a topic for answers.

mod client;
mod ffi;

use self::client::Client;
use super::channel::{self, Channel};
use super::{Endpoints, ExternalStack, StackFactory};
use crate::carrier::To;
use crate::io::{Error, random};
use crate::model::ModelId;
use std::ffi::CString;
use std::fmt;
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

/// Delay between connection attempts: initial and maximum.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

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
        let text = |text: &str| CString::new(text).map_err(|nul| wrong(io::Error::other(nul)));
        let topic = |end: &str| text(&format!("{}/{}/{end}", self.topic, ends.hub));
        let of = |member: &SocketAddrV4| topic(&format!("member/{member}"));
        let (all, hub) = (topic("all")?, topic("hub")?);
        let topics = match ends.is_hub() {
            true => vec![hub.clone()],
            false => vec![all.clone(), of(&ends.local)?],
        };
        let members = ends.members.iter().map(of).collect::<Result<_, _>>()?;
        let (ours, theirs) = channel::pair().map_err(wrong)?;
        // Client identifiers must be unique: a broker disconnects the older client.
        let id = text(&format!("director-{:016x}", random()?))?;
        let client = Client::new(&id, (text(&self.host)?, self.port), topics, theirs);
        let client = client.ok_or_else(|| wrong(io::ErrorKind::OutOfMemory.into()))?;
        if let Some((name, password)) = &self.credentials {
            client.credentials(&text(name)?, &text(password)?);
        }
        let client = Arc::new(client);
        let own = client.clone();
        Builder::new().name("mqtt".to_owned()).spawn(move || run(&own)).map_err(wrong)?;
        Ok(Box::new(Handle { channel: ours, client, all, hub, members }))
    }
}

/// Keeps the client connected until the session ends.
fn run(client: &Client) {
    let mut pause = FIRST_PAUSE;
    while !client.is_over() {
        let since = Instant::now();
        if client.connect() {
            while client.turn() {
                if client.is_over() {
                    client.disconnect();
                    return;
                }
            }
        }
        // Back off while the broker refuses connections.
        let held = since.elapsed() > LONGEST_PAUSE;
        pause = if held { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
        sleep(pause);
    }
}

/// The session's end.
struct Handle {
    channel: Channel,
    client: Arc<Client>,
    all: CString,
    hub: CString,
    members: Vec<CString>,
}

impl ExternalStack for Handle {
    fn send(&mut self, to: To, frame: Vec<u8>) {
        let topic = match to {
            To::Hub => Some(&self.hub),
            To::Group => Some(&self.all),
            To::Member(member) => self.members.get(member as usize),
        };
        if let Some(topic) = topic {
            self.client.publish(topic, &frame);
        }
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        self.channel.receive().ok().flatten().map(|(_, frame)| frame)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}
