//! XPUB and SUB over TCP or PGM: each message to all sinks.

use super::router::ZmqSink;
use super::uplink::Replies;
use super::{listen, multicast, socket, source};
use crate::error::Error;
use crate::link::{HELLO, SinkLink, SourceLink};
use record::InteractionPattern;
use record::spec::InteractionSpec;
use stacks::zeromq::{Message, SUB, Socket, XPUB, XPUB_VERBOSE, context, listen_at};
use std::os::fd::RawFd;

/// The source's side.
pub struct PublishSource {
    publisher: Socket,
    replies: Replies,
    message: Message,
    subscribers: usize,
    needed: usize,
}

impl PublishSource {
    /// Binds both sockets. XPUB instead of PUB reports subscriptions; on the wire they are the
    /// same.
    pub fn new(spec: &InteractionSpec) -> Result<Self, Error> {
        let context = context()?;
        let mut publisher = socket(&context, XPUB)?;
        let needed = if spec.down == InteractionPattern::PgmPublishSubscribe {
            multicast(spec).connect(&mut publisher)?;
            // Multicast has no subscriptions: listeners join the group, and only an answered hello
            // reveals them.
            0
        } else {
            // Report each subscription, not only the first to a topic.
            publisher.set(XPUB_VERBOSE, 1, "set ZMQ_XPUB_VERBOSE")?;
            publisher.bind(&listen_at(listen(spec, spec.port_down)))?;
            spec.peers.len()
        };
        let replies = Replies::new(&context, spec)?;
        Ok(Self { publisher, replies, message: Message::new(), subscribers: 0, needed })
    }
}

impl SourceLink for PublishSource {
    fn descriptors(&self) -> Result<Vec<RawFd>, Error> {
        Ok(vec![self.publisher.descriptor()?, self.replies.descriptor()?])
    }

    fn hello(&mut self) -> Result<(), Error> {
        // Earlier, only some of the sinks would get it.
        if self.subscribers >= self.needed {
            self.publisher.send(HELLO, 0)?;
        }
        Ok(())
    }

    fn greeted(&self) -> bool {
        self.subscribers >= self.needed && self.replies.all_greeted()
    }

    fn send(&mut self, _: Option<usize>, message: &[u8]) -> Result<(), Error> {
        // Without high-water marks, a publisher accepts every message.
        self.publisher.send(message, 0)?;
        Ok(())
    }

    fn receive(&mut self, message: &mut Vec<u8>) -> Result<Option<usize>, Error> {
        while self.publisher.receive(&mut self.message)? {
            match self.message.first() {
                // The first byte of an XPUB's message: 1 subscribes, 0 ends a subscription.
                Some(1) => self.subscribers += 1,
                Some(0) => self.subscribers = self.subscribers.saturating_sub(1),
                _ => {}
            }
        }
        self.replies.receive(message)
    }

    fn pending(&mut self) -> Result<bool, Error> {
        Ok(self.publisher.pending(false)? || self.replies.pending()?)
    }
}

/// A sink that subscribes to all messages.
pub fn subscriber(spec: &InteractionSpec) -> Result<impl SinkLink + use<>, Error> {
    let context = context()?;
    let mut down = socket(&context, SUB)?;
    down.subscribe(b"")?;
    if spec.down == InteractionPattern::PgmPublishSubscribe {
        multicast(spec).connect(&mut down)?;
    } else {
        down.connect(&source(spec, spec.port_down))?;
    }
    ZmqSink::new(&context, down, spec)
}
