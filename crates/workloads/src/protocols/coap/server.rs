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

#[cfg(test)]
mod tests {
    use super::*;
    use coap::code::{POST, PUT};
    use proptest::prelude::*;

    const LONGEST: usize = 200;
    const BLOCK: usize = 32;

    struct Bed {
        store: PayloadStore,
        receipts: Rc<RefCell<Vec<Receipt>>>,
    }

    impl Bed {
        fn new() -> Self {
            let receipts = Rc::new(RefCell::new(Vec::new()));
            let store = PayloadStore {
                body: Body::new(7, LONGEST),
                longest: LONGEST,
                block: BLOCK,
                parts: HashMap::new(),
                receipts: receipts.clone(),
            };
            Self { store, receipts }
        }

        /// Number and size of the payloads so far.
        fn received(&self) -> Vec<(Option<u64>, usize)> {
            self.receipts.borrow().iter().map(|one| (one.number, one.size)).collect()
        }

        /// Sends a block of `whole` from the client with this port.
        fn put(&mut self, port: u16, number: u32, whole: &[u8]) -> Answer {
            let (block, part) = Block::sized(number, false, BLOCK).cut(whole).unwrap();
            let payload = part.to_vec();
            self.store.answer(&Request { block1: Some(block), payload, ..request(port, PUT, "1f") })
        }

        fn get(&self, path: &str, block2: Option<Block>) -> Answer {
            self.store.give(&Request { block2, ..request(1, GET, path) })
        }
    }

    fn request(port: u16, method: u8, path: &str) -> Request {
        Request {
            from: ([10, 0, 0, 1], port).into(),
            method,
            path: path.to_owned(),
            payload: Vec::new(),
            block1: None,
            block2: None,
        }
    }

    fn payload(size: usize) -> Vec<u8> {
        Body::new(7, LONGEST).message(Some(31), size)
    }

    #[test]
    fn payloads_of_several_clients_arrive_block_by_block() {
        let (mut bed, whole) = (Bed::new(), payload(100));
        for number in 0..3 {
            for port in [1, 2] {
                let answer = bed.put(port, number, &whole);
                assert_eq!((answer.code, answer.block1.unwrap().number), (CONTINUE, number));
            }
        }
        assert_eq!(bed.received(), []);
        for port in [1, 2] {
            let answer = bed.put(port, 3, &whole);
            assert_eq!((answer.code, answer.block1.unwrap().more), (CHANGED, false));
        }
        assert_eq!(bed.received(), [(Some(31), 100); 2]);
        assert!(bed.store.parts.is_empty());
    }

    #[test]
    fn wrong_blocks_have_the_answers_of_the_standard() {
        let whole = payload(100);
        // RFC 7959, section 2.9.2: without the blocks before.
        assert_eq!(Bed::new().put(1, 1, &whole).code, INCOMPLETE);
        let mut bed = Bed::new();
        assert_eq!(bed.put(1, 0, &whole).code, CONTINUE);
        assert_eq!(bed.put(1, 2, &whole).code, INCOMPLETE);
        assert_eq!(bed.put(2, 1, &whole).code, INCOMPLETE, "of another client");
        // A repeated block adds nothing.
        assert_eq!(bed.put(1, 1, &whole).code, CONTINUE);
        assert_eq!(bed.put(1, 1, &whole).code, CONTINUE);
        assert_eq!(bed.put(1, 2, &whole).code, CONTINUE);
        assert_eq!(bed.put(1, 3, &whole).code, CHANGED);
        assert_eq!(bed.received(), [(Some(31), 100)]);
        // Section 2.9.3: too large; and bytes of another workload.
        let mut bed = Bed::new();
        let long = vec![0; LONGEST + 1];
        let codes: Vec<u8> = (0..7).map(|number| bed.put(1, number, &long).code).collect();
        assert_eq!(codes, [CONTINUE, CONTINUE, CONTINUE, CONTINUE, CONTINUE, CONTINUE, TOO_LARGE]);
        let foreign = Body::new(8, LONGEST).message(Some(31), 40);
        assert_eq!(bed.put(1, 0, &foreign).code, CONTINUE);
        assert_eq!(bed.put(1, 1, &foreign).code, BAD_REQUEST);
        assert_eq!(bed.received(), []);
    }

