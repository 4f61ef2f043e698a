//! The handshake between a hub and one start of a member: `Noise_NNpsk0` (the Noise Protocol
//! Framework, revision 34) with X25519, ChaCha20-Poly1305 and SHA-256.
//!
//! Both ends contribute an ephemeral key, so the keys are new at each start of either end, whatever
//! its clock says, and are safe if the pre-shared key is disclosed later. The pre-shared key
//! authenticates both ends. The member starts; a hub only announces its session, in clear text,
//! which starts handshakes and changes nothing else.
//!
//! Without security the same two messages carry random numbers instead of keys.

use crate::crypto::digest;
use crate::keys::{Psk, Root, SessionId};
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::store::StoreId;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";
/// Both ends must agree on it: the version of the wire format.
const PROLOGUE: &[u8] = b"director 4";

/// First bytes of the messages.
const HELLO: u8 = 0x26;
const WELCOME: u8 = 0x29;
const ANNOUNCEMENT: u8 = 0x2a;

/// Length of an ephemeral key, in bytes.
const KEY: usize = 32;
/// Length of the random numbers without security, in bytes.
const NONCE: usize = 16;
/// Maximum length of a handshake message, in bytes: later versions may append fields.
const LONGEST: usize = 256;

/// Whether a datagram is a member's first message of a handshake; the content is not checked.
pub fn is_hello(datagram: &[u8]) -> bool {
    datagram.first() == Some(&HELLO)
}

/// Whether a datagram is a hub's message of a handshake; the content is not checked.
pub fn is_welcome(datagram: &[u8]) -> bool {
    datagram.first() == Some(&WELCOME)
}

/// A hub's announcement of its session, in clear text.
pub fn announcement(session: &SessionId) -> Vec<u8> {
    [&[ANNOUNCEMENT], &session[..]].concat()
}

/// The session of an announcement. Anyone can send one.
pub fn announced(datagram: &[u8]) -> Option<SessionId> {
    datagram.strip_prefix(&[ANNOUNCEMENT])?.first_chunk().copied()
}

/// What a hub tells a member in a handshake, encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Welcome {
    /// The session.
    pub session: SessionId,
    /// The number of the member.
    pub member: u16,
    /// The number of members.
    pub members: u16,
    /// The multicast group.
    pub group: SocketAddr,
    /// Whether members answer messages; otherwise they acknowledge them.
    pub answered: bool,
    /// Whether the member reports from time to time: the hub did not know its address.
    pub reports: bool,
    /// The hub's storage, if it has one: members say which memory of its messages they have.
    pub store: Option<StoreId>,
}

/// Bits of a welcome.
const REPORTS: u8 = 1;
const STORES: u8 = 2;

impl Welcome {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = self.session.to_vec();
        bytes.extend_from_slice(&self.member.to_be_bytes());
        bytes.extend_from_slice(&self.members.to_be_bytes());
        // An IPv6 group follows all other fields.
        let (v4, v6) = match self.group.ip() {
            IpAddr::V4(ip) => (ip, None),
            IpAddr::V6(ip) => (Ipv4Addr::UNSPECIFIED, Some(ip)),
        };
        bytes.extend_from_slice(&v4.octets());
        bytes.extend_from_slice(&self.group.port().to_be_bytes());
        bytes.push(self.answered.into());
        let bits = [(self.reports, REPORTS), (self.store.is_some(), STORES)];
        bytes.push(bits.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum());
        bytes.extend(v6.into_iter().flat_map(|ip| ip.octets()));
        bytes.extend(self.store.into_iter().flatten());
        bytes
    }

    /// Later versions append fields, so trailing bytes are ignored.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let bits = bytes.get(27).copied().unwrap_or_default();
        let rest = bytes.get(28..).unwrap_or_default();
        let bytes: &[u8; 27] = bytes.first_chunk()?;
        let number = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let mut session = [0; 16];
        session.copy_from_slice(&bytes[..16]);
        let v4 = Ipv4Addr::new(bytes[20], bytes[21], bytes[22], bytes[23]);
        let (ip, rest) = match rest.split_first_chunk::<16>().filter(|_| v4.is_unspecified()) {
            Some((v6, rest)) => (IpAddr::V6(Ipv6Addr::from(*v6)), rest),
            None => (IpAddr::V4(v4), rest),
        };
        let store = rest.first_chunk().filter(|_| bits & STORES != 0).copied();
        let welcome = Self {
            session,
            member: number(16),
            members: number(18),
            group: SocketAddr::new(ip, number(24)),
            answered: bytes[26] != 0,
            reports: bits & REPORTS != 0,
            store,
        };
        (welcome.member < welcome.members).then_some(welcome)
    }
}

/// Gives the ephemeral key, so that this module draws nothing.
struct Ephemeral([u8; KEY]);

impl Random for Ephemeral {
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), snow::Error> {
        let key = self.0.get(..out.len()).ok_or(snow::Error::Rng)?;
        out.copy_from_slice(key);
        Ok(())
    }
}

