//! Everything of the project that reads foreign bytes, each as a function of bytes that panics if
//! something is wrong. libFuzzer calls them with any bytes (`fuzz/`, `make fuzz`); the test
//! `corpus` with the bytes in `fuzz/corpus`, on each `make test`.

mod files;
mod frames;
mod messages;

use arbitrary::{Arbitrary, Unstructured};

/// A name, which is that of the folder in `fuzz/corpus`, and the function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 16] = [
    ("frames", frames::frames),
    ("segment", frames::segment),
    ("capture", frames::capture),
    ("load", messages::load),
    ("director", messages::director),
    ("keyed", messages::keyed),
    ("control", messages::control),
    ("tables", files::tables),
    ("experiment", files::experiment),
    ("profile", files::profile),
    ("folder", files::folder),
    ("replay", files::replay),
    ("events", files::events),
    ("map", files::map),
    ("trace", files::trace),
    ("image", files::image),
];

/// Feeds `bytes` to the target `name`.
///
/// # Panics
/// If the target finds something wrong, or has another name.
pub fn feed(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    let (_, target) = target.unwrap_or_else(|| panic!("{name} is not in hostile::TARGETS"));
    target(bytes);
}

/// A value made of the bytes, as libFuzzer's macro makes it.
fn made<'a, T: Arbitrary<'a>>(bytes: &'a [u8]) -> Option<T> {
    T::arbitrary_take_rest(Unstructured::new(bytes)).ok()
}

/// The bytes in pieces: each begins with its length in two bytes, little-endian; the last may be shorter.
/// Unlike the vectors of `arbitrary`, pieces contain frames and files as they are.
fn pieces(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut all = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (piece, rest) = rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
        all.push(piece);
        bytes = rest;
    }
    all
}

/// A folder in memory, where there is some: thousands of tries a second on a disk are a pity.
fn scratch() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    }
    .expect("a temporary folder")
}
