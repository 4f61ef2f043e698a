//! When a client tries to connect again.

use crate::clock::Nanos;

/// Waits that double with each failure, and begin anew after a success.
#[derive(Debug)]
pub struct Retry {
    min: Nanos,
    max: Nanos,
    wait: Nanos,
}

impl Retry {
    /// Waits from `min` to `max`.
    pub fn new(min: Nanos, max: Nanos) -> Self {
        Self { min, max, wait: min }
    }

    /// When to try again after a failure at `now`.
    pub fn after(&mut self, now: Nanos) -> Nanos {
        let at = now.saturating_add(self.wait);
        self.wait = self.wait.saturating_mul(2).min(self.max);
        at
    }

    /// It went well.
    pub fn succeeded(&mut self) {
        self.wait = self.min;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit() {
        let mut retry = Retry::new(10, 35);
        assert_eq!(
            [retry.after(0), retry.after(0), retry.after(0), retry.after(100)],
            [10, 20, 35, 135]
        );
        retry.succeeded();
        assert_eq!(retry.after(1), 11);
    }
}
