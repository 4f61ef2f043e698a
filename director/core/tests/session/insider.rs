//! A member that has the keys of the group poses as the hub.

use crate::bed::*;
use director::carrier::To;
use director::envelope::{self, Echo, FromMember, Invitation};
use director::fec::{FecHub, FecSettings, ResponseKind};
use director::handshake::{self, Initiator};
use director::keys::{Keys, Party, Psk, Root, Scope, Use};
use director::session::{Config, Event, Hub, Member, MemberEvent, Security, SessionError};
use director::{Conditions, Instant, MessageId, ModelId, Models, Pattern, Seed, Span};

const KEYS: [&[u8]; 2] = [b"the key of an honest member", b"the key of one that was stolen"];

/// A hub, an honest member 0, and an insider with the key of member 1.
struct World {
    hub: Hub,
    member: Member,
    handshake: Initiator,
    /// Keys with the hub, and the last invitation.
    pair: Option<Root>,
    invited: Option<Invitation>,
    session: [u8; 16],
    readies: u32,
    now: u64,
    had: Vec<(MessageId, Vec<u8>)>,
    events: Vec<Event>,
}

fn signed(pattern: Pattern, signed: bool) -> Config {
    signed_by(ModelId::MulticastFec, pattern, signed)
}

fn signed_by(model: ModelId, pattern: Pattern, signed: bool) -> Config {
    let here = Conditions { rate_bit_s: 10e6, ..Conditions::default() };
    let mut config = config(pattern, here, &[model]);
    config.security = Security::Keys(KEYS.map(<[u8]>::to_vec).to_vec());
    config.signed = signed;
    config
}

impl World {
    fn new(config: &Config) -> Self {
        let psk = Psk::new(KEYS[1]).unwrap();
        let handshake = Initiator::new(Some(&psk), [9; 32], None);
        let mut hub = hub(config, 2, 1);
        hub.receive(handshake.hello(), Some(1), Instant::START);
        let own = Security::Key(KEYS[0].to_vec());
        let mut world = Self {
            hub,
            member: Member::new(&own, 42, &Seed::reproducible(2)).unwrap(),
            handshake,
            pair: None,
            invited: None,
            session: [0; 16],
            readies: 0,
            now: 0,
            had: Vec::new(),
            events: Vec::new(),
        };
        world.run(2_000);
        assert!(world.hub.is_ready());
        world
    }

    fn at(&self) -> Instant {
        Instant::START + self.now * Span::from_ms(1)
    }

    fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now += 1;
            let now = self.at();
            while let (Some((to, datagram)), _) = self.hub.poll(now) {
                match to {
                    To::Member(1) => self.insider_receives(&datagram, now),
                    _ => self.member.receive(&datagram, now),
                }
            }
            self.take();
            while let (Some(datagram), _) = self.member.poll(now) {
                self.hub.receive(&datagram, Some(0), now);
            }
            self.events.extend(self.hub.take_events());
        }
    }

    /// What the honest member's application gets; it answers requests.
    fn take(&mut self) {
        let now = self.at();
        for event in self.member.take_events() {
            if let MemberEvent::Message { number, bytes } = event {
                let _ = self.member.answer(number, b"done".to_vec(), now);
                self.had.push((number, bytes));
            }
        }
    }

    fn insider_receives(&mut self, datagram: &[u8], now: Instant) {
        if handshake::is_welcome(datagram) {
            if let Some((pair, welcome)) = self.handshake.finish(datagram) {
                (self.pair, self.session) = (Some(pair), welcome.session);
            }
            return;
        }
        let Some(pair) = &self.pair else { return };
        let Some((count, invitation)) = Invitation::open(pair, datagram) else { return };
        let ready = FromMember::Ready(self.readies, Models::ALL, Echo::of_invitation(count));
        self.readies += 1;
        let ready = envelope::seal_member(pair, invitation.epoch, 1, &ready);
        self.hub.receive(&ready, Some(1), now);
        self.invited = Some(invitation);
    }

    /// A message that the insider has made with the keys of the group.
    fn forged(&self, number: MessageId, bytes: &[u8]) -> Vec<u8> {
        let invitation = self.invited.as_ref().unwrap();
        let group = Root::new(&invitation.secret, self.session);
        envelope::seal_data(&group, invitation.epoch, number, None, bytes)
    }

    /// The keys of the hub's frames, which all members have.
    fn group(&self) -> Keys {
        let invitation = self.invited.as_ref().unwrap();
        let group = Root::new(&invitation.secret, self.session);
        group.keys(Scope::new(Use::Frame, invitation.epoch, Party::Hub))
    }

    /// The member receives it as frames of `multicast-fec`.
    fn coded(&mut self, number: MessageId, sealed: &[u8], response: ResponseKind) {
        let invitation = self.invited.as_ref().unwrap();
        let group = Root::new(&invitation.secret, self.session);
        let keys = |party| group.keys(Scope::new(Use::Frame, invitation.epoch, party));
        let settings = FecSettings { rate_bit_s: 10e6, ..FecSettings::default() };
        let mut hub = FecHub::new(settings, keys(Party::Hub), vec![keys(Party::Member(0))]);
        hub.send(number, sealed, response, &[0], None).unwrap();
        for _ in 0..20 {
            let now = self.at();
            while let (Some((_, frame)), _) = hub.poll(now) {
                self.member.receive(&frame, now);
            }
            self.now += 1;
        }
        self.take();
    }
}

