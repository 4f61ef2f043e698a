//! Backoff between connection attempts.

use units::Span;

/// Exponential backoff: the delay doubles with each failure and resets after a success.
#[derive(Debug)]
pub struct Retry {
    min: Span,
    max: Span,
    wait: Span,
}

impl Retry {
    /// Backoff from `min` to `max`.
    pub fn new(min: Span, max: Span) -> Self {
        Self { min, max, wait: min }
    }

    /// Time from a failure to the next attempt.
    pub fn pause(&mut self) -> Span {
        let pause = self.wait;
        self.wait = (self.wait * 2).min(self.max);
        pause
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
        let mut retry = Retry::new(Span::from_ms(10), Span::from_ms(35));
        assert_eq!([(); 4].map(|()| retry.pause()), [10, 20, 35, 35].map(Span::from_ms));
        retry.succeeded();
        assert_eq!(retry.pause(), Span::from_ms(10));
    }
}