impl CryptoResolver for Ephemeral {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Self(self.0)))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

fn noise(psk: &Psk, ephemeral: [u8; KEY], initiator: bool) -> Option<HandshakeState> {
    let builder = Builder::with_resolver(PATTERN.parse().ok()?, Box::new(Ephemeral(ephemeral)));
    let builder = builder.prologue(PROLOGUE).ok()?.psk(0, psk.bytes()).ok()?;
    if initiator { builder.build_initiator().ok() } else { builder.build_responder().ok() }
}

fn write(noise: &mut HandshakeState, kind: u8, payload: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = vec![0; LONGEST];
    let length = noise.write_message(payload, &mut bytes[1..]).ok()?;
    bytes[0] = kind;
    bytes.truncate(1 + length);
    Some(bytes)
}

fn read(noise: &mut HandshakeState, kind: u8, datagram: &[u8]) -> Option<Vec<u8>> {
    let message = datagram.strip_prefix(&[kind]).filter(|rest| rest.len() < LONGEST)?;
    let mut payload = vec![0; LONGEST];
    let length = noise.read_message(message, &mut payload).ok()?;
    payload.truncate(length);
    Some(payload)
}

/// The keys between the two ends: from the secrets that Noise gives each direction, and the hash of
/// all that was exchanged. The scopes of [`Root`] separate the directions again.
fn pair(noise: &mut HandshakeState, session: SessionId) -> Root {
    // Only as input of HKDF: Noise's own transport messages, whose nonces would collide, are not
    // used.
    let (first, second) = noise.dangerously_get_raw_split();
    Root::new(&[&first[..], &second, noise.get_handshake_hash()].concat(), session)
}

/// A member's side, from its hello until the hub's welcome.
pub struct Initiator {
    noise: Option<Box<HandshakeState>>,
    hello: Vec<u8>,
}

impl Initiator {
    /// A handshake with this ephemeral key: 32 random bytes. `psk` is `None` without security.
    /// `session` is the hub's, if the member knows it from an announcement.
    pub fn new(psk: Option<&Psk>, ephemeral: [u8; KEY], session: Option<&SessionId>) -> Self {
        let mut noise = psk.and_then(|psk| noise(psk, ephemeral, true)).map(Box::new);
        let hello = match &mut noise {
            Some(noise) => write(noise, HELLO, session.map_or(&[], |session| &session[..])),
            None => Some([&[HELLO], &ephemeral[..NONCE]].concat()),
        };
        // Writing fails only if the buffer is too small.
        Self { noise, hello: hello.unwrap_or_default() }
    }

    /// The first message. Repeat it until the hub answers.
    pub fn hello(&self) -> &[u8] {
        &self.hello
    }

    /// Reads the hub's answer; `None` if it is not one to this hello, which can still be answered.
    pub fn finish(&mut self, datagram: &[u8]) -> Option<(Root, Welcome)> {
        match &mut self.noise {
            // A repeated welcome must give no keys again: the counts of control messages, which are
            // their nonces, would start anew.
            Some(noise) if noise.is_handshake_finished() => None,
            Some(noise) => {
                let welcome = Welcome::decode(&read(noise, WELCOME, datagram)?)?;
                Some((pair(noise, welcome.session), welcome))
            }
            None => {
                // The random number shows that it answers this start of the member
                // (docs/director-wire.md).
                let rest = datagram.strip_prefix(&[WELCOME])?.strip_prefix(&self.hello[1..])?;
                let welcome = Welcome::decode(rest)?;
                Some((Root::insecure_pair(welcome.session, &self.hello[1..]), welcome))
            }
        }
    }
}

/// A hub's answer to a hello.
#[derive(Debug)]
pub struct Accepted {
    /// The keys between the two ends. The member has not proved yet that it has them: the hello
    /// can be a recorded one.
    pub root: Root,
    /// The second message.
    pub message: Vec<u8>,
    /// The session that the hello names. Without security, none does.
    pub named: Option<SessionId>,
}

/// Answers a hello with this ephemeral key: 32 random bytes. `None` if the sender does not have
/// `psk`; then nothing but symmetric operations were computed.
pub fn respond(
    psk: Option<&Psk>,
    ephemeral: [u8; KEY],
    hello: &[u8],
    welcome: &Welcome,
) -> Option<Accepted> {
    let Some(psk) = psk else {
        let nonce = hello.strip_prefix(&[HELLO]).filter(|nonce| nonce.len() == NONCE)?;
        let message = [&[WELCOME], nonce, &welcome.encode()].concat();
        let root = Root::insecure_pair(welcome.session, nonce);
        return Some(Accepted { root, message, named: None });
    };
    // psk0: the key is mixed in before the first message, so its tag proves the sender before any
    // curve operation (decision 63).
    let mut noise = noise(psk, ephemeral, false)?;
    let named = read(&mut noise, HELLO, hello)?.first_chunk().copied();
    let message = write(&mut noise, WELCOME, &welcome.encode())?;
    Some(Accepted { root: pair(&mut noise, welcome.session), message, named })
}

