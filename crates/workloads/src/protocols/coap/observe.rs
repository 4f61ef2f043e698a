//! Observed resource (RFC 7641): the source is the server and drives; the sink registers once and
//! records the notifications.

use super::callbacks::{Request, Response, SessionEvent};
use super::codes::{TOKEN, nack, proto};
use super::endpoint::{POLL_INTERVAL, listening, security, wait};
use super::security::Security;
use super::stack::{Observable, Outgoing, Session, Stack};
use crate::error::Error;
use crate::exchange::body::Body;
use crate::exchange::failure::{Failure, Reason};
use crate::exchange::log::Receipts;
use crate::exchange::outcome::Outcome;
use crate::exchange::protocol::{Driver, Server, Turn};
use crate::exchange::sections::Section;
use crate::exchange::watch::Watch;
use coap::{Block, code};
use record::Coap;
use record::spec::ExchangeSpec;
use std::cell::RefCell;
use std::rc::Rc;
use units::{Instant, Span};

/// Path of the resource.
const PATH: &str = "o";
/// Time before an observer retries its registration.
const RETRY_AFTER: Span = Span::from_ms(500);

/// Current state of the resource.
#[derive(Default)]
struct ResourceState {
    payload: Vec<u8>,
    /// The last block sent, and whether more follow.
    last_sent: Option<(u32, bool)>,
    /// Blocks requested since the last check, by number.
    requested: Vec<u32>,
}

/// The driver: a server whose resource changes.
pub struct Observed {
    stack: Stack,
    resource: Observable,
    state: Rc<RefCell<ResourceState>>,
    confirmable: bool,
}

impl Observed {
    pub fn new(spec: &ExchangeSpec, options: &Coap) -> Result<Self, Error> {
        let state = Rc::new(RefCell::new(ResourceState::default()));
        let (shown, block) = (state.clone(), options.block as usize);
        let respond = Box::new(move |request: &Request| {
            let mut state = shown.borrow_mut();
            let answer = super::server::cut(state.payload.clone(), request.block2, block);
            // Without the option, the whole payload is in the answer.
            let last_sent = answer.block2.map_or((0, false), |block| (block.number, block.more));
            state.last_sent = Some(last_sent);
            state.requested.push(last_sent.0);
            answer
        });
        let mut stack = listening(spec, options, spec.address, respond)?;
        let resource = stack.observable(PATH.as_bytes(), options.confirmable);
        Ok(Self { stack, resource, state, confirmable: options.confirmable })
    }
}

impl Driver for Observed {
    fn exchange(&mut self, turn: &mut Turn<'_, '_>) -> Result<Outcome, Failure> {
        *self.state.borrow_mut() =
            ResourceState { payload: turn.payload(), ..ResourceState::default() };
        turn.enter(Section::Block(1));
        if !self.stack.notify(&self.resource) {
            return Err(Failure::of(Reason::Rejected, "no client observes the resource"));
        }
        let mut mark = turn.mark();
        loop {
            self.stack.process();
            for event in self.stack.take() {
                if let SessionEvent::Nack(reason) = event {
                    return Err(nack(reason, false));
                }
            }
            let mut state = self.state.borrow_mut();
            for number in std::mem::take(&mut state.requested).into_iter().filter(|n| *n > 0) {
                turn.enter_from(mark, Section::Block(number + 1));
            }
            let last = state.last_sent.is_some_and(|(_, more)| !more);
            drop(state);
            // A non-confirmable notification is complete when it is sent.
            if last && (!self.confirmable || self.stack.is_idle()) {
                return Ok(Outcome::default());
            }
            wait(&self.stack, turn)?;
            // A requested block is sent while libcoap processes I/O, so its section starts here.
            mark = turn.mark();
        }
    }

    fn rest(&mut self, watch: &mut Watch<'_>, until: Instant) -> Result<(), Failure> {
        // Observers turn, leave and request missed blocks.
        while clock::now() + POLL_INTERVAL < until {
            let fd = self.stack.descriptor();
            let mut set = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
            watch.wait(&mut set, Some(clock::now() + POLL_INTERVAL))?;
            self.stack.process();
            self.stack.take();
        }
        watch.sleep(until)
    }
}

