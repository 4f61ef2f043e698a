//! Backoff between connection attempts.

/// A time or duration, in ns.
type Nanos = u64;

/// Exponential backoff: the delay doubles with each failure and resets after a success.
#[derive(Debug)]
pub struct Retry {
    min: Nanos,
    max: Nanos,
    wait: Nanos,
}

impl Retry {
    /// Backoff from `min` to `max`.
    pub fn new(min: Nanos, max: Nanos) -> Self {
        Self { min, max, wait: min }
    }

    /// Time of the next attempt after a failure at `now`.
    pub fn after(&mut self, now: Nanos) -> Nanos {
        let at = now.saturating_add(self.wait);
        self.wait = self.wait.saturating_mul(2).min(self.max);
        at
    }

    /// Resets the delay.
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
