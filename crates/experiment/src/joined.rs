//! Networks that bridges join to one.

/// Sets of networks, by their index.
#[derive(Debug)]
pub(crate) struct Joined(Vec<usize>);

impl Joined {
    /// `count` networks that nothing joins.
    pub fn new(count: usize) -> Self {
        Self((0..count).collect())
    }

    /// Joins two networks. Returns whether they were apart before.
    pub fn join(&mut self, one: usize, other: usize) -> bool {
        let (one, other) = (self.first(one), self.first(other));
        // The lower index stays, so that a set has the index of its first network.
        self.0[one.max(other)] = one.min(other);
        one != other
    }

    /// The first network of the set that has `network`.
    pub fn first(&mut self, mut network: usize) -> usize {
        while self.0[network] != network {
            // Halves the way for the next search.
            self.0[network] = self.0[self.0[network]];
            network = self.0[network];
        }
        network
    }
}
