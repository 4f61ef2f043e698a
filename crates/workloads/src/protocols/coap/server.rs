//! CoAP server: sends and receives payloads, block by block.

use super::callbacks::{Answer, Request};
use super::endpoint::{POLL_INTERVAL, listening};
use super::stack::Stack;
use crate::address::unspecified_for;
use crate::error::Error;
use crate::exchange::body::Body;
use crate::exchange::log::Receipts;
use crate::exchange::protocol::Server;
use crate::exchange::watch::Watch;
use coap::Block;
use coap::code::{
    BAD_REQUEST, CHANGED, CONTENT, CONTINUE, DELETE, DELETED, GET, INCOMPLETE, NOT_FOUND, TOO_LARGE,
};
use record::Coap;
use record::spec::ExchangeSpec;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use units::Instant;

/// Maximum number of incomplete payloads kept.
const MAX_PARTIAL: usize = 10_000;

/// The server that answers requests.
pub struct CoapServer {
    spec: ExchangeSpec,
    stack: Stack,
    receipts: Rc<RefCell<Vec<Receipt>>>,
}

/// A complete payload.
struct Receipt {
    from: SocketAddr,
    number: Option<u64>,
    size: usize,
    at: Instant,
}

impl CoapServer {
    pub fn new(spec: &ExchangeSpec, options: &Coap) -> Result<Self, Error> {
        let receipts = Rc::new(RefCell::new(Vec::new()));
        let mut store = PayloadStore {
            body: Body::new(spec.seed, spec.longest()),
            longest: spec.longest(),
            block: options.block as usize,
            parts: HashMap::new(),
            receipts: receipts.clone(),
        };
        // Multicast datagrams are not addressed to the node's unicast address.
        let host = match options.group {
            true => unspecified_for(spec.address),
            false => spec.address,
        };
        let respond = Box::new(move |request: &Request| store.answer(request));
        let stack = listening(spec, options, host, respond)?;
        Ok(Self { spec: spec.clone(), stack, receipts })
    }
}

impl Server for CoapServer {
    fn serve(&mut self, watch: &mut Watch<'_>, receipts: &mut Receipts) -> Result<(), Error> {
        watch.ready()?;
        loop {
            let fd = self.stack.descriptor();
            let mut set = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
            if watch.wait(&mut set, Some(clock::now() + POLL_INTERVAL)).is_err() {
                return Ok(());
            }
            self.stack.process();
            self.stack.take();
            for Receipt { from, number, size, at } in self.receipts.borrow_mut().drain(..) {
                let name = self.spec.name_of(from.ip());
                receipts.note(&name, number, size, at)?;
            }
        }
    }
}

/// Payloads to send, and incomplete ones being received.
struct PayloadStore {
    body: Body,
    longest: usize,
    block: usize,
    parts: HashMap<(SocketAddr, String), Vec<u8>>,
    receipts: Rc<RefCell<Vec<Receipt>>>,
}

impl PayloadStore {
    fn answer(&mut self, request: &Request) -> Answer {
        match request.method {
            GET => self.give(request),
            DELETE => {
                self.note(request, &[]);
                Answer { code: DELETED, ..Answer::default() }
            }
            _ => self.take(request),
        }
    }

    /// Sends the payload whose number and size are in the path.
    fn give(&self, request: &Request) -> Answer {
        let Some((number, size)) = request.path.split_once('.').and_then(|(number, size)| {
            let size = usize::from_str_radix(size, 16).ok()?;
            Some((u64::from_str_radix(number, 16).ok()?, size))
        }) else {
            return empty_answer(NOT_FOUND);
        };
        if size > self.longest {
            return empty_answer(TOO_LARGE);
        }
        cut(self.body.message(Some(number), size), request.block2, self.block)
    }

    /// Receives a payload, whole or in blocks.
    fn take(&mut self, request: &Request) -> Answer {
        let Some(block) = request.block1 else {
            return self.whole(request, &request.payload);
        };
        let key = (request.from, request.path.clone());
        // Clients give up on payloads; those that are still sent get 4.08 and fail, which is rare.
        if block.number == 0 && self.parts.len() >= MAX_PARTIAL {
            self.parts.clear();
        }
        if block.number == 0 {
            self.parts.insert(key.clone(), Vec::new());
        }
        let Some(received) = self.parts.get_mut(&key) else { return empty_answer(INCOMPLETE) };
        if received.len() == block.offset() {
            if received.len() + request.payload.len() > self.longest {
                return empty_answer(TOO_LARGE);
            }
            received.extend_from_slice(&request.payload);
        } else if received.len() != block.offset() + request.payload.len() {
            // Neither the next block nor a repeated one.
            return empty_answer(INCOMPLETE);
        }
        if block.more {
            return Answer { code: CONTINUE, block1: Some(block), ..Answer::default() };
        }
        let whole = self.parts.remove(&key).unwrap_or_default();
        Answer { block1: Some(block), ..self.whole(request, &whole) }
    }

    fn whole(&self, request: &Request, payload: &[u8]) -> Answer {
        match self.note(request, payload) {
            true => empty_answer(CHANGED),
            false => empty_answer(BAD_REQUEST),
        }
    }

    /// Records a payload if it belongs to this workload.
    fn note(&self, request: &Request, payload: &[u8]) -> bool {
        let Some(known) = self.body.number(payload) else { return false };
        let number = known.or_else(|| u64::from_str_radix(&request.path, 16).ok());
        let (from, size, at) = (request.from, payload.len(), clock::now());
        self.receipts.borrow_mut().push(Receipt { from, number, size, at });
        true
    }
}

/// The requested block of `payload`, of `usual` size if the request has no Block2 option; the
/// whole payload if it fits and the request has none.
pub(super) fn cut(payload: Vec<u8>, requested: Option<Block>, usual: usize) -> Answer {
    let block = match requested {
        None if payload.len() <= usual => {
            return Answer { code: CONTENT, payload, ..Answer::default() };
        }
        None => Block::sized(0, false, usual),
        // At most the requested size and the configured size.
        Some(requested) if requested.size() > usual => {
            let number = requested.offset() / usual;
            Block::sized(number as u32, false, usual)
        }
        Some(requested) => requested,
    };
    match block.cut(&payload) {
        Some((block, part)) => Answer {
            code: CONTENT,
            payload: part.to_vec(),
            block2: Some(block),
            ..Answer::default()
        },
        None => empty_answer(BAD_REQUEST),
    }
}

fn empty_answer(code: u8) -> Answer {
    Answer { code, ..Answer::default() }
}
