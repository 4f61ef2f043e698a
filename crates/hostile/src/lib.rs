//! Everything of the project that reads foreign bytes, each as a function of bytes that panics if
//! something is wrong. libFuzzer calls them with any bytes (`fuzz/`, `make fuzz`); the test
//! `corpus` with the bytes in `fuzz/corpus`, on each `make test`.

mod files;
mod frames;
mod input;
mod messages;

/// A name, which is that of the folder in `fuzz/corpus`, and the function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 17] = [
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
    ("capsule", files::capsule),
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