fn lifetimes(pattern: Pattern, bytes: &[u8]) -> Vec<u8> {
    let lifetime: &[u8] = if pattern.is_answered() { &[0, 0] } else { &[] };
    [lifetime, bytes].concat()
}

/// What failed before: a member that had the group's secret made messages that others took for the hub's.
#[test]
fn an_insider_cannot_pose_as_a_hub_that_signs() {
    for pattern in [Pattern::PublishSubscribe, Pattern::PublishCollect] {
        for signs in [false, true] {
            let mut world = World::new(&signed(pattern, signs));
            let wanted = lifetimes(pattern, b"open the valve");
            let forged = world.forged(7, &wanted);
            world.member.receive(&forged, world.at());
            world.take();
            let other = world.forged(8, &wanted);
            let response = match pattern.is_answered() {
                true => ResponseKind::Answers,
                false => ResponseKind::Acknowledgements,
            };
            world.coded(8, &other, response);
            let had = world.had.iter().filter(|(_, bytes)| bytes == b"open the valve").count();
            // Without signatures this is what all members must trust one another for.
            assert_eq!(had, if signs { 0 } else { 2 }, "{pattern:?}");
        }
    }
}

/// A bare envelope in a datagram is enough, whatever the session's model is.
#[test]
fn an_insider_needs_no_frames() {
    for model in [ModelId::UdpArq, ModelId::UdpRequestResponse, ModelId::CoapConfirmable] {
        for signs in [false, true] {
            let pattern = Pattern::PublishCollect;
            let mut world = World::new(&signed_by(model, pattern, signs));
            let forged = world.forged(7, &lifetimes(pattern, b"open the valve"));
            world.member.receive(&forged, world.at());
            world.take();
            assert_eq!(world.had.len(), usize::from(!signs), "{model}");
        }
    }
}

/// A member has not acknowledged what it could not open, and takes the hub's message with this number.
#[test]
fn a_forged_message_does_not_keep_the_hubs_away() {
    for pattern in [Pattern::PublishSubscribe, Pattern::PublishCollect] {
        let mut world = World::new(&signed(pattern, true));
        let response = match pattern.is_answered() {
            true => ResponseKind::Answers,
            false => ResponseKind::Acknowledgements,
        };
        // The hub's first message is number 0.
        for bytes in [&b"open the valve"[..], &[5; 4_000]] {
            let forged = world.forged(0, &lifetimes(pattern, bytes));
            world.coded(0, &forged, response);
        }
        world.run(100);
        let heard = |event: &Event| match event {
            Event::Answer { message, member, .. } | Event::Acknowledged { message, member } => {
                (*message, *member) == (0, 0)
            }
            _ => false,
        };
        assert!(!world.events.iter().any(heard), "{pattern:?}: of a message that was never sent");
        let number = world.hub.send(b"close the valve", world.at()).unwrap();
        assert_eq!(number, 0);
        world.run(2_000);
        assert_eq!(world.had, [(0, b"close the valve".to_vec())], "{pattern:?}");
        assert!(world.events.iter().any(heard), "{pattern:?}");
    }
}

