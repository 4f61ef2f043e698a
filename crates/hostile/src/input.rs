//! What the targets make of bytes.

use arbitrary::{Arbitrary, Unstructured};

/// A value made of the bytes, as libFuzzer's macro makes it.
pub(crate) fn made<'a, T: Arbitrary<'a>>(bytes: &'a [u8]) -> Option<T> {
    T::arbitrary_take_rest(Unstructured::new(bytes)).ok()
}

/// The bytes in pieces: each begins with its length in two bytes, little-endian; the last may be shorter.
/// Unlike the vectors of `arbitrary`, pieces contain frames and files as they are.
pub(crate) fn pieces(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut all = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (piece, rest) = rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
        all.push(piece);
        bytes = rest;
    }
    all
}

/// A folder in memory, where there is some: thousands of tries a second on a disk are a pity.
pub(crate) fn scratch() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    }
    .expect("a temporary folder")
}
