//! Entry points of the parsers for the fuzzer (feature `fuzzing`).

use crate::coap::{AnswerOptions, Block, Exchange, Message, RequestOptions, Step, transfer_key};
use crate::connection::mqtt;
use crate::device::{Head, Transfers, head};
use crate::http::{Answers, Found};
use std::net::SocketAddr;
use units::Instant;

/// Feeds messages as answers to one request of `body` bytes. Asserts that what is sent lies
/// within the request.
pub fn answers(messages: &[Vec<u8>], body: usize) {
    let mut exchange = Exchange::new(body, 64);
    for bytes in messages {
        let Ok(message) = Message::parse(bytes) else { continue };
        let Ok(options) = AnswerOptions::read(&message) else { continue };
        if let Step::Send(next) = exchange.answer(message.code, &options, message.payload.len()) {
            assert!(next.block1.map_or(0, Block::offset) + next.length <= body.max(next.length));
        }
    }
}

/// Feeds messages as requests of one peer to a device.
pub fn requests(messages: &[Vec<u8>]) {
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let (mut transfers, mut path) = (Transfers::default(), Vec::new());
    for (now, bytes) in messages.iter().enumerate() {
        let Ok(message) = Message::parse(bytes) else { continue };
        let Ok(options) = RequestOptions::read(&message, &mut path, b"tag") else { continue };
        assert!(path.len() <= bytes.len());
        if let Some(block) = options.block1 {
            let (key, carried) = (transfer_key(&message), message.payload.len());
            transfers.take(peer, key, block, carried, options.size1, Instant::from_ns(now as u64));
        }
    }
}

/// Feeds bytes to the HTTP and MQTT parsers. Asserts that pieces give the same result as
/// the whole.
pub fn stream(bytes: &[u8], piece: usize) {
    let found = |piece: usize| {
        let (mut answers, mut kept, mut all) = (Answers::new(), Vec::new(), Vec::new());
        for piece in bytes.chunks(piece) {
            kept.extend_from_slice(piece);
            loop {
                let (used, found) = answers.parse(&kept, false);
                kept.drain(..used);
                match found {
                    None => break,
                    Some(Found::Garbage(_)) => return (all, true),
                    Some(Found::Answer(status)) => all.push(status),
                }
            }
        }
        (all, false)
    };
    assert_eq!(found(piece), found(bytes.len().max(1)));
    if let Head::Request(mut request) = head(bytes) {
        request.body.parse(&bytes[request.length..]);
    }
    mqtt::parse(bytes);
}
