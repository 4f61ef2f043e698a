//! Reproducible random numbers: each number is a function of its position, not of a shared
//! stream.
//!
//! The position is the seed, the link, the direction, the purpose and the frame's index.
//! With the same seed, every protocol sees the same impairments, whatever the order in
//! which other links draw. The mixing function is the finaliser of SplitMix64 (Steele, Lea,
//! Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014).

/// What a random number decides. Each purpose has a separate stream, so enabling one
/// impairment does not change the decisions of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Frame loss.
    Loss = 1,
    /// Deviation of the delay from its mean.
    Jitter = 2,
    /// Frame corruption.
    Corrupt = 3,
    /// Which bit of a corrupted frame flips.
    Bit = 4,
    /// Frame duplication.
    Duplicate = 5,
    /// Frame reordering.
    Reorder = 6,
    /// State transition of a Markov model.
    State = 7,
    /// Early drop in a queue.
    Queue = 8,
    /// Time of the next slot.
    Slot = 9,
    /// Duration of a link's up and down periods.
    Outage = 10,
    /// Delay of the path between two handovers.
    Handover = 11,
    /// CSMA backoff: number of units a sender waits before it senses the channel.
    Backoff = 16,
    /// Repeated loss of a frame that is retransmitted on a shared channel.
    Retry = 17,
    /// Whether a station of a radio channel receives a frame.
    Reception = 18,
    /// Deviation of the path loss between two nodes from its mean.
    Shadowing = 20,
    /// Which of several radio channels a packet is sent on.
    RadioChannel = 19,
    /// Which of many clients publishes a message.
    Publisher = 32,
    /// Order of operations.
    Order = 33,
    /// Time between two requests.
    Arrival = 48,
    /// Service time of a request.
    Service = 49,
    /// Which device, or which of its resources, a request addresses.
    Choice = 50,
    /// Method of a request.
    Method = 51,
    /// Payload size of a request.
    Size = 52,
    /// Whether and how an answer is deliberately malformed.
    Misbehaviour = 53,
    /// Acknowledgement timeout before a retransmission.
    Retransmission = 54,
    /// Time at which a device notifies its observers of a new value.
    Notification = 55,
}

/// Random numbers of one link in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    key: u64,
}

impl Draw {
    /// Random numbers for `direction` of `link` in a run with `seed`.
    pub fn new(seed: u64, link: u64, direction: u64) -> Self {
        // Mixed after each part: a plain sum would give neighbouring links the same numbers,
        // shifted.
        Self { key: mix(mix(mix(seed) ^ link) ^ direction) }
    }

    /// Separate random numbers for the flow with this number.
    pub fn of_flow(self, flow: u64) -> Self {
        Self { key: mix(self.key ^ mix(flow)) }
    }

    /// Separate random numbers for duplicates, which share the index of their original.
    pub fn of_copies(self) -> Self {
        Self { key: mix(self.key) }
    }

    /// A seed for another generator that belongs to this link and direction.
    pub fn seed(self) -> u64 {
        mix(!self.key)
    }

    /// A uniform number in [0, 1) for the frame at `index`.
    pub fn uniform(self, purpose: Purpose, index: u64) -> f64 {
        self.of(purpose).uniform(index)
    }

    /// The stream for one purpose, for callers that draw many numbers.
    pub fn of(self, purpose: Purpose) -> RandomStream {
        RandomStream { key: mix(self.key ^ purpose as u64) }
    }
}

/// Random numbers of one link in one direction for one purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RandomStream {
    key: u64,
}

impl RandomStream {
    /// A uniform number in [0, 1) for the frame at `index`, equal to [`Draw::uniform`].
    #[inline]
    pub fn uniform(self, index: u64) -> f64 {
        // A double has 53 bits: with more, rounding could give 1.
        let bits = mix(self.key ^ index) >> 11;
        bits as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

/// The SplitMix64 sequence (Steele, Lea, Flood 2014) that starts at a seed.
pub fn words(seed: u64) -> impl Iterator<Item = u64> {
    (0_u64..).map(move |place| mix(seed.wrapping_add(place.wrapping_mul(GOLDEN))))
}

/// The increment of SplitMix64: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// One step of SplitMix64: a bijection whose output bits each depend on all input bits.
pub fn mix(value: u64) -> u64 {
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
        // First output of SplitMix64 with seed 0, as in the reference code's tests.
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
        // 100 cells give 99 degrees of freedom: the 99.9 % quantile is 148.2.
        let draw = Draw::new(1, 2, 3);
        let mut cells = [0f64; 100];
        for index in 0..100_000 {
            cells[(draw.uniform(Purpose::Loss, index) * 100.0) as usize] += 1.0;
        }
        let chi: f64 = cells.iter().map(|seen| (seen - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi < 148.2, "chi-square {chi}");
    }
}
