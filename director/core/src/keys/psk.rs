//! Pre-shared keys.

use super::Length;
use crate::crypto::hkdf;
use core::fmt;

/// Minimum length of a pre-shared key, in bytes.
pub const MIN_KEY: usize = 16;

/// The pre-shared key is too short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("key of {0} bytes is too short: use at least {MIN_KEY} random bytes")]
pub struct ShortKey(usize);

/// A pre-shared key. It only authenticates handshakes: no message is sealed under it.
#[derive(Clone, PartialEq, Eq)]
pub struct Psk([u8; 32]);

impl fmt::Debug for Psk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Psk(..)")
    }
}

impl Psk {
    /// From a key that both ends share.
    ///
    /// # Errors
    /// [`ShortKey`] if `key` is shorter than 16 bytes.
    pub fn new(key: &[u8]) -> Result<Self, ShortKey> {
        if key.len() < MIN_KEY {
            return Err(ShortKey(key.len()));
        }
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"director 4 psk");
        let mut bytes = [0; 32];
        let filled = salt.extract(key).expand(&[], Length(32)).and_then(|okm| okm.fill(&mut bytes));
        debug_assert!(filled.is_ok(), "32 bytes are not too many for HKDF");
        Ok(Self(bytes))
    }

    /// Its 32 bytes for a handshake.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}
