//! Block-wise transfers of requests and answers, RFC 7959. Without I/O: takes answers,
//! returns the next messages.

use super::{AnswerOptions, Block, CONTINUE, TOO_LARGE};

/// The parts of a transfer's message that vary; the options of the request are fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Next {
    /// The block of the request that it carries.
    pub block1: Option<Block>,
    /// The block of the answer that it requests.
    pub block2: Option<Block>,
    /// The length of its payload, in bytes.
    pub length: usize,
}

/// The result of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Send this message.
    Send(Next),
    /// The answer is complete.
    Done,
    /// The transfer has failed; the reason.
    Failed(&'static str),
    /// A duplicate answer to an earlier message.
    Repeat,
}

/// A transfer under way.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    /// The size of the request's body, in bytes.
    body: usize,
    /// The request's block sent last; its size may become smaller.
    offset: usize,
    length: usize,
    size: usize,
    /// The received part of the answer.
    reading: Option<Reading>,
    restarted: bool,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    /// Bytes received.
    received: usize,
    etag: Option<([u8; 8], usize)>,
}

impl Next {
    /// The first message of a request with a body of `body` bytes in blocks of `size`.
    pub fn first(body: usize, size: usize) -> Self {
        let block1 = (body > size).then(|| Block::at(0, size, true)).flatten();
        Self { block1, block2: None, length: body.min(size) }
    }
}

impl Exchange {
    /// A request of `body` bytes in blocks of `size`, whose first message was sent. For a
    /// request in a single message see [`Self::of_answer`].
    pub fn new(body: usize, size: usize) -> Self {
        let (size, length) = (size.max(16), body.min(size));
        Self { body, offset: 0, length, size, reading: None, restarted: false }
    }

    /// A request in a single message.
    pub fn of_answer() -> Self {
        Self::new(0, 16)
    }

    /// Handles an answer with this code and a payload of `carried` bytes.
    pub fn answer(&mut self, code: u8, options: &AnswerOptions, carried: usize) -> Step {
        let good = code >> 5 == 2;
        if self.reading.is_some() {
            return if good { self.read(options, carried) } else { Step::Done };
        }
        if !good {
            return self.refused(code, options);
        }
        let rest = self.offset + self.length < self.body;
        match options.block1 {
            // An answer to a block that was sent before.
            Some(block) if block.number as usize != self.offset / self.size => {
                return Step::Repeat;
            }
            Some(block) if rest => {
                // The target may request smaller blocks from here on (section 2.3).
                self.offset += self.length;
                self.size = self.size.min(block.size());
                return self.send();
            }
            None if rest => {
                return Step::Failed("the target answered before the last block was sent");
            }
            _ if code == CONTINUE => {
                return Step::Failed("the target asked for more after the last block (2.31)");
            }
            _ => {}
        }
        match options.block2 {
            None => Step::Done,
            Some(block) if block.number > 0 => Step::Failed("the answer began with a later block"),
            Some(_) => {
                self.reading = Some(Reading { received: 0, etag: etag(options) });
                self.read(options, carried)
            }
        }
    }

    /// Handles an error response. It ends the transfer, unless the first block was too
    /// large and the target offers a smaller size (section 2.9.3).
    fn refused(&mut self, code: u8, options: &AnswerOptions) -> Step {
        let smaller = options.block1.map(Block::size).filter(|size| *size < self.size);
        match smaller {
            Some(size) if code == TOO_LARGE && self.offset == 0 && !self.restarted => {
                (self.size, self.restarted) = (size, true);
                self.send()
            }
            _ => Step::Done,
        }
    }

    /// The request's block at the current offset.
    fn send(&mut self) -> Step {
        self.length = self.size.min(self.body - self.offset);
        let more = self.offset + self.length < self.body;
        match Block::at(self.offset, self.size, more) {
            block1 @ Some(_) => Step::Send(Next { block1, block2: None, length: self.length }),
            None => Step::Failed("more blocks than can be numbered"),
        }
    }