/// What failed before: a member acknowledged the hub's message without having it, after a frame that made no message,
/// or a forged number far ahead.
#[test]
fn what_an_insider_kept_away_is_not_acknowledged() {
    for ahead in [false, true] {
        let mut world = World::new(&signed(Pattern::PublishSubscribe, true));
        world.hub.send(b"open the valve", world.at()).unwrap();
        world.run(500);
        if ahead {
            let forged = world.forged(20_000, b"x");
            world.coded(20_000, &forged, ResponseKind::Acknowledgements);
        } else {
            // A message of one symbol, without a content, for the next number.
            let mut frame = vec![0xc0, 0, 1, 0, 0, 0x80];
            world.group().sign(&mut frame);
            world.member.receive(&frame, world.at());
        }
        let number = world.hub.send(b"close the valve", world.at()).unwrap();
        world.run(5_000);
        let is_acknowledged = world.events.iter().any(|event| {
            matches!(event, Event::Acknowledged { message, member: 0 } if *message == number)
        });
        assert_eq!(is_acknowledged, world.had.len() == 2, "{:?}", world.had);
        assert!(is_acknowledged || ahead);
    }
}

/// What failed before: two datagrams of a member made the loss of the session 93 %.
#[test]
fn a_member_cannot_make_up_losses() {
    let mut world = World::new(&signed(Pattern::PublishCollect, true));
    let number = world.hub.send(b"what is there?", world.at()).unwrap();
    let epoch = world.invited.as_ref().unwrap().epoch;
    let pair = world.pair.clone().unwrap();
    let keys = pair.keys(Scope::new(Use::Frame, epoch, Party::Member(1)));
    // An answer of one symbol, and a symbol of the largest number before it.
    let answer = [&[7; 19][..], &[0x80]].concat();
    let frames = [(65_535_u16, &[7; 20][..]), (0, &answer)].into_iter().enumerate();
    let frames: Vec<Vec<u8>> = frames
        .map(|(count, (symbol, data))| {
            let fields = [number as u16, 1, symbol, 1].into_iter().flat_map(u16::to_be_bytes);
            let frame: Vec<u8> = [0x15].into_iter().chain(fields).chain(data.to_vec()).collect();
            let count = count as u64;
            let mut sealed = [&frame[..], &count.to_be_bytes()].concat();
            keys.sign(&mut sealed);
            [&frame[..], &(count as u16).to_be_bytes(), &sealed[sealed.len() - 4..]].concat()
        })
        .collect();
    world.run(100);
    frames.iter().for_each(|frame| world.hub.receive(frame, Some(1), world.at()));
    world.run(2_000);
    world.hub.send(b"and now?", world.at()).unwrap();
    world.run(2_000);
    let loss = world.hub.explain().conditions.loss;
    assert!((0.0..0.3).contains(&loss), "{loss}");
}

#[test]
fn signatures_need_a_key_for_each_member() {
    for security in [Security::Key(KEYS[0].to_vec()), Security::InsecureOnPurpose] {
        let mut config = signed(Pattern::PublishSubscribe, true);
        config.security = security;
        let map = std::sync::Arc::new(director::PerformanceMap::new());
        let hub = Hub::new(config, map, 2, &Seed::reproducible(1));
        let Err(error) = hub else { panic!("a hub that signs without keys for each") };
        assert!(matches!(error, SessionError::Key(_)));
        assert!(error.to_string().contains("Security::Keys"), "{error}");
    }
}
