//! Signatures of the hub's messages to all (Ed25519, RFC 8032): all members have the group's secret, so
//! without them a member could pose as the hub towards the others.

use crate::crypto::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use crate::platform::Arc;
use core::fmt;

/// Length of a signature, in bytes.
pub const SIGNATURE: usize = 64;
/// A hub's public key.
pub type PublicKey = [u8; 32];

/// Separates signatures of this use of a key from all others; part of the wire format.
const LABEL: &[u8] = b"director 4 signature";

/// Who signs the hub's messages; no end by default.
#[derive(Clone, Default)]
pub struct Authority(Who);

#[derive(Clone, Default)]
enum Who {
    #[default]
    None,
    /// This end.
    Own(Arc<Ed25519KeyPair>),
    /// The hub that has this key.
    Hub(PublicKey),
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Who::None => "Authority(none)",
            Who::Own(_) => "Authority(own)",
            Who::Hub(_) => "Authority(hub)",
        })
    }
}

impl Authority {
    /// This end, with a new key from random bytes.
    pub fn new(random: [u8; 32]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(&random);
        debug_assert!(pair.is_ok(), "a seed has 32 bytes");
        // Without a key members would take nothing, rather than what is not signed.
        Self(pair.map_or(Who::Hub([0; 32]), |pair| Who::Own(Arc::new(pair))))
    }

    /// The hub that has this key, or no end without one.
    pub fn of(key: Option<PublicKey>) -> Self {
        Self(key.map_or(Who::None, Who::Hub))
    }

    /// The public key by which members verify messages; `None` if they are not signed.
    pub fn public_key(&self) -> Option<PublicKey> {
        match &self.0 {
            Who::None => None,
            Who::Own(pair) => pair.public_key().as_ref().try_into().ok(),
            Who::Hub(key) => Some(*key),
        }
    }

    /// Bytes that it adds to each message.
    pub fn signature_len(&self) -> usize {
        if matches!(self.0, Who::None) { 0 } else { SIGNATURE }
    }

    /// The signature of this end over content that is bound to a message.
    pub(crate) fn sign(&self, bound: &[u8; 32], content: &[u8]) -> Option<[u8; SIGNATURE]> {
        let Who::Own(pair) = &self.0 else { return None };
        pair.sign(&[LABEL, bound, content].concat()).as_ref().try_into().ok()
    }

    /// Length of the content before a valid signature, or of all if nothing is signed; `None` if the
    /// signature is wrong.
    pub(crate) fn verified(&self, bound: &[u8; 32], signed: &[u8]) -> Option<usize> {
        let Some(key) = self.public_key() else { return Some(signed.len()) };
        let (content, signature) = signed.split_last_chunk::<SIGNATURE>()?;
        let key = UnparsedPublicKey::new(&ED25519, key);
        key.verify(&[LABEL, bound, content].concat(), signature).ok()?;
        Some(content.len())
    }
}