    /// Handles a block of the answer.
    fn read(&mut self, options: &AnswerOptions, carried: usize) -> Step {
        let Some(reading) = &mut self.reading else { return Step::Done };
        let Some(block) = options.block2 else {
            return Step::Failed("the answer continued without a Block2 option");
        };
        if block.offset() != reading.received {
            return match block.offset() < reading.received {
                true => Step::Repeat,
                false => Step::Failed("the blocks of the answer came out of order"),
            };
        }
        if reading.etag != etag(options) {
            // The resource has changed: restart once from the beginning (section 2.4).
            if self.restarted {
                return Step::Failed("the answer changed twice while it was read (ETag)");
            }
            self.restarted = true;
            *reading = Reading { received: 0, etag: None };
            let first = Block { number: 0, more: false, exponent: block.exponent };
            self.reading = None;
            return Step::Send(Next { block1: None, block2: Some(first), length: 0 });
        }
        if !block.more {
            return match carried <= block.size() {
                true => Step::Done,
                false => Step::Failed("a block was larger than its size"),
            };
        }
        if carried != block.size() {
            return Step::Failed("a block was smaller than its size");
        }
        reading.received += carried;
        match Block::at(reading.received, block.size(), false) {
            block2 @ Some(_) => Step::Send(Next { block1: None, block2, length: 0 }),
            None => Step::Failed("more blocks than can be numbered"),
        }
    }
}

