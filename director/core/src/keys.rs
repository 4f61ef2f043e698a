//! Session keys: AEAD encryption of messages, and short authentication codes of FEC frames.
//!
//! HKDF (RFC 5869) derives a separate key per sender, use and epoch from a [`Root`]: the group's
//! secret, which the hub draws anew for each epoch, or the secret of a handshake between the hub
//! and one start of a member ([`crate::handshake`]). So a message number is used only once as a
//! nonce per key: a retransmission in another epoch uses another key, and so does a restarted end.
//! The associated data cover session, epoch, sender and number, so a sealed message cannot be
//! replayed as another one.

mod psk;

pub use self::psk::{MIN_KEY, Psk, ShortKey};
use crate::crypto::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use crate::crypto::{digest, hkdf, hmac};
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::platform::{self, Arc, Mutex};
use crate::signature::Authority;
use crate::switch::MessageId;
use alloc::collections::VecDeque;
use core::fmt;

/// Length of the AEAD tag, in bytes.
pub const SEAL: usize = 16;
/// Length of a frame's authentication code, in bytes: the shortest of IEEE 802.15.4 (MIC-32).
/// It keeps foreign frames out of the decoder; the AEAD tag authenticates the whole message.
pub const CODE: usize = 4;

/// The sender of a sealed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Party {
    /// The hub: the root endpoint, which all members know.
    Hub,
    /// A member (leaf endpoint), by its number.
    Member(u16),
}

impl Party {
    fn number(self) -> u32 {
        match self {
            Self::Hub => 0,
            Self::Member(number) => u32::from(number) + 1,
        }
    }
}

/// The purpose of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Messages and answers.
    Message,
    /// Acknowledgements of messages.
    Acknowledgement,
    /// Control messages.
    Control,
    /// Frames of FEC-coded messages.
    Frame,
    /// Key pairs that authenticate the two ends of a connection.
    Connection,
    /// Stateless resets: a restarted end signals that it no longer knows a connection.
    Reset,
    /// Messages that members send at any time, and replies to them.
    Uplink,
    /// Frames of these messages.
    UplinkFrame,
}

impl Use {
    fn label(self) -> &'static [u8] {
        match self {
            // Part of the wire format (docs/director-wire.md): another label is another key.
            Self::Message => b"director 4 message",
            Self::Acknowledgement => b"director 4 acknowledgement",
            Self::Control => b"director 4 control",
            Self::Frame => b"director 4 frame",
            Self::Connection => b"director 4 connection",
            Self::Reset => b"director 4 reset",
            Self::Uplink => b"director 4 uplink",
            Self::UplinkFrame => b"director 4 uplink frame",
        }
    }
}

/// The identifier of a session: 128 random bits, which the hub draws at its start.
pub type SessionId = [u8; 16];

/// A root key, or none: security is on unless explicitly disabled.
#[derive(Clone)]
pub struct Root {
    session: SessionId,
    /// Before the first count of control messages.
    first_count: u32,
    secret: Option<hkdf::Prk>,
    /// Who signs the hub's messages under this root.
    authority: Authority,
    /// The last keys of [`Self::recent`]: to derive them takes longer than to seal a short message.
    recent: Arc<Mutex<VecDeque<Arc<Keys>>>>,
}

/// Number of recent keys of a root: those of messages and of control messages in an epoch.
const MAX_RECENT: usize = 2;

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.secret.is_some() { "keyed" } else { "insecure" };
        write!(f, "Root({kind}, session {:02x?})", &self.session[..4])
    }
}

