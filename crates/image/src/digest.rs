//! SHA-256 digests, which name all parts of an image.

use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::io::{self, Read};

/// The digest of `bytes`, as `sha256:...`.
pub(crate) fn of(bytes: &[u8]) -> String {
    text(Sha256::digest(bytes).as_slice())
}

fn text(bytes: &[u8]) -> String {
    bytes.iter().fold(String::from("sha256:"), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The hexadecimal part of a digest, if it is a SHA-256 digest.
pub(crate) fn hex(digest: &str) -> Option<&str> {
    let hex = digest.strip_prefix("sha256:")?;
    // Lower case only: a digest has one spelling, and so one folder in the cache.
    let fits = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (hex.len() == 64 && hex.bytes().all(fits)).then_some(hex)
}

/// A reader that computes the digest of everything read through it.
pub(crate) struct Hashing<R> {
    from: R,
    sum: Sha256,
}

impl<R: Read> Hashing<R> {
    pub fn new(from: R) -> Self {
        Self { from, sum: Sha256::new() }
    }

    /// Reads the rest and returns the digest of everything.
    ///
    /// # Errors
    /// The rest cannot be read.
    pub fn finish(mut self) -> io::Result<String> {
        io::copy(&mut self, &mut io::sink())?;
        Ok(text(self.sum.finalize().as_slice()))
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.sum.update(&buffer[..read]);
        Ok(read)
    }
}
