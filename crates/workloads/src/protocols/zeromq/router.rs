//! ROUTER and DEALER over TCP: each message to one sink, by its name.

use super::uplink::{Replies, Requests};
use super::{listen, socket, source};
use crate::error::Error;
use crate::link::{HELLO, SinkLink, SourceLink, Warning};
use record::spec::InteractionSpec;
use stacks::zeromq::{
    Context, DEALER, Message, ROUTER, ROUTER_HANDOVER, ROUTER_MANDATORY, SNDMORE, Socket, context,
    listen_at,
};
use std::os::fd::RawFd;

/// The source's side.
pub struct RouterSource {
    router: Socket,
    replies: Replies,
    message: Message,
    peers: Vec<String>,
    warning: Warning,
}

impl RouterSource {
    /// Binds both sockets.
    pub fn new(spec: &InteractionSpec) -> Result<Self, Error> {
        let context = context()?;
        let mut router = socket(&context, ROUTER)?;
        // A message to an unconnected peer is an error instead of being dropped silently.
        router.set(ROUTER_MANDATORY, 1, "set ZMQ_ROUTER_MANDATORY")?;
        // A reconnecting sink gets its name back, even if the source has not noticed that the old
        // connection is dead.
        router.set(ROUTER_HANDOVER, 1, "set ZMQ_ROUTER_HANDOVER")?;
        router.bind(&listen_at(listen(spec, spec.port_down)))?;
        Ok(Self {
            router,
            replies: Replies::new(&context, spec)?,
            message: Message::new(),
            peers: spec.peers.iter().map(|peer| peer.name.clone()).collect(),
            warning: Warning::default(),
        })
    }

    /// Sends to one sink; false if it is not connected.
    fn send_to(&self, peer: usize, message: &[u8]) -> Result<bool, Error> {
        Ok(self.router.send(self.peers[peer].as_bytes(), SNDMORE)?
            && self.router.send(message, 0)?)
    }
}

impl SourceLink for RouterSource {
    fn descriptors(&self) -> Result<Vec<RawFd>, Error> {
        Ok(vec![self.router.descriptor()?, self.replies.descriptor()?])
    }

    fn hello(&mut self) -> Result<(), Error> {
        for peer in (0..self.peers.len()).filter(|peer| !self.replies.greeted(*peer)) {
            self.send_to(peer, HELLO)?;
        }
        Ok(())
    }

    fn greeted(&self) -> bool {
        self.replies.all_greeted()
    }

    fn send(&mut self, peer: Option<usize>, message: &[u8]) -> Result<(), Error> {
        let peers = peer.map_or(0..self.peers.len(), |peer| peer..peer + 1);
        for peer in peers {
            if !self.send_to(peer, message)? {
                let name = &self.peers[peer];
                self.warning
                    .once(|| format!("could not send a message to {name}: it is not connected"));
            }
        }
        Ok(())
    }

    fn receive(&mut self, message: &mut Vec<u8>) -> Result<Option<usize>, Error> {
        // Sinks send nothing here; reading clears the readiness of unexpected messages.
        while self.router.receive(&mut self.message)? {}
        self.replies.receive(message)
    }

    fn pending(&mut self) -> Result<bool, Error> {
        Ok(self.router.pending(false)? || self.replies.pending()?)
    }
}

/// A sink's side of any model whose messages use one ZeroMQ socket.
pub struct ZmqSink {
    down: Socket,
    requests: Requests,
    message: Message,
    hello_received: bool,
}

impl ZmqSink {
    /// A DEALER for messages from a ROUTER.
    pub fn dealer(spec: &InteractionSpec) -> Result<Self, Error> {
        let context = context()?;
        let mut down = socket(&context, DEALER)?;
        down.set_name(spec.node.as_bytes())?;
        down.connect(&source(spec, spec.port_down))?;
        Self::new(&context, down, spec)
    }

    /// Adds the uplink to the socket for messages.
    pub fn new(context: &Context, down: Socket, spec: &InteractionSpec) -> Result<Self, Error> {
        let requests = Requests::new(context, spec)?;
        Ok(Self { down, requests, message: Message::new(), hello_received: false })
    }
}

impl SinkLink for ZmqSink {
    fn descriptors(&self) -> Result<Vec<RawFd>, Error> {
        Ok(vec![self.down.descriptor()?, self.requests.descriptor()?])
    }

    fn greet(&mut self) -> Result<(), Error> {
        // Greet only after a hello from the source, so that the handshake proves both directions.
        if self.hello_received { self.requests.greet() } else { Ok(()) }
    }

    fn greeted(&self) -> bool {
        self.hello_received && self.requests.greeted()
    }

    fn receive(&mut self, message: &mut Vec<u8>) -> Result<bool, Error> {
        self.requests.acknowledge()?;
        while self.down.receive(&mut self.message)? {
            if &*self.message == HELLO {
                self.hello_received = true;
                continue;
            }
            message.clear();
            message.extend_from_slice(&self.message);
            return Ok(true);
        }
        Ok(false)
    }

    fn reply(&mut self, message: &[u8]) -> Result<bool, Error> {
        self.requests.send(message)
    }

    fn pending(&mut self) -> Result<bool, Error> {
        Ok(self.down.pending(false)? || self.requests.pending()?)
    }
}