/// An output length for HKDF.
struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl Root {
    /// From a fresh secret, for a session.
    pub fn new(secret: &[u8], session: SessionId) -> Self {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, &session);
        let secret = Some(salt.extract(secret));
        let authority = Authority::default();
        Self { session, first_count: 0, secret, authority, recent: Arc::default() }
    }

    /// Without a key: everyone on the path can read and forge all messages.
    pub fn insecure(session: SessionId) -> Self {
        let authority = Authority::default();
        Self { session, first_count: 0, secret: None, authority, recent: Arc::default() }
    }

    /// The same between the hub and the start of a member that has drawn these random bytes.
    pub fn insecure_pair(session: SessionId, drawn: &[u8]) -> Self {
        let first_count = drawn.first_chunk().map_or(0, |first| u32::from_be_bytes(*first));
        Self { first_count, ..Self::insecure(session) }
    }

    /// The same where the hub signs its messages to all, which other members could forge.
    #[must_use]
    pub fn signed(self, authority: Authority) -> Self {
        Self { authority, recent: Arc::default(), ..self }
    }

    /// The number before the first count of control messages. Without security it separates those
    /// of two starts of a member: no key does.
    pub(crate) fn first_count(&self) -> u32 {
        self.first_count
    }

    /// The session.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Bytes that sealing adds: 16, or 0 without security.
    pub fn seal_len(&self) -> usize {
        if self.secret.is_some() { SEAL } else { 0 }
    }

    /// Bytes that a frame's code adds: 4, or 0 without security.
    pub fn code_len(&self) -> usize {
        if self.secret.is_some() { CODE } else { 0 }
    }

    fn derive(&self, what: &[u8], scope: &Scope) -> Option<[u8; 32]> {
        let secret = self.secret.as_ref()?;
        let mut key = [0; 32];
        secret.expand(&[what, &scope.numbers()], Length(32)).ok()?.fill(&mut key).ok()?;
        Some(key)
    }

    /// The seed for a scope's key pair, or for another library's key. Without security the seed
    /// is public, but still differs per session, epoch and sender.
    pub fn seed(&self, scope: &Scope) -> [u8; 32] {
        self.derive(scope.purpose.label(), scope).unwrap_or_else(|| {
            let known = [scope.purpose.label(), &self.session[..], &scope.numbers()].concat();
            let digest = digest::digest(&digest::SHA256, &known);
            core::array::from_fn(|at| digest.as_ref()[at])
        })
    }

    /// The keys of a scope, for a message: those of the last scopes are kept.
    pub fn recent(&self, scope: Scope) -> Arc<Keys> {
        let Some(mut recent) = platform::lock(&self.recent) else {
            return Arc::new(self.keys(scope));
        };
        if let Some(known) = recent.iter().find(|keys| keys.scope == scope) {
            return known.clone();
        }
        let keys = Arc::new(self.keys(scope));
        recent.truncate(MAX_RECENT - 1);
        recent.push_front(keys.clone());
        keys
    }

    /// The keys of a scope.
    pub fn keys(&self, scope: Scope) -> Keys {
        let key = self.derive(scope.purpose.label(), &scope);
        // A scope is either for frames or for sealed messages, so it uses one of the two.
        let frames = matches!(scope.purpose, Use::Frame | Use::UplinkFrame);
        let seal = |key: [u8; 32]| UnboundKey::new(&CHACHA20_POLY1305, &key).ok();
        let is_signed = scope.purpose == Use::Message && scope.from == Party::Hub;
        Keys {
            session: self.session,
            scope,
            authority: if is_signed { self.authority.clone() } else { Authority::default() },
            seal: key.filter(|_| !frames).and_then(seal).map(LessSafeKey::new),
            code: key.filter(|_| frames).map(|key| hmac::Key::new(hmac::HMAC_SHA256, &key)),
        }
    }
}

/// What a key is for, who sends with it and in which epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// Purpose of the key.
    pub purpose: Use,
    /// The epoch of the session.
    pub epoch: u32,
    /// Who sends.
    pub from: Party,
    /// The member at the other end, if the key is for one, plus 1.
    pub peer: u32,
}

impl Scope {
    /// The scope of a sender's messages to all that have the root.
    pub fn new(purpose: Use, epoch: u32, from: Party) -> Self {
        Self { purpose, epoch, from, peer: 0 }
    }

    fn numbers(&self) -> [u8; 12] {
        let mut numbers = [0; 12];
        for (place, number) in [self.epoch, self.from.number(), self.peer].iter().enumerate() {
            numbers[4 * place..][..4].copy_from_slice(&number.to_be_bytes());
        }
        numbers
    }
}

/// The keys of one sender in one epoch.
pub struct Keys {
    session: SessionId,
    scope: Scope,
    authority: Authority,
    seal: Option<LessSafeKey>,
    code: Option<hmac::Key>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({:?})", self.scope)
    }
}

