//! `udp-arq`: messages over UDP, split into chunks, with selective-repeat retransmission.
//! Paced by the sender.
//!
//! A train is a sequence of chunks of one message: all chunks at first, later the missing ones.
//! Its last chunk requests an acknowledgement, which lists the missing chunks. On a timeout that
//! chunk is sent again, then more of the missing ones with each further timeout. So a message
//! without loss costs one frame back, and none if an answer acknowledges it. Messages that arrive
//! together can share that frame, and small messages that are due together share datagrams too, if
//! the other end reads bundles.

mod chunks;
mod frame;
mod receiver;
mod sender;
mod sending;
mod settings;
mod timeout;

pub use frame::{
    COMPLETE_LEN, Complete, Datagram, Echo, HEADER, LAST_ATTEMPT, MAX_CHUNKS, is_frame,
};
pub use receiver::{ArqReceiver, Receipt, Received};
pub use sender::ArqSender;
pub use sending::Payload;
pub use settings::{AckReport, ArqSettings, Outcome, Refused, Request, Response};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Instant, Span};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const FIRST: Echo = Echo { attempt: 0, held: false };

    /// Result of a transfer: arrival time of the last message, frames in both directions.
    struct Sent {
        at: Instant,
        frames: [u64; 2],
        received: Vec<(u64, Vec<u8>)>,
    }

    fn draw(state: &mut u64) -> f64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*state >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Sends over a path with 30 ms delay and the given frame loss per direction.
    fn send(messages: u64, bytes: usize, loss: f64, settings: ArqSettings, seed: u64) -> Sent {
        let (mut sender, mut receiver) = (ArqSender::new(settings), ArqReceiver::new());
        for message in 0..messages {
            sender.send(message, vec![message as u8; bytes], None).unwrap();
        }
        let mut state = seed;
        let mut way: BTreeMap<(Instant, u64), (bool, Vec<u8>)> = BTreeMap::new();
        let (mut now, mut number) = (Instant::START, 0);
        let mut sent = Sent { at: Instant::START, frames: [0; 2], received: Vec::new() };
        while !sender.is_idle() {
            let (datagram, again) = sender.poll(now);
            if let Some(datagram) = datagram {
                sent.frames[0] += 1;
                number += 1;
                if draw(&mut state) >= loss {
                    way.insert((now + Span::from_ms(30), number), (true, datagram));
                }
                continue;
            }
            let comes = way.keys().next().map(|(at, _)| *at);
            now = [again, comes].into_iter().flatten().min().expect("something is to happen");
            assert!(now < Instant::START + Span::from_s(1_000), "it ends");
            while let Some(entry) = way.first_entry().filter(|entry| entry.key().0 <= now) {
                let (there, datagram) = entry.remove();
                if !there {
                    if let Some(report) = sender.handle_ack(&datagram, now) {
                        sender.measured(&report, now);
                    }
                    continue;
                }
                let Received { message, reply } = receiver.receive(&datagram);
                if let Some(whole) = message {
                    sent.at = now;
                    sent.received.push(whole);
                }
                if let Some(reply) = reply {
                    sent.frames[1] += 1;
                    number += 1;
                    if draw(&mut state) >= loss {
                        let reply = reply.datagram().encode();
                        way.insert((now + Span::from_ms(30), number), (false, reply));
                    }
                }
            }
        }
        sent
    }

    /// Frames of 127 bytes: 85 of a datagram at an MTU of 113.
    const SMALL: ArqSettings = ArqSettings {
        datagram: 85,
        below: 42,
        rate_bit_s: 250_000.0,
        timeout: Span::from_ms(100),
        at_first: Span::ZERO,
        most: 8,
        burst: 0,
        adapts: false,
        estimated: false,
    };

    #[test]
    fn without_loss_a_message_costs_one_frame_back() {
        let sent = send(10, 1_699, 0.0, SMALL, 1);
        assert_eq!(sent.frames, [10 * 23, 10]);
        assert_eq!(sent.received.len(), 10);
        assert!(sent.received.iter().all(|(n, bytes)| *bytes == vec![*n as u8; 1_699]));
        // 230 frames of 127 bytes at 250 kbit/s, minus the shorter last chunks.
        let ms = sent.at.since_start().as_ms();
        assert!(ms > 900.0 && ms < 1_000.0, "{ms}");
    }

    #[test]
    fn a_third_lost_both_ways_is_all_delivered_for_little_more_than_must_be() {
        for seed in 0..20 {
            let sent = send(50, 1_699, 0.3, SMALL, seed);
            let mut numbers: Vec<u64> = sent.received.iter().map(|(n, _)| *n).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (0..50).collect::<Vec<_>>(), "each once");
            // 23 chunks at 30 % loss are 32.9 frames at least.
            let bound = crate::bound::unicast_frames(23, 0.3) * 50.0;
            let ratio = sent.frames[0] as f64 / bound;
            assert!(ratio < 1.25, "{ratio}");
        }
    }

    #[test]
    fn it_never_sends_faster_than_it_may_nor_slower_when_woken_late() {
        for late in [Span::ZERO, Span::from_ms(1)] {
            let mut sender = ArqSender::new(SMALL);
            sender.send(1, vec![0; 8_000], None).unwrap();
            let (mut now, mut frames) = (Instant::START, 0);
            while now < Instant::START + Span::from_ms(100) {
                match sender.poll(now) {
                    (Some(_), _) => frames += 1,
                    (None, Some(again)) => now = again + late,
                    (None, None) => break,
                }
            }
            // 4.064 ms per frame.
            assert!((24..=26).contains(&frames), "{frames}");
        }
    }

    #[test]
    fn what_lives_too_long_is_given_up_and_said() {
        let mut sender = ArqSender::new(SMALL);
        sender.send(7, vec![0; 100], Some(Instant::from_ns(5))).unwrap();
        sender.poll(Instant::START);
        sender.poll(Instant::from_ns(5));
        assert_eq!(sender.take_done().as_slice(), [(7, Outcome::Expired)]);
        assert!(sender.is_idle());
        let most = MAX_CHUNKS * (SMALL.datagram - HEADER);
        assert_eq!(sender.send(8, vec![0; 1 << 20], None), Err(Refused::Long(1 << 20, most)));
        assert!(sender.send(9, vec![0; most], None).is_ok());
    }

    #[test]
    fn an_answer_says_that_the_message_is_there() {
        let mut sender = ArqSender::new(SMALL);
        sender.send(1, vec![0; 100], None).unwrap();
        let mut asked = Instant::START;
        while let (Some(_), Some(next)) = sender.poll(asked) {
            asked = next;
        }
        let report = sender.answered(1, Some(0), asked + Span::from_ms(60)).unwrap();
        let round_trip = report.round_trip.unwrap().as_ms();
        assert_eq!((report.received, report.lost), (2, 0));
        assert!((60.0..65.0).contains(&round_trip), "{round_trip}");
        assert_eq!(sender.take_done().as_slice(), [(1, Outcome::Delivered)]);
        assert_eq!(sender.answered(1, None, Instant::START), None, "again");
        assert!(sender.is_idle());
    }

    /// The answers say that they were held at the receiver.
    #[test]
    fn a_slow_application_is_no_long_path_but_is_waited_for() {
        let settings = ArqSettings { timeout: Span::from_ms(400), ..SMALL };
        let (mut sender, held) = (ArqSender::new(settings), Some(LAST_ATTEMPT));
        let report = |sender: &mut ArqSender, after: u64| {
            let (begin, wait) = (Instant::START + Span::from_s(after), Span::from_ms(after));
            sender.send(after, vec![0; 50], None).unwrap();
            let mut now = begin;
            while now < begin + wait {
                now = sender.poll(now).1.unwrap_or(Instant::NEVER);
            }
            let report = sender.answered(after, held, begin + wait).unwrap();
            sender.measured(&report, begin + wait);
            report
        };
        let once = report(&mut sender, 300);
        assert_eq!(
            (once.round_trip, once.response),
            (None, Some(Response { time: Span::from_ms(300), before: 0 }))
        );
        // Sent again meanwhile: which of both was answered is unknown.
        let twice = report(&mut sender, 2_000);
        assert_eq!((twice.round_trip, twice.response), (None, None));
    }

    /// What failed before: a sender whose acknowledgements were held repeated each message for ever,
    /// because only messages that were sent once gave a sample.
    #[test]
    fn an_acknowledgement_that_was_held_moves_the_timeout_only() {
        let mut sender = ArqSender::new(SMALL);
        sender.send(1, vec![0; 50], None).unwrap();
        let mut now = Instant::START;
        let mut asked_at = Vec::new();
        while asked_at.len() < 2 {
            let (datagram, wake) = sender.poll(now);
            match datagram {
                Some(_) => asked_at.push(now),
                None => now = wake.unwrap(),
            }
        }
        let echo = Echo { attempt: 1, held: true };
        let at = asked_at[1] + Span::from_ms(900);
        let messages = vec![Complete { message: 1, echo }];
        let report = sender.handle_ack(&Datagram::Complete(messages).encode(), at).unwrap();
        assert_eq!(
            (report.round_trip, report.response),
            (None, Some(Response { time: Span::from_ms(900), before: 1 }))
        );
    }

    /// The RTT is longer than assumed: each message is retransmitted before its answer can
    /// arrive, but the answer names the attempt. The spurious retransmissions do not count as lost.
    #[test]
    fn a_way_that_has_become_longer_is_seen() {
        let mut sender = ArqSender::new(ArqSettings { timeout: Span::from_ms(50), ..SMALL });
        let mut frames = Vec::new();
        let trips: Vec<Option<Span>> = (0..12)
            .map(|message| {
                let begin = Instant::START + Span::from_s(message);
                sender.send(message, vec![0; 50], None).unwrap();
                let mut now = begin;
                frames.push(0);
                while now < begin + Span::from_ms(150) {
                    let (datagram, next) = sender.poll(now);
                    *frames.last_mut().unwrap() += u32::from(datagram.is_some());
                    now = next.unwrap_or(Instant::NEVER);
                }
                let at = begin + Span::from_ms(150);
                let report = sender.acknowledged(message, FIRST, &[1], at).unwrap();
                sender.measured(&report, at);
                assert_eq!((report.received, report.lost), (1, 0));
                report.round_trip
            })
            .collect();
        assert_eq!(trips, [Some(Span::from_ms(150)); 12]);
        assert!(frames[0] >= 3 && frames[2..] == [1; 10], "{frames:?}");
    }

    /// What failed before: only a timeout showed a loss, and a message that expires before has none.
    #[test]
    fn what_is_overtaken_is_lost_and_sent_again() {
        let mut sender = ArqSender::new(ArqSettings { timeout: Span::from_s(1), ..SMALL });
        let (mut now, trip) = (Instant::START, Span::from_ms(40));
        let send = |sender: &mut ArqSender, message: u64, now: &mut Instant| {
            sender.send(message, vec![0; 50], None).unwrap();
            *now = sender.poll(*now).1.unwrap().max(*now);
        };
        let acknowledge = |sender: &mut ArqSender, message: u64, echo: Echo, now: Instant| {
            let report = sender.acknowledged(message, echo, &[1], now).unwrap();
            sender.measured(&report, now);
            (report.received, report.lost)
        };
        // Until their times hardly vary.
        for message in 0..20 {
            send(&mut sender, message, &mut now);
            now += trip;
            assert_eq!(acknowledge(&mut sender, message, FIRST, now), (1, 0));
        }
        send(&mut sender, 20, &mut now);
        send(&mut sender, 21, &mut now);
        now += trip / 2;
        send(&mut sender, 22, &mut now);
        let order = acknowledge(&mut sender, 21, FIRST, now + trip / 2);
        assert_eq!(order, (1, 0), "20 may come later");
        now += trip;
        assert_eq!(acknowledge(&mut sender, 22, FIRST, now), (1, 1), "20 is lost");
        let again = sender.poll(now).0.unwrap();
        let what = Datagram::chunk_of(&again).map(|(message, attempt, _)| (message, attempt));
        assert_eq!(what, Some((20, 1)));
        now += trip;
        let echo = Echo { attempt: 1, held: false };
        assert_eq!(acknowledge(&mut sender, 20, echo, now), (1, 0), "it counts once");
        assert!(sender.is_idle());
    }

    /// Frames of a message of 500 B up to each request for an acknowledgement, if none comes.
    fn trains(settings: ArqSettings) -> Vec<u32> {
        let mut sender = ArqSender::new(settings);
        sender.send(1, vec![0; 500], None).unwrap();
        let (mut now, mut trains) = (Instant::START, vec![0]);
        while trains.len() < 7 {
            match sender.poll(now) {
                (Some(frame), _) => {
                    *trains.last_mut().unwrap() += 1;
                    if frame[0] & 0x80 != 0 {
                        trains.push(0);
                    }
                }
                (None, Some(next)) => now = next,
                (None, None) => break,
            }
        }
        trains
    }

    #[test]
    fn where_losses_come_in_a_row_more_goes_with_each_try() {
        assert_eq!(trains(SMALL)[..4], [7, 1, 2, 4]);
    }

    /// What failed before: of a path that had become a thousand times slower, the queue grew by whole messages.
    #[test]
    fn where_nothing_comes_back_one_chunk_goes_at_a_time() {
        assert_eq!(trains(SMALL)[4..6], [1, 1]);
    }

    #[test]
    fn at_a_low_rate_no_more_goes_than_fits_between_two_tries() {
        // A frame takes a second, and timeouts 0.7 s, doubled from the second on.
        let settings = ArqSettings { rate_bit_s: 1e3, timeout: Span::from_ms(700), ..SMALL };
        assert_eq!(trains(settings)[..5], [7, 1, 1, 2, 1]);
    }

    #[test]
    fn a_receiver_that_restarts_or_lies_is_no_harm() {
        let mut sender = ArqSender::new(SMALL);
        sender.send(1, vec![1; 500], None).unwrap();
        let first = sender.poll(Instant::START).0.unwrap();
        let mut receiver = ArqReceiver::new();
        receiver.receive(&first);
        // The receiver has lost its state; the message arrives after the rest is requested.
        let mut receiver = ArqReceiver::new();
        sender.acknowledged(1, FIRST, &[0xff; 32], Instant::from_ns(10));
        assert_eq!(
            sender.take_done().as_slice(),
            [(1, Outcome::Delivered)],
            "it is reported as delivered"
        );
        sender.acknowledged(1, Echo { attempt: 200, held: false }, &[0; 3], Instant::from_ns(10));
        sender.acknowledged(99, FIRST, &[0xff], Instant::from_ns(10));
        assert!(sender.is_idle());
        let chunk = |index, last| {
            let data = vec![index; 3];
            let (asks, attempt, echo) = (false, 0, 0);
            Datagram::Chunk { message: 5, index, last, asks, attempt, echo, data }.encode()
        };
        assert_eq!(receiver.receive(&chunk(0, 1)), Received::default());
        assert_eq!(receiver.receive(&chunk(1, 2)), Received::default(), "another length");
        let whole = receiver.receive(&chunk(1, 1));
        assert_eq!(whole.message, Some((5, vec![0, 0, 0, 1, 1, 1])));
        assert!(whole.reply.is_some());
    }

    /// A member that begins many messages, and then sends more of each, does not fill the memory.
    #[test]
    fn incomplete_messages_take_little_memory() {
        let mut receiver = ArqReceiver::new();
        for index in 0..200 {
            for message in 0..300 {
                let (asks, attempt, echo, last) = (false, 0, 0, u8::MAX);
                let data = vec![0; 1_000];
                let chunk = Datagram::Chunk { message, index, last, asks, attempt, echo, data };
                receiver.receive(&chunk.encode());
            }
            let [counted, held] = receiver.held();
            assert_eq!(counted, held);
            // At most as much as before short messages had more room: 64 messages of 256 chunks.
            assert!(held <= 64 * 256 * 1_000 && receiver.open() <= receiver::MAX_OPEN[1]);
        }
        assert!(receiver.open() <= receiver::MAX_OPEN[0]);
    }

    /// What failed before: only the number of messages was limited, so chunks of 64 kB were a gigabyte.
    #[test]
    fn long_chunks_take_little_memory() {
        let mut receiver = ArqReceiver::new();
        for place in 0..64 * 255_u64 {
            let (asks, attempt, echo, last) = (false, 0, 0, u8::MAX);
            let (message, index, data) = (place / 255, (place % 255) as u8, vec![0; 65_000]);
            let chunk = Datagram::Chunk { message, index, last, asks, attempt, echo, data };
            receiver.receive(&chunk.encode());
            let [counted, held] = receiver.held();
            assert!(counted == held && held <= settings::MAX_HELD, "{held}");
        }
    }

    proptest! {
        #[test]
        fn datagrams_read_back(message in 0..1_u64 << 40, index: u8, last: u8, asks: bool,
            attempt in 0..=15_u8, echo in 0..=15_u8, data in prop::collection::vec(any::<u8>(), 0..100)) {
            let index = index.min(last);
            let chunk = Datagram::Chunk { message, index, last, asks, attempt, echo, data: data.clone() };
            prop_assert_eq!(Datagram::decode(&chunk.encode()), Some(chunk));
            let echo = Echo { attempt: echo, held: asks };
            let received_chunks = data[..data.len().min(32)].to_vec();
            let reply = Datagram::Acknowledge { message, echo, received_chunks };
            prop_assert_eq!(Datagram::decode(&reply.encode()), Some(reply));
            let messages: Vec<Complete> =
                data.iter().map(|n| Complete { message: message ^ u64::from(*n), echo }).collect();
            let complete = Datagram::Complete(messages);
            let bytes = complete.encode();
            prop_assert_eq!(Datagram::decode(&bytes), Some(complete).filter(|_| !data.is_empty()));
            prop_assert_eq!(Datagram::decode(&bytes[..bytes.len() - 1]), None);
        }

        #[test]
        fn nothing_that_comes_does_harm(
            frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..200)
        ) {
            let mut receiver = ArqReceiver::new();
            let mut sender = ArqSender::new(SMALL);
            sender.send(1, vec![0; 300], None).unwrap();
            for frame in frames {
                receiver.receive(&frame);
                sender.handle_ack(&frame, Instant::from_ns(1));
                let [counted, held] = receiver.held();
                prop_assert!(receiver.open() <= receiver::MAX_OPEN[1] && counted == held);
            }
        }
    }
}