/// The session that a hello names, or `None` within if it names none; `None` if the key does not open
/// the hello. No curve operation.
pub fn named(psk: Option<&Psk>, hello: &[u8]) -> Option<Option<SessionId>> {
    let Some(psk) = psk else {
        let nonce = hello.strip_prefix(&[HELLO]);
        return nonce.filter(|nonce| nonce.len() == NONCE).map(|_| None);
    };
    let mut noise = noise(psk, [0; KEY], false)?;
    Some(read(&mut noise, HELLO, hello)?.first_chunk().copied())
}

/// A fingerprint of a hello, by which a hub recognizes a repeated one.
pub fn fingerprint(hello: &[u8]) -> [u8; 16] {
    let digest = digest::digest(&digest::SHA256, hello);
    core::array::from_fn(|at| digest.as_ref()[at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{Party, Scope, Use};

    fn psk() -> Psk {
        Psk::new(b"a key that both ends have").unwrap()
    }

    fn welcome() -> Welcome {
        Welcome {
            session: [9; 16],
            member: 299,
            members: 300,
            group: "239.1.2.3:5701".parse().unwrap(),
            answered: true,
            reports: true,
            store: Some([8; 8]),
        }
    }

    fn sealed(root: &Root) -> Vec<u8> {
        root.keys(Scope::new(Use::Message, 0, Party::Hub)).seal(1, b"a price")
    }

    #[test]
    fn both_ends_have_the_same_fresh_keys() {
        let mut seen = Vec::new();
        for (own, other) in [(1, 2), (1, 3), (4, 2)] {
            let session = Some([7; 16]).filter(|_| own == 4);
            let mut member = Initiator::new(Some(&psk()), [own; 32], session.as_ref());
            let hub = respond(Some(&psk()), [other; 32], member.hello(), &welcome()).unwrap();
            // IEEE 802.15.4 frames of 127 bytes have room for 85.
            assert!(member.hello().len() <= 85 && hub.message.len() <= 85);
            assert_eq!(hub.named, session);
            let (root, received) = member.finish(&hub.message).unwrap();
            assert_eq!(received, welcome());
            assert_eq!(sealed(&root), sealed(&hub.root));
            assert!(!seen.contains(&sealed(&root)), "each end alone makes the keys fresh");
            seen.push(sealed(&root));
            assert!(member.finish(&hub.message).is_none(), "only once");
        }
    }

    #[test]
    fn whatever_else_arrives_is_refused_and_the_handshake_goes_on() {
        let mut member = Initiator::new(Some(&psk()), [1; 32], None);
        let hub = |hello: &[u8]| respond(Some(&psk()), [2; 32], hello, &welcome());
        let good = hub(member.hello()).unwrap().message;
        for at in 0..member.hello().len() {
            let mut forged = member.hello().to_vec();
            forged[at] ^= 1;
            assert!(hub(&forged).is_none(), "{at}");
            assert!(hub(&forged[..at]).is_none());
        }
        for at in 0..good.len() {
            let mut forged = good.clone();
            forged[at] ^= 1;
            assert!(member.finish(&forged).is_none(), "{at}");
            assert!(member.finish(&good[..at]).is_none());
        }
        let stranger = Psk::new(b"another key of the same sort").unwrap();
        assert!(respond(Some(&stranger), [2; 32], member.hello(), &welcome()).is_none());
        let other = Initiator::new(Some(&psk()), [3; 32], None);
        assert!(member.finish(&hub(other.hello()).unwrap().message).is_none(), "another hello's");
        let own = member.hello().to_vec();
        assert!(member.finish(&own).is_none(), "its own");
        assert!(member.finish(&good).is_some());
    }

    #[test]
    fn without_security_an_answer_belongs_to_its_hello() {
        let new = |nonce| Initiator::new(None, [nonce; 32], None);
        let (mut one, mut other) = (new(1), new(2));
        let hub = respond(None, [0; 32], one.hello(), &welcome()).unwrap();
        assert!(other.finish(&hub.message).is_none());
        let (root, received) = one.finish(&hub.message).unwrap();
        assert_eq!((root.session(), received), ([9; 16], welcome()));
        assert!(respond(None, [0; 32], &one.hello()[..9], &welcome()).is_none());
    }

    #[test]
    fn a_group_can_have_an_ipv6_address() {
        for group in ["[ff12::4d4d]:5777", "239.1.2.3:1", "0.0.0.0:0"] {
            for store in [None, Some([8; 8])] {
                let welcome = Welcome { group: group.parse().unwrap(), store, ..welcome() };
                assert_eq!(Welcome::decode(&welcome.encode()), Some(welcome));
            }
        }
    }

    #[test]
    fn announcements_tell_the_session() {
        assert_eq!(announced(&announcement(&[7; 16])), Some([7; 16]));
        assert_eq!(announced(&announcement(&[7; 16])[..12]), None);
        assert_eq!(announced(&[HELLO; 40]), None);
    }
}
