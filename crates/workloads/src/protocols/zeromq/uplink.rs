//! Replies from the sinks to the source: REQ at each sink, REP at the source, over TCP.

use super::{listen, socket, source};
use crate::error::Error;
use crate::link::{HELLO, Warning};
use record::spec::{InteractionSpec, Peer};
use stacks::zeromq::{Context, IMMEDIATE, Message, REP, REQ, Socket, listen_at};
use std::collections::HashMap;
use std::os::fd::RawFd;

/// The source's side: receives requests and acknowledges each at once.
pub struct Replies {
    socket: Socket,
    message: Message,
    by_name: HashMap<String, usize>,
    by_address: HashMap<String, usize>,
    greeted: Vec<bool>,
    missing: usize,
    warning: Warning,
}

impl Replies {
    /// Binds the REP socket.
    pub fn new(context: &Context, spec: &InteractionSpec) -> Result<Self, Error> {
        let mut socket = socket(context, REP)?;
        socket.bind(&listen_at(listen(spec, spec.port_up)))?;
        let index = |key: fn(&Peer) -> String| {
            spec.peers.iter().enumerate().map(|(i, peer)| (key(peer), i)).collect()
        };
        Ok(Self {
            socket,
            message: Message::new(),
            by_name: index(|peer| peer.name.clone()),
            by_address: index(|peer| peer.address.to_string()),
            greeted: vec![false; spec.peers.len()],
            missing: spec.peers.len(),
            warning: Warning::default(),
        })
    }

    /// Whether a sink has sent its hello.
    pub fn greeted(&self, peer: usize) -> bool {
        self.greeted[peer]
    }

    /// Whether all sinks have sent their hello.
    pub fn all_greeted(&self) -> bool {
        self.missing == 0
    }

    /// The descriptor that signals changes.
    pub fn descriptor(&self) -> Result<RawFd, Error> {
        Ok(self.socket.descriptor()?)
    }

    /// Whether a request is available.
    pub fn pending(&self) -> Result<bool, Error> {
        Ok(self.socket.pending(false)?)
    }

    /// Receives the next reply into `message`; returns its sink, or none.
    pub fn receive(&mut self, message: &mut Vec<u8>) -> Result<Option<usize>, Error> {
        while self.socket.receive(&mut self.message)? {
            message.clear();
            message.extend_from_slice(&self.message);
            // The connection identifies the sink: a name in the message would add bytes that the
            // model does not have.
            let address = self.message.gets("Peer-Address").unwrap_or("").to_owned();
            // REP must answer before it receives the next request. An empty answer adds the fewest
            // bytes.
            self.socket.send(b"", 0)?;
            if let Some(name) = message.strip_prefix(HELLO) {
                self.hello(name, address);
            } else if let Some(&peer) = self.by_address.get(&address) {
                return Ok(Some(peer));
            } else {
                self.warning.once(|| {
                    format!("ignored a reply from {address:?}, which is not the address of a peer")
                });
            }
        }
        Ok(None)
    }

    fn hello(&mut self, name: &[u8], address: String) {
        let Some(&peer) = std::str::from_utf8(name).ok().and_then(|name| self.by_name.get(name))
        else {
            return;
        };
        if !std::mem::replace(&mut self.greeted[peer], true) {
            self.missing -= 1;
        }
        // The address as libzmq writes it, which for IPv6 may differ from the spec's.
        self.by_address.insert(address, peer);
    }
}

/// A sink's side: one request at a time, the next only after the acknowledgement.
pub struct Requests {
    socket: Socket,
    message: Message,
    hello: Vec<u8>,
    outstanding: bool,
    blocked: bool,
    greeting: Greeting,
}

#[derive(PartialEq, Eq)]
enum Greeting {
    Unsent,
    Sent,
    Answered,
}

impl Requests {
    /// Connects the REQ socket.
    pub fn new(context: &Context, spec: &InteractionSpec) -> Result<Self, Error> {
        let mut socket = socket(context, REQ)?;
        // Queue requests here, where they are visible, until the connection is open, instead of in
        // libzmq's queue of a connection that may never open.
        socket.set(IMMEDIATE, 1, "set ZMQ_IMMEDIATE")?;
        socket.connect(&source(spec, spec.port_up))?;
        Ok(Self {
            socket,
            message: Message::new(),
            hello: [HELLO, spec.node.as_bytes()].concat(),
            outstanding: false,
            blocked: false,
            greeting: Greeting::Unsent,
        })
    }

    /// Sends the hello once, as soon as the connection is open.
    pub fn greet(&mut self) -> Result<(), Error> {
        if self.greeting == Greeting::Unsent {
            let hello = std::mem::take(&mut self.hello);
            if self.send(&hello)? {
                self.greeting = Greeting::Sent;
            }
            self.hello = hello;
        }
        Ok(())
    }

    /// Whether the source has acknowledged the hello.
    pub fn greeted(&self) -> bool {
        self.greeting == Greeting::Answered
    }

    /// Sends a request; false while one is outstanding or there is no connection.
    pub fn send(&mut self, message: &[u8]) -> Result<bool, Error> {
        if self.outstanding {
            return Ok(false);
        }
        let sent = self.socket.send(message, 0)?;
        (self.outstanding, self.blocked) = (sent, !sent);
        Ok(sent)
    }

    /// Receives a pending acknowledgement.
    pub fn acknowledge(&mut self) -> Result<(), Error> {
        while self.outstanding && self.socket.receive(&mut self.message)? {
            self.outstanding = false;
            if self.greeting == Greeting::Sent {
                self.greeting = Greeting::Answered;
            }
        }
        Ok(())
    }

    /// The descriptor that signals changes.
    pub fn descriptor(&self) -> Result<RawFd, Error> {
        Ok(self.socket.descriptor()?)
    }

    /// Whether an acknowledgement is available, or room for a request that was blocked.
    pub fn pending(&self) -> Result<bool, Error> {
        Ok(self.socket.pending(self.blocked)?)
    }
}