fn etag(options: &AnswerOptions) -> Option<([u8; 8], usize)> {
    let value = options.etag?;
    let mut bytes = [0; 8];
    let length = value.len().min(8);
    bytes[..length].copy_from_slice(&value[..length]);
    Some((bytes, length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coap::{CHANGED, CONTENT, INCOMPLETE};
    use proptest::prelude::*;

    const NONE: AnswerOptions =
        AnswerOptions { etag: None, observe: None, max_age: 60, block1: None, block2: None };

    fn block1(number: u32, more: bool, size: usize) -> AnswerOptions<'static> {
        let exponent = crate::coap::exponent(size);
        AnswerOptions { block1: Some(Block { number, more, exponent }), ..NONE }
    }

    fn block2(number: u32, more: bool, size: usize) -> AnswerOptions<'static> {
        AnswerOptions { block1: None, block2: block1(number, more, size).block1, ..NONE }
    }

    fn sent(step: Step) -> (usize, bool, usize) {
        match step {
            Step::Send(Next { block1: Some(block), block2: None, length }) => {
                (block.offset(), block.more, length)
            }
            other => panic!("{other:?}"),
        }
    }

    fn next_block(step: Step) -> (usize, usize) {
        match step {
            Step::Send(Next { block1: None, block2: Some(block), length: 0 }) => {
                (block.offset(), block.size())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_goes_block_by_block_and_is_answered_at_its_last() {
        let mut exchange = Exchange::new(2_500, 1_024);
        let step = exchange.answer(CONTINUE, &block1(0, true, 1_024), 0);
        assert_eq!(sent(step), (1_024, true, 1_024));
        assert_eq!(exchange.answer(CONTINUE, &block1(0, true, 1_024), 0), Step::Repeat);
        let step = exchange.answer(CONTINUE, &block1(1, true, 1_024), 0);
        assert_eq!(sent(step), (2_048, false, 452));
        assert_eq!(exchange.answer(CHANGED, &block1(2, false, 1_024), 0), Step::Done);
        assert!(matches!(exchange.answer(CONTINUE, &block1(2, true, 1_024), 0), Step::Failed(_)));
    }

    #[test]
    fn the_target_may_want_smaller_blocks() {
        // As in RFC 7959, figure 9: the client sends 128 B, the server requests 32 B.
        let mut exchange = Exchange::new(200, 128);
        let step = exchange.answer(CONTINUE, &block1(0, true, 32), 0);
        assert_eq!(sent(step), (128, true, 32));
        let step = exchange.answer(CONTINUE, &block1(4, true, 32), 0);
        assert_eq!(sent(step), (160, true, 32));
        // Too large from the start; a second time fails.
        let mut exchange = Exchange::new(200, 128);
        assert_eq!(sent(exchange.answer(TOO_LARGE, &block1(0, true, 16), 0)), (0, true, 16));
        assert_eq!(exchange.answer(TOO_LARGE, &block1(0, true, 16), 0), Step::Done);
    }

    #[test]
    fn a_target_that_takes_the_first_block_for_all_is_seen() {
        let mut exchange = Exchange::new(2_500, 1_024);
        assert!(matches!(exchange.answer(CHANGED, &NONE, 0), Step::Failed(_)));
        let mut exchange = Exchange::new(2_500, 1_024);
        assert_eq!(exchange.answer(INCOMPLETE, &block1(0, true, 1_024), 0), Step::Done);
    }

    #[test]
    fn an_answer_is_there_with_its_last_block() {
        let mut exchange = Exchange::new(0, 1_024);
        assert_eq!(next_block(exchange.answer(CONTENT, &block2(0, true, 64), 64)), (64, 64));
        assert_eq!(exchange.answer(CONTENT, &block2(0, true, 64), 64), Step::Repeat);
        // Smaller blocks from then on.
        assert_eq!(next_block(exchange.answer(CONTENT, &block2(2, true, 32), 32)), (96, 32));
        assert_eq!(exchange.answer(CONTENT, &block2(3, false, 32), 5), Step::Done);
        assert_eq!(Exchange::new(0, 64).answer(CONTENT, &block2(0, false, 64), 9), Step::Done);
    }

    #[test]
    fn both_ways_one_after_the_other() {
        let mut exchange = Exchange::new(100, 64);
        assert_eq!(sent(exchange.answer(CONTINUE, &block1(0, true, 64), 0)), (64, false, 36));
        let both = AnswerOptions { block2: block2(0, true, 64).block2, ..block1(1, false, 64) };
        assert_eq!(next_block(exchange.answer(CHANGED, &both, 64)), (64, 64));
        assert_eq!(exchange.answer(CHANGED, &block2(1, false, 64), 1), Step::Done);
    }

    #[test]
    fn an_answer_that_changes_is_read_again_once() {
        let tagged = |number, etag| AnswerOptions { etag: Some(etag), ..block2(number, true, 16) };
        let mut exchange = Exchange::new(0, 64);
        assert_eq!(next_block(exchange.answer(CONTENT, &tagged(0, b"a"), 16)), (16, 16));
        assert_eq!(next_block(exchange.answer(CONTENT, &tagged(1, b"b"), 16)), (0, 16));
        assert_eq!(next_block(exchange.answer(CONTENT, &tagged(0, b"b"), 16)), (16, 16));
        assert!(matches!(exchange.answer(CONTENT, &tagged(1, b"c"), 16), Step::Failed(_)));
    }

    #[test]
    fn answers_that_break_the_rules_fail() {
        let fails = |options: &AnswerOptions, carried| {
            let mut exchange = Exchange::new(0, 64);
            exchange.answer(CONTENT, &block2(0, true, 64), 64);
            assert!(matches!(exchange.answer(CONTENT, options, carried), Step::Failed(_)));
        };
        fails(&NONE, 64);
        fails(&block2(2, true, 64), 64);
        fails(&block2(1, true, 64), 63);
        fails(&block2(1, false, 64), 65);
        let mut exchange = Exchange::new(0, 64);
        assert!(matches!(exchange.answer(CONTENT, &block2(3, true, 64), 64), Step::Failed(_)));
        // An error in the middle is an answer.
        let mut exchange = Exchange::new(0, 64);
        exchange.answer(CONTENT, &block2(0, true, 64), 64);
        assert_eq!(exchange.answer(INCOMPLETE, &NONE, 0), Step::Done);
    }

    proptest! {
        /// For any answers of a target, offsets stay within the request and its blocks.
        #[test]
        fn any_answers_are_no_panic(
            body in 0usize..5_000,
            exponent in 0u32..7,
            answers in proptest::collection::vec(
                (any::<u8>(), any::<[Option<(u32, bool, u8)>; 2]>(), 0usize..1_200, any::<u8>()),
                0..30,
            ),
        ) {
            let mut exchange = Exchange::new(body, 16 << exponent);
            for (code, blocks, carried, tag) in answers {
                let [block1, block2] = blocks.map(|block| {
                    let (number, more, exponent) = block?;
                    Some(Block { number: number & 0xf_ffff, more, exponent: exponent % 7 })
                });
                let tag = [tag % 2];
                let etag = (tag[0] > 0).then_some(&tag[..]);
                let options = AnswerOptions { etag, block1, block2, ..NONE };
                if let Step::Send(next) = exchange.answer(code, &options, carried) {
                    let end = next.block1.map_or(0, Block::offset) + next.length;
                    prop_assert!(end <= body);
                    prop_assert!(next.block1.is_some() != next.block2.is_some());
                }
            }
        }
    }
}