/// The other side: the observer.
pub struct Observer {
    spec: ExchangeSpec,
    options: Coap,
    body: Body,
    observations: Vec<Observation>,
}

/// The observation of one source.
struct Observation {
    session: Session,
    stack: Stack,
    register_at: Instant,
    observes: bool,
    whole: Vec<u8>,
    place: usize,
}

impl Observer {
    pub fn new(spec: &ExchangeSpec, options: Coap) -> Self {
        let body = Body::new(spec.seed, spec.longest());
        Self { spec: spec.clone(), options, body, observations: Vec::new() }
    }

    fn begin(&mut self) -> Result<(), Error> {
        for (place, peer) in self.spec.peers.iter().enumerate() {
            let mut stack = Stack::new()?;
            let to = (peer.address, self.spec.port).into();
            let security: Security = security(&self.spec, &self.options, peer);
            let mut session = stack.session(to, proto(self.options.transport), &security)?;
            session.set_times(self.options.ack_timeout, self.options.max_retransmit);
            let (register_at, observes, whole) = (Instant::START, false, Vec::new());
            self.observations.push(Observation {
                session,
                stack,
                register_at,
                observes,
                whole,
                place,
            });
        }
        Ok(())
    }
}

impl Server for Observer {
    fn serve(&mut self, watch: &mut Watch<'_>, receipts: &mut Receipts) -> Result<(), Error> {
        self.begin()?;
        // Ready at once: each source reports its own readiness, and observers register when it
        // starts.
        watch.ready()?;
        loop {
            let set = self.observations.iter().map(|observation| libc::pollfd {
                fd: observation.stack.descriptor(),
                events: libc::POLLIN,
                revents: 0,
            });
            let mut set: Vec<_> = set.collect();
            if watch.wait(&mut set, Some(clock::now() + POLL_INTERVAL)).is_err() {
                return Ok(());
            }
            for observation in &mut self.observations {
                observation.register(&self.options)?;
                for event in observation.stack.take() {
                    match event {
                        SessionEvent::Response { response, at, .. } => {
                            let Some(whole) = observation.add_block(response, &self.options) else {
                                continue;
                            };
                            let peer = &self.spec.peers[observation.place].name;
                            // The initial state, before the first exchange, is empty.
                            if let Some(number) = self.body.number(&whole) {
                                receipts.note(peer, number, whole.len(), at)?;
                            }
                        }
                        SessionEvent::Nack(_) => {
                            observation.observes = false;
                            observation.register_at = clock::now() + RETRY_AFTER;
                        }
                        SessionEvent::Event(_) => {}
                    }
                }
            }
        }
    }
}

impl Observation {
    /// Registers as observer, until a notification confirms it.
    fn register(&mut self, options: &Coap) -> Result<(), Error> {
        self.stack.process();
        let now = clock::now();
        if self.observes || now < self.register_at {
            return Ok(());
        }
        self.register_at = now + RETRY_AFTER;
        // No Block2 option: libcoap would put the requested one into each notification and
        // override the one set here.
        self.send(options, Some(0), None);
        Ok(())
    }

    fn send(&mut self, options: &Coap, observe: Option<u8>, block2: Option<Block>) {
        let request = Outgoing {
            method: code::GET,
            confirmable: options.confirmable,
            token: &[1; TOKEN],
            path: PATH,
            observe,
            block1: None,
            block2,
            payload: &[],
        };
        // A request that cannot be sent now is retried later.
        let _ = self.session.send(&request);
    }

    /// Adds a block; returns the payload if it is complete.
    fn add_block(&mut self, response: Response, options: &Coap) -> Option<Vec<u8>> {
        if response.code >> 5 != 2 {
            return None;
        }
        let first = !std::mem::replace(&mut self.observes, true);
        let block = response.block2.unwrap_or(Block::sized(0, false, options.block as usize));
        if block.number == 0 {
            self.whole.clear();
        }
        // A block of an older state: the next notification begins again.
        if self.whole.len() != block.offset() {
            return None;
        }
        self.whole.extend_from_slice(&response.payload);
        if block.more {
            let next = Block { number: block.number + 1, more: false, ..block };
            self.send(options, None, Some(next));
            return None;
        }
        let whole = std::mem::take(&mut self.whole);
        // The response to the registration is not a notification.
        (!first || !whole.is_empty()).then_some(whole)
    }
}