    #[test]
    fn a_payload_in_one_request_has_its_number_in_itself_or_in_the_path() {
        let mut bed = Bed::new();
        for (path, size) in [("5", 50), ("5", 4), ("ffffffffffffffff", 0), ("", 0), ("x", 0)] {
            let answer =
                bed.store.answer(&Request { payload: payload(size), ..request(1, POST, path) });
            assert_eq!(answer.code, CHANGED, "{path}");
        }
        assert_eq!(bed.store.answer(&request(1, DELETE, "9")).code, DELETED);
        let numbers = [Some(31), Some(5), Some(u64::MAX), None, None, Some(9)];
        let sizes = [50, 4, 0, 0, 0, 0];
        assert_eq!(bed.received(), numbers.into_iter().zip(sizes).collect::<Vec<_>>());
    }

    #[test]
    fn a_payload_is_given_block_by_block_and_only_up_to_the_longest() {
        let bed = Bed::new();
        let whole = Body::new(7, LONGEST).message(Some(4), 100);
        let mut found = Vec::new();
        for number in 0..4 {
            let answer = bed.get("4.64", Some(Block::sized(number, false, BLOCK)));
            assert_eq!(answer.code, CONTENT);
            assert_eq!(answer.block2.unwrap().more, number < 3);
            found.extend(answer.payload);
        }
        assert_eq!(found, whole);
        // A block larger than the configured one is given in the smaller size.
        let answer = bed.get("4.64", Some(Block::sized(1, false, 64)));
        assert_eq!(answer.block2, Some(Block::sized(2, true, BLOCK)));
        assert_eq!(answer.payload, whole[64..96]);
        assert_eq!(bed.get("4.64", None).block2, Some(Block::sized(0, true, BLOCK)));
        assert_eq!(bed.get("4.20", None).block2, None, "it fits into one");
        assert_eq!(bed.get("4.64", Some(Block::sized(4, false, BLOCK))).code, BAD_REQUEST);
        assert_eq!(bed.get("4.64", Some(Block::sized(0xf_ffff, false, 1_024))).code, BAD_REQUEST);
        assert_eq!(bed.get("4.c8", None).code, CONTENT);
        assert_eq!(bed.get("4.c9", None).code, TOO_LARGE);
        assert_eq!(bed.get("4.ffffffffffffffff", None).code, TOO_LARGE);
        for path in ["", "4", "4.", ".64", "x.64", "4.x", "4.64.0", "4.10000000000000000", "-4.64"]
        {
            assert_eq!(bed.get(path, None).code, NOT_FOUND, "{path}");
        }
    }

    #[test]
    fn incomplete_payloads_have_a_limit() {
        let (mut bed, whole) = (Bed::new(), payload(100));
        for port in 0..=u16::MAX {
            bed.put(port, 0, &whole);
            assert!(bed.store.parts.len() <= MAX_PARTIAL);
        }
        (1..4).for_each(|number| drop(bed.put(u16::MAX, number, &whole)));
        assert_eq!(bed.received(), [(Some(31), 100)]);
    }

    proptest! {
        /// Blocks in any order, repeated and restarted: a payload is received exactly when its
        /// last block follows all others.
        #[test]
        fn a_payload_is_whole_or_not_there(blocks in prop::collection::vec(0..4_u32, 0..30)) {
            let (mut bed, whole) = (Bed::new(), payload(100));
            // The model: how many blocks of the current attempt are here.
            let (mut here, mut complete) = (None, 0);
            for number in blocks {
                let code = bed.put(1, number, &whole).code;
                here = match here {
                    _ if number == 0 => Some(1),
                    Some(count) if number == count => Some(count + 1),
                    Some(count) if number + 1 == count => {
                        prop_assert_eq!(code, CONTINUE, "a repeated block");
                        Some(count)
                    }
                    other => {
                        prop_assert_eq!(code, INCOMPLETE);
                        other
                    }
                };
                if number == 3 && here == Some(4) {
                    prop_assert_eq!(code, CHANGED);
                    (here, complete) = (None, complete + 1);
                }
            }
            prop_assert_eq!(bed.received(), vec![(Some(31), 100); complete]);
        }
    }
}
