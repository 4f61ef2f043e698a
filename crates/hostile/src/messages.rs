//! Messages of other programs, of the network and of the tool's own socket.

use crate::input::{made, pieces};
use arbitrary::Arbitrary;
use director::session::{Config, Hub, Member, Security};
use director::{Instant, Pattern, PerformanceMap, Seed, Span};
use record::control::{Command, Status, take_lines};
use runner::{Reply, Request};
use std::sync::Arc;

/// Steps of a session that one input may have.
const STEPS: usize = 200;

/// Any bytes, in pieces, as what a load's targets answer, and as what a device is asked: messages of CoAP,
/// block-wise transfers, HTTP in any pieces, MQTT.
pub(crate) fn load(bytes: &[u8]) {
    let Some(([low, high, piece], rest)) = bytes.split_first_chunk() else { return };
    let messages: Vec<Vec<u8>> = pieces(rest).into_iter().map(<[u8]>::to_vec).collect();
    load::fuzzing::answers(&messages, usize::from(u16::from_le_bytes([*low, *high])));
    load::fuzzing::requests(&messages);
    load::fuzzing::stream(&messages.concat(), usize::from(*piece) % 64 + 1);
}

/// A hub and a member of a session of the model with this number, and what was sent last.
struct Pair {
    hub: Hub,
    member: Member,
    now: Instant,
    sent: Vec<Vec<u8>>,
}

impl Pair {
    fn new(model: u8, security: &Security) -> Self {
        let models = director::carrier::available();
        let mut config = Config::new(Pattern::PublishCollect, security.clone());
        config.models = vec![models[usize::from(model) % models.len()]];
        let map = Arc::new(PerformanceMap::new());
        let mut hub = Hub::new(config, map, 3, &Seed::reproducible(7)).expect("it suits");
        let member =
            Member::new(security, 42, &Seed::reproducible(7)).expect("a key that is long enough");
        // Not all models carry as much as this.
        let _ = hub.send(&[5; 3_000], Instant::START);
        hub.send(&[5; 1_000], Instant::START).expect("it is carried");
        Self { hub, member, now: Instant::from_ns(1), sent: Vec::new() }
    }

    fn receive(&mut self, to_hub: bool, datagram: &[u8]) {
        self.now += Span::from_ms(1);
        if to_hub {
            let from = Some(u32::from(datagram.len() as u8 % 4));
            self.hub.receive(datagram, from, self.now);
        } else {
            self.member.receive(datagram, self.now);
        }
        self.talk();
    }

    /// What each of them says reaches the other.
    fn talk(&mut self) {
        for _ in 0..4 {
            if let (Some((_, sent)), _) = self.hub.poll(self.now) {
                self.member.receive(&sent, self.now);
                self.sent.push(sent);
            }
            if let (Some(sent), _) = self.member.poll(self.now) {
                self.hub.receive(&sent, Some(0), self.now);
                self.sent.push(sent);
            }
        }
        self.hub.take_events();
        self.member.take_events();
        // Only the last ones can be repeated, so that the memory of a long input does not grow.
        let old = self.sent.len().saturating_sub(32);
        self.sent.drain(..old);
    }
}

/// Any datagrams, in pieces whose first byte says to whom, for a hub and a member of a session without keys, of each model: what is
/// not sealed gets as far as it can.
pub(crate) fn director(bytes: &[u8]) {
    let Some((&model, rest)) = bytes.split_first() else { return };
    let mut pair = Pair::new(model, &Security::InsecureOnPurpose);
    for piece in pieces(rest).into_iter().take(STEPS) {
        let Some((to_hub, datagram)) = piece.split_first() else { continue };
        pair.receive(to_hub % 2 == 1, datagram);
    }
}

/// A step of someone on the path of a session with a key.
#[derive(Debug, Arbitrary)]
enum Attack {
    /// Says something forged.
    Forge(bool, Vec<u8>),
    /// Repeats something sent before.
    Repeat(bool, u8),
    /// Repeats something sent before, with one byte changed.
    Change(bool, u8, u16, u8),
    /// Repeats the beginning of something sent before.
    Cut(bool, u8, u16),
}

/// Someone on the path of a session with a key, of each model.
pub(crate) fn keyed(bytes: &[u8]) {
    let Some((model, steps)) = made::<(u8, Vec<Attack>)>(bytes) else { return };
    let mut pair = Pair::new(model, &Security::Key(vec![3; 32]));
    pair.talk();
    for step in steps.into_iter().take(STEPS) {
        let recorded = |which: u8| {
            let sent = pair.sent.len().checked_sub(1)?;
            pair.sent.get(usize::from(which).min(sent)).cloned()
        };
        let (to_hub, datagram) = match step {
            Attack::Forge(to_hub, bytes) => (to_hub, Some(bytes)),
            Attack::Repeat(to_hub, which) => (to_hub, recorded(which)),
            Attack::Change(to_hub, which, place, by) => {
                let changed = recorded(which).map(|mut bytes| {
                    let place = usize::from(place) % bytes.len().max(1);
                    bytes.iter_mut().skip(place).take(1).for_each(|byte| *byte ^= by);
                    bytes
                });
                (to_hub, changed)
            }
            Attack::Cut(to_hub, which, length) => {
                let cut = recorded(which).map(|mut bytes| {
                    bytes.truncate(usize::from(length));
                    bytes
                });
                (to_hub, cut)
            }
        };
        pair.receive(to_hub, &datagram.unwrap_or_default());
    }
}

/// Any bytes on a control socket: as the requests and replies of a lab, and as the lines of programs.
/// What is read is written so that it reads back.
pub(crate) fn control(bytes: &[u8]) {
    let mut unread = bytes.to_vec();
    let lines = take_lines(&mut unread);
    assert_eq!(lines.concat().len() + unread.len(), bytes.len());
    assert!(lines.iter().all(|line| line.ends_with(b"\n")) && !unread.contains(&b'\n'));
    for line in lines {
        if let Ok(status) = serde_json::from_slice::<Status>(&line) {
            let text = serde_json::to_vec(&status).expect("it can be written");
            assert_eq!(serde_json::from_slice::<Status>(&text).ok(), Some(status));
        }
        let _ = serde_json::from_slice::<Command>(&line);
        let _ = serde_json::from_slice::<Reply>(&line);
        if let Ok(request) = serde_json::from_slice::<Request>(&line) {
            let text = serde_json::to_string(&request).expect("it can be written");
            serde_json::from_str::<Request>(&text).expect("what was written is read");
        }
    }
}
