//! How long answers take at present, with the queues of the path.

use crate::Span;
use alloc::collections::VecDeque;

/// Number of answers that count. If requests or answers are lost, some of them take longer than the path needs,
/// but hardly all.
const COUNT: usize = 8;

/// Times from requests, or slots, to the first frame of an answer.
#[derive(Debug, Default)]
pub(super) struct Delays {
    last: VecDeque<Span>,
}

impl Delays {
    /// Records that of an answer.
    pub fn record(&mut self, delay: Span) {
        self.last.push_back(delay);
        if self.last.len() > COUNT {
            self.last.pop_front();
        }
    }

    /// The time that each of the last answers took; zero until some are known.
    pub fn least(&self) -> Span {
        let all = self.last.iter().filter(|_| self.last.len() == COUNT);
        all.min().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_delays_all_answers_counts() {
        let mut delays = Delays::default();
        let mut after = |ms: &[u64]| {
            ms.iter().for_each(|ms| delays.record(Span::from_ms(*ms)));
            delays.least().as_ms()
        };
        assert_eq!(after(&[900; 7]), 0.0, "too few");
        assert_eq!(after(&[950]), 900.0);
        assert_eq!(after(&[30]), 30.0);
        assert_eq!(after(&[700; 7]), 30.0);
        assert_eq!(after(&[800]), 700.0);
    }
}
