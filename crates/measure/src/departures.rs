//! Frames of a replay that differ from the recorded ones.

use link::Direction;

/// Where frames of a replay differed from the record of the earlier run: from there on the run is
/// another one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Departures {
    /// Frames that differed in length, or that the record does not contain.
    pub count: u64,
    /// The first of them.
    pub first: Option<Departure>,
}

/// The first frame that differed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure {
    /// Index of the segment.
    pub segment: usize,
    /// Index of the endpoint in the segment.
    pub endpoint: usize,
    /// Direction on the endpoint's link.
    pub way: Direction,
    /// The frame and the difference, as a sentence.
    pub text: Box<str>,
}

impl Departures {
    pub(crate) fn add(&mut self, (segment, endpoint, way): (usize, usize, Direction), text: &str) {
        self.count += 1;
        self.first.get_or_insert_with(|| Departure { segment, endpoint, way, text: text.into() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_kept_and_all_are_counted() {
        let mut departures = Departures::default();
        departures.add((0, 3, Direction::Up), "frame 7");
        departures.add((0, 4, Direction::Down), "frame 1");
        assert_eq!(departures.count, 2);
        let first = departures.first.unwrap();
        assert_eq!((first.endpoint, &*first.text), (3, "frame 7"));
    }
}
