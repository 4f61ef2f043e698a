//! What differs between storms.

use crate::draws::Draws;
use crate::round::PATTERNS;
use crate::weather::Weather;
use director::{ModelId, Pattern};

/// Which direction the applications use first after a storm. One direction must not need the
/// other's messages to recover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    Members,
    Hub,
    Both,
}

/// What differs between storms.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    pub seed: u64,
    pub pattern: Pattern,
    pub keys: Keys,
    /// Configured data rate in bit/s; 0 for none.
    pub rate_bit_s: f64,
    pub weather: Weather,
    pub first: First,
}

/// Who has which key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// One for all.
    Shared,
    /// One for each. Then members also change their addresses: a hello from an unknown address
    /// names no member if all have one key.
    Each,
    /// Without security.
    None,
}

/// The storm with this number.
pub fn setup(number: u64) -> Setup {
    // Draws of neighbouring seeds are similar.
    let seed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut draws = Draws::new(seed, 100);
    let mut weather = Weather::draw(&mut draws);
    let keys = [Keys::Shared, Keys::Each, Keys::None][draws.below(3) as usize];
    if keys == Keys::None {
        // Without security, ends take what is forged and replayed for each other's.
        weather = Weather { corrupt: 0.0, replay: 0.0, ..weather };
    }
    let (pattern, first) = (draws.below(3) as usize, draws.below(3) as usize);
    Setup {
        seed,
        pattern: PATTERNS[pattern],
        keys,
        rate_bit_s: if draws.below(4) == 0 { 0.0 } else { 100e6 },
        first: [First::Members, First::Hub, First::Both][first],
        weather,
    }
}

/// The models of a pattern.
pub fn models(pattern: Pattern) -> Vec<ModelId> {
    let serves = |model: &ModelId| model.features().patterns.contains(&pattern);
    director::carrier::available().into_iter().filter(serves).collect()
}
