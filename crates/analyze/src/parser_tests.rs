//! All grammars on streams of any form: what is parsed does not depend on how it was cut, and no byte
//! is counted twice or not at all.

use super::{Grammar, Need, Parser, Shares};
use crate::messages::Messages;
use crate::mqtt::Mqtt;
use crate::opcua::OpcUa;
use crate::stream::Piece;
use crate::zmtp::Zmtp;
use proptest::prelude::*;

/// A part of a stream: bytes, or a number of missing ones.
#[derive(Debug, Clone)]
enum Part {
    Bytes(Vec<u8>),
    Missing(u64),
}

fn take<G: Grammar>(grammar: G, first: Need, parts: &[Part]) -> (Messages, Shares) {
    let mut parser = Parser::new(grammar, first);
    let (mut messages, mut shares) = (Messages::default(), Shares::default());
    for part in parts {
        let piece = match part {
            Part::Bytes(bytes) => Piece::Bytes(bytes),
            Part::Missing(count) => Piece::Missing(*count),
        };
        let more = parser.take(piece, &mut messages);
        shares.messaging += more.messaging;
        shares.payload += more.payload;
    }
    (messages, shares)
}

/// A message of each protocol, with a body of `body` bytes.
fn message(protocol: usize, kind: u8, body: usize) -> Vec<u8> {
    match protocol {
        0 => {
            let length = |length: usize| match length {
                0..128 => vec![length as u8],
                _ => vec![(length & 0x7f) as u8 | 0x80, (length >> 7) as u8],
            };
            match kind % 3 {
                0 => [&[0x30][..], &length(body + 3), b"\0\x01t", &vec![7; body]].concat(),
                1 => [&[0x32][..], &length(body + 5), b"\0\x01t\0\x09", &vec![7; body]].concat(),
                _ => b"\xc0\0".to_vec(),
            }
        }
        1 => {
            let kind: &[u8] = [b"MSGF", b"MSGC", b"OPNF"][usize::from(kind % 3)];
            [kind, &(body as u32 + 24).to_le_bytes(), &[0; 16], &vec![7; body]].concat()
        }
        _ => match kind % 3 {
            0 => [&[kind & 1, body as u8][..], &vec![7; body.min(255)]].concat(),
            1 => [&[2][..], &(body as u64).to_be_bytes(), &vec![7; body]].concat(),
            _ => b"\x04\x06\x05READY".to_vec(),
        },
    }
}

fn parsed(protocol: usize, parts: &[Part]) -> (Messages, Shares) {
    match protocol {
        0 => take(Mqtt::new(), Mqtt::FIRST, parts),
        1 => take(OpcUa::new(), OpcUa::FIRST, parts),
        _ => {
            // Behind the greeting.
            let mut greeting = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3];
            greeting.resize(64, 0);
            let parts = [&[Part::Bytes(greeting)], parts].concat();
            let (messages, mut shares) = take(Zmtp::new(), Zmtp::FIRST, &parts);
            shares.messaging -= 64;
            (messages, shares)
        }
    }
}

fn any_message() -> impl Strategy<Value = (u8, usize)> {
    (0..6_u8, prop_oneof![0..20_usize, 100..250_usize])
}

proptest! {
    #[test]
    fn valid_streams_are_parsed_alike_however_they_were_cut(
        protocol in 0..3_usize,
        sent in prop::collection::vec(any_message(), 1..12),
        piece in 1..50_usize,
    ) {
        let all: Vec<u8> =
            sent.iter().flat_map(|(kind, body)| message(protocol, *kind, *body)).collect();
        let (whole, shares) = parsed(protocol, &[Part::Bytes(all.clone())]);
        let pieces: Vec<Part> = all.chunks(piece).map(|piece| Part::Bytes(piece.to_vec())).collect();
        let (cut, same) = parsed(protocol, &pieces);
        prop_assert_eq!(format!("{whole:?}"), format!("{cut:?}"));
        prop_assert_eq!(shares, same);
        prop_assert_eq!((whole.resyncs, whole.skipped), (0, 0));
        prop_assert_eq!(shares.messaging + shares.payload, all.len() as u64);
        // Bodies of data messages, and nothing else, are payload.
        let is_data = |kind: u8| kind % 3 != 2;
        let data: usize = sent.iter().filter(|(kind, _)| is_data(*kind)).map(|(_, body)| body).sum();
        prop_assert_eq!(shares.payload, data as u64);
        // Parts of a message are not messages.
        let parts = |kind: u8| match protocol {
            0 => false,
            1 => kind % 3 == 1,
            _ => kind.is_multiple_of(3) && kind & 1 == 1,
        };
        let complete = sent.iter().filter(|(kind, _)| !parts(*kind)).count() as u64;
        prop_assert_eq!(whole.all - u64::from(protocol == 2), complete);
    }

    /// A gap within a body does no harm: the messages around it are all counted.
    #[test]
    fn a_gap_in_a_body_costs_no_message(
        protocol in 0..3_usize,
        kind in 0..2_u8,
        body in 10..200_usize,
        gap in 0.0..1.0_f64,
    ) {
        let one = message(protocol, kind, body);
        let all = one.repeat(3);
        let (whole, shares) = parsed(protocol, &[Part::Bytes(all.clone())]);
        // Within the last bytes of the second message, of which all are body.
        let (end, length) = (2 * one.len(), 1 + (gap * (body - 1) as f64) as usize);
        let from = end - length;
        let parts = [
            Part::Bytes(all[..from].to_vec()),
            Part::Missing(length as u64),
            Part::Bytes(all[end..].to_vec()),
        ];
        let (found, same) = parsed(protocol, &parts);
        prop_assert_eq!(format!("{whole:?}"), format!("{found:?}"));
        prop_assert_eq!(shares, same);
    }

    #[test]
    fn no_byte_of_any_stream_is_lost_or_counted_twice(
        protocol in 0..3_usize,
        parts in prop::collection::vec(
            prop_oneof![
                4 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Part::Bytes),
                2 => any_message().prop_map(|(kind, body)| Part::Bytes(message(0, kind, body))),
                2 => any_message().prop_map(|(kind, body)| Part::Bytes(message(2, kind, body))),
                1 => (1..1_000_u64).prop_map(Part::Missing),
            ],
            0..12,
        ),
    ) {
        let (messages, shares) = parsed(protocol, &parts);
        let all: u64 = parts.iter().map(|part| match part {
            Part::Bytes(bytes) => bytes.len() as u64,
            Part::Missing(count) => *count,
        }).sum();
        prop_assert_eq!(shares.messaging + shares.payload, all);
        prop_assert!(messages.skipped <= shares.payload);
    }

    #[test]
    fn datagrams_of_coap_are_counted_in_whole_or_not(
        data in prop::collection::vec(any::<u8>(), 0..40),
        cut in 0..10_u32,
    ) {
        let mut messages = Messages::default();
        let length = data.len() as u32 + cut;
        match crate::coap::take(&data, length, &mut messages) {
            Some(shares) => {
                prop_assert_eq!(shares.messaging + shares.payload, u64::from(length));
                prop_assert!(shares.messaging >= 4 && messages.all == 1);
            }
            None => prop_assert_eq!(messages.all, 0),
        }
    }
}
