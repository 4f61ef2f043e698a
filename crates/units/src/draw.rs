//! Random draws that belong to a place, not to a shared stream.
//!
//! A draw is a function of the seed, the link, the direction, what it is for
//! and the frame's index there. So the same seed gives every protocol the same
//! weather, whatever the order in which other links draw. The mixing function
//! is the finaliser of SplitMix64 (Steele, Lea, Flood: Fast Splittable
//! Pseudorandom Number Generators, OOPSLA 2014).

/// What a draw decides; each purpose has draws of its own, so that switching
/// one impairment on does not change another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Whether the frame is lost.
    Loss = 1,
    /// How far its delay lies from the mean.
    Jitter = 2,
    /// Whether it is corrupted.
    Corrupt = 3,
    /// Which of its bits is.
    Bit = 4,
    /// Whether it comes twice.
    Duplicate = 5,
    /// Whether it overtakes others.
    Reorder = 6,
    /// The next state of a model that has states.
    State = 7,
    /// Whether a queue drops it early.
    Queue = 8,
    /// When a slot is.
    Slot = 9,
    /// How long a link stays up or down.
    Outage = 10,
    /// How many units a sender waits before it looks at a shared channel.
    Backoff = 16,
    /// Whether a frame that is sent again on a shared channel is lost again.
    Retry = 17,
    /// Which of many clients sends a message.
    Publisher = 32,
    /// In which order things are done.
    Order = 33,
    /// How long after the last request the next one comes.
    Arrival = 48,
    /// How long a request takes to serve.
    Service = 49,
    /// Which of a device's resources, or which device, a request is for.
    Choice = 50,
    /// A request's method.
    Method = 51,
    /// How much data a request carries.
    Size = 52,
    /// Whether an answer is spoiled on purpose, and how.
    Mischief = 53,
    /// How long a sender waits for an acknowledgement before it sends again.
    Retransmission = 54,
    /// When a device tells its observers of a new value.
    Notification = 55,
}

/// The draws of one link in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    key: u64,
}

impl Draw {
    /// The draws of direction `direction` of link `link` in a run of `seed`.
    pub fn new(seed: u64, link: u64, direction: u64) -> Self {
        Self { key: mix(mix(mix(seed) ^ link) ^ direction) }
    }

    /// The draws of the copies of frames, which have the place of their original.
    pub fn of_copies(self) -> Self {
        Self { key: mix(self.key) }
    }

    /// A seed for draws about this direction that somebody else makes.
    pub fn seed(self) -> u64 {
        mix(!self.key)
    }

    /// A number in [0, 1), uniform, for the frame at `index`.
    pub fn uniform(self, purpose: Purpose, index: u64) -> f64 {
        self.of(purpose).uniform(index)
    }

    /// The draws for one purpose, for whoever draws many.
    pub fn of(self, purpose: Purpose) -> Lot {
        Lot { key: mix(self.key ^ purpose as u64) }
    }
}

/// The draws of one link in one direction for one purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lot {
    key: u64,
}

impl Lot {
    /// A number in [0, 1), uniform, for the frame at `index`: that of
    /// [`Draw::uniform`].
    #[inline]
    pub fn uniform(self, index: u64) -> f64 {
        let bits = mix(self.key ^ index) >> 11;
        bits as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

/// The stream of SplitMix64 (Steele, Lea, Flood 2014) from a seed on.
pub fn words(seed: u64) -> impl Iterator<Item = u64> {
    (0_u64..).map(move |place| mix(seed.wrapping_add(place.wrapping_mul(GOLDEN))))
}

/// The step of SplitMix64: the golden ratio of 64 bits.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// One step of SplitMix64.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixing_agrees_with_the_published_sequence() {
        // First output of SplitMix64 seeded with 0, as in the reference code's tests.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        let first: Vec<u64> = words(0).take(2).collect();
        assert_eq!(first, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
    }

    #[test]
    fn the_same_place_draws_the_same() {
        let a = Draw::new(7, 3, 0);
        assert_eq!(a.uniform(Purpose::Loss, 11), Draw::new(7, 3, 0).uniform(Purpose::Loss, 11));
        assert_ne!(a.uniform(Purpose::Loss, 11), a.uniform(Purpose::Jitter, 11));
        assert_ne!(a.uniform(Purpose::Loss, 11), Draw::new(8, 3, 0).uniform(Purpose::Loss, 11));
        assert_ne!(a.uniform(Purpose::Loss, 11), Draw::new(7, 3, 1).uniform(Purpose::Loss, 11));
    }

    #[test]
    fn draws_are_uniform_by_chi_square() {
        // 100 cells, 99 degrees of freedom: the 99.9 % point is 148.2.
        let draw = Draw::new(1, 2, 3);
        let mut cells = [0f64; 100];
        for index in 0..100_000 {
            cells[(draw.uniform(Purpose::Loss, index) * 100.0) as usize] += 1.0;
        }
        let chi: f64 = cells.iter().map(|seen| (seen - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi < 148.2, "chi-square {chi}");
    }
}