impl Keys {
    fn nonce(&self, number: MessageId) -> Nonce {
        // Unique for a key: callers seal a number once, or again with the same bytes (`seal`).
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&self.scope.from.number().to_be_bytes());
        nonce[4..].copy_from_slice(&number.to_be_bytes());
        Nonce::assume_unique_for_key(nonce)
    }

    fn bound(&self, number: MessageId) -> [u8; 32] {
        let mut bound = [0; 32];
        bound[..16].copy_from_slice(&self.session);
        bound[16..20].copy_from_slice(&self.scope.epoch.to_be_bytes());
        bound[20..24].copy_from_slice(&self.scope.from.number().to_be_bytes());
        bound[24..].copy_from_slice(&number.to_be_bytes());
        bound
    }

    /// Seals a message under its number. In an epoch, seal a number again only with the same
    /// bytes: otherwise the nonce is reused.
    pub fn seal(&self, number: MessageId, bytes: &[u8]) -> Vec<u8> {
        self.seal_after(&[], number, &[bytes])
    }

    /// Seals a message that consists of these parts, as [`Self::seal`] does; `head` comes before it, in
    /// clear text.
    pub(crate) fn seal_after(&self, head: &[u8], number: MessageId, parts: &[&[u8]]) -> Vec<u8> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        // With room for the end marker of an encoder.
        let added = self.authority.signature_len() + SEAL + 1;
        let mut sealed = Vec::with_capacity(head.len() + length + added);
        sealed.extend_from_slice(head);
        parts.iter().for_each(|part| sealed.extend_from_slice(part));
        let signature = self.authority.sign(&self.bound(number), &sealed[head.len()..]);
        sealed.extend(signature.into_iter().flatten());
        if let Some(key) = &self.seal {
            let (aad, content) = (Aad::from(self.bound(number)), &mut sealed[head.len()..]);
            match key.seal_in_place_separate_tag(self.nonce(number), aad, content) {
                Ok(tag) => sealed.extend_from_slice(tag.as_ref()),
                // Fails only for messages of 256 GB. Then nothing leaves, rather than plain text.
                Err(_) => sealed.truncate(head.len()),
            }
        }
        sealed
    }

    /// Opens a sealed message. `None` if it is not from this sender, session, epoch and number.
    pub fn open(&self, number: MessageId, sealed: &[u8]) -> Option<Vec<u8>> {
        self.open_after(0, number, sealed.to_vec())
    }

    /// The same where the sealed message is, after a head of this length, which is dropped.
    pub(crate) fn open_after(
        &self,
        head: usize,
        number: MessageId,
        mut bytes: Vec<u8>,
    ) -> Option<Vec<u8>> {
        let sealed = bytes.get_mut(head..)?;
        if let Some(key) = &self.seal {
            let aad = Aad::from(self.bound(number));
            let length = key.open_in_place(self.nonce(number), aad, sealed).ok()?.len();
            bytes.truncate(head + length);
        }
        let content = self.authority.verified(&self.bound(number), bytes.get(head..)?)?;
        bytes.truncate(head + content);
        bytes.drain(..head);
        Some(bytes)
    }

    /// Length of a frame's code, in bytes.
    pub fn code_len(&self) -> usize {
        if self.code.is_some() { CODE } else { 0 }
    }

    /// The code of a frame that consists of these parts; `None` without security.
    pub(crate) fn code(&self, parts: &[&[u8]]) -> Option<[u8; CODE]> {
        let mut code = hmac::Context::with_key(self.code.as_ref()?);
        parts.iter().for_each(|part| code.update(part));
        let code = code.sign();
        let code: &[u8] = code.as_ref();
        code.first_chunk().copied()
    }

    /// Whether this is the code of a frame that consists of these parts.
    pub(crate) fn is_code(&self, parts: &[&[u8]], code: &[u8; CODE]) -> bool {
        // Constant time: compare all bytes.
        let wrong = |right: [u8; CODE]| {
            right.iter().zip(code).fold(0, |wrong, (right, given)| wrong | (right ^ given))
        };
        self.code(parts).is_none_or(|right| wrong(right) == 0)
    }

    /// Appends the authentication code to a frame.
    pub fn sign(&self, frame: &mut Vec<u8>) {
        if let Some(code) = self.code(&[frame]) {
            frame.extend_from_slice(&code);
        }
    }

    /// The frame without its code; `None` if the code is wrong.
    pub fn check<'a>(&self, frame: &'a [u8]) -> Option<&'a [u8]> {
        if self.code.is_none() {
            return Some(frame);
        }
        let (rest, code) = frame.split_last_chunk()?;
        self.is_code(&[rest], code).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"sixteen bytes of key and more";

    #[test]
    fn a_seal_holds_for_its_session_epoch_sender_and_number_alone() {
        let root = Root::new(KEY, [7; 16]);
        let scope = Scope::new(Use::Message, 3, Party::Member(9));
        let keys = root.keys(scope);
        let sealed = keys.seal(42, b"a reading");
        assert_eq!(sealed.len(), 9 + root.seal_len());
        assert!(!sealed.windows(7).any(|part| part == b"reading"));
        assert_eq!(keys.open(42, &sealed).as_deref(), Some(&b"a reading"[..]));
        let others = [
            Root::new(KEY, [8; 16]).keys(scope),
            Root::new(b"another key of the same sort", [7; 16]).keys(scope),
            root.keys(Scope { epoch: 4, ..scope }),
            root.keys(Scope { from: Party::Member(8), ..scope }),
            root.keys(Scope { from: Party::Hub, ..scope }),
            root.keys(Scope { purpose: Use::Acknowledgement, ..scope }),
            root.keys(Scope { peer: 1, ..scope }),
        ];
        assert!(others.iter().all(|keys| keys.open(42, &sealed).is_none()));
        assert!(keys.open(43, &sealed).is_none());
        for at in 0..sealed.len() {
            let mut forged = sealed.clone();
            forged[at] ^= 1;
            assert!(keys.open(42, &forged).is_none());
        }
        assert!(keys.open(42, &sealed[..10]).is_none());
    }

    #[test]
    fn a_number_has_another_seal_in_another_epoch() {
        let root = Root::new(KEY, [7; 16]);
        let scope = |epoch| Scope::new(Use::Message, epoch, Party::Hub);
        let of = |epoch| root.keys(scope(epoch)).seal(1, b"the same");
        assert_ne!(of(1)[..8], of(2)[..8]);
        assert_eq!(of(1), of(1));
    }

    #[test]
    fn seeds_are_of_one_scope_with_a_key_and_without() {
        let scope = |epoch, from| Scope::new(Use::Connection, epoch, from);
        let roots = [
            Root::new(KEY, [7; 16]),
            Root::new(KEY, [8; 16]),
            Root::insecure([7; 16]),
            Root::insecure([8; 16]),
        ];
        let scopes = [scope(0, Party::Hub), scope(1, Party::Hub), scope(0, Party::Member(0))];
        let of = |root: &Root| scopes.map(|scope| root.seed(&scope));
        let all: std::collections::BTreeSet<[u8; 32]> = roots.iter().flat_map(of).collect();
        assert_eq!(all.len(), 12);
        assert_eq!(of(&roots[0]), of(&Root::new(KEY, [7; 16])));
    }

    #[test]
    fn frames_of_strangers_are_told() {
        let root = Root::new(KEY, [7; 16]);
        let keys = root.keys(Scope::new(Use::Frame, 0, Party::Hub));
        let mut frame = b"symbol".to_vec();
        keys.sign(&mut frame);
        assert_eq!(keys.check(&frame), Some(&b"symbol"[..]));
        for at in 0..frame.len() {
            let mut forged = frame.clone();
            forged[at] ^= 0x80;
            assert_eq!(keys.check(&forged), None);
        }
        assert_eq!(keys.check(&frame[..3]), None);
        let others = root.keys(Scope::new(Use::Frame, 0, Party::Member(0)));
        assert_eq!(others.check(&frame), None);
    }

    #[test]
    fn short_keys_are_refused_and_none_is_said_by_name() {
        let error = Psk::new(b"secret").unwrap_err();
        assert_eq!(error.to_string(), "key of 6 bytes is too short: use at least 16 random bytes");
        let root = Root::insecure([1; 16]);
        let keys = root.keys(Scope::new(Use::Message, 0, Party::Hub));
        assert_eq!(keys.open(1, &keys.seal(1, b"plain")).as_deref(), Some(&b"plain"[..]));
        assert_eq!((root.seal_len(), root.code_len()), (0, 0));
        assert!(format!("{:?} {keys:?}", Root::new(KEY, [7; 16])).contains("keyed"));
    }
}
