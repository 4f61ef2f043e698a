//! Observed resource (RFC 7641): the source is the server and drives; the sink registers once and
//! records the notifications.

use super::block::Block;
use super::callbacks::{Happened, Response};
use super::security::Security;
use super::stack::{Observable, Outgoing, Session, Stack};
use super::{LOOK, Options, TOKEN, security, wait};
use crate::clock::{MILLISECOND, Nanos, monotonic_now};
use crate::error::Error;
use crate::exchange::body::Body;
use crate::exchange::failure::{Failure, Reason};
use crate::exchange::log::Receipts;
use crate::exchange::protocol::{Driver, Outcome, Server, Turn};
use crate::exchange::sections::Section;
use crate::exchange::spec::ExchangeSpec;
use crate::exchange::watch::Watch;
use crate::spec::Peer;
use std::cell::RefCell;
use std::net::SocketAddrV4;
use std::rc::Rc;

/// Path of the resource.
const PATH: &str = "o";
/// Time before an observer retries its registration.
const AGAIN: Nanos = 500 * MILLISECOND;

/// Current state of the resource.
#[derive(Default)]
struct Present {
    payload: Vec<u8>,
    /// The last block sent, and whether more follow.
    given: Option<(u32, bool)>,
    /// Blocks requested since the last check, by number.
    asked: Vec<u32>,
}

/// The driver: a server whose resource changes.
pub struct Observed {
    stack: Stack,
    resource: Observable,
    present: Rc<RefCell<Present>>,
    confirmable: bool,
}

impl Observed {
    pub fn new(spec: &ExchangeSpec, options: &Options) -> Result<Self, Error> {
        let mut stack = Stack::new()?;
        stack.set_times(options.leisure_ns, options.ack_timeout_ns, options.max_retransmit);
        let present = Rc::new(RefCell::new(Present::default()));
        let (shown, block) = (present.clone(), options.block);
        let own = Peer { name: spec.node.clone(), address: spec.address };
        stack.listen(
            SocketAddrV4::new(spec.address, spec.port),
            options.transport.proto(),
            &security(spec, options, &own),
            None,
            Box::new(move |request| {
                let mut present = shown.borrow_mut();
                let answer = super::server::cut(present.payload.clone(), request.block2, block);
                let given = answer.block2.map_or((0, false), |block| (block.number, block.more));
                present.given = Some(given);
                present.asked.push(given.0);
                answer
            }),
        )?;
        let resource = stack.observable(PATH.as_bytes(), options.confirmable);
        Ok(Self { stack, resource, present, confirmable: options.confirmable })
    }
}

impl Driver for Observed {
    fn exchange(&mut self, turn: &mut Turn<'_, '_>) -> Result<Outcome, Failure> {
        *self.present.borrow_mut() = Present { payload: turn.payload(), ..Present::default() };
        turn.enter(Section::Block(1));
        if !self.stack.notify(&self.resource) {
            return Err(Failure::of(Reason::Rejected, "no client observes the resource"));
        }
        let mut mark = turn.mark();
        loop {
            self.stack.process();
            for happened in self.stack.take() {
                if let Happened::Nack(reason) = happened {
                    return Err(super::nack(reason, false));
                }
            }
            let mut present = self.present.borrow_mut();
            for number in std::mem::take(&mut present.asked).into_iter().filter(|n| *n > 0) {
                turn.enter_from(mark, Section::Block(number + 1));
            }
            let last = present.given.is_some_and(|(_, more)| !more);
            drop(present);
            // A non-confirmable notification is complete when it is sent.
            if last && (!self.confirmable || self.stack.is_idle()) {
                return Ok(Outcome::default());
            }
            wait(&self.stack, turn)?;
            // A requested block is sent while libcoap processes I/O, so its section starts here.
            mark = turn.mark();
        }
    }

    fn rest(&mut self, watch: &mut Watch<'_>, until: Nanos) -> Result<(), Failure> {
        // Observers register, leave and request missed blocks.
        while monotonic_now() + LOOK < until {
            let fd = self.stack.descriptor();
            let mut set = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
            watch.wait(&mut set, Some(monotonic_now() + LOOK))?;
            self.stack.process();
            self.stack.take();
        }
        watch.sleep(until)
    }
}

/// The other side: the observer.
pub struct Observer {
    spec: ExchangeSpec,
    options: Options,
    body: Body,
    told: Vec<Told>,
}

/// The observation of one source.
struct Told {
    session: Session,
    stack: Stack,
    ask_at: Nanos,
    observes: bool,
    whole: Vec<u8>,
    place: usize,
}

impl Observer {
    pub fn new(spec: &ExchangeSpec, options: Options) -> Self {
        let body = Body::new(spec.seed, spec.longest());
        Self { spec: spec.clone(), options, body, told: Vec::new() }
    }

    fn begin(&mut self) -> Result<(), Error> {
        for (place, peer) in self.spec.peers.iter().enumerate() {
            let mut stack = Stack::new()?;
            let to = SocketAddrV4::new(peer.address, self.spec.port);
            let security: Security = security(&self.spec, &self.options, peer);
            let mut session = stack.session(to, self.options.transport.proto(), &security)?;
            session.set_times(self.options.ack_timeout_ns, self.options.max_retransmit);
            let (ask_at, observes, whole) = (0, false, Vec::new());
            self.told.push(Told { session, stack, ask_at, observes, whole, place });
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
            let set = self.told.iter().map(|told| libc::pollfd {
                fd: told.stack.descriptor(),
                events: libc::POLLIN,
                revents: 0,
            });
            let mut set: Vec<_> = set.collect();
            if watch.wait(&mut set, Some(monotonic_now() + LOOK)).is_err() {
                return Ok(());
            }
            for told in &mut self.told {
                told.turn(&self.options)?;
                for happened in told.stack.take() {
                    match happened {
                        Happened::Response { response, at, .. } => {
                            let Some(whole) = told.take_in(response, &self.options) else {
                                continue;
                            };
                            let peer = &self.spec.peers[told.place].name;
                            // The initial state, before the first exchange, is empty.
                            if let Some(number) = self.body.number(&whole) {
                                receipts.note(peer, number, whole.len(), at)?;
                            }
                        }
                        Happened::Nack(_) => {
                            told.observes = false;
                            told.ask_at = monotonic_now() + AGAIN;
                        }
                        Happened::Event(_) => {}
                    }
                }
            }
        }
    }
}

impl Told {
    /// Registers as observer, until a notification confirms it.
    fn turn(&mut self, options: &Options) -> Result<(), Error> {
        self.stack.process();
        let now = monotonic_now();
        if self.observes || now < self.ask_at {
            return Ok(());
        }
        self.ask_at = now + AGAIN;
        // No Block2 option: libcoap would put the requested one into each notification and
        // override the one set here.
        self.send(options, Some(0), None);
        Ok(())
    }

    fn send(&mut self, options: &Options, observe: Option<u8>, block2: Option<Block>) {
        let request = Outgoing {
            method: 1,
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
    fn take_in(&mut self, response: Response, options: &Options) -> Option<Vec<u8>> {
        if response.code >> 5 != 2 {
            return None;
        }
        let first = !std::mem::replace(&mut self.observes, true);
        let block = response.block2.unwrap_or(Block::sized(0, false, options.block));
        if block.number == 0 {
            self.whole.clear();
        }
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
